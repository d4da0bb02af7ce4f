"""How far the number of right answers on validation nodes moves between neighbours, as a method states it.

Read by `selected`, which chooses among private runs by that number. Proof: docs/accounting.md, theorem 19.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpgnn.methods.entry import Entry


@dataclass(frozen=True, kw_only=True)
class Score:
    """How the right answers of a fitted model are counted, and how far a record moves their number.

    Attributes:
        sensitivity: of the number, given what the fit releases: 1 where an answer reads that and the asked
            node's own record, 0 where it reads that and public values.
        without_edges: whether answers are those on the graph without its edges, because with them they read
            other records afresh.
        of_training: planned mechanisms that records of training nodes alone enter, where the plan does not
            say so itself.
    """

    sensitivity: float
    without_edges: bool = False
    of_training: tuple[str, ...] = ()


OWN_RECORD = Score(sensitivity=1.0)
OWN_FEATURES = Score(sensitivity=1.0, without_edges=True)
RELEASED = Score(sensitivity=0.0)


def by_unit(entry: Entry) -> Score:
    """Of methods that answer from a release, and at node level from the asked node's own rows besides.

    Guarantee: answers of one node alone read its record at node level; at edge level features and labels are
    public, and answers read released and public values.

    Args:
        entry: names the unit.

    Source: docs/accounting.md, theorem 19, and "Answers, and who may see them".
    """
    return RELEASED if entry.privacy_unit == "edge" else OWN_RECORD

"""S*: DP-GNN's sampler with public priorities, an in-cap K and an out-cap D, for rows owned by readers.

Data set: every present node w has a record (features, label, row of the ids it reads). With a public
priority h(w, u) of ordered pairs: (i) each training node w keeps the D ids of its row of smallest h;
(ii) each node u keeps the K of those readers of smallest h. Root v's subgraph follows the lists to depth r.

Proof. Step (i) is a function of w's own record. When the kept rows gain or lose `a` entries in all, the
lists of readers gain or lose at most `a` other readers: each candidate that comes or goes moves the
border of one top-K by one. Let M be the number of rows that differ after (ii). A root whose subgraph
differs reaches, over arcs that both worlds share, a row that differs within r - 1 arcs - every node is
read by at most K others, so at most M N(K, r - 1) roots - or it has x, with an equal row, at depth r
exactly: at most K^r more roots.
 - Row replaced: x's kept row loses D and gains D entries: M = 1 + 2D; (M N(K, r-1) + K^r) on both sides.
 - Removed or emptied: M = 1 + D; removed, root x is gone on one side.
 - Features and label only: N(K, r), the roots that contain x.
 - One undirected edge: two rows lose one and gain one entry, two readers move each: M = 6, no features.
 - Others' mentions of x gone too, at most D' of them: each of these rows differs and its new entry moves
   one reader: M = 1 + D + 2D'. Readers of x are among these rows, so the K^r term falls away.
 - Replaced with its mentions: an old and a new mention each move two readers: M = 1 + 2D + 6D', + K^r.

Source: docs/accounting.md; brute force in tests/samplers/test_stable.py.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from dpgnn.core.checks import at_least
from dpgnn.samplers.lists import Arcs, Lists, lists_of, top_k_slots
from dpgnn.samplers.promise import Promise, occurrence_bound, proved
from dpgnn.samplers.tree_sampler import Given, TreeSampler

PROOF = "samplers/stable.py"


@dataclass(frozen=True, kw_only=True)
class Stable(TreeSampler):
    """S*: a node reads at most D others and is read by at most K.

    Guarantee: the bounds of `promise`, for every key; an arc u -> w belongs to the record of w.
    Public: ids, training ids, K, D, r, the key.

    Attributes:
        max_in_degree: K, roots that read a node directly.
        max_out_degree: D, ids that a root reads.
        num_hops: r, depth of the subgraphs.
        degree_bound: D', a declared bound on the incident edges of a node; adds the unit `node-bounded`.
    """

    max_in_degree: int
    max_out_degree: int
    num_hops: int = 1
    degree_bound: int | None = None

    def __post_init__(self) -> None:
        at_least("max_in_degree", self.max_in_degree, 0)
        at_least("max_out_degree", self.max_out_degree, 0)
        at_least("num_hops", self.num_hops, 0)
        if self.degree_bound is not None:
            at_least("degree_bound", self.degree_bound, 0)

    @property
    def promise(self) -> Promise:
        """The bounds proved above."""
        num = occurrence_bound(self.max_in_degree, self.num_hops)
        inner = occurrence_bound(self.max_in_degree, self.num_hops - 1)
        deepest = self.max_in_degree**self.num_hops
        removed = (1 + self.max_out_degree) * inner + deepest
        replaced = (1 + 2 * self.max_out_degree) * inner + deepest
        changes = {
            ("node-features", "replace-one"): (num, num),
            ("node-record", "add-remove"): (removed, removed - 1),
            ("node-record", "null-one"): (removed, removed),
            ("node-record", "replace-one"): (replaced, replaced),
            ("edge", "add-remove"): (6 * inner, 6 * inner),
        }
        if self.degree_bound is not None:
            bound, out = self.degree_bound, min(self.max_out_degree, self.degree_bound)
            gone = max((1 + out + 2 * bound) * inner, 1)
            swapped = (1 + 2 * out + 6 * bound) * inner + deepest
            changes |= {
                ("node-bounded", "add-remove"): (gone, gone - 1),
                ("node-bounded", "null-one"): (gone, gone),
                ("node-bounded", "replace-one"): (swapped, swapped),
            }
        return Promise(
            name="stable",
            params=asdict(self),
            owner="target",
            max_occurrences=num,
            changes=proved(changes, PROOF),
        )

    def _lists(self, arcs: Arcs, given: Given) -> Lists:
        """The readers of each node, after both steps.

        Guarantee: at most `max_in_degree` readers of a node and `max_out_degree` ids of a reader; what
        changes between neighbours is in `promise`. The result is as sensitive as the edges.
        """
        rows, row_counts = top_k_slots(
            arcs, given.num_nodes, self.max_out_degree, by="target", group_ok=given.readers,
            item_ok=np.ones(given.num_nodes, np.uint8), key=given.key, num_workers=given.num_workers,
        )  # fmt: skip
        # an absent id keeps its slot in a row, but has no list of readers
        slots, counts = top_k_slots(
            _arcs_of_rows(rows, row_counts), given.num_nodes, self.max_in_degree, by="source",
            group_ok=given.present, item_ok=given.readers, key=given.key, order="item",
            num_workers=given.num_workers,
        )  # fmt: skip
        return lists_of(slots, counts)


def _arcs_of_rows(rows: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Arcs u -> w of the kept rows, ordered by w."""
    filled = np.arange(rows.shape[1]) < counts[:, None]
    readers = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    return np.stack([rows[filled], readers])

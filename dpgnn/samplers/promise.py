"""Promises of samplers: the bounds that noise and accounting are based on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from dpgnn.core.checks import at_least

Owner = Literal["source", "target"]


def occurrence_bound(max_degree: int, num_hops: int) -> int:
    """N(K, r) = 1 + K + ... + K^r: nodes within r arcs when each node has at most K arcs; N(K, -1) = 0.

    Args:
        max_degree: K >= 0.
        num_hops: r >= -1.

    Raises:
        ValueError: max_degree is negative, or num_hops is below -1.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Lemma 1.
    """
    at_least("max_degree", max_degree, 0)
    at_least("num_hops", num_hops, -1)
    return sum(max_degree**hop for hop in range(num_hops + 1))


@dataclass(frozen=True, kw_only=True)
class Change:
    """Numbers of roots whose examples may differ between neighbouring graphs G and G'.

    Attributes:
        d_plus: roots whose example in G is absent or different in G' (d+). Under add-remove, G is the
            graph that has the element.
        d_minus: roots whose example in G' is absent or different in G (d-).
        proved: False marks a published statement that is known or suspected to be false.
        why: where the proof is.
    """

    d_plus: int
    d_minus: int
    proved: bool
    why: str


@dataclass(frozen=True, kw_only=True)
class Promise:
    """The promise of one configured sampler.

    Attributes:
        name: the sampler's name in configurations.
        params: every parameter that decides the sample, given the key.
        owner: the end whose record holds an arc: "source" (the node sends its features to the nodes of its
            own list) or "target" (the node reads the nodes of its own row).
        max_occurrences: no node is in more than this many subgraphs.
        changes: (privacy_unit, relation) -> Change.
        public_facts: facts that the proof takes as public.
    """

    name: str
    params: Mapping[str, Any]
    owner: Owner
    max_occurrences: int
    changes: Mapping[tuple[str, str], Change]
    public_facts: tuple[str, ...] = field(default=("node ids", "training ids"))

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", MappingProxyType(dict(self.params)))
        object.__setattr__(self, "changes", MappingProxyType(dict(self.changes)))

    def change(self, privacy_unit: str, relation: str) -> Change:
        """The bound for a unit and relation.

        Guarantee: at most d_plus roots of G and d_minus of its neighbour have an example that is absent from
        the other graph; proved if the change says so.

        Args:
            privacy_unit, relation: of DESIGN's table of units.

        Raises:
            ValueError: the sampler promises nothing for the pair; lists what it promises.

        Source: docs/accounting.md, theorem 4, for the own-list sampler; others in their modules.
        """
        found = self.changes.get((privacy_unit, relation))
        if found is None:
            listed = ", ".join(f"{unit} / {kind}" for unit, kind in sorted(self.changes)) or "none"
            raise ValueError(
                f"sampler {self.name} promises nothing for {privacy_unit} / {relation}; "
                f"it promises: {listed}"
            )
        return found

    def recorded(self) -> dict[str, Any]:
        """The promise as plain values, for the metadata of a prepared file and for records."""
        changes = {
            f"{unit}/{relation}": [change.d_plus, change.d_minus, change.proved]
            for (unit, relation), change in sorted(self.changes.items())
        }
        return {
            "name": self.name,
            "params": dict(self.params),
            "owner": self.owner,
            "max_occurrences": self.max_occurrences,
            "changes": changes,
            "public_facts": list(self.public_facts),
        }


def proved(
    changes: dict[tuple[str, str], tuple[int, int]], why: str
) -> dict[tuple[str, str], Change]:
    """Changes with a proof.

    Args:
        changes: (unit, relation) -> (d_plus, d_minus).
        why: where the proof is.
    """
    return {
        pair: Change(d_plus=plus, d_minus=max(minus, 0), proved=True, why=why)
        for pair, (plus, minus) in changes.items()
    }

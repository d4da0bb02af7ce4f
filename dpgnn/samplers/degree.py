"""Bounded degree: which arcs of a graph an aggregation may use, and how far a change of the graph goes.

Both rules rank arcs by a keyed priority that does not depend on the data (a public order), and both are
local, so a change does not travel.

 - OutDegree: every node keeps the D arcs of its own list of smallest priority; it then stands in at most
   D aggregates. Directed.
 - MutualDegree: an undirected edge is kept when it is among the D first of both its ends, counted over
   all edges, kept or not (Blocki et al. 2013). Both directions stay, and no node has more than D edges.

Proof. A top-D of a list changes by at most one entry for each entry of the list that comes or goes.
OutDegree: a record owns its list only. An undirected edge stands in two lists: each loses one arc and
admits one. With the others' mentions of a node (declared bound D0 on its edges), each list that mentioned
it loses that arc and admits one; nothing is admitted when D0 <= D, because no list was cut.
MutualDegree: whether an edge is kept depends on the lists of its two ends. Removing edge {u, v} can admit
one edge at u and one at v: (1 lost, 2 gained). Removing a node with at most D0 edges loses at most
min(D, D0) kept edges, and each former neighbour admits at most one: (min(D, D0), D0), or (D0, 0) when
D0 <= D. Replacing it with its edges adds the same the other way round.
There is no bound without D0: 'admits one' happens at every neighbour of a hub.

The greedy rule 'keep an edge if both ends still have room' is bounded too, but one edge can change edges
all along a path: its ripple has no bound (tests/soundness/test_greedy_degree.py). It is not offered.

Source: Blocki, Blum, Datta, Sheffet (2013), "Differentially private data analysis of social networks via
restricted sensitivity"; brute force in tests/samplers/test_degree.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpgnn.core.checks import at_least
from dpgnn.data.graph import distinct_keys
from dpgnn.samplers import _kernels
from dpgnn.samplers.hashing import draw_key
from dpgnn.samplers.lists import Arcs, present_mask, top_k_slots
from dpgnn.samplers.promise import Owner


@dataclass(frozen=True, kw_only=True)
class EdgeChange:
    """How many sampled arcs (or undirected edges) may differ between neighbouring graphs G and G'.

    Attributes:
        lost: kept in G and not in G'; under add-remove, G is the graph that has the element.
        gained: kept in G' and not in G.
    """

    lost: int
    gained: int


@dataclass(frozen=True, kw_only=True)
class EdgePromise:
    """The promise of a degree bound.

    Attributes:
        name: the rule's name in configurations.
        params: every parameter that decides the sample, given the key.
        owner: whose record holds an arc.
        max_degree: the bound that the result keeps.
        undirected: True counts undirected edges in `changes`, False arcs.
        changes: (privacy_unit, relation) -> EdgeChange.
    """

    name: str
    params: Mapping[str, Any]
    owner: Owner
    max_degree: int
    undirected: bool
    changes: Mapping[tuple[str, str], EdgeChange]


@dataclass(frozen=True, kw_only=True)
class OutDegree:
    """Every node sends to at most `max_degree` nodes of its own list.

    With a fresh key this is also 'a uniform random subset of at most D out-arcs', which is how GAP bounds
    the out-degree; the options below reproduce what the authors' codes do after it, and promise nothing.

    Attributes:
        max_degree: D.
        degree_bound: D0, a declared bound on the edges of a node; adds the unit `node-bounded`.
        symmetrize: add the reverse of every kept arc (CARIBOU's code): degrees are no longer bounded.
        drop_last_sender: the last node sends nothing (CARIBOU's code starts from nodes 0..N-2 only).
    """

    max_degree: int
    degree_bound: int | None = None
    symmetrize: bool = False
    drop_last_sender: bool = False

    def __post_init__(self) -> None:
        _check(self.max_degree, self.degree_bound)

    @property
    def promise(self) -> EdgePromise:
        """The bounds proved above; none for the authors' deviations."""
        own = self.max_degree
        changes = {
            ("node-features", "replace-one"): EdgeChange(lost=0, gained=0),
            ("node-record", "add-remove"): EdgeChange(lost=own, gained=0),
            ("node-record", "null-one"): EdgeChange(lost=own, gained=0),
            ("node-record", "replace-one"): EdgeChange(lost=own, gained=own),
            ("edge", "add-remove"): EdgeChange(lost=2, gained=2),
        }
        if self.degree_bound is not None:
            own, admitted = _with_mentions(self.max_degree, self.degree_bound)
            removed = EdgeChange(lost=own + self.degree_bound, gained=admitted)
            both = own + self.degree_bound + admitted
            changes |= {
                ("node-bounded", "add-remove"): removed,
                ("node-bounded", "null-one"): removed,
                ("node-bounded", "replace-one"): EdgeChange(lost=both, gained=both),
            }
        return EdgePromise(
            name="out_degree",
            params=asdict(self),
            owner="source",
            max_degree=self.max_degree,
            undirected=False,
            changes={} if self.symmetrize or self.drop_last_sender else changes,
        )

    def sample(
        self,
        arcs: Arcs,
        *,
        num_nodes: int,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
        num_workers: int = 1,
    ) -> np.ndarray:
        """The kept arcs: int64, shape (2, num_kept), sorted by (source, target).

        Guarantee: the bounds of `promise`, for every key; the result is as sensitive as the edges.

        Args:
            arcs: integers, shape (2, num_arcs), or a function that starts a pass over such chunks.
            num_nodes: size of the id universe.
            rng: gives the key.
            present: bool, shape (num_nodes,): nodes with a record; an absent id keeps its slot.
            num_workers: threads; the bytes are the same for any number.

        Raises:
            ValueError: `arcs` has another shape or an id outside 0..num_nodes-1.

        Source: Sajadmanesh et al. (2023), GAP, arXiv:2203.00949 (random bounded degrees).
        """
        senders = present_mask(num_nodes, present)
        if self.drop_last_sender:
            senders[-1:] = 0
        slots, counts = top_k_slots(
            arcs,
            num_nodes,
            self.max_degree,
            by="source",
            group_ok=senders,
            item_ok=np.ones(num_nodes, np.uint8),
            key=draw_key(rng),
            num_workers=num_workers,
        )
        kept = _arcs_of(slots, counts)
        if self.symmetrize:
            kept = np.concatenate([kept, kept[::-1]], axis=1)
        return _sorted(kept, num_nodes)


@dataclass(frozen=True, kw_only=True)
class MutualDegree:
    """Undirected edges that are among the `max_degree` first of both their ends.

    Attributes:
        max_degree: D, of the result.
        degree_bound: D0, a declared bound on the edges of a node; adds the unit `node-bounded`.
    """

    max_degree: int
    degree_bound: int | None = None

    def __post_init__(self) -> None:
        _check(self.max_degree, self.degree_bound)

    @property
    def promise(self) -> EdgePromise:
        """The bounds proved above, in undirected edges."""
        changes = {
            ("node-features", "replace-one"): EdgeChange(lost=0, gained=0),
            ("edge", "add-remove"): EdgeChange(lost=1, gained=2),
        }
        if self.degree_bound is not None:
            own, admitted = _with_mentions(self.max_degree, self.degree_bound)
            removed = EdgeChange(lost=own, gained=admitted)
            both = EdgeChange(lost=own + admitted, gained=own + admitted)
            changes |= {
                ("node-bounded", "add-remove"): removed,
                ("node-bounded", "null-one"): removed,
                ("node-bounded", "replace-one"): both,
            }
        return EdgePromise(
            name="mutual_degree",
            params=asdict(self),
            owner="source",
            max_degree=self.max_degree,
            undirected=True,
            changes=changes,
        )

    def sample(
        self,
        arcs: Arcs,
        *,
        num_nodes: int,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
        num_workers: int = 1,
    ) -> np.ndarray:
        """The kept edges in both directions; arguments and result as `OutDegree.sample`.

        Guarantee: the bounds of `promise`, for every key. Arcs hold both directions of every edge.

        Source: Blocki, Blum, Datta, Sheffet (2013), restricted sensitivity.
        """
        has_record = present_mask(num_nodes, present)
        slots, counts = top_k_slots(
            arcs,
            num_nodes,
            self.max_degree,
            by="source",
            group_ok=has_record,
            item_ok=has_record,
            key=draw_key(rng),
            order="both",
            num_workers=num_workers,
        )
        mutual = _kernels.mutual_entries(slots, counts)
        return _sorted(_arcs_of(slots, counts)[:, mutual], num_nodes)


def _check(max_degree: int, degree_bound: int | None) -> None:
    at_least("max_degree", max_degree, 0)
    if degree_bound is not None:
        at_least("degree_bound", degree_bound, 0)


def _with_mentions(max_degree: int, degree_bound: int) -> tuple[int, int]:
    """Own kept edges of a node, and entries that its neighbours' lists admit when it goes."""
    return min(max_degree, degree_bound), degree_bound if degree_bound > max_degree else 0


def _arcs_of(slots: np.ndarray, counts: np.ndarray) -> np.ndarray:
    filled = np.arange(slots.shape[1]) < counts[:, None]
    senders = np.repeat(np.arange(len(counts)), counts)
    return np.stack([senders, slots[filled].astype(np.int64)])


def _sorted(arcs: np.ndarray, num_nodes: int) -> np.ndarray:
    keys = distinct_keys(arcs[0] * num_nodes + arcs[1])
    return np.stack([keys // num_nodes, keys % num_nodes])

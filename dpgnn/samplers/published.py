"""DP-GNN's sampler as published: SAMPLE-EDGELISTS, DFS-TREE, SAMPLE-SUBGRAPHS.

RE_u = training nodes that read u. Each is kept with probability min(1, K / (2 |RE_u|)); if more than K
survive, u leaves every list. Root v's subgraph is the depth-r tree of the lists E_v = {u : v in RE_u}.

The paper's claim that at most N(K, r) roots change when a node is removed is false: the removal changes
|RE_u|, and so the probability of all other readers of every u that the node reads, and lists cross the limit
above which they are dropped (tests/soundness/test_published_sampler.py counts it). With the structure public
(node-features) only the subgraphs that contain the node change, and N(K, r) is right.

Source: Daigavane et al. (2021), arXiv:2111.15521, Algorithms 1 to 3; the authors' code for the options.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np

from dpgnn.core.checks import at_least, one_of
from dpgnn.samplers.lists import Arcs, Lists, lists_of, shorten, thinned_slots
from dpgnn.samplers.promise import Change, Promise, occurrence_bound
from dpgnn.samplers.tree_sampler import Given, TreeSampler

Coins = Literal["pair", "position", "list"]
COINS = ("pair", "position", "list")


@dataclass(frozen=True, kw_only=True)
class Published(TreeSampler):
    """SAMPLE-SUBGRAPHS.

    Guarantee: none beyond `node-features`; see the module's text. Arcs must be distinct, and their order
    matters unless coins = "pair".

    Attributes:
        max_degree: K.
        num_hops: r.
        coins: what a coin is keyed by, the pair ("pair": the order of the arcs does not matter),
            the position in RE_u ("position") or the position and the length of RE_u ("list", as a
            generator that draws a whole vector for each list does). The distribution of one sample is the
            same; the coupling of two neighbouring graphs differs.
        max_subgraph_size: the authors' code cuts depth-1 subgraphs at 100 nodes, root included, in the
            order of the list; None (default) cuts nothing.
        append_reverse: the authors' code appends the reverse of every arc, even if it exists; such a pair
            counts twice in |RE_u|, draws two coins, and is kept once.
    """

    max_degree: int
    num_hops: int = 1
    coins: Coins = "pair"
    max_subgraph_size: int | None = None
    append_reverse: bool = False

    def __post_init__(self) -> None:
        at_least("max_degree", self.max_degree, 0)
        at_least("num_hops", self.num_hops, 0)
        one_of("coins", self.coins, COINS)
        if self.max_subgraph_size is not None:
            at_least("max_subgraph_size", self.max_subgraph_size, 1)
        if self.append_reverse and self.coins == "pair":
            raise ValueError(
                "coins must be position or list with append_reverse, got 'pair'; "
                "a repeated pair needs two coins"
            )

    @property
    def promise(self) -> Promise:
        """The occurrence bound, the proved feature-level bound and the paper's own claim."""
        num = occurrence_bound(self.max_degree, self.num_hops)
        claimed = Change(d_plus=num, d_minus=num, proved=False, why="arXiv:2111.15521, Lemma 2")
        features = Change(d_plus=num, d_minus=num, proved=True, why="samplers/published.py")
        return Promise(
            name="published",
            params=asdict(self),
            owner="target",
            max_occurrences=num,
            changes={
                ("node-features", "replace-one"): features,
                ("node-record", "add-remove"): claimed,
                ("node-record", "replace-one"): claimed,
            },
        )

    def _lists(self, arcs: Arcs, given: Given) -> Lists:
        """SAMPLE-EDGELISTS.

        Guarantee: lists of at most `max_degree` arcs, longer ones emptied; `promise` states the units with a
        proof. The result is as sensitive as the edges.

        Source: Daigavane et al. (2021), arXiv:2111.15521, Algorithm 1.
        """
        if self.append_reverse:
            arcs = _with_reverse(arcs)
        slots, counts = thinned_slots(
            arcs, given.num_nodes, self.max_degree, source_ok=given.present,
            target_ok=given.readers, key=given.key, coins=self.coins, num_workers=given.num_workers,
        )  # fmt: skip
        lists = lists_of(slots, counts)
        if self.max_subgraph_size is not None:
            lists = shorten(lists, self.max_subgraph_size - 1, key=given.key, by_priority=False)
        return lists


def _with_reverse(arcs: Arcs) -> Arcs:
    """The arcs followed by their reverses, duplicates kept."""
    if isinstance(arcs, np.ndarray):
        return np.concatenate([arcs, arcs[::-1]], axis=1)

    def chunks():  # type: ignore[no-untyped-def]
        yield from arcs()
        for chunk in arcs():
            yield chunk[::-1]

    return chunks

"""Samplers whose subgraphs are trees of sampled lists: lists differ by sampler, trees do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from dpgnn.samplers.hashing import draw_key
from dpgnn.samplers.lists import Arcs, Lists, node_mask, present_mask, present_roots, trees
from dpgnn.samplers.promise import Promise
from dpgnn.samplers.subgraphs import Subgraphs


@dataclass(frozen=True, kw_only=True, eq=False)
class Given:
    """What every sampler draws its lists from, beside the arcs.

    Attributes:
        key: uint64, shape (2,), from `draw_key`.
        present, train: uint8, shape (num_nodes,): nodes that have a record, and public training ids.
        num_workers: threads.
    """

    key: np.ndarray
    present: np.ndarray
    train: np.ndarray
    num_workers: int

    @property
    def num_nodes(self) -> int:
        """Size of the id universe."""
        return len(self.train)

    @property
    def readers(self) -> np.ndarray:
        """uint8, shape (num_nodes,): training nodes that have a record."""
        return self.train & self.present


class TreeSampler(ABC):
    """Sampled lists of arcs, and the subgraph of every root: its depth-r tree.

    Attributes:
        num_hops: r, depth of the subgraphs; with 0 they are single roots.
    """

    num_hops: int

    @property
    @abstractmethod
    def promise(self) -> Promise:
        """Number of roots that change with one record."""

    @abstractmethod
    def _lists(self, arcs: Arcs, given: Given) -> Lists:
        """The lists of `lists`, which checks the ids and draws the key."""

    def lists(
        self,
        arcs: Arcs,
        *,
        num_nodes: int,
        train_idx: np.ndarray,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
        num_workers: int = 1,
    ) -> Lists:
        """The sampled lists that the trees follow; arguments as for `sample`; sensitive.

        Guarantee: `promise` bounds the changes between neighbours; the lists are as sensitive as the edges.

        Args:
            arcs, num_nodes, train_idx, rng, present, num_workers: as for `sample`.

        Raises:
            ValueError: as for `sample`.
        """
        key, present = draw_key(rng), present_mask(num_nodes, present)
        train = node_mask(num_nodes, train_idx, "train_idx")
        return self._lists(
            arcs, Given(key=key, present=present, train=train, num_workers=num_workers)
        )

    def sample(
        self,
        arcs: Arcs,
        *,
        num_nodes: int,
        train_idx: np.ndarray,
        rng: np.random.Generator,
        present: np.ndarray | None = None,
        num_workers: int = 1,
    ) -> Subgraphs:
        """The subgraph of every present training node.

        Guarantee: `promise`, with proofs in the sampler's module. The result is as sensitive as the graph.

        Args:
            arcs: integers, shape (2, num_arcs), u -> v where v may read u; or a function that starts a pass
                over chunks of that shape. The order does not matter unless the sampler says so.
            num_nodes: size of the id universe.
            train_idx: public training ids: the roots, and the ids that may read others.
            rng: gives the key (two draws).
            present: bool, shape (num_nodes,): nodes that have a record; None means all.
            num_workers: threads; the bytes are the same for any number.

        Returns:
            subgraphs with ascending roots.

        Raises:
            ValueError: `arcs` or `train_idx` has an id outside 0..num_nodes-1, or an id is repeated.
        """
        lists = self.lists(
            arcs, num_nodes=num_nodes, train_idx=train_idx, rng=rng, present=present,
            num_workers=num_workers,
        )  # fmt: skip
        return trees(
            lists, present_roots(train_idx, present), num_hops=self.num_hops,
            max_occurrences=self.promise.max_occurrences, num_workers=num_workers,
        )  # fmt: skip

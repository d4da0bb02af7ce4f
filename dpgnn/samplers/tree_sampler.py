"""Samplers whose subgraphs are trees of sampled lists: lists differ by sampler, trees do not."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpgnn.samplers.lists import Arcs, Lists, present_roots, trees
from dpgnn.samplers.promise import Promise
from dpgnn.samplers.subgraphs import Subgraphs


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

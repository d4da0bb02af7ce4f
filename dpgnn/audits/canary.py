"""Audit graphs: two neighbouring worlds in which one record has as much influence as its unit allows.

Each canary is the centre of a star: it is joined to leaves that no other node reads, so the worlds differ
only in the canary's record (or in one edge), under every unit:

* add-remove: in G' the canary has no edge, no features and is no training node;
* null-one: it keeps its id and is emptied;
* replace-one: it has other features, another label and other leaves (features and label alone when the
  structure is public); with `same_label` it keeps its label, which is a neighbour too;
* edge: the canary's one edge is in G and not in G'.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpgnn.core.checks import at_least, one_of
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split

# leaves opposite to the canary change sign when they read it, quiet ones even if hidden units saturate
# before they are averaged; orthogonal ones survive row normalisation
Design = Literal["opposite", "quiet", "orthogonal"]
DESIGNS: tuple[Design, ...] = ("opposite", "quiet", "orthogonal")
NODE_UNITS = ("node", "node-record", "node-bounded")
LOUD, QUIET = 100.0, 0.05


@dataclass(frozen=True, kw_only=True)
class AuditGraph:
    """Recipe of the two worlds.

    Attributes:
        privacy_unit, relation: which neighbours.
        num_leaves: leaves of a canary's star (of each of its two stars under replace-one).
        num_background: further training nodes, joined in pairs.
        num_features, num_classes, task: as the data set has them, features at most 8.
        design: how leaves' features relate to the canary's.
        num_canaries: stars; 1 for two worlds, many for one-run audits.
        mentions_stay: leaves name the canary in both worlds, whatever its own list is: `node-record` for
            methods in which a node reads with its list.
        minimum_degree: the background and the canary's edge keep every degree at least this (edge unit).
        same_label: under replace-one the canary's label is the same in both worlds.
    """

    privacy_unit: str
    relation: str
    num_leaves: int
    num_background: int = 24
    num_features: int = 8
    num_classes: int = 3
    task: Literal["multiclass", "multilabel"] = "multiclass"
    design: Design = "orthogonal"
    num_canaries: int = 1
    mentions_stay: bool = False
    minimum_degree: int = 0
    same_label: bool = False

    def __post_init__(self) -> None:
        one_of("design", self.design, DESIGNS)
        at_least("num_leaves", self.num_leaves, 0)
        at_least("num_features", self.num_features, 4)
        at_least("num_classes", self.num_classes, 2)

    @property
    def star_size(self) -> int:
        """Nodes of one canary and its leaves."""
        return 1 + self.num_leaves * (2 if self.relation == "replace-one" else 1)

    @property
    def num_nodes(self) -> int:
        """Size of the id universe, the same in both worlds: stars, background, 4 nodes to test on."""
        return self.num_canaries * self.star_size + self.num_background + 4

    @property
    def canaries(self) -> np.ndarray:
        """int64: the canaries' ids."""
        return np.arange(self.num_canaries, dtype=np.int64) * self.star_size

    def labelled(self) -> tuple[AuditGraph, ...]:
        """The recipe with another label in G' and, under replace-one, with the same label.

        A leak of labels needs another label; clipped gradients may be further apart with the same.
        """
        if self.privacy_unit == "edge" or self.relation != "replace-one":
            return (self,)
        return (replace(self, same_label=False), replace(self, same_label=True))

    def world(self, inside: np.ndarray | bool) -> tuple[Graph, Split]:
        """The graph and split in which canary i has the record of G where inside[i], else that of G'."""
        coins = np.broadcast_to(np.asarray(inside, dtype=bool), (self.num_canaries,))
        x, y = self._records()
        background = self._background()
        pairs, mentions = [background], [background]
        absent = []
        for canary, coin in zip(self.canaries.tolist(), coins.tolist()):
            pairs.append(self._star(canary, coin))
            mentions.append(self._leaves(canary) if self.mentions_stay else pairs[-1])
            if not coin:
                y[canary] = self._other_record(x, canary, y[canary])
                if self.relation == "add-remove" and self.privacy_unit != "edge":
                    absent.append(canary)
        own, named = np.concatenate(pairs, axis=1), np.concatenate(mentions, axis=1)
        both = np.concatenate([own, named[::-1]], axis=1).astype(np.int64)
        labels = y if self.task == "multiclass" else self._multilabel(y)
        graph = Graph(
            name="audit",
            x=x.astype(np.float32),
            edge_index=both,
            y=labels,
            num_classes=self.num_classes,
            task=self.task,
            directed=self.mentions_stay,
        )
        last = self.num_nodes - 4
        split = Split(
            train_idx=np.setdiff1d(np.arange(last), absent).astype(np.int64),
            val_idx=np.arange(last, last + 2),
            test_idx=np.arange(last + 2, last + 4),
            inductive=False,
        )
        return graph, split

    def _records(self) -> tuple[np.ndarray, np.ndarray]:
        """The records of all nodes in G."""
        x = np.zeros((self.num_nodes, self.num_features))
        y = np.zeros(self.num_nodes, dtype=np.int64)
        x[:, 3] = 1.0  # background and test nodes
        for number, canary in enumerate(self.canaries.tolist()):
            star = slice(canary, canary + self.star_size)
            x[star], y[star] = 0.0, 1
            loud = 0 if self.design == "orthogonal" else 1
            x[star, 1] = {"opposite": -1.0, "quiet": -QUIET, "orthogonal": 1.0}[self.design]
            x[canary] = 0.0
            x[canary, loud] = LOUD
            if self.num_canaries > 1:
                x[star] = np.random.default_rng([7, number]).standard_normal(self.num_features)
                y[star] = number % self.num_classes
        return x, y

    def _other_record(self, x: np.ndarray, canary: int, label: int) -> int:
        """Set the features of G'; returns the label."""
        if self.privacy_unit == "edge":
            return label
        if self.relation == "replace-one":
            x[canary] *= -1.0
            return label if self.same_label else (label + 1) % self.num_classes
        x[canary] = 0.0
        return 0

    def _star(self, canary: int, coin: bool) -> np.ndarray:
        leaves = canary + 1 + np.arange(self.num_leaves)
        if self.privacy_unit == "edge":
            leaves = leaves[: 1 if coin else 0]
        elif self.privacy_unit in NODE_UNITS and not coin:
            leaves = leaves + self.num_leaves if self.relation == "replace-one" else leaves[:0]
        return np.stack([np.full(len(leaves), canary), leaves]).astype(np.int64)

    def _leaves(self, canary: int) -> np.ndarray:
        """Pairs of a canary and each leaf of all its stars."""
        leaves = canary + np.arange(1, self.star_size)
        return np.stack([np.full(len(leaves), canary), leaves]).astype(np.int64)

    def _background(self) -> np.ndarray:
        """Pairs of background nodes; rings that give every node enough degree if a minimum is declared."""
        first = self.num_canaries * self.star_size
        rest = np.arange(first, self.num_nodes)
        rest = rest[: len(rest) // 2 * 2]
        if self.minimum_degree == 0:
            return rest.reshape(-1, 2).T
        everyone = np.arange(self.num_nodes)
        # steps of at least two: the canary's edge (0, 1) is in none of the rings
        steps = range(2, 2 + (self.minimum_degree + 1) // 2)
        rings = [np.stack([everyone, (everyone + step) % self.num_nodes]) for step in steps]
        ends = np.sort(np.concatenate(rings, axis=1), axis=0)
        return np.unique(ends, axis=1)

    def _multilabel(self, y: np.ndarray) -> np.ndarray:
        labels = np.zeros((len(y), self.num_classes), dtype=np.uint8)
        labels[np.arange(len(y)), y] = 1
        return labels

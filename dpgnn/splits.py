"""Graph -> Split: which nodes are trained on, selected on and tested on."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.checks import at_least, fail, one_of, require
from dpgnn.storage import DamagedFileError, parquet_metadata, read_parquet, write_parquet

if TYPE_CHECKING:
    from dpgnn.graph import Graph

Kind = Literal["public", "random", "per_class"]
KINDS = ("public", "random", "per_class")


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """One setting of a study.

    Attributes:
        kind: "public" (the publisher's own), "random" (fractions of all labelled nodes) or
            "per_class" (`num_per_class` training nodes a class, then `num_val` and `num_test`).
        inductive: True drops every edge whose ends lie in different parts (the disjoint setting);
            False trains and evaluates on the whole graph (transductive).
        train_fraction, val_fraction: of the labelled nodes, for "random"; the rest is test.
        num_per_class: training nodes of each class, for "per_class".
        num_val, num_test: sizes for "per_class"; num_test 0 takes all the rest.
    """

    kind: Kind = "random"
    inductive: bool = False
    train_fraction: float = 0.6
    val_fraction: float = 0.2
    num_per_class: int = 20
    num_val: int = 500
    num_test: int = 0

    def __post_init__(self) -> None:
        one_of("kind of split", self.kind, KINDS)
        total = self.train_fraction + self.val_fraction
        require(0 < self.train_fraction < 1, "train_fraction", "be in (0, 1)", self.train_fraction)
        require(0 <= self.val_fraction < 1, "val_fraction", "be in [0, 1)", self.val_fraction)
        require(
            total < 1, "train_fraction + val_fraction", "be < 1", total, "leave nodes to test on"
        )
        at_least("num_per_class", self.num_per_class, 1)
        at_least("num_val", self.num_val, 0)
        at_least("num_test", self.num_test, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Disjoint int64 node positions, sorted. Membership is public in every claim of this project.

    Attributes:
        train_idx, val_idx, test_idx: int64, shape (num,), ascending.
        inductive: True when edges between parts are dropped, in training and in evaluation.
    """

    train_idx: np.ndarray
    val_idx: np.ndarray
    test_idx: np.ndarray
    inductive: bool

    def __post_init__(self) -> None:
        parts = np.concatenate([self.train_idx, self.val_idx, self.test_idx])
        require(
            len(np.unique(parts)) == len(parts),
            "split",
            "have disjoint parts",
            "a node in two parts",
        )
        at_least("split: number of training nodes", len(self.train_idx), 1)
        at_least("split: number of test nodes", len(self.test_idx), 1)
        for idx in (self.train_idx, self.val_idx, self.test_idx):
            idx.setflags(write=False)

    def part_of(self, num_nodes: int) -> np.ndarray:
        """int8, shape (num_nodes,): 0 train, 1 val, 2 test, -1 in no part."""
        part = np.full(num_nodes, -1, dtype=np.int8)
        for code, idx in enumerate((self.train_idx, self.val_idx, self.test_idx)):
            part[idx] = code
        return part


def make_split(graph: Graph, config: SplitConfig, *, rng: np.random.Generator) -> Split:
    """Draw a split by the recipe in `config`.

    Args:
        graph: only labelled nodes enter a part.
        config: the recipe.
        rng: used by "random" and "per_class"; "public" draws nothing.

    Raises:
        ValueError: the graph has no public split, or a class has too few labelled nodes.
    """
    if config.kind == "public":
        if "public" not in graph.splits:
            fail(f"split of {graph.name}", "be a kind it has", "public", "use random or per_class")
        public = graph.splits["public"]
        return _split(public["train"], public["val"], public["test"], config)
    labelled = labelled_nodes(graph)
    if config.kind == "random":
        order = rng.permutation(labelled)
        num_train = round(config.train_fraction * len(order))
        num_val = round(config.val_fraction * len(order))
        train, val, test = np.split(order, [num_train, num_train + num_val])
        return _split(train, val, test, config)
    return _per_class(graph, labelled, config, rng)


def labelled_nodes(graph: Graph) -> np.ndarray:
    """Positions of the nodes that carry a label, int64, ascending."""
    if graph.task == "multilabel":
        return np.arange(graph.num_nodes)
    return np.flatnonzero(graph.y >= 0)


def edges_in_setting(graph: Graph, split: Split) -> np.ndarray:
    """edge_index seen in the split's setting: all edges, or only those inside one part.

    Returns:
        int64, shape (2, num_kept); node ids are the graph's.
    """
    if not split.inductive:
        return graph.edge_index
    part = split.part_of(graph.num_nodes)
    source, target = graph.edge_index
    return graph.edge_index[:, (part[source] == part[target]) & (part[source] >= 0)]


def write_split(
    path: str | os.PathLike[str],
    split: Split,
    *,
    num_nodes: int,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a split atomically: one int8 column `part` (0 train, 1 val, 2 test, -1 none).

    Args:
        path: usually results/splits/DATASET.SETTING.REPEAT.parquet.
        split: the parts.
        num_nodes: of the graph, one row each.
        metadata: kept beside the column: dataset, setting, repeat, the recipe, the graph's hash.
    """
    import pyarrow as pa

    table = pa.table({"part": pa.array(split.part_of(num_nodes))})
    write_parquet(path, table, metadata={**(metadata or {}), "inductive": split.inductive})


def read_split(path: str | os.PathLike[str], *, num_nodes: int | None = None) -> Split:
    """Read a split that `write_split` wrote.

    Args:
        path: the file.
        num_nodes: when given, the file must have that many rows.

    Raises:
        DamagedFileError: missing, damaged, or of another graph.
    """
    part = read_parquet(path, ["part"])["part"].to_numpy()
    metadata = parquet_metadata(path)
    if "inductive" not in metadata or not np.isin(part, (-1, 0, 1, 2)).all():
        raise DamagedFileError(f"{path} must be a split of dpgnn; delete it and run `dpgnn split`")
    if num_nodes is not None and len(part) != num_nodes:
        raise DamagedFileError(
            f"{path} must have {num_nodes} rows, one a node, got {len(part)}; it belongs to another "
            "graph: delete it and run `dpgnn split`"
        )
    train, val, test = (np.flatnonzero(part == code) for code in (0, 1, 2))
    return Split(train_idx=train, val_idx=val, test_idx=test, inductive=bool(metadata["inductive"]))


def _per_class(
    graph: Graph, labelled: np.ndarray, config: SplitConfig, rng: np.random.Generator
) -> Split:
    require(
        graph.task == "multiclass",
        f"split of {graph.name}",
        "be random or public for a multilabel graph",
        "per_class",
    )
    order = rng.permutation(labelled)
    chosen = []
    for label in range(graph.num_classes):
        members = order[graph.y[order] == label]
        require(
            len(members) >= config.num_per_class,
            f"split of {graph.name}: num_per_class",
            f"be <= {len(members)}, the size of class {label}",
            config.num_per_class,
            "lower num_per_class or use random",
        )
        chosen.append(members[: config.num_per_class])
    train = np.concatenate(chosen)
    rest = order[~np.isin(order, train)]
    num_test = config.num_test or len(rest) - config.num_val
    require(
        config.num_val + num_test <= len(rest) and num_test > 0,
        f"split of {graph.name}: num_val + num_test",
        f"leave test nodes among the {len(rest)} that remain",
        config.num_val + config.num_test,
        "lower num_val or num_test",
    )
    val, test = rest[: config.num_val], rest[config.num_val : config.num_val + num_test]
    return _split(train, val, test, config)


def _split(train: np.ndarray, val: np.ndarray, test: np.ndarray, config: SplitConfig) -> Split:
    return Split(
        train_idx=np.sort(train),
        val_idx=np.sort(val),
        test_idx=np.sort(test),
        inductive=config.inductive,
    )

"""A user's graph before it is validated, and the checks of it or of a batch of a large one.

Checks that need the whole graph are separate functions, which run at the end for a streamed graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from dpgnn.core.checks import fail
from dpgnn.data.custom.options import Options
from dpgnn.data.files.content import PART_CODES
from dpgnn.data.graph import Features


@dataclass(kw_only=True)
class RawGraph:
    """Arrays of one graph before validation.

    Attributes:
        where, where_edges: files, for messages.
        num_nodes: rows of the node table.
        x: float32, dense or CSR; x, y, source and target are None if they could not be read, and for a batch.
        y: int64, -1 where unlabelled, or uint8 columns.
        source, target: int64 node positions, one row for each edge of the file.
        codes: int8 part of each node (0 train, 1 val, 2 test, -1 none), or None.
        ids: the user's names of nodes, or None if they are positions.
        columns: the user's names of features, or None.
        first, first_edge: numbers of the first node and edge, from 0, for a batch of a large graph.
    """

    where: str
    where_edges: str
    num_nodes: int
    x: Features | None = None
    y: np.ndarray | None = None
    source: np.ndarray | None = None
    target: np.ndarray | None = None
    codes: np.ndarray | None = None
    ids: list[str] | None = None
    columns: list[str] | None = None
    first: int = 0
    first_edge: int = 0

    def name_of(self, node: int) -> str:
        """The user's name of a node of this graph or batch."""
        return str(self.first + node) if self.ids is None else self.ids[node]

    def number_of(self, edge: int) -> int:
        """Number of an edge of this graph or batch in its file, from 1."""
        return self.first_edge + edge + 1

    def column_name(self, column: int) -> str:
        """The user's name of a feature."""
        return str(column) if self.columns is None else self.columns[column]


@dataclass
class Problems:
    """All problems of a graph, in the message form of `checks`."""

    texts: list[str] = field(default_factory=list)

    def add(self, name: str, rule: str, value: object, remedy: str = "") -> None:
        """Note one problem."""
        try:
            fail(name, rule, value, remedy)
        except ValueError as error:
            self.texts.append(str(error))

    def stop(self) -> None:
        """Raise the first problem, if reading on would be useless.

        Raises:
            ValueError: there is one.
        """
        if self.texts:
            raise ValueError(self.texts[0])

    @contextmanager
    def caught(self) -> Iterator[None]:
        """A context in which a ValueError or OSError ends the reading and becomes the last problem."""
        try:
            yield
        except (ValueError, OSError) as error:
            self.texts.append(str(error))


def check_features(raw: RawGraph, x: Features, problems: Problems) -> None:
    """Every feature is finite."""
    values = x.data if hasattr(x, "indptr") else x
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    where = np.argwhere(bad)[0]
    if values.ndim == 1:
        node = int(np.searchsorted(x.indptr, where[0], side="right")) - 1
        shown = f"node {raw.name_of(node)}"
    else:
        node = int(where[0])
        shown = f"node {raw.name_of(node)}, column {raw.column_name(int(where[1]))}"
    value = float(values[tuple(where)])
    count = f"{value}, and {int(bad.sum()) - 1} more" if bad.sum() > 1 else value
    problems.add(f"{raw.where}: feature of {shown}", "be finite", count, "replace or drop it")


def check_labels(raw: RawGraph, y: np.ndarray, options: Options, problems: Problems) -> int:
    """All labels of a graph; returns the number of classes."""
    if options.task == "multilabel":
        check_label_columns(raw.where, y.shape[1], options, problems)
        return y.shape[1]
    labelled = y[y >= 0]
    num_classes = options.stated_classes or (int(labelled.max()) + 1 if len(labelled) else 0)
    if num_classes > len(labelled) and options.stated_classes is None and len(labelled):
        # a class without nodes is more likely an id in the wrong column, and each class costs memory
        rule = f"be below the number of labelled nodes, {len(labelled)}, where no number is stated"
        remedy = "state num_classes in graph.yaml, or number the classes 0, 1, 2, ..."
        shown = f"{num_classes - 1} at node {raw.name_of(int(np.argmax(y)))}"
        problems.add(f"{raw.where}: labels", rule, shown, remedy)
        return num_classes
    check_range(raw, y, num_classes, problems)
    check_distinct(raw.where, len(np.unique(labelled)), problems)
    return num_classes


def check_label_columns(where: str, number: int, options: Options, problems: Problems) -> None:
    """There are as many label columns as graph.yaml says."""
    if options.stated_classes not in (None, number):
        rule = f"be {options.stated_classes} columns, as graph.yaml says"
        problems.add(f"{where}: labels", rule, number)


def check_range(raw: RawGraph, y: np.ndarray, num_classes: int, problems: Problems) -> None:
    """Every label is a class or -1."""
    bad = (y < -1) | (y >= max(num_classes, 1))
    if bad.any():
        node = int(np.argmax(bad))
        rule = f"be a class in 0..{num_classes - 1}, or empty where unlabelled"
        problems.add(f"{raw.where}: label of node {raw.name_of(node)}", rule, int(y[node]))


def check_distinct(where: str, distinct: int, problems: Problems) -> None:
    """The labels of the whole graph name two classes or more."""
    if distinct < 2:
        problems.add(f"{where}: labels", "name two classes or more", f"{distinct} class")


def check_edges(
    raw: RawGraph, source: np.ndarray, target: np.ndarray, options: Options, problems: Problems
) -> None:
    """Every edge joins two existing nodes, is unique and is no self-loop, unless graph.yaml allows it."""
    where, n = f"{raw.where_edges}: edge", raw.num_nodes
    outside = (source < 0) | (source >= n) | (target < 0) | (target >= n)
    if outside.any():
        row = int(np.argmax(outside))
        shown, remedy = f"{source[row]} -> {target[row]}", "add the node or drop it"
        problems.add(f"{where} {raw.number_of(row)}", f"join nodes 0..{n - 1}", shown, remedy)
    loops = ~outside & (source == target)
    if loops.any() and not options.drop_self_loops:
        row = int(np.argmax(loops))
        node = raw.name_of(int(source[row]))
        remedy = "drop them or set drop_self_loops in graph.yaml"
        more = int(loops.sum()) - 1
        shown = f"{node} -> {node}" + (f", and {more} more" if more else "")
        problems.add(f"{where} {raw.number_of(row)}", "be no self-loop", shown, remedy)
    if options.drop_duplicates:
        return
    inside = np.flatnonzero(~outside)
    keys = source[inside].astype(np.int64) * n + target[inside]
    _, first, count = np.unique(keys, return_index=True, return_counts=True)
    if (count > 1).any():
        row = int(inside[first[np.argmax(count > 1)]])
        pair = f"{raw.name_of(int(source[row]))} -> {raw.name_of(int(target[row]))}"
        remedy = "drop duplicates or set drop_duplicates in graph.yaml"
        shown = f"{pair} again, {int((count - 1).sum())} duplicates in all"
        problems.add(f"{where} {raw.number_of(row)}", "stand once", shown, remedy)


def check_unlabelled(raw: RawGraph, y: np.ndarray, problems: Problems) -> None:
    """Every node of a part has a label."""
    if raw.codes is None or y.ndim > 1:
        return
    bad = (raw.codes >= 0) & (y < 0)
    if bad.any():
        node = raw.name_of(int(np.argmax(bad)))
        problems.add(f"{raw.where}: split of node {node}", "be empty: it has no label", "a part")


def check_parts(where: str, codes: Collection[int], problems: Problems) -> None:
    """The split of the whole graph has training and test nodes; `codes` are the codes that occur."""
    for part, code in (("train", PART_CODES["train"]), ("test", PART_CODES["test"])):
        if code not in codes:
            remedy = "drop the column split"
            problems.add(f"{where}: split", f"have {part} nodes", "none", remedy)

"""What the readers of own graphs hand on, and the list of problems they collect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from dpgnn.core.checks import fail
from dpgnn.data.graph import Features


@dataclass(kw_only=True)
class RawGraph:
    """Arrays of one graph before they are judged.

    Attributes:
        where, where_edges: files, for messages.
        num_nodes: rows of the node table.
        x: float32, dense or CSR; x, y, source and target are None where they could not be read.
        y: int64, -1 where unlabelled, or uint8 columns.
        source, target: int64 node positions, one row for each edge of the file.
        codes: int8 part of each node (0 train, 1 val, 2 test, -1 none), or None.
        ids: the user's names of nodes, or None when they are positions.
        columns: the user's names of features, or None.
        first, first_edge: numbers of the first node and edge here, from 0, in a batch of a large graph.
    """

    where: str
    where_edges: str
    num_nodes: int
    x: Features | None
    y: np.ndarray | None
    source: np.ndarray | None
    target: np.ndarray | None
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
    """Everything wrong with a graph, in the one message form of `checks`."""

    texts: list[str] = field(default_factory=list)

    def add(self, name: str, rule: str, value: object, remedy: str = "") -> None:
        """Note one problem."""
        try:
            fail(name, rule, value, remedy)
        except ValueError as error:
            self.texts.append(str(error))

    def stop(self) -> None:
        """Raise the first problem, where reading on is of no use.

        Raises:
            ValueError: there is one.
        """
        if self.texts:
            raise ValueError(self.texts[0])

    @contextmanager
    def caught(self) -> Iterator[None]:
        """A ValueError or OSError inside ends the reading and becomes the last problem."""
        try:
            yield
        except (ValueError, OSError) as error:
            self.texts.append(str(error))

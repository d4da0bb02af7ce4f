"""A graph as batches, either collected in memory or streamed to disk."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.data.files.content import parts_of
from dpgnn.data.files.streaming import DEFAULT_MEMORY_BYTES, GraphWriter, Header
from dpgnn.data.graph import Features, Graph, clean_edges

Rows = tuple[Features, np.ndarray, Mapping[str, np.ndarray]]


@dataclass(frozen=True, kw_only=True)
class Pieces:
    """A graph that is never in memory as a whole.

    Attributes:
        header: the sizes.
        nodes: called once; yields (x, y, codes of each split) in order of node.
        edges: called once; yields (source, target) in any order; the reader handles reverse edges and
            duplicates.
    """

    header: Header
    nodes: Callable[[], Iterator[Rows]]
    edges: Callable[[], Iterator[tuple[np.ndarray, np.ndarray]]]


def collect(pieces: Pieces) -> Graph:
    """The graph in memory.

    Raises:
        ValueError: as `Graph`.
    """
    header = pieces.header
    sources, targets = zip(*pieces.edges()) if header.expected_edges else ((), ())
    none = np.zeros(0, dtype=np.int64)
    edges = clean_edges(
        np.concatenate([none, *sources]),
        np.concatenate([none, *targets]),
        header.num_nodes,
        undirected=not header.directed,
    )
    xs, ys, parts = zip(*pieces.nodes())
    x = sp.vstack(xs, format="csr") if sp.issparse(xs[0]) else np.concatenate(xs)
    codes = {name: np.concatenate([batch[name] for batch in parts]) for name in header.splits}
    return Graph(
        name=header.name,
        x=x,
        edge_index=edges,
        y=np.concatenate(ys),
        num_classes=header.num_classes,
        task=header.task,
        directed=header.directed,
        splits={name: parts_of(split) for name, split in codes.items()},
    )


def write(
    pieces: Pieces,
    folder: Path,
    *,
    provenance: Mapping[str, Any] | None = None,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
    scratch: Path = Path("work/streaming"),
    resume: str | None = None,
) -> dict[str, Any]:
    """Stream the graph to a folder in bounded memory; says first on standard error what that takes.

    Args:
        provenance: as `save_graph`.
        memory_bytes: budget of one range of edges, in bytes.
        scratch: where edges are spilled; removed afterwards.
        resume: as for `GraphWriter`; pieces of edges must come in the same order again.

    Returns:
        what graph.json holds.

    Raises:
        ValueError: rows or edges disagree with the header.
        OSError: the folder cannot be written, or the disk is full.
    """
    print(pieces.header.estimate(memory_bytes), file=sys.stderr)
    with GraphWriter(
        folder, pieces.header, memory_bytes=memory_bytes, scratch=scratch, resume=resume
    ) as writer:
        for source, target in pieces.edges():
            writer.add_edges(source, target)
        for x, y, parts in pieces.nodes():
            writer.add_nodes(x, y, parts)
        return writer.finish(provenance)

"""Trees of a run on disk: written block by block from the sample's file, once for all runs and ranks."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core import locks
from dpgnn.core.checks import one_line, require
from dpgnn.core.code_hash import code_sha256
from dpgnn.core.storage import DamagedFileError, explain_os_errors, sha256_json
from dpgnn.methods.dp_gnn.options import DPGNNConfig, sampler_of

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.entry import StoredSample
    from dpgnn.models.trees import Trees


def stored_trees(entry: Entry, graph: Graph, sample: StoredSample) -> Trees:
    """The trees of the sample's roots in files below its folder, made if missing.

    Guarantee: as `read_sample` and `training_input`: each root's tree follows from its own subgraph, and no
    node is in more subgraphs than the sampler's promise says.

    Args:
        entry: decides how trees are laid out.
        graph: gives the labels.
        sample: whose rows stay in their file.

    Raises:
        ValueError: a subgraph is malformed, or the sample breaks the promise.
        DamagedFileError: the sample's file or the trees are damaged.
        OSError: the place cannot be written, or the disk is full.
    """
    from dpgnn.models.stored_trees import open_trees, write_trees

    config: DPGNNConfig = entry.options
    bound = sampler_of(entry).promise.max_occurrences
    code = code_sha256("dpgnn.models.stored_trees")  # with all that it imports
    made_of = sha256_json([sample.sha256, config.num_hops, config.conv, bound, code])
    folder = sample.place / f"trees-{made_of[:16]}"
    lock = sample.place / f".{folder.name}.lock"
    with explain_os_errors(folder), locks.one_at_a_time(lock):
        found = open_trees(folder, made_of, graph.y)
        if found is None:
            blocks = _blocks(config, graph, sample, bound)
            write_trees(folder, made_of, blocks, config.num_hops)
            found = open_trees(folder, made_of, graph.y)
    assert found is not None
    return found


def _blocks(
    config: DPGNNConfig, graph: Graph, sample: StoredSample, bound: int
) -> Iterator[tuple[np.ndarray, Trees]]:
    """Roots and trees of each row group of the sample; occurrences are checked at the end."""
    from dpgnn.models.trees import trees_of
    from dpgnn.samplers.subgraphs import from_table

    occurrences = np.zeros(graph.num_nodes, np.int32)
    for table in _tables(sample):
        part = from_table(table, max_occurrences=bound).check(graph.num_nodes)
        nodes, counts = np.unique(part.nodes, return_counts=True)
        occurrences[nodes] += counts.astype(np.int32)
        yield part.roots, trees_of(part, graph.y, num_hops=config.num_hops, conv=config.conv)
    largest = int(occurrences.max(initial=0))
    rule = f"hold every node at most max_occurrences = {bound} times"
    require(largest <= bound, "subgraphs", rule, largest)


def _tables(sample: StoredSample) -> Iterator[Any]:
    """Row groups of the sample's file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    said = time.monotonic()
    try:
        with pq.ParquetFile(sample.file, page_checksum_verification=True) as file:
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)
                if time.monotonic() - said > 2:
                    said = time.monotonic()
                    done = f"{group + 1} of {file.num_row_groups} pieces"
                    print(f"trees to {sample.place}: {done}", file=sys.stderr)
    except pa.ArrowException as error:
        raise DamagedFileError(
            f"{os.fspath(sample.file)} must be an undamaged file: {one_line(error)}; make the sample again"
        ) from None

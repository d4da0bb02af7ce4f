"""A stated bound on the memory of a stage: data that fits is read at once, the rest stays on disk.

A stage that cannot keep the bound is refused at its start.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgnn import methods
from dpgnn.core.checks import fail, require
from dpgnn.data.splits import Split
from dpgnn.methods.base import Entry

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
# libraries, compiled loops, pages of files that are being read, and the chunks of a step
OTHER = 1_500 * 10**6
# copies of the features (float32) and of the edges (two int64) that a stage holds at its peak
COPIES = 3
# bytes for each node: its label, its part in the split and what is made of them
OF_A_NODE = 24
# bytes for each root: where its tree stands in the files, its label, its batches
OF_A_ROOT = 64
# bytes for each row of a tree of one piece of the sample: as it is read, checked and laid out
OF_A_ROW = 96
# a task over one partition or one range of nodes; masks, candidates and the trees of each node
OF_A_TASK, OF_A_SAMPLED_NODE = 900 * 10**6, 24
# a process that streams rows and edges, besides the edges that it sorts
OF_STREAMING = 250 * 10**6
REMEDY = "raise --memory"


@dataclass(frozen=True, kw_only=True)
class Bound:
    """The memory that a run may take.

    Attributes:
        memory: bytes.
        work: folder of copies of features and arcs, for a run that reads them from disk.
    """

    memory: int
    work: Path = Path("work")

    @property
    def shown(self) -> str:
        """The memory, for messages."""
        return f"{self.memory / 1e9:.2f} GB"


def parse_memory(text: str) -> int:
    """Bytes of a size such as 4GB, 512MB or 4GiB.

    Raises:
        ValueError: no such size, or none above 0.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(?:([KMGT]i?)?B?)\s*", text, re.IGNORECASE)
    if found is None:
        fail("--memory", "be a size such as 4GB, 512MB or 4GiB", text)
    number, unit = float(found[1]), (found[2] or "")
    unit = unit[:1].upper() + unit[1:].lower()
    size = int(number * {**UNITS, **BINARY}[unit])
    require(size > 0, "--memory", "be > 0", text)
    return size


def in_memory(meta: Mapping[str, Any]) -> int:
    """Bytes that a stage takes at its peak when it holds the whole graph, from the sizes of graph.json."""
    return whole_graph(*(int(meta[f"num_{name}"]) for name in ("nodes", "features", "edges")))


def whole_graph(num_nodes: int, num_features: int, num_edges: int) -> int:
    """Bytes that a stage takes at its peak when it holds the whole graph."""
    return OTHER + COPIES * (4 * num_nodes * num_features + 16 * num_edges)


def with_features_on_disk(meta: Mapping[str, Any], num_roots: int, num_rows: int) -> int:
    """Bytes that training takes at its peak when features, arcs and trees stay on disk.

    Args:
        meta: graph.json.
        num_roots: training nodes.
        num_rows: rows of the trees of one piece of the sample.
    """
    nodes, roots = OF_A_NODE * meta["num_nodes"], OF_A_ROOT * num_roots
    return int(OTHER + nodes + roots + OF_A_ROW * num_rows)


def stays_on_disk(
    entry: Entry, meta: Mapping[str, Any], split: Split, bound: Bound, sample: Path | None
) -> bool:
    """Whether a run reads features and arcs from disk to keep a bound.

    Args:
        entry: of the run.
        meta: graph.json.
        split: of the run.
        bound: on memory.
        sample: the prepared sample's file; None without one.

    Raises:
        ValueError: the bound cannot be kept; names what needs more.
    """
    return _stays_apart(
        f"{entry.name} on {meta['name']}", "its features on disk", bound, split,
        whole=in_memory(meta),
        least=lambda: with_features_on_disk(meta, len(split.train_idx), _rows_of(sample)),
        reason=methods.get(entry.method).why_not_on_disk(entry),
    )  # fmt: skip


def over_partitions(meta: Mapping[str, Any], split: Split, bound: Bound, sampler: str) -> bool:
    """Whether a sample is drawn over partitions of the graph to keep a bound.

    Args:
        meta: graph.json.
        split: of the sample.
        bound: on memory.
        sampler: its name.

    Raises:
        ValueError: the bound cannot be kept; names what needs more.
    """
    from dpgnn.methods.partitioned import FORMS

    return _stays_apart(
        f"the sample {sampler} of {meta['name']}", "over partitions", bound, split,
        whole=in_memory(meta), least=lambda: OF_A_TASK + OF_A_SAMPLED_NODE * meta["num_nodes"],
        reason="" if sampler in FORMS else "it has no form over partitions",
    )  # fmt: skip


def _stays_apart(
    what: str, how: str, bound: Bound, split: Split, *,
    whole: int, least: Callable[[], int], reason: str,
) -> bool:  # fmt: skip
    """Whether a stage works on parts of the graph; refused for a reason, or if even parts take too much."""
    if whole <= bound.memory:
        return False
    if not reason and split.max_degree:
        reason = "cutting edges to max_degree needs all of them at once"
    if reason:
        rule = f"be >= {whole / 1e9:.2f} GB for {what}: {reason}"
        fail("--memory", rule, bound.shown, REMEDY)
    wanted = least()
    rule = f"be >= {wanted / 1e9:.2f} GB for {what}, {how}"
    require(wanted <= bound.memory, "--memory", rule, bound.shown, REMEDY)
    return True


def sorting_bytes(bound: Bound) -> int:
    """Memory for sorting the edges of a streamed graph: the bound minus what else the process holds.

    Raises:
        ValueError: too little is left.
    """
    left = bound.memory - OF_STREAMING
    rule = f"be >= {2 * OF_STREAMING / 1e9:.2f} GB to make a graph"
    require(left >= OF_STREAMING, "--memory", rule, bound.shown, REMEDY)
    return left


def _rows_of(sample: Path | None) -> int:
    """Rows of the trees of a sample's largest piece, a row group; 0 without lists of nodes."""
    import pyarrow.parquet as pq

    if sample is None or not sample.exists():  # its reader reports the error
        return 0
    with pq.ParquetFile(sample) as file:
        groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
        columns = [group.column(i) for group in groups for i in range(group.num_columns)]
        found = [c.num_values for c in columns if c.path_in_schema.split(".")[0] == "nodes"]
        return max(found, default=0)

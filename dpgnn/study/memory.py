"""How much memory the rules of a workflow ask for, from the size of the graph."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

from dpgnn.data.custom import stream
from dpgnn.data.custom.options import FORMATS
from dpgnn.data.datasets import OWN, OWN_FOLDER, entry_of
from dpgnn.data.raw.sources import read_sources, source_of

LEAST = 4000  # megabytes
# texts of numbers grow when they are read, and so do packed arrays
TIMES_FILE = 12
# copies of the features (float32) and of the edges (two int64) that a stage holds at its peak
COPIES, OTHER = 3, 1500


@cache
def to_prepare(dataset: str, own_folder: Path = OWN_FOLDER) -> int:
    """Megabytes for reading raw files; what is streamed takes the least."""
    if entry_of(dataset, own_folder=own_folder) is not OWN:
        return LEAST
    folder = own_folder / dataset
    if stream.is_large(folder):
        return LEAST
    if (folder / "nodes.parquet").exists():
        return max(LEAST, -(-(stream.peak_bytes(folder) or 0) // 10**6))
    names = (*FORMATS, "edges.csv")
    size = sum(_unpacked(folder / name) for name in names if (folder / name).is_file())
    return max(LEAST, OTHER + TIMES_FILE * size // 10**6)


@cache
def to_read(dataset: str, own_folder: Path = OWN_FOLDER) -> int:
    """Megabytes for a stage that holds the whole graph: split, sample, training, attack."""
    if entry_of(dataset, own_folder=own_folder) is OWN:
        return max(to_prepare(dataset, own_folder), _of_tables(own_folder / dataset))
    if dataset not in read_sources():
        return LEAST
    stated = source_of(dataset).counts()
    return _megabytes(*(stated.get(f"num_{name}", 0) for name in ("nodes", "features", "edges")))


def is_small(dataset: str) -> bool:
    """Whether a process may make runs on this data set beside those on others; an own graph stays alone."""
    try:
        own = entry_of(dataset) is OWN
    except ValueError:  # no such data set: who makes its graph says so
        return False
    return not own and to_read(dataset) == LEAST


def _unpacked(path: Path) -> int:
    """Bytes of a file once it is unpacked; of a damaged archive, which its reader refuses, its own size."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError):
        return path.stat().st_size


def _of_tables(folder: Path) -> int:
    import pyarrow.parquet as pq

    if not stream.is_large(folder):
        return LEAST
    nodes, edges = (pq.read_metadata(folder / f"{name}.parquet") for name in ("nodes", "edges"))
    return _megabytes(nodes.num_rows, nodes.num_columns, 2 * edges.num_rows)


def _megabytes(num_nodes: int, num_features: int, num_edges: int) -> int:
    return max(LEAST, OTHER + COPIES * (4 * num_nodes * num_features + 16 * num_edges) // 10**6)

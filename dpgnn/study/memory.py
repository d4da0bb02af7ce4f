"""Memory that the rules of a workflow ask for, from the size of the graph."""

from __future__ import annotations

import zipfile
from functools import cache
from pathlib import Path

from dpgnn.core.storage import DamagedFileError, read_json
from dpgnn.data.custom.options import FORMATS
from dpgnn.data.datasets import OWN, OWN_FOLDER, entry_of, is_streamed
from dpgnn.data.raw.sources import read_sources, source_of
from dpgnn.study.bounds import OTHER, whole_graph

LEAST = 4000  # megabytes
# numbers as text grow when they are read, and so do packed arrays
TIMES_FILE = 12


@cache
def to_prepare(dataset: str, own_folder: Path = OWN_FOLDER) -> int:
    """Megabytes for reading raw files; a streamed data set takes the least."""
    if entry_of(dataset, own_folder=own_folder) is not OWN:
        return LEAST
    return max(LEAST, _of_own(own_folder / dataset))


def read_at_once(dataset: str, own_folder: Path = OWN_FOLDER) -> int:
    """Bytes for reading raw files; 0 for a streamed data set of any size."""
    if entry_of(dataset, own_folder=own_folder) is OWN:
        return 10**6 * _of_own(own_folder / dataset)
    return 0 if is_streamed(dataset) else 10**6 * _of_published(dataset)


def _of_own(folder: Path) -> int:
    """Megabytes for reading a user's own files; 0 if they are streamed."""
    from dpgnn.data.custom import stream  # with scipy.sparse, which other graphs do not need here

    if stream.is_large(folder):
        return 0
    if (folder / "nodes.parquet").exists():
        return -(-(stream.peak_bytes(folder) or 0) // 10**6)
    names = (*FORMATS, "edges.csv")
    size = sum(_unpacked(folder / name) for name in names if (folder / name).is_file())
    return (OTHER + TIMES_FILE * size) // 10**6


@cache
def to_read(
    dataset: str, own_folder: Path = OWN_FOLDER, graphs: Path = Path("results/graphs")
) -> int:
    """Megabytes for a stage that holds the whole graph: split, sample, training, attack.

    From the graph's counts once it is made, before that from published counts or the raw files.
    """
    counted = _counted(graphs / dataset / "graph.json")
    if counted is not None:
        return counted
    if entry_of(dataset, own_folder=own_folder) is OWN:
        return max(to_prepare(dataset, own_folder), _of_tables(own_folder / dataset))
    return max(LEAST, _of_published(dataset))


def is_small(dataset: str) -> bool:
    """Whether runs on this data set may share a process with others; a user's own graph may not."""
    try:
        own = entry_of(dataset) is OWN
    except ValueError:  # no such data set: the stage that makes its graph reports it
        return False
    return not own and to_read(dataset) == LEAST


def _unpacked(path: Path) -> int:
    """Bytes of a file once it is unpacked; of a damaged archive its own size, since its reader refuses it."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError):
        return path.stat().st_size


def _of_published(dataset: str) -> int:
    """Megabytes by the published counts of a data set of the table; 0 if none are stated."""
    if dataset not in read_sources():
        return 0
    stated = source_of(dataset).counts()
    sizes = (stated.get(f"num_{name}", 0) for name in ("nodes", "features", "edges"))
    return whole_graph(*sizes) // 10**6


def _counted(path: Path) -> int | None:
    """Megabytes by the counts of a graph.json; None if it is missing or incomplete."""
    try:
        meta = read_json(path)
        sizes = (int(meta[f"num_{name}"]) for name in ("nodes", "features", "edges"))
        return max(LEAST, whole_graph(*sizes) // 10**6)
    except (
        DamagedFileError,
        KeyError,
        TypeError,
        ValueError,
    ):  # the stage that reads it reports it
        return None


def _of_tables(folder: Path) -> int:
    import pyarrow.parquet as pq

    from dpgnn.data.custom import stream

    if not stream.is_large(folder):
        return LEAST
    nodes, edges = (pq.read_metadata(folder / f"{name}.parquet") for name in ("nodes", "edges"))
    return whole_graph(nodes.num_rows, nodes.num_columns, 2 * edges.num_rows) // 10**6

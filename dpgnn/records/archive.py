"""A study's records in one Parquet file, `runs.parquet`, as they are committed below docs/reference.

A row is a run: its folder's name, the text of record.json and that of resources.json, byte for byte.
Thousands of runs are less than a megabyte; `dpgnn records` packs, shows and unpacks them. Of each public
graph the archive holds graph.json too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.paths import Paths, parse_run
from dpgnn.core.storage import DamagedFileError, read_parquet, write_parquet, write_text
from dpgnn.data.datasets import listed

REFERENCE = Path("docs/reference")  # below the repository: one folder a study
NAME = "runs.parquet"
COLUMNS = ["run", "record", "resources"]
Texts = Mapping[str, tuple[str, str]]


def read_archive(path: str | Path) -> dict[str, tuple[str, str]]:
    """Run -> the texts of its record and of its resources ("" where there were none), sorted.

    Raises:
        DamagedFileError: missing, damaged, or without these columns.
    """
    table = read_parquet(path, COLUMNS, remedy="pack it again, or take it from git")
    runs, records, resources = (table.column(name).to_pylist() for name in COLUMNS)
    return {run: (record, used) for run, record, used in sorted(zip(runs, records, resources))}


def write_archive(path: str | Path, texts: Texts) -> None:
    """Write runs in the order of their names; the same texts give the same bytes."""
    import pyarrow as pa

    names = sorted(texts)
    columns = [names, *([texts[name][part] for name in names] for part in (0, 1))]
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=COLUMNS)
    write_parquet(path, table)


def pack(path: str | Path, folder: str | Path, planned: Iterable[str]) -> tuple[int, int]:
    """Put the runs below `folder` into the archive, beside those it has; runs not planned leave it.

    Args:
        path: the archive; made where there is none.
        folder: results/studies/STUDY/runs; its records replace the archive's.
        planned: names of all runs of the study's tier.

    Returns:
        runs in the archive now, and how many of them came from `folder`.

    Raises:
        ValueError: there is nothing to keep.
    """
    old = read_archive(path) if Path(path).exists() else {}
    kept: dict[str, tuple[str, str]] = {}
    new = 0
    for name in planned:
        record = Path(folder) / name / "record.json"
        if record.exists():
            resources = record.with_name("resources.json")
            used = resources.read_text(encoding="utf-8") if resources.exists() else ""
            kept[name] = (record.read_text(encoding="utf-8"), used)
            new += 1
        elif name in old:
            kept[name] = old[name]
    require(bool(kept), str(folder), "hold a planned record.json", 0, "run the study first")
    write_archive(path, kept)
    return len(kept), new


def keep_graphs(paths: Paths, kept: Paths, datasets: Iterable[str]) -> None:
    """Copy what is said of each public graph at hand: counts, version, licence, citation; never its data.

    A user's own graph is left out: its counts and the hash of its content tell of private data.

    Args:
        paths: of results.
        kept: of the archive's folder.
        datasets: names.
    """
    for name in sorted(datasets):
        meta = paths.graph(name) / "graph.json"
        if meta.exists() and listed(name) is not None:
            write_text(kept.graph(name) / meta.name, meta.read_text(encoding="utf-8"))


def unpack(path: str | Path, folder: str | Path) -> int:
    """Write the runs of an archive as files below `folder`; returns their number.

    Raises:
        ValueError: a name is no run's, for example one that leads out of the folder.
    """
    texts = read_archive(path)
    for name in texts:
        parse_run(name)
        require(".." not in name.split("/"), f"{path}: run", "lead nowhere else", name)
    for name, (record, resources) in texts.items():
        write_text(Path(folder) / name / "record.json", record)
        if resources:
            write_text(Path(folder) / name / "resources.json", resources)
    return len(texts)


def parse_json(text: str, where: str) -> object:
    """A JSON text of an archive.

    Raises:
        DamagedFileError: it is none.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedFileError(f"{where}: {error}; get the file again") from None

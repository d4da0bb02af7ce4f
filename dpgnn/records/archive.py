"""The committed results of a study below docs/reference, each kind in one Parquet file.

- `runs.parquet`: a row for each run, with its folder's name and the exact texts of record.json and
  resources.json. Thousands of runs take less than a megabyte.
- `histories.parquet`, `positions.parquet`: further data of a paper's figures, from public graphs: a row for
  each step at which a run was scored, and one for each training node that t-SNE placed.
- `attacks.parquet`: a row for each file of `dpgnn attack`, with its name and text.

For each public graph there is also a graph.json.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpgnn.core.checks import require
from dpgnn.core.grouping import grouped
from dpgnn.core.paths import Paths, parse_run
from dpgnn.core.storage import DamagedFileError, read_parquet, write_parquet, write_text
from dpgnn.data.datasets import listed

# every method on all graphs, one configuration each, so that scores can be compared
MAIN_STUDY = "headtohead"
REFERENCE = Path("docs/reference")  # below the repository: a folder for each study
RUNS = "runs.parquet"
RUN_COLUMNS = ["run", "record", "resources"]
Texts = Mapping[str, tuple[str, str]]


def read_archive(path: str | Path) -> dict[str, tuple[str, str]]:
    """Run -> the texts of its record and its resources ("" if there are none), sorted.

    Raises:
        DamagedFileError: missing, damaged, or without these columns.
    """
    table = read_parquet(path, RUN_COLUMNS, remedy="take it from git, or delete it and pack again")
    runs, records, resources = (table.column(name).to_pylist() for name in RUN_COLUMNS)
    return {run: (record, used) for run, record, used in sorted(zip(runs, records, resources))}


def write_archive(path: str | Path, texts: Texts) -> None:
    """Write runs in the order of their names; the same texts give the same bytes."""
    import pyarrow as pa

    names = sorted(texts)
    columns = [names, *([texts[name][part] for name in names] for part in (0, 1))]
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=RUN_COLUMNS)
    write_parquet(path, table, small=True)


def pack(path: str | Path, folder: str | Path, planned: Iterable[str]) -> tuple[int, int]:
    """Add the runs below `folder` to the archive; runs that are not planned are dropped from it.

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
    """Copy the metadata of each public graph that is present: counts, licence, citation; never its data.

    A user's own graph is left out, because its counts and content hash depend on private data.

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
        ValueError: a name is not that of a run, for example one that leads out of the folder.
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
        DamagedFileError: it is not JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedFileError(f"{where}: {error}; get the file again") from None


HISTORIES, POSITIONS = "histories.parquet", "positions.parquet"
# names of a score in a history, the one that a figure takes first
SCORE_COLUMNS = ("test_micro_f1", "test_accuracy", "val_micro_f1", "val_accuracy")
HISTORY_COLUMNS = ("step", "epsilon", *SCORE_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The archived data of one run.

    Attributes:
        history: column -> values by step, as in history.parquet; {} for none.
        positions: of training nodes by t-SNE, float32 of shape (nodes, 2), and labels int64; None for none.
    """

    history: Mapping[str, list[Any]] = field(default_factory=dict)
    positions: tuple[np.ndarray, np.ndarray] | None = None


NOTHING = Kept()


def read_kept(folder: str | Path) -> dict[str, Kept]:
    """Run -> its archived data in `folder`.

    Raises:
        DamagedFileError: a file is damaged, or lacks a column.
    """
    histories, positions = _read_histories(Path(folder)), _read_positions(Path(folder))
    return {
        name: Kept(history=histories.get(name, {}), positions=positions.get(name))
        for name in sorted({*histories, *positions})
    }


def write_kept(folder: str | Path, kept: Mapping[str, Kept]) -> None:
    """Write the archived data of each run; a file without rows is removed."""
    import pyarrow as pa

    steps: dict[str, list[Any]] = {name: [] for name in ("run", *HISTORY_COLUMNS)}
    nodes: dict[str, list[Any]] = {name: [] for name in ("run", "label", "x", "y")}
    for name, found in sorted(kept.items()):
        number = len(found.history.get("step", []))
        steps["run"] += [name] * number
        for column in HISTORY_COLUMNS:
            steps[column] += found.history.get(column, [None] * number)
        if found.positions is not None:
            places, labels = found.positions
            nodes["run"] += [name] * len(labels)
            nodes["label"] += labels.tolist()
            nodes["x"] += places[:, 0].tolist()
            nodes["y"] += places[:, 1].tolist()
    numbers = {name: pa.array(steps[name], pa.float64()) for name in HISTORY_COLUMNS[1:]}
    history = {
        "run": pa.array(steps["run"], pa.string()),
        "step": pa.array(steps["step"], pa.int64()),
    }
    placed = {
        "run": pa.array(nodes["run"], pa.string()),
        "label": pa.array(nodes["label"], pa.int64()),
        "x": pa.array(nodes["x"], pa.float32()),
        "y": pa.array(nodes["y"], pa.float32()),
    }
    for file, columns in ((HISTORIES, history | numbers), (POSITIONS, placed)):
        path = Path(folder) / file
        if len(columns["run"]):
            write_parquet(path, pa.table(columns), small=True)
        else:
            path.unlink(missing_ok=True)


def _read_histories(folder: Path) -> dict[str, dict[str, list[Any]]]:
    found: dict[str, dict[str, list[Any]]] = {}
    if not (folder / HISTORIES).exists():
        return found
    table = read_parquet(folder / HISTORIES, ["run", *HISTORY_COLUMNS]).to_pydict()
    for row, name in enumerate(table["run"]):
        history = found.setdefault(name, {column: [] for column in HISTORY_COLUMNS})
        for column in HISTORY_COLUMNS:
            history[column].append(table[column][row])
    return {
        name: {column: values for column, values in history.items() if set(values) != {None}}
        for name, history in found.items()
    }


def _read_positions(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if not (folder / POSITIONS).exists():
        return {}
    table = read_parquet(folder / POSITIONS, ["run", "label", "x", "y"]).to_pydict()
    places = np.array([table["x"], table["y"]], np.float32).T
    labels = np.array(table["label"], np.int64)
    rows = grouped(range(len(labels)), lambda row: str(table["run"][row]))
    return {name: (places[chosen], labels[chosen]) for name, chosen in rows.items()}


Kind = Literal["attacks", "audits"]
TEXT_COLUMNS = ["file", "text"]


def text_archive(folder: str | Path, kind: Kind) -> Path:
    """The archive of a folder's attacks or audits."""
    return Path(folder) / f"{kind}.parquet"


def read_texts(folder: str | Path, kind: Kind) -> dict[str, str]:
    """File name -> text of a folder's attacks or audits, sorted; a file overrides its row in the archive.

    Args:
        folder: has an archive, files of `dpgnn attack` or `dpgnn audit`, both or neither.
        kind: which of the two the folder holds.

    Raises:
        DamagedFileError: the archive or a file is damaged; names it.
    """
    texts: dict[str, str] = {}
    path = text_archive(folder, kind)
    if path.exists():
        table = read_parquet(
            path, TEXT_COLUMNS, remedy="take it from git, or delete it and pack again"
        )
        texts.update(zip(*(table.column(name).to_pylist() for name in TEXT_COLUMNS)))
    for file in Path(folder).glob("*.json"):
        try:
            texts[file.name] = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            remedy = f"delete it and {kind[:-1]} again"
            raise DamagedFileError(f"{file} is not JSON ({error}); {remedy}") from None
    return dict(sorted(texts.items()))


def pack_texts(folder: str | Path, kind: Kind) -> tuple[int, int]:
    """Add the files of a folder to its archive, and remove them.

    The same texts give the same bytes. Files are removed only after the archive was written.

    Returns:
        texts in the archive now, and how many of them were files.

    Raises:
        ValueError: there is nothing to keep.
    """
    import pyarrow as pa

    files = sorted(Path(folder).glob("*.json"))
    texts = read_texts(folder, kind)
    remedy = f"`dpgnn {kind[:-1]}` writes some"
    require(bool(texts), str(folder), f"hold {kind}", "none", remedy)
    columns = [list(texts), list(texts.values())]
    table = pa.table([pa.array(column, pa.string()) for column in columns], names=TEXT_COLUMNS)
    write_parquet(text_archive(folder, kind), table, small=True)
    for file in files:
        file.unlink()
    return len(texts), len(files)


def unpack_texts(folder: str | Path, kind: Kind, out: str | Path) -> int:
    """Write the attacks or audits of a folder's archive as files; returns how many.

    Raises:
        ValueError: a name leads out of the folder.
    """
    texts = read_texts(folder, kind)
    for name in texts:
        require(Path(name).name == name, f"{kind[:-1]}'s file", "be a name without a folder", name)
    for name, text in texts.items():
        write_text(Path(out) / name, text)
    return len(texts)

"""What a paper's figures need beside records, as an archive keeps it: scored histories and class scores.

They lie beside runs.parquet. `histories.parquet` has a row for each step at which a run was scored,
`scores.parquet` one for each test node whose class scores are drawn. Both are of public data sets only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn.core.storage import read_parquet, write_parquet

HISTORIES, SCORES = "histories.parquet", "scores.parquet"
# names of a score in a history, the one that a figure takes first
SCORE_COLUMNS = ("test_micro_f1", "test_accuracy", "val_micro_f1", "val_accuracy")
HISTORY_COLUMNS = ("step", "epsilon", *SCORE_COLUMNS)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What is kept of one run.

    Attributes:
        history: column -> values by step, as in history.parquet; {} for none.
        scores: class scores float64, shape (nodes, classes), and the nodes' labels int64; None for none.
    """

    history: Mapping[str, list[Any]] = field(default_factory=dict)
    scores: tuple[np.ndarray, np.ndarray] | None = None


NOTHING = Kept()


def read_kept(folder: str | Path) -> dict[str, Kept]:
    """Run -> what the archive in `folder` keeps of it.

    Raises:
        DamagedFileError: a file is damaged, or lacks a column.
    """
    histories, scores = _read_histories(Path(folder)), _read_scores(Path(folder))
    return {
        name: Kept(history=histories.get(name, {}), scores=scores.get(name))
        for name in sorted({*histories, *scores})
    }


def write_kept(folder: str | Path, kept: Mapping[str, Kept]) -> None:
    """Write what is kept of each run; a file without a row is left out, and removed where it was."""
    import pyarrow as pa

    steps: dict[str, list[Any]] = {name: [] for name in ("run", *HISTORY_COLUMNS)}
    nodes: dict[str, list[Any]] = {name: [] for name in ("run", "label", "scores")}
    for name, found in sorted(kept.items()):
        number = len(found.history.get("step", []))
        steps["run"] += [name] * number
        for column in HISTORY_COLUMNS:
            steps[column] += found.history.get(column, [None] * number)
        if found.scores is not None:
            values, labels = found.scores
            nodes["run"] += [name] * len(labels)
            nodes["label"] += labels.tolist()
            nodes["scores"] += values.astype(np.float32).tolist()
    numbers = {name: pa.array(steps[name], pa.float64()) for name in HISTORY_COLUMNS[1:]}
    history = {
        "run": pa.array(steps["run"], pa.string()),
        "step": pa.array(steps["step"], pa.int64()),
    }
    scores = {
        "run": pa.array(nodes["run"], pa.string()),
        "label": pa.array(nodes["label"], pa.int64()),
        "scores": pa.array(nodes["scores"], pa.list_(pa.float32())),
    }
    for file, columns in ((HISTORIES, history | numbers), (SCORES, scores)):
        path = Path(folder) / file
        if len(columns["run"]):
            write_parquet(path, pa.table(columns))
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


def _read_scores(folder: Path) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    if not (folder / SCORES).exists():
        return {}
    table = read_parquet(folder / SCORES, ["run", "label", "scores"]).to_pydict()
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(table["run"]):
        rows.setdefault(name, []).append(row)
    return {
        name: (
            np.array([table["scores"][row] for row in chosen], np.float64),
            np.array([table["label"][row] for row in chosen], np.int64),
        )
        for name, chosen in rows.items()
    }

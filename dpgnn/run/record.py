"""The files of a run: training curve, released state, resources, and last the record."""

from __future__ import annotations

import dataclasses
import hashlib
import math
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checksums import OF_FOLDER, write_checksums
from dpgnn.core.storage import (
    atomic_write,
    column_of,
    json_text,
    write_json,
    write_parquet,
    write_text,
)
from dpgnn.data.files.content import row_hashes
from dpgnn.methods.base import Fitted, Performance
from dpgnn.records.schema import Record, versions
from dpgnn.run.method_checks import RELEASED_COLUMNS
from dpgnn.run.specification import Specification, recorded_inputs

if TYPE_CHECKING:
    import pyarrow as pa
    from torch import Tensor

    from dpgnn.data.graph import Graph

# rows that answers to their own nodes read, in releases that have them; never published
OWN_ROWS = "own_rows.safetensors"
# among them: a hash of each node's features, by which a question finds its row
ROWS_FOR = "rows_for"
# the record is last, so if it exists, the others do too
RUN_FILES = ("history.parquet", "model.safetensors", "resources.json", OF_FOLDER, "record.json")


@dataclass(frozen=True, kw_only=True)
class Clock:
    """When a run began, in seconds: wall clock (since the epoch) and monotonic clock."""

    started: float = field(default_factory=time.time)
    steady: float = field(default_factory=time.monotonic)

    def seconds(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.steady

    def resources(self, performance: Performance) -> dict[str, Any]:
        """The content of resources.json: time, memory, device, threads."""
        return {
            "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started)),
            "seconds": self.seconds(),
            "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            "device": performance.device,
            "num_threads": performance.num_threads,
        }


def first_record(run: Specification) -> Record:
    """The record of a run before its plan."""
    inputs = run.inputs
    return Record(
        key=inputs.key,
        entry={**dataclasses.asdict(inputs.entry), "title": run.method.title},
        source=run.method.source,
        config_sha256=run.config_sha256,
        code_sha256=run.code_sha256,
        inputs=recorded_inputs(inputs),
        budget=budget_of(run, None),
        randomness=run.streams.recorded(),
        num_threads=inputs.performance.num_threads,
        versions=versions(),
    )


def budget_of(run: Specification, spent: float | None) -> dict[str, Any]:
    """The budget as in a record."""
    return {"target_epsilon": run.inputs.epsilon, "delta": run.delta, "spent_epsilon": spent}


def write_run(
    out: Path, record: Record, fitted: Fitted | None, resources: Mapping[str, Any]
) -> None:
    """Write the files of a run with their checksums, and in a release the rows for the nodes' own answers.

    Args:
        out: the run's folder.
        record: content of record.json.
        fitted: result of the fit; None without one.
        resources: content of resources.json.
    """
    write_parquet(out / "history.parquet", _history(record, fitted))
    _write_state(out / "model.safetensors", record, fitted)
    _write_own_rows(out / OWN_ROWS, record, fitted)
    write_json(out / "resources.json", resources)
    text = json_text(record)
    files = [out / name for name in RUN_FILES[:3]]
    write_checksums(
        out / OF_FOLDER, files, {"record.json": hashlib.sha256(text.encode()).hexdigest()}
    )
    write_text(out / "record.json", text)


def identified(fitted: Fitted, graph: Graph) -> Fitted:
    """The fit with a hash of each node's features beside the rows that it keeps, if it keeps any.

    The hashes are as private as the features, and lie in the same file that only the owner may read.

    Args:
        fitted: of the run.
        graph: of the fit.
    """
    if not fitted.kept:
        return fitted
    return dataclasses.replace(fitted, kept={**fitted.kept, ROWS_FOR: rows_for(graph)})


def rows_for(graph: Graph) -> Tensor:
    """A hash of each node's features: uint8, shape (num_nodes, 32); as private as they are.

    Args:
        graph: of a fit or of a question.
    """
    import torch

    return torch.from_numpy(row_hashes(graph.x))


def _history(record: Record, fitted: Fitted | None) -> pa.Table:
    """The training curve: a column for each name, null if a row has no value."""
    import pyarrow as pa

    rows = [] if fitted is None else [_plain_row(row) for row in fitted.history]
    if record.randomness.get("kind") == "release":
        rows = [{name: row[name] for name in RELEASED_COLUMNS if name in row} for row in rows]
    columns = {}
    for name in sorted({name for row in rows for name in row} | {"step"}):
        values = [row.get(name) for row in rows]
        filled = np.array(
            [0 if value is None else value for value in values],
            np.int64 if name == "step" else np.float64,
        )
        columns[name] = column_of(filled, np.array([value is None for value in values], bool))
    return pa.table(columns)


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {}
    for name, value in row.items():
        number = float(value) if value is not None else None
        plain[name] = None if number is not None and math.isnan(number) else number
    plain["step"] = int(row["step"])
    return plain


def _write_state(path: Path, record: Record, fitted: Fitted | None) -> None:
    """The released tensors, with the name of their method; an empty file without a fit."""
    from safetensors.torch import save

    state = {} if fitted is None else {k: v.contiguous().cpu() for k, v in fitted.state.items()}
    # with an empty mapping in place of None, safetensors writes a file that it cannot read
    note = None if fitted is None else {"released": str(record.entry["method"])}
    with atomic_write(path) as file:
        file.write(save(state, metadata=note))


def _write_own_rows(path: Path, record: Record, fitted: Fitted | None) -> None:
    """Rows for the nodes' own answers, in a release only; readable by the owner only."""
    from safetensors.torch import save

    path.unlink(missing_ok=True)
    if record.randomness.get("kind") != "release" or fitted is None or not fitted.kept:
        return
    with atomic_write(path, owner_only=True) as file:
        file.write(save({name: rows.contiguous().cpu() for name, rows in fitted.kept.items()}))

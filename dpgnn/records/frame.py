"""Run records -> one polars frame, one row per run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import require
from dpgnn.core.checksums import check
from dpgnn.core.paths import parse_run, run_folder
from dpgnn.core.storage import read_json, read_parquet
from dpgnn.records import archive
from dpgnn.records.archive import NOTHING, Kept, read_kept
from dpgnn.records.schema import Record, read_record, record_from

if TYPE_CHECKING:
    import polars as pl

KEY = ("study", "dataset", "setting", "entry", "epsilon", "repeat")


@dataclass(frozen=True, kw_only=True)
class Run:
    """A record with its other files.

    Attributes:
        record: the run's record.
        resources: seconds, memory, device, threads; {} when the file is absent.
        folder: of the files; None for records made in memory or read from an archive.
        kept: an archive's further data of the run.
    """

    record: Record
    resources: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None
    kept: Kept = NOTHING

    @property
    def name(self) -> str:
        """DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT."""
        return run_folder(self.record.key)

    @property
    def is_release(self) -> bool:
        """Whether its noise was drawn in secret, from private data."""
        return self.record.randomness.get("kind") == "release"

    @property
    def is_unscored_release(self) -> bool:
        """Whether the run is a release, which has no scores."""
        record = self.record
        return self.is_release and record.status == "ok" and not record.metrics

    @cached_property
    def history(self) -> Mapping[str, list[Any]]:
        """Column -> values by step, from history.parquet or an archive; {} for none."""
        path = None if self.folder is None else self.folder / "history.parquet"
        if path is None or not (check(path) or path.exists()):
            return self.kept.history
        return read_parquet(path).to_pydict()

    def validation(self, metric: str) -> float | None:
        """Score on the validation nodes; None if not recorded."""
        return as_float(self.record.metrics.get("val", {}).get(metric))


def load_runs(folder: str | Path, planned: Sequence[str] | None = None) -> list[Run]:
    """Records with resources below a study's `runs` folder, or in runs.parquet instead.

    Args:
        folder: results/studies/STUDY/runs.
        planned: only these run folders, in this order; None takes all there are, sorted.

    Raises:
        DamagedFileError: a record is damaged or of another version.
        ValueError: a record is in another run's folder.
    """
    folder = Path(folder)
    packed = folder.with_name(archive.RUNS)
    if packed.exists() and not folder.exists():
        return _packed_runs(packed, planned)
    if planned is None:
        names = [
            str(path.parent.relative_to(folder)) for path in folder.glob("*/*/*/*/record.json")
        ]
        planned = sorted(names)
    runs = []
    for name in planned:
        path = folder / name / "record.json"
        if not path.exists():
            continue
        resources = path.with_name("resources.json")
        for file in (path, resources):
            check(file)
        record = _checked(read_record(path), name, path)
        runs.append(
            Run(
                record=record,
                resources=read_json(resources) if resources.exists() else {},
                folder=path.parent,
            )
        )
    return runs


def _packed_runs(path: Path, planned: Sequence[str] | None) -> list[Run]:
    texts, kept = archive.read_archive(path), read_kept(path.parent)
    runs = []
    for name in texts if planned is None else planned:
        if name in texts:
            where = f"{path}: {name}"
            record, resources = texts[name]
            found = record_from(archive.parse_json(record, where), where)
            used: Any = archive.parse_json(resources, where) if resources else {}
            checked = _checked(found, name, where)
            runs.append(Run(record=checked, resources=used, kept=kept.get(name, NOTHING)))
    return runs


def _checked(record: Record, name: str, where: str | Path) -> Record:
    stated = {axis: record.key.get(axis) for axis in KEY[1:]}
    require(stated == parse_run(name), f"{where}: key", f"be that of its folder {name}", stated)
    return record


def to_frame(runs: Sequence[Run]) -> pl.DataFrame:
    """One row per run.

    Returns:
        columns: the key (study, dataset, setting, entry, epsilon as text, repeat); method, mode,
        privacy_unit, relation; status, reason; target_epsilon, spent_epsilon (inf where unbounded, null
        without privacy), delta; claim_status, accountant, degree_bound of the first claim; metric (the
        name of the score: accuracy, or micro_f1 for multi-label), score, accuracy, micro_f1, macro_f1 on the
        test nodes and val_score, all fractions and null unless the status is ok; num_test; seconds,
        max_rss_mb, device, num_threads, started.
    """
    import polars as pl

    schema = _schema()
    rows = [[values.get(name) for name in schema] for values in map(_values, runs)]
    return pl.DataFrame(rows, schema=schema, orient="row")


def primary_metric(record: Record) -> str:
    """The name of the score tables rank by: micro_f1 for multi-label tasks, accuracy otherwise."""
    return "micro_f1" if record.facts.get("task") == "multilabel" else "accuracy"


def as_float(value: Any) -> float | None:
    """A number of a record, which writes infinity as "inf"; None stays None."""
    return None if value is None else float(value)


def _schema() -> dict[str, Any]:
    import polars as pl

    texts = (*KEY[:-1], "method", "mode", "privacy_unit", "relation", "status", "reason")
    schema: dict[str, Any] = dict.fromkeys(texts, pl.String)
    schema |= {"claim_status": pl.String, "accountant": pl.String, "metric": pl.String}
    numbers = ("target_epsilon", "spent_epsilon", "delta", "score", "accuracy", "micro_f1")
    schema |= dict.fromkeys((*numbers, "macro_f1", "val_score"), pl.Float64)
    schema |= {"seconds": pl.Float64, "max_rss_mb": pl.Float64}
    schema |= {"repeat": pl.Int64, "degree_bound": pl.Int64, "num_test": pl.Int64}
    schema |= {"num_threads": pl.Int64, "device": pl.String, "started": pl.String}
    return schema


def _values(run: Run) -> dict[str, Any]:
    """Column -> value of a run; a column that is missing is null."""
    record = run.record
    claim = record.claims[0] if record.claims else {}
    values: dict[str, Any] = {name: record.key.get(name) for name in KEY}
    for name in ("method", "mode", "privacy_unit", "relation"):
        values[name] = record.entry.get(name)
    values |= {"status": record.status, "reason": record.reason}
    values["target_epsilon"] = as_float(record.budget.get("target_epsilon"))
    values["spent_epsilon"] = as_float(record.budget.get("spent_epsilon"))
    values["delta"] = as_float(record.budget.get("delta"))
    values["claim_status"] = claim.get("status")
    values["accountant"] = claim.get("accountant")
    values["degree_bound"] = claim.get("degree_bound")
    values |= _scores(record)
    for name in ("seconds", "max_rss_mb"):
        values[name] = as_float(run.resources.get(name))
    values["device"] = run.resources.get("device")
    values["num_threads"] = run.resources.get("num_threads", record.num_threads)
    values["started"] = run.resources.get("started")
    return values


def _scores(record: Record) -> dict[str, Any]:
    """The metrics of a successful run; a failed run has none."""
    name = primary_metric(record)
    if record.status != "ok" or not record.metrics.get("test"):
        return {"metric": name}
    test, val = record.metrics["test"], record.metrics.get("val", {})
    scores: dict[str, Any] = {"metric": name, "num_test": test["num_nodes"]}
    for metric in ("accuracy", "micro_f1", "macro_f1"):
        scores[metric] = as_float(test.get(metric))
    scores["score"], scores["val_score"] = scores[name], as_float(val.get(name))
    require(
        scores["score"] is not None and math.isfinite(scores["score"]),
        f"{name} of {record.key}",
        "be a finite number in a run that is ok",
        scores["score"],
    )
    return scores

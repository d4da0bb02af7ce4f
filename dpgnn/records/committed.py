"""The committed records of all studies, cell by cell: scores, answers and costs."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from dpgnn.accountants.claims import Answers, Claim
from dpgnn.core.code_hash import PACKAGE
from dpgnn.core.grouping import grouped
from dpgnn.core.paths import parse_run
from dpgnn.core.storage import read_json
from dpgnn.data.datasets import is_stand_in
from dpgnn.records.archive import MAIN_STUDY, REFERENCE, RUNS, read_archive
from dpgnn.records.cells import claims_of
from dpgnn.records.schema import answers_of, record_from

ROOT = PACKAGE.parent / REFERENCE


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The committed runs of one data set, setting, entry and epsilon; of a real graph.

    Attributes:
        study, dataset, setting, entry, epsilon: the key without the repeat.
        stated: the entry as recorded: method, title, mode, privacy_unit, relation, options.
        claims: of the first repeat; () without privacy.
        answers: who may see an answer.
        facts: public facts that the plan was made from.
        scores: test accuracy (micro F1 for multi-label data sets) by repeat, fractions.
        seconds: of each run.
    """

    study: str
    dataset: str
    setting: str
    entry: str
    epsilon: str
    stated: Mapping[str, Any]
    claims: tuple[Claim, ...]
    answers: Answers
    facts: Mapping[str, Any]
    scores: tuple[float, ...]
    seconds: tuple[float, ...]


def committed(root: Path = ROOT, study: str = "*", *, swept: bool = True) -> list[Measured]:
    """All scored cells on real graphs; empty without docs/reference, as in an installed wheel.

    A process reads each archive once, and again when its file has changed.

    Args:
        root: folder of archives.
        study: only this one.
        swept: False leaves out the points of sweeps, which are most of an archive and take most of the time.

    Raises:
        DamagedFileError: an archive is damaged.
    """
    archives = sorted(root.glob(f"{study}/{RUNS}"))
    return [cell for path in archives for cell in _cells(path, path.stat().st_mtime_ns, swept)]


@dataclass(frozen=True, kw_only=True)
class Copied:
    """Options of an entry that did best on validation nodes of all public graphs.

    Attributes:
        options: dotted name -> value, of those that differ from the entry's.
        gain, low, high: of a choice on all other graphs over the entry's options, a fraction; its mean over
            graphs and 95 % interval.
        graphs: how many graphs.
    """

    options: Mapping[str, Any]
    gain: float
    low: float
    high: float
    graphs: int


def copied_options(
    root: Path = ROOT, study: str = MAIN_STUDY
) -> dict[tuple[str, str, str], Copied]:
    """(setting, epsilon, entry) -> the options to copy; empty without docs/reference."""
    path = root / study / "tables" / "options.csv"
    if not path.exists():
        return {}
    rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    return {
        (row["setting"], row["epsilon"], row["entry"]): Copied(
            options=json.loads(row["changed"]), gain=float(row["gain_mean"]),
            low=float(row["gain_low"]), high=float(row["gain_high"]), graphs=int(row["graphs"]),
        )
        for row in rows
    }  # fmt: skip


def graph_facts(dataset: str, root: Path = ROOT) -> dict[str, Any]:
    """Counts of a public graph whose records are committed; num_edges counts an undirected edge twice."""
    path = next(root.glob(f"*/graphs/{dataset}/graph.json"), None)
    return {} if path is None else dict(read_json(path))


@cache
def _cells(path: Path, _changed: int, swept: bool) -> tuple[Measured, ...]:
    return tuple(_read_cells(path, swept))


def _read_cells(path: Path, swept: bool) -> Iterator[Measured]:
    texts = {run: kept for run, kept in read_archive(path).items() if swept or "~" not in run}
    for cell, names in grouped(texts, lambda run: run.rpartition("/")[0]).items():
        key = parse_run(f"{cell}/0")
        repeats = [texts[name] for name in names]
        runs = [(json.loads(record), json.loads(used or "{}")) for record, used in repeats]
        scored = [(record, used) for record, used in runs if record["metrics"].get("test")]
        if scored and not is_stand_in(str(key["dataset"])):
            yield _measured(path.parent.name, key, scored)


def _measured(study: str, key: Mapping[str, Any], runs: list[tuple[Any, Any]]) -> Measured:
    first = record_from(runs[0][0], study)
    metric = "micro_f1" if first.facts.get("task") == "multilabel" else "accuracy"
    return Measured(
        study=study, dataset=key["dataset"], setting=key["setting"], entry=key["entry"],
        epsilon=key["epsilon"], stated=first.entry, claims=claims_of(first),
        answers=answers_of(first), facts=first.facts,
        scores=tuple(float(record["metrics"]["test"][metric]) for record, _ in runs),
        seconds=tuple(float(used["seconds"]) for _, used in runs if "seconds" in used),
    )  # fmt: skip

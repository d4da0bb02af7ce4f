"""Synthetic records: a small study whose numbers can be checked by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from helpers import once

from dpgnn.accountants.claims import Claim, in_words
from dpgnn.core.storage import write_json, write_parquet
from dpgnn.data.splits import SplitConfig
from dpgnn.records.frame import Run
from dpgnn.records.info import Comparison, EntryInfo, StudyInfo
from dpgnn.records.schema import Record

# entry -> title, method, mode, unit, relation, degree bound, mean score at epsilon 1 and 8
ENTRIES: dict[str, tuple[str, str, str, str | None, str | None, int | None, float, float]] = {
    "mlp": ("MLP", "mlp", "nonprivate", None, None, None, 0.80, 0.80),
    "gcn": ("GCN", "gcn", "nonprivate", None, None, None, 0.90, 0.90),
    "dp_mlp": ("DP-MLP", "dp_mlp", "sound", "node", "add-remove", None, 0.60, 0.70),
    "dp_gcn": ("DP-GCN", "dp_gnn", "sound", "node-record", "add-remove", None, 0.50, 0.72),
    "dp_gcn-paper": ("", "dp_gnn", "published", "node-record", "add-remove", None, 0.65, 0.78),
    "gap": ("GAP", "gap", "sound", "edge", "add-remove", None, 0.70, 0.82),
}
DATASETS = {"alpha": "random", "beta": "public"}
EPSILONS = ("1", "8")
REPEATS = 3
NOISE = (-0.01, 0.0, 0.01)
CONFIG = "name: toy\nentries: {}\n"


def claims_for(entry: str, epsilon: float, delta: float = 1e-4) -> tuple[Claim, ...]:
    """The claims of a synthetic run: a published one adds what can be proved, here nothing finite."""
    _, _, mode, unit, relation, bound, _, _ = ENTRIES[entry]
    if unit is None or relation is None:
        return ()
    claim = Claim(
        privacy_unit=unit,  # type: ignore[arg-type]
        relation=relation,  # type: ignore[arg-type]
        degree_bound=bound,
        epsilon=epsilon,
        delta=delta,
        accountant="pld" if mode == "sound" else "dpgnn-theorem-1",
        status="proved" if mode == "sound" else "as-published",
        caveats=() if mode == "sound" else ("sampler-ripple",),
        assumed_public=("number of training nodes",),
    )
    if mode == "sound":
        return (claim,)
    return (claim, replace(claim, epsilon=math.inf, status="proved", accountant="pld", caveats=()))


def make_record(
    dataset: str,
    entry: str,
    epsilon: str,
    repeat: int,
    score: float,
    *,
    per_class: Sequence[float | None] = (0.2, 0.5, 0.9),
    num_test: int = 200,
    **changes: Any,
) -> Record:
    """One run's record with a given test score."""
    _, method, mode, unit, relation, _, _, _ = ENTRIES[entry]
    test = {
        "accuracy": score,
        "micro_f1": score,
        "macro_f1": score - 0.05,
        "per_class_accuracy": list(per_class),
        "per_class_count": [num_test // 10, 3 * num_test // 10, 6 * num_test // 10],
        "num_nodes": num_test,
    }
    claims = claims_for(entry, float(epsilon)) if mode != "nonprivate" else ()
    record = Record(
        key={
            "study": "toy", "dataset": dataset, "setting": DATASETS[dataset], "entry": entry,
            "epsilon": epsilon, "repeat": repeat,
        },
        entry={
            "name": entry, "method": method, "title": method.upper(), "mode": mode,
            "privacy_unit": unit, "relation": relation,
            "options": {"lr": 0.1, "optimizer": {"name": "adam" if mode == "published" else "sgd"}},
        },
        source="a synthetic source",
        config_sha256="c" * 64,
        code_sha256="d" * 64,
        inputs={"graph_sha256": "g", "split_sha256": f"{dataset}-{repeat}", "prepared_sha256": None},
        facts={
            "num_nodes": 1000, "num_train": 600, "num_features": 4, "num_classes": 3,
            "task": "multiclass",
        },
        claims=tuple(claim.to_dict() | {"words": in_words(claim)} for claim in claims),
        budget={
            "target_epsilon": epsilon if epsilon == "inf" else float(epsilon),
            "delta": 1e-4,
            "spent_epsilon": float(epsilon) if claims else None,
        },
        randomness={"kind": "study", "root_seed": 7},
        metrics={"test": test, "val": dict(test)},
        prediction={"answers": "none" if mode == "nonprivate" else "own-record", "note": ""},
        versions={"dpgnn": "0.0", "python": "3.11", "torch": "2.13.0"},
    )  # fmt: skip
    return replace(record, **changes)


def make_runs() -> list[Run]:
    """All runs of the synthetic study: three repeats, scores mean - 0.01, mean, mean + 0.01."""
    runs = []
    for dataset in DATASETS:
        drop = 0.0 if dataset == "alpha" else 0.1
        for entry, values in ENTRIES.items():
            for epsilon in ("inf",) if values[2] == "nonprivate" else EPSILONS:
                mean = values[6] if epsilon == "1" else values[7]
                for repeat in range(REPEATS):
                    record = make_record(
                        dataset, entry, epsilon, repeat, mean - drop + NOISE[repeat]
                    )
                    resources = {
                        "seconds": 2.0 + repeat, "max_rss_mb": 300.0, "device": "cpu", "num_threads": 1,
                        "started": f"2026-01-02T03:0{repeat}:00Z",
                    }  # fmt: skip
                    runs.append(Run(record=record, resources=resources))
    return runs


def make_info(runs: Sequence[Run], **changes: Any) -> StudyInfo:
    """The study the runs belong to; all of them are planned."""
    info = StudyInfo(
        name="toy",
        title="A synthetic study",
        tier="S",
        config_path="toy.yaml",
        config_text=CONFIG,
        root_seed=7,
        baseline="mlp",
        settings={
            "random": asdict(SplitConfig()),
            "public": asdict(SplitConfig(kind="public", inductive=True)),
        },
        entries=tuple(
            EntryInfo(name=name, title=values[0], method=values[1], mode=values[2])
            for name, values in ENTRIES.items()
        ),
        planned=tuple(run.name for run in runs),
    )
    return replace(info, **changes)


def few(runs: Sequence[Run]) -> list[Run]:
    """The runs of mlp and gap on alpha: enough for a page, quick to draw."""
    return [
        run
        for run in runs
        if run.record.key["dataset"] == "alpha" and run.record.key["entry"] in ("mlp", "gap")
    ]


def write_runs(folder: Path, runs: Sequence[Run]) -> None:
    """Write records, resources and histories as the train stage lays them out."""
    for run in runs:
        out = folder / "runs" / run.name
        write_json(out / "record.json", run.record)
        write_json(out / "resources.json", run.resources)
        write_parquet(out / "history.parquet", history(run))


def history(run: Run) -> pa.Table:
    """A training history that ends at the run's score; a run that failed has an empty one."""
    steps = np.arange(10, 110, 10) if run.record.metrics else np.arange(0)
    end = run.record.metrics["test"]["accuracy"] if run.record.metrics else 0.0
    columns = {
        "step": pa.array(steps, pa.int64()),
        "train_loss": pa.array(2.0 / (1 + steps / 20), pa.float64()),
        "val_accuracy": pa.array(end * (1 - np.exp(-steps / 30)), pa.float64()),
    }
    return pa.table(columns)


@pytest.fixture
def runs() -> list[Run]:
    """The synthetic study's runs."""
    return make_runs()


@pytest.fixture
def info(runs: list[Run]) -> StudyInfo:
    """The synthetic study."""
    return make_info(runs)


@pytest.fixture
def few_runs(runs: list[Run]) -> list[Run]:
    """A small part of the synthetic study."""
    return few(runs)


@pytest.fixture
def with_score() -> Callable[[Run, float], Run]:
    """A function that gives a run another test score."""

    def change(run: Run, score: float) -> Run:
        metrics: Mapping[str, Any] = {
            part: {**values, "accuracy": score, "micro_f1": score}
            for part, values in run.record.metrics.items()
        }
        return replace(run, record=replace(run.record, metrics=metrics))

    return change


@pytest.fixture(scope="session")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of the synthetic study with its report, and the page that joins it with a small one."""
    return once(tmp_path_factory, "written", _write_results)


def _write_results(results: Path) -> None:
    from dpgnn.report.pages.report import write_joined, write_study

    runs = make_runs()
    for name in ("toy", "toy2"):
        chosen = runs if name == "toy" else few(runs)
        renamed = [
            replace(run, record=replace(run.record, key={**run.record.key, "study": name}))
            for run in chosen
        ]
        folder = results / "studies" / name
        write_runs(folder, renamed)
        write_study(make_info(renamed, name=name), results, folder)
    write_joined(results, results / "report.html")


@pytest.fixture(scope="session")
def documented(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The synthetic study, asking two questions, with the folder docs written from it."""
    from dpgnn.report.pages.docs_page import write_docs
    from dpgnn.report.pages.study_results import gather

    docs = tmp_path_factory.mktemp("docs")
    runs = make_runs()
    asked = (
        Comparison(question="Does DP-GCN beat DP-MLP?", entries=("dp_gcn",), against=("dp_mlp",)),
        Comparison(question="What does soundness cost?", steps=("dp_gcn-paper", "dp_gcn")),
    )
    info = make_info(runs, comparisons=asked)
    write_runs(docs / "reference" / "toy", runs)
    found = gather(info, docs / "no-results", docs / "reference" / "toy")
    write_docs([found], [info], docs)
    return found, docs

"""The committed records: they are read by this version, give the committed tables, and can be made again."""

from __future__ import annotations

import functools
import itertools
import json
import random
import re
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from helpers import run_tool
from studies import known

from dpgnn.records.archive import read_archive, read_texts
from dpgnn.records.schema import read_record
from dpgnn.training.evaluation import mean_interval

CELL = ["dataset", "setting", "entry", "epsilon"]


def test_the_summary_table_is_what_the_records_say(repository: Path) -> None:
    folder = repository / "docs" / "reference" / "quick"
    scores: dict[tuple[str, ...], list[float]] = {}
    for path in sorted((folder / "runs").rglob("record.json")):
        record = read_record(path)
        cell = tuple(str(record.key[name]) for name in CELL)
        scores.setdefault(cell, []).append(record.metrics["test"]["accuracy"])
    table = pl.read_csv(
        folder / "tables" / "summary.csv.gz", schema_overrides={"epsilon": pl.String}
    )
    assert table.height == len(scores) == 24
    for row in table.iter_rows(named=True):
        cell = tuple(row[name] for name in CELL)
        interval = mean_interval(scores[cell])
        for name in ("mean", "std", "low", "high"):
            assert row[name] == pytest.approx(getattr(interval, name), abs=1e-8)
        assert row["n"] == interval.n == 3


def test_the_records_cover_the_quick_study(repository: Path) -> None:
    runs = repository / "docs" / "reference" / "quick" / "runs"
    study = known(repository / "config.yaml")
    found = {str(path.parent.relative_to(runs)) for path in runs.rglob("record.json")}
    # an entry or a data set that someone adds has no record yet
    places = {tuple(name.split("/")[:2]) for name in found}
    assert len(places) == 12
    assert found == {key.folder for key in study.keys if tuple(key.folder.split("/")[:2]) in places}


def test_the_readme_says_how_many_runs_each_study_has(repository: Path) -> None:
    folder = repository / "docs" / "reference"
    text = (folder / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `(\w+)` \| M \(([\d,]+) runs\)", text, re.MULTILINE))
    kept = {path.parent.name: len(read_archive(path)) for path in folder.glob("*/runs.parquet")}
    assert {name: int(number.replace(",", "")) for name, number in stated.items()} == kept


def _rounded(value: float) -> str:
    return f"{100 * value:.1f}"


def _studies(repository: Path) -> list[Path]:
    return sorted(path.parent for path in (repository / "docs" / "reference").glob("*/runs*"))


@functools.cache
def _records(folder: Path) -> list[dict[str, Any]]:
    """Key, status and metrics of the records of one study, from files or from its archive."""
    archive = folder / "runs.parquet"
    if archive.exists():
        texts = [record for record, _ in read_archive(archive).values()]
    else:
        texts = [path.read_text() for path in sorted((folder / "runs").rglob("record.json"))]
    found = []
    for text in texts:
        record = json.loads(text)
        found.append({name: record[name] for name in ("key", "status", "metrics")})
    return found


def _place(record: dict[str, Any]) -> tuple[str, ...]:
    return tuple(record["key"][name] for name in CELL)


def test_a_sample_of_cells_is_rebuilt_from_the_records(repository: Path) -> None:
    """Mean and deviation by hand from record.json, against the tables that the pages are made with."""
    rng = random.Random(14)
    for folder in _studies(repository):
        schema = {"epsilon": pl.String, "setting": pl.String}
        table = pl.read_csv(folder / "tables" / "summary.csv.gz", schema_overrides=schema)
        rows = list(table.iter_rows(named=True))
        assert rows, folder
        stored = _records(folder)
        for row in rng.sample(rows, min(12, len(rows))):
            cell = tuple(row[name] for name in CELL)
            records = [record for record in stored if _place(record) == cell]
            scores = [r["metrics"]["test"][row["metric"]] for r in records if r["status"] == "ok"]
            assert row["n"] == len(scores), cell
            assert row["mean"] == pytest.approx(statistics.fmean(scores), abs=1e-8), cell
            if len(scores) > 1:
                assert row["std"] == pytest.approx(statistics.stdev(scores), abs=1e-8), cell


def test_a_sample_of_differences_is_rebuilt_from_the_records(repository: Path) -> None:
    rng = random.Random(41)
    for folder in _studies(repository):
        path = folder / "tables" / "comparisons.csv"
        if not path.exists():  # a study that asks nothing
            continue
        schema = {"epsilon": pl.String, "setting": pl.String}
        rows = list(pl.read_csv(path, schema_overrides=schema).iter_rows(named=True))
        stored = _records(folder)
        for row in rng.sample(rows, min(8, len(rows))):
            scores = []
            for name in (row["entry"], row["reference"]):
                found = {}
                here = (row["dataset"], row["setting"], name)
                for record in stored:
                    *place, epsilon = _place(record)
                    fits = tuple(place) == here and epsilon in (row["epsilon"], "inf")
                    if fits and record["status"] == "ok":
                        found[record["key"]["repeat"]] = record["metrics"]["test"]
                scores.append(found)
            shared = sorted(set(scores[0]) & set(scores[1]))
            metric = "micro_f1" if "ppi" in row["dataset"] else "accuracy"
            mean = statistics.fmean(scores[0][i][metric] - scores[1][i][metric] for i in shared)
            assert row["n"] == len(shared)
            assert row["mean"] == pytest.approx(mean, abs=1e-8)


def test_the_pages_are_those_of_the_records(repository: Path, tmp_path: Path) -> None:
    """The page of the smallest study is made again, byte for byte."""
    from dpgnn.cli.report import describe
    from dpgnn.report.pages.docs_page import study_page
    from dpgnn.report.pages.study_results import gather

    path = Path("config.yaml")
    info = describe(known(repository / path), path, repository)
    found = gather(info, tmp_path, repository / "docs" / "reference" / "quick")
    kept = (repository / "docs" / "results" / "quick.md").read_text(encoding="utf-8")
    assert study_page(found) == kept


PLACES = {
    "": "cora",
    "Cora": "cora",
    "Photo": "photo",
    "Computers": "computers",
    "Rutgers89": "facebook-Rutgers89",
}


def _written(value: float, std: float | None, text: str) -> str:
    """A mean in percent as a page writes it, with its deviation where `text` has one."""
    return _rounded(value) + (f" ± {_rounded(std)}" if "±" in text and std is not None else "")


def test_tables_of_accuracies_at_equal_epsilon_are_those_of_the_records(repository: Path) -> None:
    summary = pl.read_csv(
        repository / "docs/reference/caribou/tables/summary.csv.gz",
        schema_overrides={"epsilon": pl.String},
    )
    cells = {
        (row["dataset"], row["label"], row["epsilon"]): (row["mean"], row["std"])
        for row in summary.filter(pl.col("mode") == "sound").iter_rows(named=True)
    }
    page = (repository / "docs/methods/gap.md").read_text(encoding="utf-8")
    place, epsilons, seen = "", list[str](), 0
    for line in page.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")]
        if parts[0].endswith("sound") and len(parts) == 7:
            place = PLACES[parts[0].removesuffix("sound").strip(": ")]
            epsilons = [part.removeprefix("epsilon ") for part in parts[1:]]
        elif place and line.startswith("| "):
            for epsilon, text in zip(epsilons, parts[1:], strict=True):
                value = cells.get((place, parts[0], epsilon))
                assert text == ("" if value is None else _written(*value, text)), (place, line)
                seen += 1
        elif not line.startswith("|-"):
            place = ""
    assert seen == 6 * (11 + 11 + 11 + 10)


def test_the_table_of_the_noise_free_layer_is_that_of_the_records(repository: Path) -> None:
    summary = pl.read_csv(
        repository / "docs/reference/caribou/tables/summary.csv.gz",
        schema_overrides={"epsilon": pl.String},
    )
    cells = {
        (row["dataset"], row["entry"]): row["mean"]
        for row in summary.filter(pl.col("epsilon").is_in(["1", "inf"])).iter_rows(named=True)
    }
    page = (repository / "docs/methods/caribou.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| | as released | less the noise-free layer | sound |")
    rows = [line.strip("|").split("|") for line in table.splitlines()[2:6]]
    for name, *texts in rows:
        place = PLACES[name.strip().partition(",")[0]]
        entries = ("released-e1", "silent-e1", "caribou", "mlp")
        means = [_rounded(cells[place, entry]) for entry in entries]
        assert [text.strip() for text in texts] == means, name
    assert len(rows) == 4


def _points(value: float, plus: str = "") -> str:
    """A difference in points as a page writes it."""
    text = _rounded(abs(value))
    return text if text == "0.0" else ("−" if value < 0 else plus) + text


def test_the_decomposition_of_dpar_is_that_of_the_records(repository: Path) -> None:
    made = pl.read_csv(
        repository / "docs/reference/dpar/tables/comparisons.csv",
        schema_overrides={"epsilon": pl.String},
    )
    found = {
        tuple(row[name] for name in ("dataset", "epsilon", "entry", "reference")): row
        for row in made.iter_rows(named=True)
    }
    page = (repository / "docs/methods/dpar.md").read_text(encoding="utf-8")
    _, _, table = page.partition("| points | Cora-ML, ε = 1 |")
    cells = [(name, epsilon) for name in ("cora_ml", "cs", "physics") for epsilon in ("1", "8")]
    rows = [line for line in table.split("\n\n")[0].splitlines() if "`" in line]
    for line in rows:
        words, *texts = (part.strip() for part in line.strip("|").split("|"))
        entry, reference = re.findall(r"`([^`]+)`", words)
        for cell, text in zip(cells, texts, strict=True):
            row = found[(*cell, entry, reference)]
            interval = f"{_points(row['low'])} to {_points(row['high'])}"
            assert text == f"{_points(row['mean'], '+')} ({interval})", (cell, words)
            assert row["n"] == 10
    assert len(rows) == 11


def test_gcn_and_mlp_stand_where_the_literature_has_them(repository: Path) -> None:
    stored = _records(repository / "docs" / "reference" / "baselines")

    def mean(dataset: str, entry: str) -> float:
        here = [r for r in stored if (r["key"]["dataset"], r["key"]["entry"]) == (dataset, entry)]
        assert len(here) >= 3
        accuracy = [record["metrics"]["test"]["accuracy"] for record in here]
        return 100 * float(mean_interval(accuracy).mean)

    assert 80 <= mean("cora", "gcn") <= 83
    assert 55 <= mean("cora", "mlp") <= 60
    # Shchur et al. (2018): mean and two standard deviations
    assert abs(mean("photo", "gcn") - 91.2) <= 2 * 1.2
    assert abs(mean("cs", "gcn") - 91.1) <= 2 * 0.5
    assert abs(mean("cs", "mlp") - 88.3) <= 2 * 0.7
    assert mean("photo", "mlp") >= 69.6 - 2 * 3.8


def test_a_cell_of_the_reference_is_made_again(repository: Path, tmp_path: Path) -> None:
    run = "chains-s.public/mlp/eps=inf/0"
    results = tmp_path / "results"
    study = str(repository / "config.yaml")
    python = ("python", "-m", "dpgnn")
    graph = str(results / "graphs" / "chains-s")
    run_tool(repository, *python, "data", "prepare", "chains-s", "--out", graph)
    run_tool(
        repository, *python, "split", "--graph", graph, "--dataset", "chains-s", "--setting", "public",
        "--repeat", "0", "--root-seed", "2026", "--kind", "public",
        "--out", str(results / "splits" / "chains-s.public.0.parquet"),
    )  # fmt: skip
    run_tool(
        repository, *python, "train", "--study", study, "--run", run,
        "--results", str(results), "--work", str(tmp_path / "work"),
    )  # fmt: skip
    made = json.loads((results / "studies" / "quick" / "runs" / run / "record.json").read_text())
    kept = repository / "docs" / "reference" / "quick" / "runs" / run / "record.json"
    assert made["metrics"] == json.loads(kept.read_text())["metrics"]


def test_every_private_entry_is_audited_three_times_on_three_graphs(repository: Path) -> None:
    study = repository / "docs" / "reference" / "headtohead"
    private, audited = set(), Counter[tuple[str, ...]]()
    for record in _records(study):
        key = record["key"]
        if "~" not in key["entry"] and key["epsilon"] != "inf":
            private.add((key["dataset"], key["setting"], key["entry"]))
    for name in read_texts(study / "audits", "audits"):
        audited[tuple(name.split(".")[:3])] += 1
    for dataset in ("digits", "cora", "citeseer"):
        pairs = {place[1:] for place in private if place[0] == dataset}
        chosen = {pair for pair in pairs if pair[1].startswith("acc-")}
        covered = {place[1:]: count for place, count in audited.items() if place[0] == dataset}
        assert set(covered) == pairs
        assert set(covered.values()) == {3}
        page = " ".join((repository / "docs" / "audits.md").read_text().split())
        assert f"all {len(pairs)} pairs of private entry and setting" in page
        assert f"{len(chosen)} accounted choices" in page


def test_all_audits_are_of_todays_tests_as_the_page_says(repository: Path) -> None:
    """They test each root's share of the batches where there are batches."""
    folder = repository / "docs" / "reference" / "headtohead" / "audits"
    texts = read_texts(folder, "audits")
    for name, text in texts.items():
        for audit in json.loads(text):
            checks = {check["name"] for check in audit["checks"]}
            assert "batch size" not in checks or "share of every root" in checks, name
    page = (repository / "docs" / "audits.md").read_text()
    assert f"All {len(texts)} audits of the head-to-head are of these tests" in page


def test_the_shares_of_canaries_are_those_of_the_records(repository: Path) -> None:
    shares: dict[tuple[str, str], list[float]] = {}
    for name, text in read_texts(
        repository / "docs" / "reference" / "headtohead" / "audits", "audits"
    ).items():
        dataset, setting, entry, budget = name.split(".")[:4]
        # votes have a board at epsilon 8
        wanted = "eps=8" if entry in ("votes", "votes-2") else "eps=1"
        if dataset != "cora" or budget != wanted or entry.endswith(("-paper", "-released")):
            continue
        for audit in json.loads(text):
            share = audit["attained_share_of_sensitivity"]
            if share is None or (setting == "bounded" and not entry.endswith("-bounded")):
                continue
            shares.setdefault((entry, audit["mechanism"]), []).append(share)
            if wanted == "eps=1":
                seen = (audit["detectable"] or {}).get("noise_factor")
                assert share < 0.9 or seen in (6.0, 10.0), name
                assert share > 0.6 or seen is None, name
    page = (repository / "docs" / "audits.md").read_text()
    rows = re.findall(r"^\| (`.*`) \| (`.*`) \| (\d\.\d\d) to (\d\.\d\d) \|$", page, re.MULTILINE)
    assert len(rows) == 17
    for entries, mechanisms, low, high in rows:
        keys = itertools.product(entries.split(", "), mechanisms.split(", "))
        named = [(entry.strip("`"), mechanism.strip("`")) for entry, mechanism in keys]
        found = [share for key in named for share in shares.get(key, [])]
        assert len(found) >= 3 * len(entries.split(", "))
        assert (f"{min(found):.2f}", f"{max(found):.2f}") == (low, high), (entries, mechanisms)


def test_what_audits_of_choices_see_is_that_of_the_records(repository: Path) -> None:
    folder = repository / "docs" / "reference" / "headtohead" / "audits"
    for name, text in read_texts(folder, "audits").items():
        for found in json.loads(text):
            if found["mechanism"].startswith("choice"):
                digits = name.startswith("digits.whole.acc-votes-2.")
                rare = found["mechanism"] == "choice/others" and not digits
                # docs/audits.md: twice; four times, but for votes on digits
                assert found["detectable"]["noise_factor"] == (4.0 if rare else 2.0), name


def test_what_edges_are_worth_is_that_of_the_records(repository: Path) -> None:
    made = pl.read_csv(
        repository / "docs/reference/caribou/tables/comparisons.csv",
        schema_overrides={"epsilon": pl.String},
    )
    page = (repository / "docs/methods/gap.md").read_text(encoding="utf-8")
    _, _, words = page.partition("GAP-EDP at epsilon 1 is ")
    text = " ".join(words.split())
    for entry, reference, name in (
        ("gap", "mlp", "Rutgers89"),
        ("gap", "mlp", "Computers"),
        ("gap", "mlp", "Photo"),
    ):
        (row,) = made.filter(
            (pl.col("dataset") == PLACES[name])
            & (pl.col("entry") == entry)
            & (pl.col("reference") == reference)
            & (pl.col("epsilon") == "1")
        ).iter_rows(named=True)
        assert row["n"] == 10
        assert f"{_rounded(row['mean'])} ±" in text, (entry, name)

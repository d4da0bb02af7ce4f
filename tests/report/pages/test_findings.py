"""The landing summary: sentences whose numbers are those of the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.findings import AGAINST, _spread, count, findings, listed
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.statistics.differences import differences
from dpgnn.report.statistics.ranking import rankings, refusals
from dpgnn.report.tables.table import Table


def make(runs: list[Run], info: StudyInfo, **extra: Any) -> dict[str, tuple[str, ...]]:
    cells = build_cells(runs, info)
    found = findings(
        info,
        runs,
        cells,
        rankings=rankings(cells),
        refusals=refusals(cells),
        differences=differences(cells, info),
        **extra,
    )
    return {item.topic: item.sentences for item in found}


def test_prices_are_stated_at_the_smallest_and_the_largest_epsilon(
    runs: list[Run], info: StudyInfo
) -> None:
    found = make(runs, info)
    assert found["Price of privacy"][:2] == (
        "DP-MLP at ε = 1 against MLP: −20.0 points on alpha and −20.0 points on beta, both larger than "
        "the noise.",
        "DP-MLP at ε = 8 against MLP: −10.0 points on alpha and −10.0 points on beta, both larger than "
        "the noise.",
    )
    assert found["Price of soundness"][1] == (
        "DP-GCN at ε = 8 against dp_gcn-paper: −6.0 points on alpha and −6.0 points on beta, both larger "
        "than the noise."
    )


def test_entries_of_another_network_stand_against_the_baseline(
    runs: list[Run], info: StudyInfo
) -> None:
    found = make(runs, info)
    assert not any("GAP" in text for text in found["Price of privacy"])
    assert any(
        text.startswith("GAP at ε = 1 against MLP") for text in found["Against the baseline"]
    )


def test_cells_of_one_repeat_are_neither_clear_nor_inside_the_noise(
    runs: list[Run], info: StudyInfo
) -> None:
    single = [
        run for run in runs if run.record.key["dataset"] == "alpha" or run.record.key["repeat"] == 0
    ]
    leads = make(single, info)["Who leads"]
    assert leads[0].endswith(
        "DP-GCN is ahead of all others on alpha; not decided (one repeat) on beta."
    )
    here = [item for item in differences(build_cells(single, info), info) if item.entry.is_private]
    pairs = [item for item in here if item.entry.entry == "gap" and item.question in AGAINST] * 2
    assert _spread(pairs).endswith(
        "larger than the noise in 4 of 4 tested cases (4 with one repeat)"
    )


def test_leads_are_named_only_where_they_are_clear(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    leads = make(runs, info)["Who leads"]
    assert leads[0] == (
        "Under “node-record, add-remove, answers to their own node, proved” at ε = 8, DP-GCN is ahead "
        "of all others on alpha and beta."
    )
    assert "GAP stands alone on alpha and beta, so nothing is ranked" in leads[1]
    close = [
        with_score(run, 0.7 + 0.01 * ((5 * i) % 7)) if run.record.claims else run
        for i, run in enumerate(runs)
    ]
    assert "no entry leads by more than the noise" in make(close, info)["Who leads"][0]


def test_published_claims_are_counted_by_what_can_be_proved(
    runs: list[Run], info: StudyInfo
) -> None:
    assert make(runs, info)["Claims"] == (
        "12 of 16 private cells state an ε that is proved.",
        "4 state the ε of a paper; for 0 of them a finite ε can be proved for what was run.",
    )


def test_missing_runs_are_counted_by_their_kind(runs: list[Run], info: StudyInfo) -> None:
    failed = replace(runs[0], record=replace(runs[0].record, status="failed", reason="x"))
    away = replace(runs[1], record=replace(runs[1].record, status="not-available", reason="y"))
    found = make([failed, away, *runs[3:]], info)["What was run"]
    assert found[0].startswith("57 of 60 planned runs")
    assert (
        found[1]
        == "The others: 1 failed, 1 not available here and 1 not run; the status table says why."
    )


def test_a_papers_tables_are_counted_by_verdict(runs: list[Run], info: StudyInfo) -> None:
    rows = [
        PaperRow(
            dataset="alpha", method="m", detail="", epsilon="8", paper_mean=0.5, paper_std=None,
            rounding=0.0, verdict=word,
        )
        for word in ("different", "same", "same")
    ]  # fmt: skip
    table = Table(name="paper-toy-T1", title="toy T1", caption="", columns=(), rows=rows)
    beside = replace(table, title="toy T1-sound", reproduces=False)
    found = make(runs, info, papers=[table, beside])["The paper's numbers"]
    assert found == ("toy T1: of 3 values 2 same and 1 different.",)


def test_synthetic_graphs_are_counted_as_run_and_named_in_no_finding(
    runs: list[Run], info: StudyInfo
) -> None:
    before = make(runs, info)
    made = [
        replace(
            run, record=replace(run.record, key={**run.record.key, "dataset": "synthetic-beta"})
        )
        if run.record.key["dataset"] == "beta"
        else run
        for run in runs
    ]
    found = make(made, replace(info, planned=tuple(run.name for run in made)))
    assert found["What was run"][0] == before["What was run"][0]
    assert "leave out synthetic graphs" in found["What was run"][-1]
    rest = [text for topic, texts in found.items() if topic != "What was run" for text in texts]
    assert not [text for text in rest if "beta" in text]
    assert found["Price of privacy"][0].startswith(
        "DP-MLP at ε = 1 against MLP: −20.0 points on alpha"
    )


def test_topics_without_an_answer_are_left_out(runs: list[Run], info: StudyInfo) -> None:
    free = [run for run in runs if not run.record.claims]
    found = make(free, replace(info, baseline=""))
    assert list(found) == ["What was run"]


def test_words_are_joined_as_people_do() -> None:
    assert [listed(w) for w in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert (count(1, "run"), count(2, "run")) == ("1 run", "2 runs")
    assert count(2, "entry", "entries") == "2 entries"

"""The landing summary: sentences whose numbers are those of the records."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from golden import assert_golden
from helpers import numbers

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.findings import AGAINST, _spread, _told, count, findings, listed
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
    prices = [numbers(text) for text in found["Price of privacy"][:2]]
    assert prices == [[1, -20.0, -20.0], [8, -10.0, -10.0]]  # epsilon, alpha, beta
    assert numbers(found["Price of soundness"][1]) == [8, -6.0, -6.0]
    pages = "\n\n".join("\n".join((topic, *texts)) for topic, texts in found.items())
    assert_golden("findings.txt", pages + "\n")


def test_entries_of_another_network_stand_against_the_baseline(
    runs: list[Run], info: StudyInfo
) -> None:
    found = make(runs, info)
    assert not any("GAP" in text for text in found["Price of privacy"])
    (first, *_) = [text for text in found["Against the baseline"] if "GAP" in text]
    assert "MLP" in first
    assert numbers(first)[0] == 1


def test_cells_of_one_repeat_are_neither_clear_nor_inside_the_noise(
    runs: list[Run], info: StudyInfo
) -> None:
    single = [
        run for run in runs if run.record.key["dataset"] == "alpha" or run.record.key["repeat"] == 0
    ]
    clear, _, undecided = make(single, info)["Who leads"][0].rpartition(";")
    assert ("alpha" in clear, "beta" in clear) == (True, False)
    assert ("alpha" in undecided, "beta" in undecided) == (False, True)
    here = [item for item in differences(build_cells(single, info), info) if item.entry.is_private]
    pairs = [item for item in here if item.entry.entry == "gap" and item.question in AGAINST] * 2
    assert numbers(_spread(pairs))[-3:] == [4, 4, 4]  # clear, tested, with one repeat


def test_leads_are_named_only_where_they_are_clear(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    leads = make(runs, info)["Who leads"]
    assert all(name in leads[0] for name in ("node-record", "DP-GCN", "alpha", "beta"))
    assert numbers(leads[0]) == [8]
    assert "GAP stands alone" in leads[1]
    close = [
        with_score(run, 0.7 + 0.01 * ((5 * i) % 7)) if run.record.claims else run
        for i, run in enumerate(runs)
    ]
    assert "no entry leads" in make(close, info)["Who leads"][0]


def test_published_claims_are_counted_by_what_can_be_proved(
    runs: list[Run], info: StudyInfo
) -> None:
    proved, published = make(runs, info)["Claims"]
    assert numbers(proved) == [12, 16]
    assert numbers(published) == [4, 0]


def test_releases_are_counted_as_made_without_scores(runs: list[Run], info: StudyInfo) -> None:
    kind = {"kind": "release"}
    made = [replace(run, record=replace(run.record, randomness=kind, metrics={})) for run in runs]
    (found,) = make(made, info)["What was run"]
    assert numbers(found) == [60, 60]
    assert "no scores" in found
    failed = replace(made[0], record=replace(made[0].record, status="failed", reason="x"))
    found, rest = make([failed, *made[1:]], info)["What was run"]
    assert numbers(found) == [59, 60]
    assert numbers(rest) == [1]


def test_missing_runs_are_counted_by_their_kind(runs: list[Run], info: StudyInfo) -> None:
    failed = replace(runs[0], record=replace(runs[0].record, status="failed", reason="x"))
    away = replace(runs[1], record=replace(runs[1].record, status="not-available", reason="y"))
    found = make([failed, away, *runs[3:]], info)["What was run"]
    assert numbers(found[0])[:2] == [57, 60]
    assert numbers(found[1]) == [1, 1, 1]


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
    (only,) = found
    assert only.startswith("toy T1:")
    assert numbers(only) == [3, 2, 1]


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


def test_a_data_set_in_several_settings_is_named_with_each(
    runs: list[Run], info: StudyInfo
) -> None:
    """Otherwise one data set has two values."""
    cells = build_cells(runs, info)
    items = [i for i in differences(cells, info) if i.entry.epsilon == "8" and _told(i)]
    pair = [i for i in items if (i.entry.entry, i.reference.entry) == ("dp_mlp", "mlp")]
    alpha = [item for item in pair if item.entry.dataset == "alpha"]
    moved = replace(alpha[0], entry=replace(alpha[0].entry, setting="ind"))
    first = alpha[0].entry.setting
    assert f" on alpha ({first})" in _spread([*pair, moved])
    assert " on alpha (ind)" in _spread([*pair, moved])
    assert " on beta (" not in _spread([*pair, moved])
    assert " on alpha (" not in _spread(pair)
    many = _spread([*pair, moved, *pair, *pair])
    assert " on alpha (" in many or "between" in many

"""Places of fixed, tuned and accounted scores are among the entries that have all three."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from helpers import numbers

from dpgnn.records.archive import MAIN_STUDY, REFERENCE, RUNS, read_archive
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import EntryInfo, StudyInfo
from dpgnn.report.tables.tuned_ranks import side_by_side, tuned_ranks_table, what_accounting_costs
from dpgnn.report.tables.tuning import tuned_cells

# entry -> scores of repeats 0, 1, 2 on validation and test nodes
SCORES = {
    "gap": (0.70, 0.71, 0.72),
    "gap~lr=1": (0.80, 0.81, 0.82),
    "acc-gap": (0.60, 0.61, 0.62),
    "dpdgc": (0.75, 0.76, 0.77),
    "dpdgc~lr=1": (0.76, 0.77, 0.78),
    "acc-dpdgc": (0.74, 0.75, 0.76),
    "progap": (0.99, 0.99, 0.99),
    "progap~lr=1": (0.99, 0.99, 0.99),  # no accounted form: it takes no place
    "acc-alone": (0.99, 0.99, 0.99),
}


@pytest.fixture
def made(runs: list[Run]) -> tuple[list[Cell], StudyInfo]:
    found = []
    stated = [run for run in runs if run.name.startswith("alpha.random/gap/eps=8")]
    for entry, scores in SCORES.items():
        for repeat, run in enumerate(stated):
            score = {**run.record.metrics["test"], "accuracy": scores[repeat]}
            key = {**run.record.key, "entry": entry}
            metrics = {"test": score, "val": score}
            found.append(replace(run, record=replace(run.record, key=key, metrics=metrics)))
    info = StudyInfo(
        name="toy", tier="S", config_path="", planned=tuple(run.name for run in found),
        tuned=("gap", "dpdgc", "progap"),
        entries=tuple(EntryInfo(name=name, method="gap", mode="sound") for name in SCORES),
    )  # fmt: skip
    return build_cells(found, info), info


def test_places_are_among_entries_that_have_all_three(made: tuple[list[Cell], StudyInfo]) -> None:
    cells, info = made
    rows = tuned_ranks_table(tuned_cells(cells, info), cells).rows
    places = {r.entry: (r.fixed_place, r.tuned_place, r.accounted_place) for r in rows}
    assert places == {"dpdgc": (1, 2, 1), "gap": (2, 1, 2)}
    gap = next(row for row in rows if row.entry == "gap")
    assert (gap.fixed, gap.tuned, gap.accounted) == pytest.approx((0.71, 0.81, 0.61))
    assert gap.gain_mean == pytest.approx(-0.10)
    assert (gap.n, gap.n_pairs) == (3, 3)


def test_means_over_graphs_stand_in_one_line_an_entry(made: tuple[list[Cell], StudyInfo]) -> None:
    cells, info = made
    lines = side_by_side(tuned_ranks_table(tuned_cells(cells, info), cells).rows)
    assert len(lines) == 2 + 2
    assert "75.0 (place 1.0)" in lines[2]
    assert "61.0 (place 2.0)" in lines[3]
    assert side_by_side([]) == []


def test_means_are_over_graphs_that_entries_share(made: tuple[list[Cell], StudyInfo]) -> None:
    cells, info = made
    dpdgc, gap = tuned_ranks_table(tuned_cells(cells, info), cells).rows
    assert gap.entry == "gap"
    many = [replace(gap, dataset=name, fixed=0.5) for name in ("beta", "gamma")]
    table = side_by_side([dpdgc, *many, gap])
    graphs = [line.split(" | ")[3] for line in table[2:]]
    # three graphs of one entry are more rows than one graph of two
    assert graphs == ["3"]
    assert f"{(50 + 50 + 71) / 3:.1f} (place" in table[2]
    both = [replace(dpdgc, dataset="beta"), dpdgc, *many, gap]
    table = side_by_side(both)
    assert [line.split(" | ")[3] for line in table[2:]] == ["2", "2"]
    assert "60.5 (place" in next(line for line in table if gap.label in line)
    assert len(side_by_side([*both, replace(gap, label="alone", dataset="delta")])) == 2 + 2


def test_a_sentence_counts_pairs_once(made: tuple[list[Cell], StudyInfo]) -> None:
    cells, info = made
    rows = tuned_ranks_table(tuned_cells(cells, info), cells).rows
    text = what_accounting_costs([*rows, *rows])  # an entry may stand under several guarantees
    assert numbers(text) == [2, 0, 0, 2, 1, -5.5]
    assert what_accounting_costs([]) == ""


def test_without_accounted_entries_there_is_no_row(made: tuple[list[Cell], StudyInfo]) -> None:
    cells, info = made
    few = [cell for cell in cells if not cell.entry.startswith("acc-")]
    assert not tuned_ranks_table(tuned_cells(few, info), few).rows


def test_committed_choices_are_of_the_form_that_is_proved(repository: Path) -> None:
    """Runs of a choice that started earlier had public coins of their own, against theorem 19's condition."""
    kept = read_archive(repository / REFERENCE / MAIN_STUDY / RUNS)
    found = [json.loads(used)["started"] for run, (_, used) in kept.items() if "/acc-" in run]
    assert len(found) == 2250
    assert min(found) >= "2026-11-30T13:00:00Z"

"""An equal tuning budget: the choice reads validation nodes only, repeat by repeat, and says so."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers import tells

from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import EntryInfo, StudyInfo
from dpgnn.report.statistics.ranking import rankings
from dpgnn.report.tables.tuning import (
    SELECTION,
    choices,
    tuned_cells,
    tuned_rankings_table,
    tuned_table,
)

# point -> validation and test score of repeats 0, 1, 2
POINTS = {
    "gap~lr=1": ((0.9, 0.5, 0.7), (0.60, 0.10, 0.62)),
    "gap~lr=2": ((0.8, 0.6, 0.7), (0.99, 0.64, 0.99)),
    "dp_gcn~lr=1": ((0.5, 0.5, 0.5), (0.40, 0.41, 0.42)),
    "dp_gcn~lr=2": ((0.4, 0.4, 0.4), (0.90, 0.90, 0.90)),
}


def made(
    runs: list[Run], points: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = POINTS
) -> tuple[list[Cell], StudyInfo]:
    """The points and gap as stated (0.81, 0.82, 0.83), all under gap's claim at epsilon 8."""
    fixed = [run for run in runs if run.name.startswith("alpha.random/gap/eps=8")]
    found = list(fixed)
    for entry, (validation, test) in points.items():
        for repeat, run in enumerate(fixed):
            record = run.record
            metrics = {
                "test": {**record.metrics["test"], "accuracy": test[repeat]},
                "val": {**record.metrics["test"], "accuracy": validation[repeat]},
            }
            key = {**record.key, "entry": entry}
            found.append(replace(run, record=replace(record, key=key, metrics=metrics)))
    names = ["gap", "dp_gcn", *POINTS]
    planned = [run.name for run in fixed] + [
        run.name.replace("/gap/", f"/{entry}/") for entry in POINTS for run in fixed
    ]
    info = StudyInfo(
        name="toy", tier="S", config_path="", planned=tuple(planned), tuned=("gap", "dp_gcn"),
        entries=tuple(EntryInfo(name=name, method="gap", mode="sound") for name in names),
    )  # fmt: skip
    return build_cells(found, info), info


def test_each_repeat_takes_the_point_that_validates_best_and_nothing_else(runs: list[Run]) -> None:
    cells, info = made(runs)
    gap, dp_gcn = tuned_cells(cells, info)
    # repeat 0 from lr=1, repeat 1 from lr=2, the tie of repeat 2 goes to the point stated first;
    # the test scores of 0.99 are never seen
    assert gap.cell.scores == {0: 0.60, 1: 0.64, 2: 0.62}
    assert dict(gap.chosen) == {"lr=1": 2, "lr=2": 1}
    assert (gap.points, gap.cell.entry) == (2, "gap")
    assert gap.fixed is not None
    assert dp_gcn.cell.scores == {0: 0.40, 1: 0.41, 2: 0.42}
    assert dp_gcn.fixed is None


def test_with_tuned_on_the_first_repeats_choose_for_all(runs: list[Run]) -> None:
    cells, info = made(runs)
    for tuned_on, point in ((1, "lr=1"), (2, "lr=1"), (3, "lr=1")):
        # means of gap's points on validation: 0.9 > 0.8, 0.7 = 0.7, 0.7 = 0.7
        fixed = replace(info, tuned_on=tuned_on)
        gap = tuned_cells(cells, fixed)[0]
        assert gap.cell.scores == {0: 0.60, 1: 0.10, 2: 0.62}
        assert dict(gap.chosen) == {point: 3}
        assert choices(cells, fixed)["alpha", "random", "8", "gap"] == point
        assert choices(cells, fixed)["alpha", "random", "8", "dp_gcn"] == "lr=1"
    assert "first 3 repeats" in tuned_table([gap], 3).caption


@pytest.mark.parametrize(("tuned_on", "elsewhere"), [(0, None), (1, -0.465), (2, -0.21), (3, None)])
def test_the_gain_elsewhere_is_over_repeats_that_did_not_choose(
    runs: list[Run], tuned_on: int, elsewhere: float | None
) -> None:
    cells, info = made(runs)
    # lr=1 has 0.60, 0.10 and 0.62; gap as stated 0.81, 0.82 and 0.83
    gap = tuned_cells(cells, replace(info, tuned_on=tuned_on))[0]
    assert tuned_table([gap], tuned_on).rows[0].gain_elsewhere == pytest.approx(elsewhere)
    # validation scores of repeats that do not choose have no part in it
    later = {**POINTS, "gap~lr=2": ((0.8, 1.0, 1.0), POINTS["gap~lr=2"][1])}
    cells, info = made(runs, later)
    assert choices(cells, replace(info, tuned_on=1))["alpha", "random", "8", "gap"] == "lr=1"
    assert choices(cells, replace(info, tuned_on=3))["alpha", "random", "8", "gap"] == "lr=2"


def test_the_chosen_point_keeps_its_choice_when_the_others_stop(runs: list[Run]) -> None:
    cells, info = made(runs)
    few = [
        replace(cell, scores={0: cell.scores[0]}, runs=cell.runs[:1])
        if cell.entry == "gap~lr=2"
        else cell
        for cell in cells
    ]
    gap = tuned_cells(few, replace(info, tuned_on=1))[0]
    assert gap.cell.scores == {0: 0.60, 1: 0.10, 2: 0.62}
    assert [item.cell.entry for item in tuned_cells(few, replace(info, tuned_on=2))] == ["dp_gcn"]


def test_claims_of_a_choice_carry_its_caveat(runs: list[Run]) -> None:
    cells, info = made(runs)
    gap = tuned_cells(cells, info)[0].cell
    (claim,) = gap.claims
    assert claim.selection == SELECTION
    assert SELECTION in claim.caveats
    assert SELECTION in gap.words[0]
    assert all(SELECTION not in cell.words[0] for cell in cells)


def test_a_budget_is_equal_or_there_is_no_choice(runs: list[Run]) -> None:
    cells, info = made(runs, {name: POINTS[name] for name in list(POINTS)[:3]})
    assert [item.cell.entry for item in tuned_cells(cells, info)] == ["gap"]
    without = [
        replace(cell, runs=tuple(_without_validation(run) for run in cell.runs)) for cell in cells
    ]
    assert tuned_cells(without, info) == []


def test_tables_show_gain_and_rank_tuned_entries_among_themselves(runs: list[Run]) -> None:
    cells, info = made(runs)
    found = tuned_cells(cells, info)
    row = tuned_table(found).rows[0]
    assert row.mean == pytest.approx(0.62)
    assert row.fixed == pytest.approx(0.82)
    assert row.gain_mean == pytest.approx(-0.20)
    assert row.n_pairs == 3
    assert row.chosen == "lr=1 (2), lr=2 (1)"
    table = tuned_rankings_table(rankings([item.cell for item in found]))
    assert [(row.entry, row.position) for row in table.rows] == [("gap", 1), ("dp_gcn", 2)]


def test_a_gain_is_over_the_repeats_that_both_have_and_nothing_else(runs: list[Run]) -> None:
    cells, info = made(runs)
    few = [  # the fixed entry was run more often than the points
        replace(
            cell,
            scores={repeat: score for repeat, score in cell.scores.items() if repeat < 2},
            runs=cell.runs[:2],
        )
        if "~" in cell.entry
        else cell
        for cell in cells
    ]
    gap, other = tuned_table(tuned_cells(few, info)).rows
    assert gap.fixed == pytest.approx((0.81 + 0.82) / 2)
    assert gap.gain_mean == pytest.approx(gap.mean - gap.fixed)
    assert (gap.n, gap.n_pairs) == (2, 2)
    tells(other.verdict, "fixed", "not planned", "tier S")


def _without_validation(run: Run) -> Run:
    metrics = {"test": run.record.metrics["test"]}
    return replace(run, record=replace(run.record, metrics=metrics))

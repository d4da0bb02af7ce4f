"""Copied options: chosen on other graphs alone, tested where the choice read nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import EntryInfo, StudyInfo
from dpgnn.report.tables.copied import (
    CopiedRow,
    GainRow,
    OptionRow,
    changed,
    copied_tables,
    gains_table,
)

# graph -> entry -> score on validation nodes, score on test nodes, of every repeat
Scores = Mapping[str, Mapping[str, tuple[float, float]]]
SCORES: dict[str, dict[str, tuple[float, float]]] = {
    "cora": {"gap": (0.5, 0.50), "gap~lr=1": (0.90, 0.40), "gap~lr=2": (0.10, 0.60)},
    "citeseer": {"gap": (0.5, 0.50), "gap~lr=1": (0.30, 0.70), "gap~lr=2": (0.40, 0.51)},
    "photo": {"gap": (0.5, 0.50), "gap~lr=1": (0.30, 0.45), "gap~lr=2": (0.40, 0.52)},
}
OPTIONS: dict[str, dict[str, Any]] = {
    "gap": {"training": {"lr": 2, "steps": 5}},
    "gap~lr=1": {"training": {"lr": 1, "steps": 5}, "came_later": None},
    "gap~lr=2": {"training": {"lr": 2, "steps": 5}, "came_later": None},
}


def tables(
    runs: list[Run], scores: Scores, tuned_on: int = 2, mode: str = "sound"
) -> tuple[list[CopiedRow], list[OptionRow], list[GainRow]]:
    """The rows of all three tables for runs of gap at epsilon 8 with these scores."""
    stated = [run for run in runs if run.name.startswith("alpha.random/gap/eps=8")]
    found = []
    for dataset, entries in scores.items():
        for entry, (validation, test) in entries.items():
            for run in stated:
                known = run.record.metrics["test"]
                key = {**run.record.key, "dataset": dataset, "entry": entry}
                metrics = {
                    "test": {**known, "accuracy": test},
                    "val": {**known, "accuracy": validation},
                }
                options = {**run.record.entry, "options": OPTIONS.get(entry, {}), "mode": mode}
                record = replace(run.record, key=key, metrics=metrics, entry=options)
                found.append(replace(run, record=record))
    names = dict.fromkeys(name for entries in scores.values() for name in entries)
    info = StudyInfo(
        name="toy", tier="S", config_path="", planned=tuple(run.name for run in found),
        tuned=("gap",), tuned_on=tuned_on,
        entries=tuple(EntryInfo(name=name, method="gap", mode=mode) for name in names),
    )  # fmt: skip
    copied, options_to_copy = copied_tables(build_cells(found, info), info)
    rows = [*copied.rows]
    return rows, [*options_to_copy.rows], [*gains_table(rows).rows]


def test_each_graph_takes_the_point_that_the_other_graphs_validate_best(runs: list[Run]) -> None:
    rows, _, _ = tables(runs, SCORES)
    # means over the others: for Cora 0.30 < 0.40; for both others 0.60 > 0.25
    assert {row.dataset: row.point for row in rows} == {
        "cora": "lr=2",
        "citeseer": "lr=1",
        "photo": "lr=1",
    }
    assert {row.dataset: row.own for row in rows} == {
        "cora": "lr=1",
        "citeseer": "lr=2",
        "photo": "lr=2",
    }
    found = {row.dataset: (row.fixed, row.copied, row.tuned) for row in rows}
    assert found["cora"] == pytest.approx((0.50, 0.60, 0.40))
    assert found["citeseer"] == pytest.approx((0.50, 0.70, 0.51))
    assert found["photo"] == pytest.approx((0.50, 0.45, 0.52))
    assert {(row.graphs, row.points, row.n, row.accounted) for row in rows} == {(2, 2, 2, None)}


@pytest.mark.parametrize("dataset", SCORES)
@pytest.mark.parametrize("validation", [0.0, 1.0])
def test_no_score_of_a_graph_decides_what_is_copied_to_it(
    runs: list[Run], dataset: str, validation: float
) -> None:
    before = {row.dataset: row.point for row in tables(runs, SCORES)[0]}
    other = {**SCORES[dataset], "gap~lr=1": (validation, 0.99), "gap~lr=2": (1 - validation, 0.0)}
    after = {row.dataset: row.point for row in tables(runs, {**SCORES, dataset: other})[0]}
    assert after[dataset] == before[dataset]


def test_options_to_copy_are_best_over_all_graphs_and_named_where_they_differ(
    runs: list[Run],
) -> None:
    _, (row,), _ = tables(runs, SCORES)
    # means on validation: (0.9 + 0.3 + 0.3) / 3 = 0.5 and (0.1 + 0.4 + 0.4) / 3 = 0.3
    assert (row.point, row.changed, row.graphs) == ("lr=1", '{"training.lr": 1}', 3)
    # copied less fixed: +0.10, +0.20, -0.05; tuned less fixed: -0.10, +0.01, +0.02
    assert row.gain_mean == pytest.approx(0.25 / 3)
    assert row.tuned_gain == pytest.approx(-0.07 / 3)
    assert row.gain_low is not None
    assert row.gain_low < row.gain_mean
    least = {name: {**of, "gap~lr=2": (0.95, 0.5)} for name, of in SCORES.items()}
    (row,) = tables(runs, least)[1]
    assert (row.point, row.changed) == ("lr=2", "{}")


def test_gains_are_tested_over_graphs(runs: list[Run]) -> None:
    (row,) = tables(runs, SCORES)[2]
    assert (row.budgets, row.graphs, row.verdict) == (1, 3, "inside the noise")
    sure = {
        name: {"gap": (0.5, 0.5), "gap~lr=1": (0.9, 0.7 + 0.001 * i), "gap~lr=2": (0.1, 0.1)}
        for i, name in enumerate(SCORES)
    }
    (row,) = tables(runs, sure)[2]
    assert row.verdict == "larger than the noise"
    assert row.gain_mean == pytest.approx(0.201)


def test_a_gain_is_the_mean_over_budgets_on_graphs_that_have_them_all(runs: list[Run]) -> None:
    rows = tables(runs, SCORES)[0]
    more = [replace(row, epsilon="4", copied=row.copied + 0.1) for row in rows]
    partly = replace(rows[0], dataset="cs", copied=0.99)
    (row,) = gains_table([*rows, *more, partly]).rows
    assert (row.budgets, row.graphs) == (2, 3)
    # copied less fixed: +0.10, +0.20, -0.05 at one budget, 0.10 more at the other
    assert row.gain_mean == pytest.approx(0.25 / 3 + 0.05)
    assert gains_table([*rows, *more[:2]]).rows == []


def test_a_counted_choice_stands_beside_where_there_is_one(runs: list[Run]) -> None:
    scores = {**SCORES, "cora": {**SCORES["cora"], "acc-gap": (0.9, 0.33)}}
    rows, _, _ = tables(runs, scores)
    found = {row.dataset: row.accounted for row in rows}
    assert found == {"cora": pytest.approx(0.33), "citeseer": None, "photo": None}


def test_a_point_that_one_graph_lacks_is_never_copied_but_may_be_chosen_there(
    runs: list[Run],
) -> None:
    more = {
        name: {**of, "gap~lr=3": (1.0, 0.9)} if name != "photo" else of
        for name, of in SCORES.items()
    }
    rows, (row,), _ = tables(runs, more)
    assert row.point == "lr=1"
    found = {row.dataset: (row.point, row.own, row.points) for row in rows}
    assert found == {
        "cora": ("lr=2", "lr=3", 3),
        "citeseer": ("lr=1", "lr=3", 3),
        "photo": ("lr=1", "lr=2", 2),
    }


def test_points_of_which_none_is_shared_give_no_rows(runs: list[Run]) -> None:
    apart = {name: {"gap": (0.5, 0.5), f"gap~lr={i}": (0.5, 0.5)} for i, name in enumerate(SCORES)}
    assert tables(runs, apart) == ([], [], [])


def test_what_is_not_private_or_not_real_or_too_few_has_no_rows(runs: list[Run]) -> None:
    two = {name: SCORES[name] for name in ("cora", "photo")}
    drawn = {f"synthetic-{name}" if name == "photo" else name: of for name, of in SCORES.items()}
    for made in (
        tables(runs, two),
        tables(runs, drawn),
        tables(runs, SCORES, tuned_on=0),
        tables(runs, SCORES, mode="nonprivate"),
        tables(runs, SCORES, tuned_on=4),  # three repeats have scores
    ):
        assert made == ([], [], [])


def test_options_are_named_that_points_vary_and_that_are_not_as_stated() -> None:
    stated = {"a": 1, "b": {"c": 2, "d": 3}, "e": 5}
    points = [
        {"a": 1, "b": {"c": 4, "d": 3}, "e": 6, "f": {"g": None}},
        {"a": 1, "b": {"c": 2, "d": 3}, "e": 6, "f": {"g": [1]}},
    ]
    # e is another at all points: a default that changed since the entry ran
    assert changed(stated, points[0], points) == {"b.c": 4, "f.g": None}
    assert changed(stated, points[1], points) == {"f.g": [1]}
    assert changed(stated, points[0], points[:1]) == {}

"""Paired differences: what is compared, with what verdict, corrected for how many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from helpers import tells

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.differences import (
    Difference,
    count_comparisons,
    differences,
    differing_options,
)


def find(found: list[Difference], entry: str, reference: str, epsilon: str) -> Difference:
    (item,) = [
        item
        for item in found
        if (item.entry.entry, item.reference.entry) == (entry, reference)
        and (item.entry.dataset, item.entry.epsilon) == ("alpha", epsilon)
    ]
    return item


def test_the_price_of_privacy_is_computed_by_hand(runs: list[Run], info: StudyInfo) -> None:
    # 0.70 - 0.80 in each repeat; the spread counts as one of 200 test nodes: 4.30265 * 0.005 / sqrt(3)
    item = find(differences(build_cells(runs, info), info), "dp_mlp", "mlp", "8")
    assert item.question == "price of privacy"
    assert item.test is not None
    assert item.test.mean == pytest.approx(-0.10)
    assert item.test.high == pytest.approx(-0.10 + 0.0124207, abs=1e-6)
    assert item.verdict == "larger than the noise"


def test_a_price_of_privacy_is_paid_by_one_network(runs: list[Run], info: StudyInfo) -> None:
    found = differences(build_cells(runs, info), info)
    item = find(found, "dp_gcn", "mlp", "8")
    tells(item.question, "baseline", "without privacy")
    # dp_gnn without hops is an MLP
    flat = []
    for run in runs:
        if run.record.key["entry"] == "dp_gcn":
            entry = {**run.record.entry, "options": {"num_hops": 0}}
            run = replace(run, record=replace(run.record, entry=entry))
        flat.append(run)
    found = differences(build_cells(flat, info), info)
    assert find(found, "dp_gcn", "mlp", "8").question == "price of privacy"


def test_a_private_baseline_turns_no_other_pair_into_a_price(
    runs: list[Run], info: StudyInfo
) -> None:
    info = replace(info, baseline="dp_gcn-paper")
    found = differences(build_cells(runs, info), info)
    free = next(item for item in found if item.entry.entry == "mlp")
    tells(free.question, "without privacy", "private baseline")
    # the sound entry's nearest published form happens to be the baseline; others are of another status
    assert find(found, "dp_gcn", "dp_gcn-paper", "8").question == "price of soundness"
    assert find(found, "dp_mlp", "dp_gcn-paper", "8").question == "refused"
    info = replace(info, baseline="dp_gcn")
    found = differences(build_cells(runs, info), info)
    refused = find(found, "dp_gcn-paper", "dp_gcn", "8")
    assert (refused.question, refused.test) == ("refused", None)


def test_each_place_is_a_family_of_its_own(runs: list[Run], info: StudyInfo) -> None:
    found = differences(build_cells(runs, info), info)
    # against mlp: gcn once, four private entries twice; dp_gcn against its published form twice
    assert {item.family for item in found} == {11}
    assert count_comparisons(found) == 22


def test_points_to_choose_from_are_not_compared_and_not_counted(
    runs: list[Run], info: StudyInfo
) -> None:
    stated = build_cells(runs, info)
    points = [replace(cell, entry="dp_mlp~lr=0.1") for cell in stated if cell.entry == "dp_mlp"]
    cells = [*stated, *points]
    named = {item.entry.entry for item in differences(cells, info)}
    assert "dp_mlp~lr=0.1" in named
    tuned = replace(info, tuned=("dp_mlp",))
    found = differences(cells, tuned)
    assert {item.entry.entry for item in found} == named - {"dp_mlp~lr=0.1"}
    assert {item.family for item in found} == {11}
    # a sweep of an entry that is not tuned states something of each of its points
    other = replace(info, tuned=("gap",))
    assert count_comparisons(differences(cells, other)) == count_comparisons(found) + 4


def test_the_sound_form_is_compared_with_the_published_one(
    runs: list[Run], info: StudyInfo
) -> None:
    item = find(differences(build_cells(runs, info), info), "dp_gcn", "dp_gcn-paper", "1")
    assert item.question == "price of soundness"
    assert item.test is not None
    assert item.test.mean == pytest.approx(-0.15)
    assert "optimizer.name" in item.note


def test_a_private_baseline_refuses_guarantees_that_do_not_compare(
    runs: list[Run], info: StudyInfo
) -> None:
    info = replace(info, baseline="dp_mlp")
    found = differences(build_cells(runs, info), info)
    refused = find(found, "gap", "dp_mlp", "8")
    assert (refused.question, refused.test, refused.verdict) == ("refused", None, None)
    tells(refused.note, "no guarantee", "follows")
    allowed = find(found, "dp_gcn", "dp_mlp", "8")
    assert allowed.question == "same guarantee"
    assert allowed.test is not None
    assert allowed.test.mean == pytest.approx(0.02)
    assert allowed.reference.epsilon == "8"


def test_without_a_baseline_only_soundness_is_compared(runs: list[Run], info: StudyInfo) -> None:
    info = replace(info, baseline="")
    found = differences(build_cells(runs, info), info)
    assert {item.question for item in found} == {"price of soundness"}


def test_failed_runs_are_in_no_difference(runs: list[Run], info: StudyInfo) -> None:
    failed = [
        replace(run, record=replace(run.record, status="failed", reason="x"))
        if run.record.key["entry"] == "dp_mlp"
        else run
        for run in runs
    ]
    found = differences(build_cells(failed, info), info)
    assert all("dp_mlp" not in (item.entry.entry, item.reference.entry) for item in found)


def test_a_difference_inside_the_noise_is_called_so(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    scores = (0.78, 0.83, 0.79)
    changed = [
        with_score(run, scores[int(run.record.key["repeat"])])
        if run.record.key["entry"] == "gcn"
        else run
        for run in runs
    ]
    item = find(differences(build_cells(changed, info), info), "gcn", "mlp", "inf")
    assert item.verdict == "inside the noise"


def test_differing_options_are_named_by_their_path(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    a = next(cell for cell in cells if cell.entry == "dp_gcn")
    b = next(cell for cell in cells if cell.entry == "dp_gcn-paper")
    assert differing_options(a, b) == ["optimizer.name"]
    assert differing_options(a, a) == []

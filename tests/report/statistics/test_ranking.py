"""Rankings stand only where one guarantee covers all, and bold stands only on clear leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from helpers import numbers

from dpgnn.accountants.implications import may_rank_together
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.ranking import (
    Place,
    RankingRefused,
    compare,
    groups,
    rank,
    rankings,
    refusals,
    why_unranked,
)


def at(cells: list[Cell], epsilon: str, *entries: str, dataset: str = "alpha") -> list[Cell]:
    return [
        c for c in cells if c.dataset == dataset and c.epsilon == epsilon and c.entry in entries
    ]


def test_a_ranking_across_guarantees_that_do_not_follow_is_refused(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    with pytest.raises(RankingRefused, match="no guarantee of one follows"):
        rank(at(cells, "8", "dp_gcn", "gap"))


def test_proved_and_published_claims_stand_in_no_common_ranking(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    with pytest.raises(RankingRefused, match="proved and as-published"):
        rank(at(cells, "8", "dp_gcn", "dp_gcn-paper"))


def test_answers_for_different_circles_stand_in_no_common_ranking(
    runs: list[Run], info: StudyInfo
) -> None:
    before = next(
        r for r in rankings(build_cells(runs, info)) if _has(r.places, "dp_gcn", "dp_mlp")
    )
    changed = [
        replace(run, record=replace(run.record, prediction={"answers": "none", "note": ""}))
        if run.record.key["entry"] == "dp_gcn"
        else run
        for run in runs
    ]
    cells = build_cells(changed, info)
    found = rankings(cells)
    assert not any(_has(ranking.places, "dp_gcn", "dp_mlp") for ranking in found)
    assert {r.answers for r in found for place in r.places if place.cell.entry == "dp_gcn"} == {
        "none"
    }
    pair = at(cells, before.epsilon, "dp_gcn", "dp_mlp")
    with pytest.raises(RankingRefused, match="different circles"):
        rank(pair)
    assert any("different circles" in refusal.reason for refusal in refusals(cells))


def _has(places: tuple[Place, ...], *entries: str) -> bool:
    return set(entries) <= {place.cell.entry for place in places}


def test_an_entry_without_privacy_is_never_ranked(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    with pytest.raises(RankingRefused, match="no guarantee"):
        rank(at(cells, "inf", "mlp"))
    assert all(p.cell.is_private for ranking in rankings(cells) for p in ranking.places)


def test_every_ranking_is_one_the_claims_allow_and_every_private_cell_is_in_one(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    found = rankings(cells)
    for ranking in found:
        claims = [place.cell.claim for place in ranking.places if place.cell.claim]
        assert may_rank_together(claims).allowed
        assert {place.cell.epsilon for place in ranking.places} == {ranking.epsilon}
    ranked = {(p.cell.dataset, p.cell.entry, p.cell.epsilon) for r in found for p in r.places}
    assert ranked == {(c.dataset, c.entry, c.epsilon) for c in cells if c.is_private}


def test_the_stronger_guarantee_stands_in_the_weaker_ones_ranking(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    members = [
        [c.entry for c in group] for group in groups(at(cells, "8", "dp_mlp", "dp_gcn", "gap"))
    ]
    assert members == [["dp_mlp", "dp_gcn"], ["gap"]]


def test_a_strong_guarantee_keeps_its_own_ranking_inside_a_weaker_ones(
    runs: list[Run], info: StudyInfo
) -> None:
    twins = []
    for run in runs:
        if run.record.key["entry"] == "dp_mlp":
            key = {**run.record.key, "entry": "gcn"}  # a second entry under one node, add-remove
            twins.append(replace(run, record=replace(run.record, key=key)))
    others = [run for run in runs if run.record.key["entry"] != "gcn"]
    cells = at(build_cells([*others, *twins], replace(info, planned=_names(others, twins))), "8",
               "dp_mlp", "dp_gcn", "gcn")  # fmt: skip
    members = [[cell.entry for cell in group] for group in groups(cells)]
    assert members == [["dp_mlp", "dp_gcn", "gcn"], ["dp_mlp", "gcn"]]
    assert [str(rank(group).notion) for group in groups(cells)] == [
        "node-record, add-remove",
        "node, add-remove",
    ]


def _names(*groups: list[Run]) -> tuple[str, ...]:
    return tuple(run.name for group in groups for run in group)


def test_a_lead_within_the_noise_is_not_clear(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    scores = {"dp_mlp": (0.70, 0.72, 0.74), "dp_gcn": (0.74, 0.71, 0.73)}
    changed = [
        with_score(run, scores[str(run.record.key["entry"])][int(run.record.key["repeat"])])
        if run.record.key["entry"] in scores
        else run
        for run in runs
    ]
    ranking = rank(at(build_cells(changed, info), "8", "dp_mlp", "dp_gcn"))
    assert [place.cell.entry for place in ranking.places] == ["dp_gcn", "dp_mlp"]
    assert not ranking.places[0].clear_lead
    assert ranking.places[1].verdict == "inside the noise"


def test_a_constant_lead_is_clear_and_stated_with_its_interval(
    runs: list[Run], info: StudyInfo
) -> None:
    ranking = rank(at(build_cells(runs, info), "1", "dp_mlp", "dp_gcn"))
    second = ranking.places[1]
    assert ranking.places[0].clear_lead
    assert (second.cell.entry, second.verdict) == ("dp_gcn", "larger than the noise")
    assert second.behind is not None
    assert second.behind.mean == pytest.approx(0.10)
    assert ranking.num_comparisons == 1


def test_an_entry_alone_has_no_lead(runs: list[Run], info: StudyInfo) -> None:
    ranking = rank(at(build_cells(runs, info), "8", "gap"))
    assert not ranking.places[0].clear_lead


def test_a_control_without_privacy_is_ranked_nowhere(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "dp_mlp":
            claim = {**record.claims[0], "status": "as-published", "caveats": ["exact-neighbours"]}
            record = replace(record, claims=(claim,))
        changed.append(replace(run, record=record))
    cells = build_cells(changed, info)
    (cell,) = at(cells, "8", "dp_mlp")
    assert "control without privacy" in str(why_unranked(cell))
    assert "dp_mlp" not in {p.cell.entry for r in rankings(cells) for p in r.places}
    assert any("control without privacy" in item.reason for item in refusals(cells))


def test_a_claim_above_its_budget_is_ranked_nowhere(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "dp_mlp" and record.key["epsilon"] == "8":
            record = replace(record, claims=({**record.claims[0], "epsilon": 9.0},))
        changed.append(replace(run, record=record))
    cells = build_cells(changed, info)
    (cell,) = at(cells, "8", "dp_mlp")
    assert numbers(str(why_unranked(cell))) == [9, 8]  # claimed, budget
    ranked = {
        (p.cell.entry, r.epsilon) for r in rankings(cells) if r.dataset == "alpha" for p in r.places
    }
    assert ("dp_mlp", "8") not in ranked
    assert ("dp_mlp", "1") in ranked
    assert any("exceeds the budget" in item.reason for item in refusals(cells))


def test_refusals_name_each_pair_of_guarantees_once(runs: list[Run], info: StudyInfo) -> None:
    found = refusals(build_cells(runs, info))
    kinds = [frozenset((item.first, item.second)) for item in found]
    assert len(kinds) == len(set(kinds)) == 5


def test_repeats_on_different_splits_are_not_paired(runs: list[Run], info: StudyInfo) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "gcn" and record.key["repeat"] == 2:
            record = replace(record, inputs={**record.inputs, "split_sha256": "another"})
        changed.append(replace(run, record=record))
    cells = build_cells(changed, info)
    (mlp,), (gcn,) = at(cells, "inf", "mlp"), at(cells, "inf", "gcn")
    test = compare(gcn, mlp)
    assert test is not None
    assert test.n == 2


@pytest.mark.parametrize(("name", "paired"), [("split_sha256", 3), ("graph_sha256", 2)])
def test_a_published_split_is_the_graphs_whatever_seed_its_file_names(
    runs: list[Run], info: StudyInfo, name: str, paired: int
) -> None:
    changed = []
    for run in runs:
        record = run.record
        if record.key["entry"] == "gcn" and record.key["repeat"] == 2:
            record = replace(record, inputs={**record.inputs, name: "another"})
        changed.append(replace(run, record=record))
    cells = build_cells(changed, info)
    (mlp,), (gcn,) = (at(cells, "inf", entry, dataset="beta") for entry in ("mlp", "gcn"))
    test = compare(gcn, mlp)
    assert test is not None
    assert test.n == paired


def test_cells_of_different_places_are_never_compared(runs: list[Run], info: StudyInfo) -> None:
    cells = build_cells(runs, info)
    (here,), (there,) = at(cells, "inf", "mlp"), at(cells, "inf", "mlp", dataset="beta")
    with pytest.raises(ValueError, match="one data set and setting"):
        compare(here, there)

"""What the index says of an equal tuning budget: who leads tuned and as stated, and what the choice gains."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.docs_tuned import tuned_lines
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables.rows import RankingRow, TunedRow


def ranked(dataset: str, means: dict[str, float]) -> list[RankingRow]:
    order = sorted(means, key=lambda entry: -means[entry])
    return [
        RankingRow(
            guarantee="edge, proved", setting="whole", epsilon="8", dataset=dataset, entry=entry,
            label=entry.upper(), mean=means[entry], position=position, answers="own-record", bold=(),
            low=None, high=None, n=1, behind=None, behind_low=None, behind_high=None, n_pairs=None,
            verdict="",
        )
        for position, entry in enumerate(order, 1)
    ]  # fmt: skip


def gain(dataset: str, entry: str, fixed: float | None, points: float, verdict: str) -> TunedRow:
    return TunedRow(
        dataset=dataset, setting="whole", epsilon="8", entry=entry, label=entry.upper(), points=6,
        fixed=fixed, mean=0.9, low=None, high=None, n=1, gain_mean=points, gain_low=None,
        gain_high=None, n_pairs=1, verdict=verdict, chosen="",
    )  # fmt: skip


@pytest.fixture
def results(documented: Any, info: StudyInfo) -> StudyResults:
    found, _ = documented
    # alpha: gap leads both; beta: tuning brings caribou ahead; gamma: caribou has no score as stated
    ranks = [
        *ranked("alpha", {"gap": 0.82, "caribou": 0.81}),
        *ranked("beta", {"gap": 0.79, "caribou": 0.9}),
        *ranked("gamma", {"gap": 0.79, "caribou": 0.9}),
        *ranked("synthetic-flickr", {"gap": 0.1, "caribou": 0.2}),
    ]
    tuned = [
        gain("alpha", "gap", 0.8, 0.02, "larger than the noise"),
        gain("alpha", "caribou", 0.7, 0.11, "inside the noise"),
        gain("beta", "gap", 0.8, -0.01, "larger than the noise"),
        gain("beta", "caribou", 0.7, 0.2, "one repeat"),
        gain("gamma", "gap", 0.8, -0.01, "unclear"),
        gain("gamma", "caribou", None, 0.2, "one repeat"),
        gain("synthetic-flickr", "gap", 0.8, 0.9, "larger than the noise"),
        gain("synthetic-flickr", "caribou", 0.8, 0.9, "larger than the noise"),
    ]
    return replace(
        found,
        tuned=replace(found.tuned, rows=tuned),
        tuned_rankings=replace(found.tuned_rankings, rows=ranks),
    )


def test_leaders_tuned_and_as_stated_are_counted_on_real_graphs(results: StudyResults) -> None:
    text = "\n".join(tuned_lines(results))
    assert "3 graphs, 6 points an entry" in text
    assert "with the fixed configuration, on the same splits, in 1 of 2 rankings." in text
    assert "| edge, proved | 8 | CARIBOU (2: beta, gamma); GAP (1: alpha) | nowhere |" in text
    assert "flickr" not in text


def test_gains_are_told_by_their_sign(results: StudyResults) -> None:
    lines = tuned_lines(results)
    assert "| GAP | as stated | −1.0 to +2.0 (1 ahead, 1 behind, 1 in the noise) |" in lines
    assert "| CARIBOU | as stated | +11.0 to +20.0 (2 one repeat, 1 in the noise) |" in lines


def test_a_study_that_tunes_nothing_says_nothing(documented: Any) -> None:
    assert tuned_lines(documented[0]) == []

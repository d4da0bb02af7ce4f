"""Results of attacks as values: variants stand apart, what is not stated is None, in the study's order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpgnn.core.storage import DamagedFileError, write_json
from dpgnn.records.attacks import AttackedClaim, Line, OneRun, Rate, read_attacks, result_from

KEY = {"dataset": "toy", "setting": "random", "entry": "gap", "epsilon": "1", "repeat": 2}
PLAIN: dict[str, Any] = {"key": KEY, "attack": "hub", "status": "ok"}


def write(folder: Path, results: list[dict[str, Any]], **key: Any) -> None:
    stem = ".".join(str(value) for value in (KEY | key).values())
    content = {"key": KEY | key, "title": "GAP", "method": "gap", "mode": "sound", "claim": None}
    write_json(folder / f"{stem}.json", content | {"results": results})


def test_what_is_not_stated_is_none_and_what_is_further_is_kept() -> None:
    found = result_from(PLAIN | {"largest_without_edge": 0.5})
    assert found.place == ("toy", "random", "gap", "1")
    assert (found.repeat, found.label, found.num_trials) == (2, "gap", 0)
    assert (found.claim, found.line, found.one_run, found.auc) == (None, None, None, None)
    assert dict(found.further) == {"largest_without_edge": 0.5}


def test_tests_of_the_claim_are_read_with_their_numbers() -> None:
    one_run = {"epsilon_lower_bound": 0.5, "num_canaries": 40, "num_guesses": 10, "num_correct": 9,
               "delta": 1e-5, "confidence": 0.99}  # fmt: skip
    found = result_from(PLAIN | {
        "claim": {"epsilon": 2.0, "delta": 1e-5, "privacy_unit": "edge", "status": "proved"},
        "line": {"level": 0.01, "epsilon": 2.0, "delta": 1e-5, "crossed": False},
        "one_run": one_run, "claim_covers_membership": True, "num_members": 3, "num_others": 4,
        "rates": [{"asked": 0.01, "tpr": 0.2, "fpr": 0.0}],
    })  # fmt: skip
    assert found.claim == AttackedClaim(epsilon=2.0, delta=1e-5, privacy_unit="edge")
    assert found.line == Line(level=0.01, epsilon=2.0, delta=1e-5)
    assert found.one_run == OneRun(
        epsilon_lower_bound=0.5,
        num_canaries=40,
        num_guesses=10,
        num_correct=9,
        delta=1e-5,
        confidence=0.99,
    )
    assert found.rates == (Rate(asked=0.01, tpr=0.2),)
    assert found.covered
    assert found.num_trials == 40


def test_an_unbounded_claim_has_no_epsilon() -> None:
    assert result_from(PLAIN | {"claim": {"epsilon": None, "delta": 0.1}}).claim == AttackedClaim(
        delta=0.1
    )


def test_each_variant_is_a_result_of_its_own(tmp_path: Path) -> None:
    variants = {"original": {"auc": 0.9}, "same-graph": {"auc": 0.6, "status": "not-available"}}
    write(tmp_path, [{"attack": "gmia", "status": "ok", "variants": variants}])
    first, second = read_attacks(tmp_path)
    assert (first.variant, first.status, first.auc) == ("original", "ok", 0.9)
    assert (second.variant, second.status, second.auc) == ("same-graph", "not-available", 0.6)


def test_results_stand_in_the_order_of_data_set_entry_budget_and_repeat(tmp_path: Path) -> None:
    for changes in (
        {"epsilon": "16"},
        {"epsilon": "2", "repeat": 1},
        {"dataset": "a"},
        {"epsilon": "2"},
    ):
        write(tmp_path, [{"attack": "hub", "status": "ok"}], **changes)
    assert [(r.dataset, r.epsilon, r.repeat) for r in read_attacks(tmp_path)] == [
        ("a", "1", 2), ("toy", "2", 1), ("toy", "2", 2), ("toy", "16", 2),
    ]  # fmt: skip
    assert read_attacks(tmp_path / "none") == []
    assert len(read_attacks(tmp_path, "toy.random.gap.2.*")) == 2


@pytest.mark.parametrize("content", [[], {"results": []}, {"key": {"dataset": "a"}, "results": []}])
def test_a_file_of_another_form_is_named(tmp_path: Path, content: Any) -> None:
    write_json(tmp_path / "x.json", content)
    with pytest.raises(ValueError, match=r"x\.json: attack must name its run by dataset, setting"):
        read_attacks(tmp_path)


@pytest.mark.parametrize(
    "results",
    [
        None, [1], [{"attack": "hub", "status": "ok", "line": {}}], [{"status": "ok"}],
        [{"attack": "gmia", "status": "ok", "one_run": {}}],
    ],
)  # fmt: skip
def test_a_file_with_results_of_another_form_is_named(tmp_path: Path, results: Any) -> None:
    write(tmp_path, results)
    with pytest.raises(
        DamagedFileError, match=r"\.json is no attack's result .*; attack the run again"
    ):
        read_attacks(tmp_path)


def test_a_budget_that_is_no_number_is_named(tmp_path: Path) -> None:
    write(tmp_path, [{"attack": "hub", "status": "ok"}], epsilon="abc")
    with pytest.raises(DamagedFileError, match=r"abc"):
        read_attacks(tmp_path)


def test_repeated_games_of_one_leak_are_covered_unless_they_say_otherwise(tmp_path: Path) -> None:
    stated = {"status": "ok", "claim_covers_answers": False}
    write(tmp_path, [{"attack": "hub", "status": "ok"}, {"attack": "board", **stated}])
    assert [result.covered for result in read_attacks(tmp_path)] == [True, False]


def test_a_file_that_was_cut_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{"key"')
    with pytest.raises(DamagedFileError, match=r"x\.json is not JSON"):
        read_attacks(tmp_path)

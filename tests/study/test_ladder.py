"""The ladder: each rung differs from the one before in one thing, in the entry as it is resolved."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from helpers import ROOT
from studies import known

from dpgnn.study.entries import StudyEntry
from dpgnn.study.study import Study

STUDY = known(ROOT / "workflow" / "studies" / "ladder.yaml")
LADDERS = [
    (asked.question, list(zip(asked.steps, asked.steps[1:])))
    for asked in STUDY.config.comparisons
    if asked.steps
]
PAIRS = [(question, *pair) for question, pairs in LADDERS for pair in pairs]
# one claim: a record with its own list instead of features, which the sampler follows
ONE_CLAIM = {"privacy_unit", "relation", "options.sampler"}


def changed(first: StudyEntry, second: StudyEntry, dataset: str = "cora_ml") -> set[str]:
    """What differs between two entries: mode, unit, relation, and option paths."""
    sides = [_flat(entry.for_dataset(dataset)) for entry in (first, second)]
    return {
        name
        for name in {*sides[0], *sides[1]}
        if sides[0].get(name, ...) != sides[1].get(name, ...)
    }


def _flat(entry: Any) -> dict[str, Any]:
    found = {name: getattr(entry, name) for name in ("method", "mode", "privacy_unit", "relation")}
    stack = [("options", asdict(entry.options))]
    while stack:
        path, value = stack.pop()
        for name, item in value.items():
            if isinstance(item, dict):
                stack.append((f"{path}.{name}", item))
            else:
                found[f"{path}.{name}"] = item
    return found


@pytest.mark.parametrize(
    ("question", "before", "after"), [pair for pair in PAIRS if "as a whole" not in pair[0]]
)
def test_a_rung_changes_one_thing(question: str, before: str, after: str) -> None:
    found = changed(STUDY.entries[before], STUDY.entries[after])
    assert len(found) == 1 or found == ONE_CLAIM, (question, before, after, found)


def test_every_ladder_goes_from_published_to_sound() -> None:
    whole = [pairs for question, pairs in LADDERS if "one change at a time" in question]
    assert len(whole) == 5
    for pairs in whole:
        assert STUDY.entries[pairs[0][0]].mode == "published"
        assert STUDY.entries[pairs[-1][1]].mode == "sound"


def test_what_the_bound_on_degrees_buys_stands_alone() -> None:
    assert changed(STUDY.entries["gnn-published"], STUDY.entries["gnn-k1"]) == {
        "options.max_degree"
    }
    assert changed(STUDY.entries["gnn-sound-k7"], STUDY.entries["gnn-sound"]) == {
        "options.max_degree"
    }


def test_all_rungs_share_their_splits_with_the_head_to_head_study() -> None:
    other: Study = known(ROOT / "workflow" / "studies" / "headtohead.yaml")
    assert STUDY.split_seed("whole") == other.split_seed("whole")
    assert STUDY.config.settings["whole"] == other.config.settings["whole"]

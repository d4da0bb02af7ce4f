"""docs/choose.md answers from records: the numbers of its tables are those of the cells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import tells

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.entry import Entry, Facts
from dpgnn.report.pages.choose import NOTES, _kinds, _score, choose_page
from dpgnn.report.pages.study_results import StudyResults


def page_of(results: StudyResults) -> list[str]:
    made = choose_page([replace(results, info=replace(results.info, name="headtohead"))], "made")
    assert made is not None
    text, picture, _ = made
    assert picture.png[1:4] == b"PNG"
    assert "alpha" in picture.alt
    return text.splitlines()


def test_rows_hold_the_scores_of_the_cells(documented: tuple[StudyResults, Path]) -> None:
    lines = page_of(documented[0])
    assert lines[0] == "made"
    # three repeats, 0.72 and 0.01 around it: half a width of 4.30265 * 0.01 / sqrt(3) = 2.5 points
    assert "|8|DP-GCN|yes|72.0±2.5|62.0±2.5|DP-MLP|2:0 of 2|" in lines
    assert "|1|GAP|yes|70.0±2.5|60.0±2.5|–|–|" in lines
    # classes of 20, 60 and 120 test nodes
    assert "|majority class|60.0|60.0|" in lines
    assert "|MLP|80.0±2.5|70.0±2.5|" in lines
    assert "|ε|best|edges|alpha (3)|beta (3)|next|ahead|" in lines


def test_a_score_with_another_number_of_splits_says_so(
    documented: tuple[StudyResults, Path],
) -> None:
    cell = next(c for c in documented[0].cells if (c.entry, c.epsilon) == ("gap", "1"))
    assert _score(cell, usual=3) == "70.0±2.5"
    assert _score(cell, usual=10) == "70.0±2.5 (3)"


def test_without_the_study_there_is_no_page(documented: tuple[StudyResults, Path]) -> None:
    assert choose_page([documented[0]], "made") is None


def test_the_committed_page_is_two_screens() -> None:
    page = Path(__file__).parents[3] / "docs" / "choose.md"
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= 600
    assert len(text.splitlines()) <= 80


def test_what_edges_are_is_said_of_graphs_that_are_known() -> None:
    (line, _) = _kinds(["cora", "photo", "facebook-Rutgers89", "mine"])
    tells(line, "citations (cora)", "co-purchases (photo)", "friends (facebook-Rutgers89)")
    assert _kinds(["mine"]) == []


@pytest.mark.parametrize("name", ["dp_mlp", "dp_linear"])
def test_a_model_of_own_records_needs_least_noise_under_add_remove(name: str) -> None:
    assert methods.get(name).title in NOTES["node-bounded"]
    method = methods.get(name)
    facts = Facts(
        num_nodes=2708, num_train=1624, num_features=1433, num_classes=7, task="multiclass"
    )
    noise = {}
    for relation in ("add-remove", "null-one", "replace-one"):
        entry = Entry(
            name="e", method=name, mode="sound", privacy_unit="node", relation=relation,
            options=strict.read(method.config, method.example),
        )  # fmt: skip
        (mechanism,) = method.plan(entry, facts, Budget(epsilon=4.0, delta=1e-5)).mechanisms
        noise[relation] = mechanism.details["noise_multiplier"]
    assert noise["add-remove"] < noise["null-one"] <= noise["replace-one"]

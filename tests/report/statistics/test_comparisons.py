"""The comparisons a study asks for: who meets whom, with what verdict; no run depends on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from helpers import numbers, tells

from dpgnn.core.config import ConfigError
from dpgnn.core.storage import canonical_json
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import Comparison, StudyInfo
from dpgnn.report.statistics.comparisons import compared
from dpgnn.report.statistics.differences import differences
from dpgnn.report.statistics.ranking import pair_of
from dpgnn.report.tables.comparisons_table import by_question, comparisons_table, sentences
from dpgnn.report.tables.tables import differences_table
from dpgnn.study.study import resolve

ASKED = Comparison(question="Ahead?", entries=("dp_gcn*",), against=("dp_mlp", "mlp"))
CHAIN = Comparison(question="Adds?", steps=("dp_mlp", "dp_gcn", "gcn"))


def asking(info: StudyInfo, *asked: Comparison) -> StudyInfo:
    return replace(info, comparisons=asked)


def test_each_entry_meets_each_reference_at_its_own_budget(
    runs: list[Run], info: StudyInfo
) -> None:
    found = compared(build_cells(runs, info), asking(info, ASKED))
    met = {(i.entry.entry, i.reference.entry, i.epsilon) for i in found}
    assert met == {
        (entry, reference, epsilon)
        for entry in ("dp_gcn", "dp_gcn-paper")
        for reference in ("dp_mlp", "mlp")
        for epsilon in ("1", "8")
    }
    assert {item.family for item in found} == {8}  # on each of two data sets


def test_a_chain_sets_each_against_the_one_before(runs: list[Run], info: StudyInfo) -> None:
    found = compared(build_cells(runs, info), asking(info, CHAIN))
    assert {(i.entry.entry, i.reference.entry) for i in found} == {
        ("dp_gcn", "dp_mlp"), ("gcn", "dp_gcn"),
    }  # fmt: skip


def test_a_question_may_be_of_some_data_sets_alone(runs: list[Run], info: StudyInfo) -> None:
    found = compared(build_cells(runs, info), asking(info, replace(CHAIN, datasets=("beta",))))
    everywhere = compared(build_cells(runs, info), asking(info, CHAIN))
    assert {i.entry.dataset for i in found} == {"beta"} < {i.entry.dataset for i in everywhere}


def test_difference_interval_and_verdict_are_those_computed_by_hand(
    runs: list[Run], info: StudyInfo
) -> None:
    found = compared(build_cells(runs, info), asking(info, ASKED))
    (item,) = [
        i for i in found
        if (i.entry.entry, i.reference.entry, i.epsilon) == ("dp_gcn", "dp_mlp", "1")
        and i.entry.dataset == "alpha"
    ]  # fmt: skip
    assert item.test is not None
    # 0.50 - 0.60 in each repeat; the spread counts as one of 200 test nodes: 4.30265 * 0.005 / sqrt(3)
    assert item.test.mean == pytest.approx(-0.10)
    assert item.test.high == pytest.approx(-0.10 + 0.0124207, abs=1e-6)
    assert (item.words, item.claims) == ("behind", "")
    question, first = sentences(found)[:2]
    assert question == "Ahead?"
    # the range, epsilon, places, and how many are behind or ahead
    assert numbers(first) == [-10.0, -10.0, 1, 2, 2, 2.0, 2.0, 8, 2, 2]
    assert [numbers(sentences(found, most=most)[-1]) for most in (1, 3)] == [[3], [1]]


def test_a_pair_has_one_verdict_whichever_question_or_table_asks(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    narrow = Comparison(question="Only this?", entries=("dp_gcn",), against=("mlp",))
    turned = Comparison(question="Turned?", entries=("mlp",), against=("dp_gcn",))
    info = asking(info, narrow, ASKED, turned)
    found = compared(cells, info)
    by_pair: dict[frozenset[int], set[tuple[float | None, int]]] = {}
    for item in found:
        by_pair.setdefault(pair_of(item.entry, item.reference), set()).add(
            (item.corrected_p, item.family)
        )
    assert len(by_pair) == 16
    assert all(len(verdicts) == 1 for verdicts in by_pair.values())
    # of families of 2 and 8 the larger corrects more
    assert {family for verdicts in by_pair.values() for _, family in verdicts} == {8}
    paired = differences(cells, info, found)
    asked_for = [d for d in paired if pair_of(d.entry, d.reference) in by_pair]
    assert len(asked_for) == 8
    for item in asked_for:
        assert {(item.corrected_p, item.family)} == by_pair[pair_of(item.entry, item.reference)]
    # against mlp: of nine on each data set four are asked for
    assert {d.family for d in paired if d not in asked_for} == {5}
    tells(differences_table(paired, info).caption, "does not ask")


def test_only_what_is_clear_of_the_noise_is_bold(
    runs: list[Run], info: StudyInfo, with_score: Callable[[Run, float], Run]
) -> None:
    noisy = [
        with_score(run, 0.6 + 0.1 * int(run.record.key["repeat"]))
        if run.record.key["entry"] == "dp_gcn"
        else run
        for run in runs
    ]
    table = comparisons_table(compared(build_cells(noisy, info), asking(info, ASKED)))
    words = {row.verdict: row.bold for row in table.rows}
    assert words["inside the noise"] == ()
    assert all(bool(row.bold) == (row.verdict in ("ahead", "behind")) for row in table.rows)
    assert "16 comparisons were made" in table.caption


def test_the_page_has_a_table_for_each_question(runs: list[Run], info: StudyInfo) -> None:
    whole = comparisons_table(compared(build_cells(runs, info), asking(info, ASKED, CHAIN)))
    parts = by_question(whole)
    assert [part.title for part in parts] == ["Ahead?", "Adds?"]
    assert sum(len(part.rows) for part in parts) == len(whole.rows)
    assert parts[0].caption.startswith("16 comparisons, 16 larger than the noise.")


def test_a_row_says_where_claims_differ(runs: list[Run], info: StudyInfo) -> None:
    rows = comparisons_table(compared(build_cells(runs, info), asking(info, ASKED))).rows
    reasons = {(row.entry, row.reference): row.claims for row in rows}
    assert reasons["dp_gcn", "dp_mlp"] == ""
    assert "without privacy" in reasons["dp_gcn", "mlp"]
    assert "as-published" in reasons["dp_gcn-paper", "dp_mlp"]


def test_a_comparison_states_pairs_or_a_chain() -> None:
    with pytest.raises(ValueError, match="state entries and against, or steps"):
        Comparison(question="?", entries=("a",))
    with pytest.raises(ValueError, match="state entries and against, or steps"):
        Comparison(question="?", steps=("a",))


STUDIES = [
    "config.yaml",
    *(f"workflow/studies/{n}.yaml" for n in ("dpgnn", "drw", "dpar", "headtohead")),
]


@pytest.mark.parametrize("path", STUDIES)
def test_no_run_depends_on_what_only_the_report_shows(repository: Path, path: str) -> None:
    stated = yaml.safe_load((repository / path).read_text(encoding="utf-8"))
    with_them = resolve(stated, "M")
    entries = list(with_them.entries)
    asked = [{"question": "Another?", "entries": [entries[0]], "against": [entries[1]]}]
    without = resolve({**stated, "comparisons": asked, "baseline": "", "title": "Another"}, "M")
    assert with_them.keys == without.keys
    for key in with_them.keys[:: max(1, len(with_them.keys) // 50)]:
        assert canonical_json(with_them.run_params(key)) == canonical_json(without.run_params(key))


def test_an_unknown_entry_is_named(repository: Path) -> None:
    stated = yaml.safe_load((repository / "config.yaml").read_text(encoding="utf-8"))
    stated["comparisons"] = [{"question": "?", "entries": ["dp_mpl"], "against": ["mlp"]}]
    with pytest.raises(ConfigError, match="comparisons: unknown entry 'dp_mpl'"):
        resolve(stated)


def test_an_unknown_data_set_of_a_question_is_named(repository: Path) -> None:
    stated = yaml.safe_load((repository / "config.yaml").read_text(encoding="utf-8"))
    asked = {"question": "?", "entries": ["mlp"], "against": ["dp_mlp"], "datasets": ["moon"]}
    stated["comparisons"] = [asked]
    with pytest.raises(
        ConfigError,
        match="comparisons: unknown data set 'moon'; known: chains-50, chains-s, digits",
    ):
        resolve(stated)

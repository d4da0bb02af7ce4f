"""What is protected, in words."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import get_args

from helpers import numbers

from dpgnn.accountants.claims import PRIVACY_UNITS
from dpgnn.data.splits import Kind, SplitConfig
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.words import NOT_PROTECTED, protections, setting_words


def test_every_unit_says_what_it_leaves_open() -> None:
    assert set(NOT_PROTECTED) == set(PRIVACY_UNITS)
    assert all(NOT_PROTECTED.values())


def test_an_entry_is_described_once_for_all_data_sets_where_its_claim_is_the_same(
    runs: list[Run], info: StudyInfo
) -> None:
    found = protections(build_cells(runs, info))
    assert [item.entry for item in found] == list(info.entry_order)
    dp_mlp = next(item for item in found if item.entry == "dp_mlp")
    assert dp_mlp.where == ("alpha (random)", "beta (public)")
    assert dp_mlp.example == "alpha, ε = 8"
    first, others = dp_mlp.claims[0]
    assert numbers(first)[:2] == [8, 0.0001]
    assert any("proved" in text and "pld" in text for text in others)
    public = "number of training nodes, number of nodes, number of features, number of classes"
    assert [text for text in dp_mlp.open if "public" in text and text.endswith(public)]


def test_a_published_entry_carries_its_caveats_and_whether_they_break_it(
    runs: list[Run], info: StudyInfo
) -> None:
    item = next(i for i in protections(build_cells(runs, info)) if i.entry == "dp_gcn-paper")
    assert [(name, voids) for name, _, voids in item.caveats] == [("sampler-ripple", True)]
    assert len(item.claims) == 2


def test_answers_that_no_claim_covers_are_said_to_be_open(runs: list[Run], info: StudyInfo) -> None:
    changed = [
        replace(
            run, record=replace(run.record, prediction={"answers": "none", "note": "reads edges"})
        )
        for run in runs
    ]
    item = next(i for i in protections(build_cells(changed, info)) if i.entry == "gap")
    assert any("the answers themselves" in text and "reads edges" in text for text in item.open)


def test_an_entry_without_privacy_protects_nothing(runs: list[Run], info: StudyInfo) -> None:
    item = protections(build_cells(runs, info))[0]
    assert item.claims[0][0].startswith("Nothing is protected")
    assert item.open == ()


def test_settings_are_said_in_words() -> None:
    shares = setting_words(asdict(SplitConfig()))
    assert numbers(shares) == [60, 20]
    assert "edges are kept" in shares
    counts = setting_words(asdict(SplitConfig(kind="per_class", inductive=True)))
    assert numbers(counts) == [20, 500]
    assert "are dropped" in counts
    small = setting_words(asdict(SplitConfig(kind="public", min_class_size=50, drop_isolated=True)))
    assert small.endswith(
        "classes below 50 nodes leave the graph; nodes without an edge leave the graph"
    )


def test_every_kind_of_split_has_words() -> None:
    words = {setting_words(asdict(SplitConfig(kind=kind))).split(";")[0] for kind in get_args(Kind)}
    assert len(words) == len(get_args(Kind))
    assert not words & set(get_args(Kind))

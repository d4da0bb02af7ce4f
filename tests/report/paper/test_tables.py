"""A paper's values beside ours: mapping, differences, verdicts, and a reason in every empty cell."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from helpers import tells

from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.data.raw.sources import data_folder
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.map import PaperMap, load_map, read_numbers
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.paper.tables import paper_tables, values_first
from dpgnn.report.tables.table import Table, to_markdown

NUMBERS = [
    {
        "table": "T1",
        "dataset": "Alpha",
        "method": "DP-GCN",
        "epsilon": "8",
        "mean": "77.0",
        "std": "0.5",
    },
    {"table": "T1", "dataset": "Alpha", "method": "MLP", "epsilon": "", "mean": "85.0", "std": ""},
    {"table": "T1", "dataset": "Gamma", "method": "MLP", "epsilon": "", "mean": "50.0", "std": "1"},
    {
        "table": "T1",
        "dataset": "Alpha",
        "method": "Other",
        "epsilon": "",
        "mean": "10.0",
        "std": "1",
    },
    {
        "table": "T1",
        "dataset": "Alpha",
        "method": "DP-GCN",
        "epsilon": "2",
        "mean": "60.0",
        "std": "1",
    },
    {
        "table": "T2",
        "dataset": "Alpha",
        "method": "GCN",
        "epsilon": "",
        "mean": "90.2",
        "std": "0.3",
    },
]
MAP: dict[str, Any] = {
    "paper": "toy",
    "tables": {
        "T1": {
            "where": {"table": "T1"},
            "title": "Accuracy",
            "setting": "random",
            "scale": 0.01,
            "datasets": {"Alpha": "alpha"},
            "unavailable": {"Gamma": "the raw files cannot be had here"},
            "rules": [
                {"where": {"method": "DP-GCN"}, "entry": "dp_gcn-paper"},
                {"where": {"method": "MLP"}, "entry": "mlp", "note": "the width is not stated"},
            ],
        },
        "T2": {
            "where": {"table": "T2"},
            "setting": "random",
            "scale": 0.01,
            "datasets": {"Alpha": "alpha"},
            "rules": [{"where": {"method": ["GCN", "SAGE"]}, "entry": "gcn"}],
        },
    },
}


def make(mapping: dict[str, Any], runs: list[Run], info: StudyInfo) -> list[Table[PaperRow]]:
    return paper_tables(
        strict.read(PaperMap, mapping), NUMBERS, build_cells(runs, info), runs, info
    )


def test_values_stand_beside_each_other_with_difference_and_verdict(
    runs: list[Run], info: StudyInfo
) -> None:
    first = make(MAP, runs, info)[0]
    row = first.rows[0]
    assert (row.paper_mean, row.paper_std) == (pytest.approx(0.77), pytest.approx(0.005))
    assert row.our_mean == pytest.approx(0.78)
    assert row.difference == pytest.approx(0.01)
    # standard errors 1 / sqrt(3) and, for one stated run, 0.5: 1.0 + 2.13 (t at 4 degrees of freedom) 0.76
    # > 2 points
    assert row.verdict == "undecided"
    assert (
        row.needed == "18"
    )  # t(24.2) sqrt(1 / 18 + 0.25) = 0.946 <= 1 - 0.05 of rounding; 0.952 with 17
    assert "| Alpha | DP-GCN | – | 8 | 77.0 ± 0.5 | 78.0 ± 1.0 | 3 | +1.0 | undecided |" in (
        to_markdown(first)
    )


def test_a_different_value_names_the_ambiguity_as_untested(
    runs: list[Run], info: StudyInfo
) -> None:
    # 80.0 against 85.0 and 88.0; the paper's missing spread is taken as ours, with our
    # two degrees of freedom: half a 90 % interval of 3.4 points beside a margin of 2
    assert make(MAP, runs, info)[0].rows[1].verdict == "undecided"
    numbers = [dict(row) for row in NUMBERS]
    numbers[1] |= {"mean": "88.0"}
    mapping = strict.read(PaperMap, MAP)
    row = paper_tables(mapping, numbers, build_cells(runs, info), runs, info)[0].rows[1]
    assert row.verdict == "different"
    tells(row.reason, "untested", "width")


def test_a_different_value_names_the_run_that_tests_a_reason(
    runs: list[Run], info: StudyInfo
) -> None:
    """One option changed, and what it changes; a run that differs in more tests nothing."""
    mlp = MAP["tables"]["T1"]["rules"][1] | {"note": ""}
    table = {**MAP["tables"]["T1"], "rules": [{**mlp, "alternatives": ["mlp", "gcn*"]}]}
    mapping = strict.read(PaperMap, {**MAP, "tables": {"T1": table}})
    numbers = [dict(row) for row in NUMBERS]
    numbers[1] |= {"mean": "92.0"}

    def reason(options: dict[str, Any]) -> str:
        changed = [
            replace(run, record=replace(run.record, entry=run.record.entry | {"options": options}))
            if run.record.key["entry"] == "gcn"
            else replace(
                run, record=replace(run.record, entry=run.record.entry | {"options": {"depth": 1}})
            )
            for run in runs
        ]
        return (
            paper_tables(mapping, numbers, build_cells(changed, info), changed, info)[0]
            .rows[1]
            .reason
        )

    # MLP 80.0, GCN 90.0
    tells(reason({"depth": 2}), "tested", "depth = 2 (gcn)", "+10.0 points")
    assert reason({"depth": 2, "width": 8}) == "untested: no reason known"


def test_every_row_of_the_paper_is_there_and_empty_ones_say_why(
    runs: list[Run], info: StudyInfo
) -> None:
    rows = make(MAP, runs, info)[0].rows
    assert len(rows) == 5
    reasons = [row.reason for row in rows if row.verdict == "not available"]
    assert reasons == [
        "the raw files cannot be had here",
        "no entry of this study stands for it",
        "not in tier S: alpha.random/dp_gcn-paper/eps=2",
    ]


def test_a_failed_run_gives_its_reason(runs: list[Run], info: StudyInfo) -> None:
    failed = [
        replace(run, record=replace(run.record, status="failed", reason="plan: no budget"))
        if run.record.key["entry"] == "mlp"
        else run
        for run in runs
    ]
    row = make(MAP, failed, info)[0].rows[1]
    assert (row.verdict, row.reason) == ("not available", "failed: plan: no budget")
    missing = [run for run in runs if run.record.key["entry"] != "mlp"]
    assert make(MAP, missing, info)[0].rows[1].reason == "planned, not run yet"


def test_a_row_of_the_paper_without_a_value_has_no_difference(
    runs: list[Run], info: StudyInfo
) -> None:
    numbers = [{**row, "mean": ""} if row["method"] == "MLP" else row for row in NUMBERS]
    mapping = strict.read(PaperMap, MAP)
    row = paper_tables(mapping, numbers, build_cells(runs, info), runs, info)[0].rows[1]
    assert (row.paper_mean, row.difference) == (None, None)
    assert (row.verdict, row.reason) == ("not available", "no value is stated")


def test_one_repeat_against_no_stated_spread_says_so(runs: list[Run], info: StudyInfo) -> None:
    single = [run for run in runs if run.record.key["repeat"] == 0]
    row = make(MAP, single, info)[0].rows[1]
    assert (row.verdict, row.reason) == (
        "undecided",
        "one repeat",
    )


def test_rows_are_told_apart_by_width_where_a_table_has_several(
    runs: list[Run], info: StudyInfo
) -> None:
    found = []
    for widths in (("256", "512"), ("256", "256")):
        numbers = [
            {**row, "layers": "2", "width": width}
            for row, width in zip((NUMBERS[1], NUMBERS[1]), widths)
        ]
        mapping = strict.read(PaperMap, {**MAP, "tables": {"T1": MAP["tables"]["T1"]}})
        rows = paper_tables(mapping, numbers, build_cells(runs, info), runs, info)[0].rows
        found.append([row.detail for row in rows])
    assert found == [["2 layers, width 256", "2 layers, width 512"], ["2 layers", "2 layers"]]


def test_a_rule_may_list_several_values(runs: list[Run], info: StudyInfo) -> None:
    row = make(MAP, runs, info)[1].rows[0]
    assert row.difference == pytest.approx(-0.002)


def test_a_row_of_a_searched_grid_takes_the_entry_that_validates_best(
    runs: list[Run], info: StudyInfo
) -> None:
    def with_val(run: Run, value: float) -> Run:
        metrics = {**run.record.metrics, "val": {"accuracy": value, "micro_f1": value}}
        return replace(run, record=replace(run.record, metrics=metrics))

    rule = {"where": {"method": "MLP"}, "select": ["mlp", "gcn*"], "note": "a grid"}
    table = {**MAP["tables"]["T1"], "rules": [rule]}
    for better, other in (("mlp", "gcn"), ("gcn", "mlp")):
        scored = [with_val(run, 0.9 if run.record.key["entry"] == better else 0.1) for run in runs]
        row = make({**MAP, "tables": {"T1": table}}, scored, info)[0].rows[1]
        assert (row.entry, row.candidates) == (better, 2), other
    without = [
        replace(r, record=replace(r.record, metrics={"test": r.record.metrics["test"]}))
        for r in runs
    ]
    row = make({**MAP, "tables": {"T1": table}}, without, info)[0].rows[1]
    assert row.verdict == "not available"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry": "nope"}, "unknown entry 'nope'"),
        ({"entry": "", "unavailable": ""}, "one of entry, select or unavailable"),
        ({"select": ["gcn*"]}, "one of entry, select or unavailable"),
        ({"entry": "", "select": ["none-such*"]}, "'none-such\\*' matches no entry"),
        ({"alternatives": ["none-such*"]}, "alternatives: 'none-such\\*' matches no entry"),
        ({"where": {"colour": "red"}}, "no column colour"),
        ({"entrie": "mlp"}, "entrie"),
    ],
)
def test_a_wrong_map_is_refused_with_the_key(
    change: dict[str, Any], message: str, runs: list[Run], info: StudyInfo
) -> None:
    rule = {**MAP["tables"]["T1"]["rules"][0], **change}
    table = {**MAP["tables"]["T1"], "rules": [rule]}
    with pytest.raises(ConfigError, match=message):
        make({**MAP, "tables": {"T1": table}}, runs, info)


def test_a_row_of_a_data_set_that_was_not_at_hand_says_so(runs: list[Run], info: StudyInfo) -> None:
    rows = make({**MAP, "absent": {"alpha": "no raw files", "beta": "never said"}}, runs, info)[
        0
    ].rows
    reasons = [row.reason for row in rows if row.verdict == "not available"]
    assert [
        text
        for text in reasons
        if "alpha.random/dp_gcn-paper/eps=2" in text and "raw files" in text
    ]
    assert not [row for row in rows if "never said" in row.reason]


def test_an_entry_of_another_tier_may_stand_in_a_map(runs: list[Run], info: StudyInfo) -> None:
    rule = {**MAP["tables"]["T1"]["rules"][0], "entry": "large"}
    table = {**MAP["tables"]["T1"], "rules": [rule]}
    known = replace(info, other_entries=("large",))
    row = make({**MAP, "tables": {"T1": table}}, runs, known)[0].rows[0]
    assert row.verdict == "not available"
    assert f"not in tier {info.tier}" in row.reason


def test_a_table_that_matches_no_row_is_refused(runs: list[Run], info: StudyInfo) -> None:
    table = {**MAP["tables"]["T1"], "where": {"table": "T9"}}
    with pytest.raises(ConfigError, match=r"tables\.T9\.where matches no row"):
        make({**MAP, "tables": {"T9": table}}, runs, info)


def test_of_a_tables_values_the_one_with_most_decimals_says_how_they_were_rounded(
    runs: list[Run], info: StudyInfo
) -> None:
    first, second = (table.rows[0] for table in make(MAP, runs, info))
    assert (first.rounding, second.rounding) == (pytest.approx(5e-4), pytest.approx(5e-4))


def test_a_paper_without_a_map_says_which_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"data/papers/maps/none\.yaml"):
        load_map("none", tmp_path)


def test_a_map_file_is_read_strictly(tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text("paper: toy\ntables: {T1: {where: {}, settings: x, rules: []}}\n", "utf-8")
    with pytest.raises(ConfigError, match="settings"):
        load_map("toy", tmp_path)


def test_the_papers_numbers_have_the_columns_maps_rely_on() -> None:
    rows = read_numbers("paper_numbers.csv")
    assert {"paper", "table", "dataset", "method", "epsilon", "mean", "std"} <= set(rows[0])
    assert {row["paper"] for row in rows} == {"dpgnn", "drw", "dpar"}


def test_every_map_in_the_repository_is_well_formed() -> None:
    folder = data_folder() / "papers" / "maps"
    for path in sorted(folder.glob("*.yaml")) if folder.exists() else []:
        mapping = load_map(path.stem)
        assert mapping.paper == path.stem
        assert read_numbers(mapping.source)


def test_rows_with_a_value_come_first_and_budgets_by_size() -> None:
    stated = [
        ("a", "16", "same"), ("b", "1", "not available"), ("a", "2", "different"),
        ("b", "", "same"),
    ]  # fmt: skip
    rows = [
        PaperRow(
            dataset=dataset, method="m", detail="", epsilon=epsilon, paper_mean=0.5, paper_std=None,
            rounding=0.0, verdict=verdict,
        )
        for dataset, epsilon, verdict in stated
    ]  # fmt: skip
    table = Table(name="t", title="", caption="", columns=(), rows=rows)
    assert [row.epsilon for row in values_first(table).rows] == ["2", "16", "", "1"]


def changed_map(**changed: Any) -> dict[str, Any]:
    """The toy map with T1 alone, changed."""
    return {**MAP, "tables": {"T1": {**MAP["tables"]["T1"], **changed}}}


def test_an_entry_may_name_a_column_of_the_row(runs: list[Run], info: StudyInfo) -> None:
    numbers = [{**row, "suffix": "paper"} for row in NUMBERS]
    rules = [{"where": {"method": "DP-GCN"}, "entry": "dp_gcn-{suffix}"}]
    mapping = strict.read(PaperMap, changed_map(rules=rules))
    row = paper_tables(mapping, numbers, build_cells(runs, info), runs, info)[0].rows[0]
    assert row.entry == "dp_gcn-paper"
    assert row.our_mean == pytest.approx(0.78)
    with pytest.raises(ConfigError, match="no column suffix"):
        make(changed_map(rules=rules), runs, info)
    with pytest.raises(ConfigError, match=r"unknown entry 'dp_gnn-\{suffix\}'"):
        make(changed_map(rules=[{**rules[0], "entry": "dp_gnn-{suffix}"}]), runs, info)


def test_a_mean_over_a_grid_stands_beside_all_runs_of_ours(
    runs: list[Run], info: StudyInfo
) -> None:
    """A pooled row has the scores of all entries that its rule selects, none chosen."""
    cells = build_cells(runs, info)
    rule = {"where": {"method": "MLP"}, "select": ["mlp", "gcn"], "pooled": True}
    row = make(changed_map(rules=[rule]), runs, info)[0].rows[1]
    there = [
        c for c in cells if (c.dataset, c.setting) == ("alpha", "random") and c.epsilon == "inf"
    ]
    scores = [s for c in there if c.entry in ("mlp", "gcn") for s in c.scores.values()]
    assert len(scores) > max(len(c.scores) for c in there)
    assert (row.our_n, row.our_mean) == (len(scores), pytest.approx(sum(scores) / len(scores)))
    assert row.candidates is None
    with pytest.raises(ConfigError, match="pooled needs select"):
        make(changed_map(rules=[{"where": {}, "entry": "mlp", "pooled": True}]), runs, info)


def test_a_table_may_have_a_source_of_its_own_and_tell_rows_apart(
    runs: list[Run], info: StudyInfo
) -> None:
    """The toy's tables by the real logs of CARIBOU's figures: three runs a point, their spread stated."""
    where = {"figure": "F7", "dataset": "chain-l", "method": "gap", "metric": "all_runs_mean"}
    stated = {
        "source": "caribou_figures.csv", "spread": "std", "apart": {"hops": "K = "}, "where": where,
        "datasets": {"chain-l": "alpha"}, "rules": [{"where": {"hops": "20"}, "entry": "mlp"}],
    }  # fmt: skip
    mapping = strict.read(PaperMap, {**changed_map(**stated), "value": "value", "runs": "runs"})
    table = paper_tables(mapping, [{"value": "", "std": ""}], build_cells(runs, info), runs, info)[
        0
    ]
    row = next(row for row in table.rows if row.detail == "K = 20")
    # 90, 90 and 100 %
    assert (row.paper_mean, row.paper_n) == (pytest.approx(0.9333), 3)
    assert row.paper_std == pytest.approx(0.0577, abs=2e-4)
    assert row.our_mean is not None
    assert [r.detail for r in table.rows] == [f"K = {k}" for k in (5, 7, 9, 11, 13, 15, 17, 20)]

"""The ladder's page section: rungs in order, each with its own change, and what would decide what is open."""

from __future__ import annotations

from dataclasses import replace

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import Comparison, StudyInfo
from dpgnn.report.pages.ladders import ladder_lines, ladder_summary
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.comparisons import compared
from dpgnn.report.tables.comparisons_table import comparisons_table


def test_each_rung_stands_beside_the_one_above(runs: list[Run], info: StudyInfo) -> None:
    asked = (
        Comparison(
            question="A ladder, one change at a time", steps=("dp_mlp", "dp_gcn-paper", "dp_gcn")
        ),
        Comparison(question="The last rung alone", steps=("dp_gcn-paper", "dp_gcn")),
    )
    stated = replace(info, name="ladder", comparisons=asked)
    cells = build_cells(runs, stated)
    table = comparisons_table(compared(cells, stated))
    results = StudyResults.__new__(StudyResults)
    object.__setattr__(results, "info", stated)
    object.__setattr__(results, "comparisons", table)
    text = "\n".join(ladder_lines(results))
    rows = [row for row in table.rows if row.question.startswith("A ladder") and row.epsilon == "8"]
    here = [row for row in rows if (row.dataset, row.setting) == (rows[0].dataset, rows[0].setting)]
    assert [(row.reference, row.entry) for row in here] == [
        ("dp_mlp", "dp_gcn-paper"),
        ("dp_gcn-paper", "dp_gcn"),
    ]
    assert "(results/ladder.md#comparisons)" in text
    place = text[text.index(f"{here[0].dataset}, ε = 8:") :]
    assert f"| {here[0].reference_label} | {100 * here[0].reference_mean:.1f} |  |  |  |" in place
    for row in here:
        assert f"| {row.label} | {100 * row.entry_mean:.1f} | " in place
    change = 100 * (here[1].entry_mean - here[0].reference_mean)
    assert f"{abs(change):.1f}" in place.split("from the first rung")[1].split("\n")[0]
    assert "**The last rung alone**" in text
    (line,) = [
        line
        for line in ladder_summary(results)
        if line.startswith(f"| A ladder, one change at a time | {here[0].dataset} | 8 |")
    ]
    ends = f"| {100 * here[0].reference_mean:.1f} | {100 * here[-1].entry_mean:.1f} | 2 |"
    assert ends in line
    for row in here:
        assert (f"{row.label}: " in line) == bool(row.bold)
    undecided = [row for row in table.rows if row.verdict == "inside the noise"]
    assert all(row.needed for row in undecided)
    assert all(not row.needed for row in table.rows if row.bold)

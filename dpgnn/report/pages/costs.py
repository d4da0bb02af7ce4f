"""Time of a study's runs by entry: the body of a page without accuracies."""

from __future__ import annotations

from dpgnn.report.pages.folded import csv_link
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables import pivots
from dpgnn.report.tables.run_tables import CostRow
from dpgnn.report.tables.table import DASH, markdown_text

FURTHER = {
    "cost": "All, with memory",
    "claims": "what each run claims",
    "plans": "its noise",
}  # tables that are linked


def cost_lines(results: StudyResults) -> list[str]:
    """Seconds of each entry on each graph, with links to memory, claims and plans.

    Args:
        results: of a study that does not compare accuracies; other studies have no such section.
    """
    table = results.tables["cost"]
    if results.info.accuracy or not table.rows:
        return []
    rows: list[CostRow] = list(table.rows)
    places = list(dict.fromkeys((row.dataset, row.setting) for row in rows))
    named = len({setting for _, setting in places}) > 1
    heads = [f"{dataset}, {setting}" if named else dataset for dataset, setting in places]
    found = {(row.label, row.dataset, row.setting): row for row in rows}
    body = [
        [markdown_text(label), *(_taken(found.get((label, *place))) for place in places)]
        for label in dict.fromkeys(row.label for row in rows)
    ]
    links = [
        f"{words}: {csv_link(results.info, name)}"
        for name, words in FURTHER.items()
        if name in results.tables and results.tables[name].rows
    ]
    return [
        '<a id="cost"></a>', "", f"## {table.title}", "",
        *pivots.markdown(["Entry", *heads], body), "",
        f"Mean seconds. {table.caption} {'; '.join(links)}.", "",
    ]  # fmt: skip


def _taken(row: CostRow | None) -> str:
    if row is None or row.mean_seconds is None:
        return DASH
    return f"{row.mean_seconds:.1f}"

"""What releases did to private data: a row for each mechanism of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn.records.cells import Cell
from dpgnn.report.tables.rows import PlanRow
from dpgnn.report.tables.table import Table, columns_of


def plans_table(cells: Sequence[Cell]) -> Table[PlanRow]:
    """The mechanisms of released cells; all repeats have the plan of the first."""
    rows = [
        PlanRow(
            dataset=cell.dataset, setting=cell.setting, entry=cell.entry, label=cell.label,
            epsilon=cell.epsilon, mechanism=mechanism["name"], event=_events(mechanism["event"]),
            noise_stddev=mechanism["noise_stddev"], sensitivity=mechanism["sensitivity"],
            num_steps=mechanism["num_steps"],
        )
        for cell in cells
        if cell.is_private
        for mechanism in cell.runs[0].record.plan.get("mechanisms", ())
    ]  # fmt: skip
    return Table(
        name="plans",
        title="What was done to private data",
        caption=(
            "Each mechanism of a release, fixed from public facts before training: the standard deviation of "
            "its noise, how far one protected element moves the sum that gets it, and how often."
        ),
        columns=columns_of(PlanRow),
        rows=rows,
        empty="No run was a private release.",
    )


def _events(event: dict[str, object]) -> str:
    """The types of an event's parts."""
    parts = event.get("parts")
    if not isinstance(parts, list):
        return str(event["type"])
    return ", ".join(f"{count} x {_events(part)}" for part, count in parts)

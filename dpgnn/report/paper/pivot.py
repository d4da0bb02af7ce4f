"""A paper's table in its own layout: a line for each method, a column for each data set, cells "ours (the
paper's)"."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import replace

from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.tables.latex import Cell, longtable
from dpgnn.report.tables.table import DASH, Table, epsilon_text, signed

SAME, OTHER, OPEN = "=", "≠", "?"
MARKS = {"same": SAME, "different": OTHER, "not available": ""}
NOTE = (
    f"Ours in percent, the paper's value in brackets; {SAME} the two agree by the table's rule, {OTHER} they "
    f"do not, {OPEN} not decided; {DASH} none of ours. Majority class: of the test nodes of our splits."
)
VERDICTS = (
    f"Values of ours that {SAME} agree with the paper's by the table's rule, {OTHER} do not, {OPEN} are not "
    "decided, and the mean difference in points (ours minus the paper's)."
)


def pivot(table: Table[PaperRow]) -> tuple[list[str], list[list[str]]]:
    """Head and body of the table in the paper's layout."""
    datasets = list(dict.fromkeys(row.dataset for row in table.rows))
    budgets = any(row.epsilon for row in table.rows)
    details = any(row.detail for row in table.rows)
    lines: dict[tuple[str, str, str], dict[str, str]] = {}
    shares: dict[str, str] = {}
    for row in table.rows:
        line = lines.setdefault((row.method, row.detail, row.epsilon), {})
        line[row.dataset] = _cell(row)
        if row.majority is not None:
            shares[row.dataset] = f"{100 * row.majority:.1f}"
    head = ["Method", *(["Variant"] if details else []), *(["ε"] if budgets else []), *datasets]
    body = [
        [
            method,
            *([detail] if details else []),
            *([epsilon_text(epsilon) if epsilon else DASH] if budgets else []),
            *(line.get(dataset, "") for dataset in datasets),
        ]
        for (method, detail, epsilon), line in lines.items()
    ]
    if shares:
        before = ["Majority class", *([""] if details else []), *([DASH] if budgets else [])]
        body.append([*before, *(shares.get(dataset, DASH) for dataset in datasets)])
    return head, body


def at_the_ends(table: Table[PaperRow]) -> Table[PaperRow]:
    """The rows of each method at its smallest and its largest budget, and those without privacy."""
    budgets: dict[tuple[str, str], list[float]] = {}
    for row in table.rows:
        if row.epsilon and row.epsilon != "inf":
            budgets.setdefault((row.method, row.detail), []).append(float(row.epsilon))
    ends = {key: {min(values), max(values), float("inf")} for key, values in budgets.items()}

    def stays(row: PaperRow) -> bool:
        here = ends.get((row.method, row.detail))
        return not row.epsilon or here is None or float(row.epsilon) in here

    return replace(table, rows=[row for row in table.rows if stays(row)])


def verdict_pivot(table: Table[PaperRow]) -> tuple[list[str], list[list[str]]]:
    """Head and body of a summary of a long table: a line for each method, a column for each data set, cells
    with the verdicts and the mean difference.
    """
    datasets = list(dict.fromkeys(row.dataset for row in table.rows))
    methods = dict.fromkeys(row.method for row in table.rows)
    body = [
        [
            method,
            *(
                _verdicts([r for r in table.rows if (r.method, r.dataset) == (method, name)])
                for name in datasets
            ),
        ]
        for method in methods
    ]
    return ["Method", *datasets], body


def _verdicts(rows: Sequence[PaperRow]) -> str:
    """How many values agree, differ or are open, and the mean difference of ours in points."""
    found = [row for row in rows if row.difference is not None]
    if not found:
        return DASH if rows else ""
    marks = [MARKS.get(row.verdict, OPEN) for row in found]
    counts = " ".join(f"{marks.count(mark)}{mark}" for mark in (SAME, OTHER, OPEN) if mark in marks)
    mean = sum(row.difference for row in found if row.difference is not None) / len(found)
    return f"{counts}, {signed(100 * mean)}"


def _cell(row: PaperRow) -> str:
    paper = DASH if row.paper_mean is None else f"{100 * row.paper_mean:.1f}"
    if row.our_mean is None:
        return f"{DASH} ({paper})"
    spread = "" if row.our_std is None else f" ± {100 * row.our_std:.1f}"
    mark = MARKS.get(row.verdict, OPEN)
    return f"{100 * row.our_mean:.1f}{spread} ({paper}){' ' + mark if mark else ''}"


def pivot_csv(table: Table[PaperRow]) -> str:
    """The table in the paper's layout as CSV."""
    out = io.StringIO()
    head, body = pivot(table)
    csv.writer(out, lineterminator="\n").writerows([head, *body])
    return out.getvalue()


def pivot_latex(table: Table[PaperRow]) -> str:
    """The table in the paper's layout as a longtable that fits a page."""
    head, body = pivot(table)
    return longtable(
        name=f"{table.name}-layout",
        caption=f"{table.title}. {NOTE}",
        heads=head,
        is_number=[False] * len(head),
        rows=[[Cell(text=text) for text in row] for row in body],
    )

"""Keeps a study's page short enough to read: long tables are summarised, figures of one kind grouped.

Nothing is lost: the page links the committed files with the full tables.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from dpgnn.core.grouping import grouped
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.parts import STAND_INS
from dpgnn.report.pages.findings import Finding
from dpgnn.report.pages.page_form import LARGEST
from dpgnn.report.pages.rerun import rerun_of_row, rerun_of_table
from dpgnn.report.paper.figures import FigureRow
from dpgnn.report.paper.pivot import NOTE, VERDICTS, at_the_ends, pivot, verdict_pivot
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.tables import pivots
from dpgnn.report.tables.claims_table import AuditRow
from dpgnn.report.tables.table import Table, committed_name, format_value, markdown_text

MAX_ROWS = 20  # a longer table is in its file only
LONGEST = 24  # lines of a paper's table in its own layout; a longer one is summarised
SAID = 4  # sentences of a summary's topic
FOR_PRINT = (
    "For print, as SVG and PDF with their fonts: [two commands](../reference/README.md#for-print)."
)
FEW = 3  # from this many figures on, what their captions share is said once
PART = re.compile(r"(?: \(|, )\d+ of \d+\)$")  # of a figure that is one of several


def csv_link(info: StudyInfo, name: str) -> str:
    """A link to a table's CSV, from a page of docs/results."""
    return f"[CSV](../reference/{info.name}/tables/{committed_name(name)})"


def paper_tables_lines(info: StudyInfo, tables: Sequence[Table[PaperRow]]) -> list[str]:
    """A paper's tables in its own layout; sentences that all captions share stand above them once."""
    filled = [table for table in tables if table.rows]
    captions = [_split(markdown_text(table.caption)) for table in filled]
    common = (
        [item for item in captions[0] if all(item in each for each in captions)] if filled else []
    )
    lines = [f"Of the paper's tables: {' '.join(common)} {NOTE}", ""] if common else []
    for table in tables:
        lines += _paper_lines(info, table, common) if table.rows else table_lines(info, table)
    return lines


def _paper_lines(info: StudyInfo, table: Table[PaperRow], common: Sequence[str]) -> list[str]:
    """A table in full; if long, at the smallest and the largest ε; if very long, as counts of verdicts."""
    told = ""
    head, body = pivot(table)
    if len(body) > LONGEST:
        head, body = pivot(at_the_ends(table))
        told = "Here the smallest and the largest ε of each method."
    if len(body) > LONGEST:
        head, body = verdict_pivot(table)
        told = VERDICTS
    own = [item for item in _split(markdown_text(table.caption)) if item not in common]
    if told:
        told += f" Every value beside ours: {csv_link(info, table.name + '-layout')}."
    files = f"Differences, n and reasons: {csv_link(info, table.name)}."
    return [
        f'<a id="{table.name}"></a>', "", f"## {markdown_text(table.title)}", "",
        *pivots.markdown(head, body), "", " ".join(filter(None, [*own, told, files])), "",
        *_again(info, table),
    ]  # fmt: skip


def _split(text: str) -> list[str]:
    """A caption's sentences."""
    return re.split(r"(?<=\.) (?=[A-Z0-9])", text)


def commands_of(info: StudyInfo, table: Table[PaperRow]) -> list[str]:
    """The command of every cell of a paper's table."""
    return list(dict.fromkeys(filter(None, (rerun_of_row(info, row) for row in table.rows))))


def _again(info: StudyInfo, table: Table[PaperRow]) -> list[str]:
    """How to rerun a cell, with a link to the file of all commands."""
    commands = commands_of(info, table)
    if not commands:
        return []
    path = f"../reference/{info.name}/tables/{table.name}-commands.txt"
    data = next((row.our_dataset for row in table.rows if row.our_mean is not None), None)
    whole = f"`{rerun_of_table(info, table.name, data)}`; " if data else ""
    return [f"Make cells again: {whole}[the command of each]({path}).", ""]


def table_lines(info: StudyInfo, table: Table) -> list[str]:
    """A table with its anchor; of audits only those that did not pass; a long table as a link to its CSV."""
    head = [f'<a id="{table.name}"></a>', "", f"## {markdown_text(table.title)}", ""]
    printed = table.printed
    rows: Sequence[Any] = table.rows
    told: list[str] = []
    if not rows:
        return [*head, table.empty, ""]
    if len(rows) > MAX_ROWS:
        rows = _notable(rows)
        told = [_counts(table, rows), ""]
    if rows:
        body = [[column.text(row) for column in printed] for row in rows]
        told += [*pivots.markdown([column.header for column in printed], body), ""]
    full = f"All {len(table.rows)} rows with every reason and full numbers"
    return [*head, *told, table.caption, "", f"{full}: {csv_link(info, table.name)}.", ""]


def _notable(rows: Sequence[Any]) -> list[Any]:
    """The audits that did not pass, one of the repeats that ended alike; none for other tables."""
    found: dict[Any, Any] = {}
    for row in rows:
        if isinstance(row, AuditRow) and row.outcome != "passed":
            place = (row.dataset, row.setting, row.entry, row.epsilon, row.attack, row.outcome)
            found.setdefault(place, row)
    return list(found.values()) if len(found) <= MAX_ROWS else []


def _counts(table: Table, shown: Sequence[Any]) -> str:
    """Number of rows of a long table by outcome, or by data set."""
    key = "outcome" if hasattr(table.rows[0], "outcome") else "dataset"
    column = next((column for column in table.columns if column.key == key), None)
    if column is None:
        return f"{len(table.rows)} rows."
    values = [format_value(column.value(row), column.kind) for row in table.rows]
    parts = [f"{values.count(value)} {value}" for value in dict.fromkeys(values)]
    again = any(isinstance(row, AuditRow) and row.repeat for row in table.rows)
    once = ", repeats that ended alike once" if again else ""
    rest = f" Those that did not pass{once}:" if shown else ""
    return f"{len(table.rows)} rows: {', '.join(parts)}.{rest}"


def figure_lines(
    info: StudyInfo, pictures: Sequence[Picture], paper_figures: Sequence[FigureRow]
) -> list[str]:
    """Figures by kind, the parts of a figure under one heading; figures on stand-ins as a list of links."""
    if not pictures and not paper_figures:
        return []
    lines = ['<a id="figures"></a>', "", "## Figures", "", FOR_PRINT, ""]
    shown = (picture for picture in pictures if not picture.name.startswith(LARGEST))
    groups = grouped(shown, lambda picture: _whole(picture.title))
    linked = [title for title in groups if STAND_INS in title]
    captions = {t: _sentences(parts) for t, parts in groups.items() if t not in linked}
    told, shared = _shared(captions)
    lines += told
    for title, sentences in captions.items():
        lines += [f"### {title}", ""]
        for picture in groups[title]:
            lines += [f'<a id="{picture.name}"></a>', ""]
            lines += [f"![{picture.title}]({_path(info, picture)})", ""]
        lines += [" ".join(item for item in sentences if item not in shared[title]), ""]
    lines += _linked(info, [picture for title in linked for picture in groups[title]])
    names = {picture.name for picture in pictures}
    for row in paper_figures:
        name = f"paper-{info.paper}-{row.figure}"
        if name not in names:
            lines += [f'<a id="{name}"></a>', "", f"### {row.figure}: {row.title}", ""]
            lines += [f"Not drawn: {row.reason or 'no cell of it has a record'}.", ""]
    return lines


def _linked(info: StudyInfo, pictures: Sequence[Picture]) -> list[str]:
    """Links to the figures on stand-ins, which the findings do not use."""
    if not pictures:
        return []
    items = [
        f'- <a id="{picture.name}"></a>[{picture.title}]({_path(info, picture)})'
        for picture in pictures
    ]
    return [f"### On {STAND_INS}", "", "Graphs drawn in the shape of real ones.", "", *items, ""]


def _shared(captions: Mapping[str, Sequence[str]]) -> tuple[list[str], dict[str, set[str]]]:
    """What all captions of a kind share, as lines; and title -> sentences that its caption leaves out.

    Figures are of one kind where their captions begin alike; a kind has at least three.
    """
    lines, shared = [], {title: set[str]() for title in captions}
    for titles in grouped(captions, lambda title: captions[title][0]).values():
        common = [item for item in captions[titles[0]] if all(item in captions[t] for t in titles)]
        if len(titles) >= FEW:
            names = dict.fromkeys(re.split(r": | \(", title)[0] for title in titles)
            lines.append(f"- {', '.join(names)}: {' '.join(common)}")
            shared |= {title: set(common) for title in titles}
    return (["What captions have in common:", "", *lines, ""] if lines else []), shared


def _sentences(parts: Sequence[Picture]) -> list[str]:
    """The sentences of the captions of one figure's parts, each once."""
    return list(dict.fromkeys(item for picture in parts for item in _split(picture.caption)))


def summary_lines(info: StudyInfo, summary: Sequence[Finding]) -> list[str]:
    """The summary at the top of a page; only the first sentences of a long topic."""
    lines = ["## Summary", ""]
    for finding in summary:
        if finding.topic == "What was asked":
            continue
        told = list(finding.sentences[:SAID])
        if more := len(finding.sentences) - len(told):
            told.append(f"{more} more: {_rest(info, finding.topic)}.")
        lines += [f"**{finding.topic}.** {' '.join(told)}", ""]
    return lines


def _rest(info: StudyInfo, topic: str) -> str:
    """Where to find the numbers of a topic's sentences that the page leaves out."""
    if topic == "The paper's numbers":
        return "the tables below"
    return csv_link(info, "rankings" if topic == "Who leads" else "differences")


def _path(info: StudyInfo, picture: Picture) -> str:
    return f"../figures/{info.name}/{picture.name}.png"


def _whole(title: str) -> str:
    """A part's title without its number."""
    part = PART.search(title)
    if part is None:
        return title
    return title[: part.start()] + (")" if part[0].startswith(",") else "")

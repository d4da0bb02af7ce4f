"""docs/results.md and docs/results/STUDY.md: what the committed records say, written by one command.

`dpgnn report --docs` reads docs/reference/STUDY/runs and writes the pages, docs/reference/STUDY/tables (CSV,
LaTeX of papers' tables), the figures and the README's front figure. No number in them is typed by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dpgnn.core.storage import write_text
from dpgnn.records.attacks import read_attacks
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.drawing import write_picture, write_png
from dpgnn.report.pages.choose import choose_page
from dpgnn.report.pages.docs_index import MADE, below, index_page, method_line, pages_behind
from dpgnn.report.pages.explorer import explorer_table
from dpgnn.report.pages.front_figure import front_figure
from dpgnn.report.pages.ladders import STUDY as LADDER
from dpgnn.report.pages.ladders import ladder_lines
from dpgnn.report.pages.page_form import LARGEST
from dpgnn.report.pages.rerun import rerun_of_row
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.pages.ten_findings import headlines
from dpgnn.report.paper.pivot import NOTE, pivot, pivot_latex
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.tables import pivots
from dpgnn.report.tables.rows import StatusRow
from dpgnn.report.tables.table import Table, markdown_text, to_csv, to_latex, to_markdown
from dpgnn.report.tables.tuning import CHOSEN

MAX_ROWS = 200  # a longer table stands in its file only
FOLDED = 60  # a paper's table with more lines is folded away


def write_docs(found: Sequence[StudyResults], infos: Sequence[StudyInfo], docs: Path) -> list[Path]:
    """Write all pages.

    Args:
        found: the studies with committed records.
        infos: all studies, with and without records, for the list of targets.
        docs: the folder docs.

    Returns:
        the pages.
    """
    texts = {}
    for results in found:
        _write_tables(results, docs / "reference" / results.info.name / "tables")
        _write_figures(results, docs / "figures" / results.info.name)
        texts[results.info.name] = study_page(results)
    front = front_figure(found)
    if front is not None:
        write_picture(docs / "figures", front)
    pages = {docs / "results" / f"{name}.md": text for name, text in texts.items()}
    chosen = choose_page(found, MADE)
    if chosen is not None:
        pages[docs / "choose.md"], picture, choices = chosen
        write_picture(docs / "figures", picture)
    made = headlines(found, None if chosen is None else (choices, picture))
    for item in made:
        write_picture(docs / "figures" / item.where, item.picture)
    behind = pages_behind(found, infos, texts)
    pages |= {docs / "results" / f"{name}.md": text for name, text in behind.items()}
    pages[docs / "results.md"] = index_page(
        found, infos, {**texts, **behind}, made, read_attacks(docs / "reference" / "attacks")
    )
    pages[docs / "reference" / "cells.csv"] = to_csv(explorer_table(found))
    for path, text in pages.items():
        write_text(path, text)
    return list(pages)


def _write_figures(results: StudyResults, folder: Path) -> None:
    """A study's figures but the largest; what earlier ones left goes first."""
    for stale in folder.glob("*.png"):
        stale.unlink()
    for picture, _ in results.figures:
        if not picture.name.startswith(LARGEST):
            write_png(folder, picture)


def _write_tables(results: StudyResults, folder: Path) -> None:
    """A study's tables as CSV, the paper's as LaTeX too; what earlier ones left goes first."""
    for stale in (*folder.glob("*.csv"), *folder.glob("*.md"), *folder.glob("*.tex")):
        stale.unlink()
    for table in (*results.tables.values(), *results.papers):
        # runs are the records themselves; seconds of cost are those of one execution
        if table.rows and table.name not in ("runs", "cost"):
            write_text(folder / f"{table.name}.csv", to_csv(table))
            if table.name.startswith("paper-"):
                write_text(folder / f"{table.name}.tex", to_latex(table))
    for table in results.papers:
        if table.rows:
            write_text(folder / f"{table.name}-layout.tex", pivot_latex(table))


def study_page(results: StudyResults) -> str:
    """One study: its findings, the paper's tables beside ours, comparisons, rankings, figures."""
    info = results.info
    lines = [*_head(results), method_line([info], "../"), "", *_contents(results)]
    lines += ["## Summary", ""]
    for finding in results.summary:
        if finding.topic != "What was asked":
            lines += [f"**{finding.topic}.** {' '.join(finding.sentences)}", ""]
    for paper in results.papers:
        lines += [*_paper_lines(results, paper), *_commands(results, paper)]
    for name, table in results.tables.items():
        if name.startswith("paper-") and table.rows:
            lines += _table_lines(info, table)
    lines += [*_comparison_lines(results), *_ranking_lines(results), *_tuned_lines(results)]
    for name, table in results.tables.items():
        if (name == "audits" or name.startswith("attack")) and table.rows:
            lines += _table_lines(info, table)
    lines += _figure_lines(results)
    lines += ['<a id="empty"></a>', "", "## Runs without a result", ""]
    lines += _status_lines(results.status)
    return "\n".join(lines).rstrip() + "\n"


def _head(results: StudyResults) -> list[str]:
    """Title, what was run, when and with what."""
    info = results.info
    scored = sum(len(cell.runs) for cell in results.cells)
    dates = (
        "" if results.started is None else f", run {' to '.join(t[:10] for t in results.started)}"
    )
    return [
        MADE, "", f"# {markdown_text(info.title or info.name)}", "",
        "[All results](../results.md)", "",
        f"Study `{_argument(info)}`, tier {info.tier}: {scored} of {len(info.planned)} planned runs have a "
        f"score{dates}. Command: `.venv/bin/dpgnn run {_argument(info)} --tier {info.tier}`. Records: "
        f"[docs/reference/{info.name}](../reference/{info.name}); every table with full numbers, as CSV and, "
        f"for the paper's tables, as LaTeX: [tables](../reference/{info.name}/tables). Versions: "
        + ", ".join(f"{name} {version}" for name, version in results.versions.items())
        + ".",
        "",
    ]  # fmt: skip


def _comparison_lines(results: StudyResults) -> list[str]:
    """The comparisons that the study asks for, by question."""
    info, rows = results.info, results.comparisons.rows
    if not rows:
        return []
    lines = []
    if info.name == LADDER:
        lines += ["## Rung by rung", "", *map(below, ladder_lines(results))]
    lines += ['<a id="comparisons"></a>', "", "## Comparisons the study asks for", ""]
    lines += [
        f"Differences in percentage points at equal splits, over data sets and settings; each with its "
        f"interval and n: {_csv(info, results.comparisons)}.",
        "",
    ]
    for question in dict.fromkeys(row.question for row in rows):
        here = [row for row in rows if row.question == question]
        lines += [f"**{question}**", "", *pivots.comparison_summary(here), ""]
    return lines


def _ranking_lines(results: StudyResults) -> list[str]:
    """Rankings under one guarantee, and mean ranks over graphs."""
    rankings, ranks = results.rankings, results.mean_ranks
    lines = []
    if rankings.rows:
        lines += ['<a id="rankings"></a>', "", "## Rankings under one guarantee", ""]
        lines += [*pivots.leaders(rankings.rows), "", *_caption(results.info, rankings)]
    if ranks.rows:
        lines += ['<a id="mean-ranks"></a>', "", f"### {ranks.title}", ""]
        lines += [
            *pivots.mean_rank_lines(ranks.rows, ends=True),
            "",
            *_caption(results.info, ranks),
        ]
    return lines


def _tuned_lines(results: StudyResults) -> list[str]:
    """What an equal tuning budget chose, and the rankings of that."""
    tuned, rankings = results.tuned, results.tuned_rankings
    if not tuned.rows:
        return []
    lines = ['<a id="tuned"></a>', "", f"## {tuned.title}", "", *_caption(results.info, tuned)]
    lines += ['<a id="tuned-rankings"></a>', "", f"### Rankings, equally tuned ({CHOSEN})", ""]
    return [*lines, *pivots.leaders(rankings.rows), "", *_caption(results.info, rankings)]


def _caption(info: StudyInfo, table: Table) -> list[str]:
    return [f"{table.caption} All: {_csv(info, table)}.", ""]


def _csv(info: StudyInfo, table: Table) -> str:
    return f"[CSV](../reference/{info.name}/tables/{table.name}.csv)"


def _contents(results: StudyResults) -> list[str]:
    further = [
        table for name, table in results.tables.items() if name.startswith("paper-") and table.rows
    ]
    items = [f"[{table.title}](#{table.name})" for table in (*results.papers, *further)]
    if results.comparisons.rows:
        items.append("[Comparisons](#comparisons)")
    if results.rankings.rows:
        items.append("[Rankings](#rankings)")
    if results.mean_ranks.rows:
        items.append("[Mean ranks over graphs](#mean-ranks)")
    if results.tuned.rows:
        items.append("[Equal tuning budget](#tuned)")
    items += ["[Figures](#figures)", "[Runs without a result](#empty)"]
    return [f"On this page: {' · '.join(items)}", ""]


def _table_lines(info: StudyInfo, table: Table) -> list[str]:
    """A table with its anchor; a paper's without reasons, which its CSV has, a long one as CSV alone."""
    anchor = [f'<a id="{table.name}"></a>', ""]
    if len(table.rows) > MAX_ROWS:
        rows = f"{len(table.rows)} rows: {_csv(info, table)}."
        return [*anchor, f"## {markdown_text(table.title)}", "", table.caption, "", rows, ""]
    printed = to_markdown(replace(table, columns=table.printed)).rstrip()
    return [*anchor, printed, "", f"With every reason and full numbers: {_csv(info, table)}.", ""]


def _paper_lines(results: StudyResults, table: Table[PaperRow]) -> list[str]:
    """A paper's table in its own layout."""
    if not table.rows:
        return _table_lines(results.info, table)
    head, body = pivot(table)
    lines = pivots.markdown(head, body)
    if len(body) > FOLDED:
        lines = ["<details>", f"<summary>{len(body)} lines</summary>", "", *lines, "", "</details>"]
    return [
        f'<a id="{table.name}"></a>', "", f"## {markdown_text(table.title)}", "",
        *lines, "", f"{markdown_text(table.caption)} {NOTE} Differences, n and "
        f"reasons: {_csv(results.info, table)}.", "",
    ]  # fmt: skip


def _commands(results: StudyResults, table: Table[PaperRow]) -> list[str]:
    """The command of every cell of a paper's table, folded away."""
    texts = list(
        dict.fromkeys(filter(None, (rerun_of_row(results.info, row) for row in table.rows)))
    )
    if not texts:
        return []
    summary = f"<summary>Make a cell again ({len(texts)} commands)</summary>"
    return ["<details>", summary, "", "```", *texts, "```", "</details>", ""]


def _figure_lines(results: StudyResults) -> list[str]:
    lines = ['<a id="figures"></a>', "", "## Figures", ""]
    names = {picture.name for picture, _ in results.figures}
    for picture, _ in results.figures:
        if picture.name.startswith(LARGEST):
            continue
        path = f"../figures/{results.info.name}/{picture.name}.png"
        lines += [f'<a id="{picture.name}"></a>', "", f"### {picture.title}", ""]
        lines += [f"![{picture.title}]({path})", "", picture.caption, ""]
    for row in results.paper_figures:
        name = f"paper-{results.info.paper}-{row.figure}"
        if name not in names:
            lines += [f'<a id="{name}"></a>', "", f"### {row.figure}: {row.title}", ""]
            lines += [f"Not drawn: {row.reason or 'no cell of it has a record'}.", ""]
    return lines


def _status_lines(status: Table[StatusRow]) -> list[str]:
    if not status.rows:
        return [status.empty, ""]
    counts: dict[tuple[str, str, str], int] = {}
    for row in status.rows:
        key = (f"{row.dataset} ({row.setting})", row.status, row.reason)
        counts[key] = counts.get(key, 0) + len(row.repeats.split(", "))
    body = [[*key[:2], str(number), key[2] or "–"] for key, number in counts.items()]
    return [
        *pivots.markdown(["Data set", "Status", "Runs", "Reason"], body),
        "",
        status.caption,
        "",
    ]


def _argument(info: StudyInfo) -> str:
    return "quick" if info.config_path == "config.yaml" else info.name

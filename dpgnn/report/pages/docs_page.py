"""docs/results.md and docs/results/STUDY.md: what the committed records say, written by one command.

`dpgnn report --docs` reads docs/reference/STUDY/runs and writes the pages, docs/reference/STUDY/tables (CSV,
LaTeX of papers' tables), the figures and the README's front figure. No number in them is typed by hand.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from dpgnn.core.storage import atomic_write, write_text
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.attacks import read_attacks
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.drawing import write_picture, write_png
from dpgnn.report.figures.processes import Job, background
from dpgnn.report.pages import finding_differences, paper_claims, ten_findings
from dpgnn.report.pages.asked import question_lines, questions_of
from dpgnn.report.pages.choose import choose_page
from dpgnn.report.pages.costs import cost_lines
from dpgnn.report.pages.docs_index import (
    MADE,
    STATES,
    below,
    index_page,
    method_line,
    pages_behind,
    states_of,
)
from dpgnn.report.pages.explorer import explorer_table
from dpgnn.report.pages.folded import (
    commands_of,
    csv_link,
    figure_lines,
    paper_tables_lines,
    summary_lines,
    table_lines,
)
from dpgnn.report.pages.front_figure import front_figure
from dpgnn.report.pages.headline import Headline
from dpgnn.report.pages.ladders import STUDY as LADDER
from dpgnn.report.pages.ladders import ladder_lines
from dpgnn.report.pages.page_form import LARGEST
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.paper.pivot import pivot_csv, pivot_latex
from dpgnn.report.tables import pivots
from dpgnn.report.tables.code_states import code_states_table
from dpgnn.report.tables.rows import StatusRow
from dpgnn.report.tables.table import Table, committed_name, markdown_text, to_csv, to_latex
from dpgnn.report.tables.tuned_ranks import side_by_side, what_accounting_costs
from dpgnn.report.tables.tuning import CHOSEN

# columns of tables that people read in reports; committed files leave them out, because the records hold them
SENTENCES = ("words", "assumed_public")
# the longest tables name an entry as paths do; its label stands in summary.csv.gz
BY_ENTRY = (
    "claims",
    "comparisons",
    "copied",
    "differences",
    "rankings",
    "tuned-comparisons",
    "tuned-rankings",
)
# eight significant digits of scores and p values: half the bytes of full precision
committed_csv = partial(to_csv, digits=8)


def left_out(table: str) -> tuple[str, ...]:
    """Columns that the committed file of a table lacks."""
    return (*SENTENCES, "label", "reference_label") if table in BY_ENTRY else SENTENCES


def write_docs(found: Iterable[StudyResults], infos: Sequence[StudyInfo], docs: Path) -> list[Path]:
    """Write all pages; nothing is written before the last study is read and the last figure drawn.

    Args:
        found: the studies with committed records; figures of one are drawn while the next is read.
        infos: all studies, with and without records, for the list of targets.
        docs: the folder docs.

    Returns:
        the pages.
    """
    studies = list[StudyResults]()
    with TemporaryDirectory() as folder:
        with background() as draw:
            for results in found:
                draw(_figures(results, Path(folder, results.info.name)))
                studies.append(results)
            pages = _pages(studies, infos, docs, Path(folder), draw)
        for results in studies:
            _write_tables(results, docs / "reference" / results.info.name / "tables")
            for stale in (docs / "figures" / results.info.name).glob("*.png"):
                stale.unlink()
        for path in Path(folder).rglob("*.*"):
            with atomic_write(docs / "figures" / path.relative_to(folder)) as file:
                file.write(path.read_bytes())
    for path, text in pages.items():
        write_text(path, text)
    return list(pages)


def _pages(
    found: Sequence[StudyResults],
    infos: Sequence[StudyInfo],
    docs: Path,
    folder: Path,
    draw: Callable[[Sequence[Job]], None],
) -> dict[Path, str]:
    """Text of each page and of the tables of all studies; `draw` writes their figures to the folder."""
    front = front_figure(found)
    figures = [] if front is None else [partial(write_picture, folder, front)]
    texts = {results.info.name: study_page(results) for results in found}
    pages = {docs / "results" / f"{name}.md": text for name, text in texts.items()}
    chosen = choose_page(found, MADE)
    if chosen is not None:
        pages[docs / "choose.md"], picture, choices = chosen
        figures.append(partial(write_picture, folder, picture))
    made = ten_findings.headlines(found, None if chosen is None else (choices, picture))
    draw([*figures, *(partial(write_picture, folder / item.where, item.picture) for item in made)])
    behind = pages_behind(found, infos, texts, made)
    pages |= {docs / "results" / f"{name}.md": text for name, text in behind.items()}
    pages[docs / "results.md"] = index_page(
        found, infos, {**texts, **behind}, made, read_attacks(docs / "reference" / "attacks")
    )
    return pages | {docs / name: committed_csv(t) for name, t in _csv_files(found, made).items()}


def _csv_files(found: Sequence[StudyResults], made: Sequence[Headline]) -> dict[str, Table]:
    """Path below docs -> the table of all studies that stands there."""
    return {
        "reference/cells.csv": explorer_table(found),
        finding_differences.PAIRS: finding_differences.finding_pairs(made),
        paper_claims.PAIRS: paper_claims.claim_pairs(found),
        STATES: code_states_table(states_of(found)),
    }


def _figures(results: StudyResults, folder: Path) -> list[Job]:
    """What writes a study's figures but the largest."""
    return [
        partial(write_png, folder, picture)
        for picture, _ in results.figures
        if not picture.name.startswith(LARGEST)
    ]


def _write_csv(path: Path, text: str) -> None:
    """Write CSV, compressed where the name says so; without the time, so that equal text has equal bytes."""
    if path.suffix != ".gz":
        write_text(path, text)
        return
    with atomic_write(path) as file:
        file.write(gzip.compress(text.encode(), mtime=0))


def _write_tables(results: StudyResults, folder: Path) -> None:
    """A study's tables as CSV, the paper's as LaTeX too; what earlier ones left goes first.

    Sentences that say what other columns and the records hold are left out: they are a third of all bytes.
    So are the labels of the longest tables.
    """
    for stale in (
        path for kind in ("csv", "csv.gz", "md", "tex", "txt") for path in folder.glob(f"*.{kind}")
    ):
        stale.unlink()
    # runs are the records themselves; seconds of cost are those of one execution
    no_file = {"runs", *(("cost",) if results.info.accuracy else ())}
    for table in (*results.tables.values(), *results.papers):
        if table.rows and table.name not in no_file:
            away = left_out(table.name)
            columns = [column for column in table.columns if column.key not in away]
            shown = replace(table, columns=columns)
            _write_csv(folder / committed_name(table.name), committed_csv(shown))
            if table.name.startswith("paper-"):
                write_text(folder / f"{table.name}.tex", to_latex(table))
    for table in results.papers:
        if table.rows:
            write_text(folder / f"{table.name}-layout.tex", pivot_latex(table))
            write_text(folder / f"{table.name}-layout.csv", pivot_csv(table))
        if commands := commands_of(results.info, table):
            text = "".join(f"{command}\n" for command in commands)
            write_text(folder / f"{table.name}-commands.txt", text)


def study_page(results: StudyResults) -> str:
    """One study: its findings, the paper's tables beside ours, comparisons, rankings, figures."""
    info = results.info
    lines = [*_head(results), method_line([info], "../"), "", *_contents(results)]
    lines += summary_lines(info, results.summary)
    lines += paper_tables_lines(info, results.papers)
    for name, table in results.tables.items():
        if name.endswith("-figures") and table.rows:
            lines += [f'<a id="{name}"></a>', "", f"## {markdown_text(table.title)}", ""]
            lines += [
                f"{table.caption} All: [which are drawn](papers.md), {csv_link(info, name)}.",
                "",
            ]
        elif name.startswith("paper-") and table.rows:
            lines += table_lines(info, table)
    lines += [
        *cost_lines(results),
        *_comparison_lines(results),
        *_ranking_lines(results),
        *_tuned_lines(results),
    ]
    for name, table in results.tables.items():
        if (name == "audits" or name.startswith("attack")) and table.rows:
            lines += table_lines(info, table)
    lines += figure_lines(info, [picture for picture, _ in results.figures], results.paper_figures)
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
        f"[docs/reference/{info.name}](../reference/{info.name}), one by `dpgnn records show "
        f"docs/reference/{info.name}/runs.parquet DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT`, by the columns "
        f"of a CSV; every table with full numbers, as CSV and, "
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
        "Differences in percentage points at equal splits, over data sets and settings, at the smallest "
        f"and the largest ε; every one with its interval and n: {csv_link(info, results.comparisons.name)}."
        f"{_tuned_columns(results)}",
        "",
    ]
    for question in questions_of(results):
        lines += [f"**{question}**", "", *question_lines(results, question), ""]
    return lines


def _tuned_columns(results: StudyResults) -> str:
    """How to read the columns of tuned pairs; "" where there are none."""
    table = results.tuned_comparisons
    if not table.rows:
        return ""
    return (
        " Tuned: the same pairs with both sides [tuned alike](#tuned), where both are, corrected among "
        f"themselves; {csv_link(results.info, table.name)}."
    )


def _ranking_lines(results: StudyResults) -> list[str]:
    """Rankings under one guarantee, and mean ranks over graphs."""
    rankings, ranks = results.rankings, results.mean_ranks
    if results.info.name == MAIN_STUDY and ranks.rows:
        return [*_elsewhere(results.info, rankings), *_elsewhere(results.info, ranks)]
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
    if results.info.name == MAIN_STUDY and rankings.rows:
        lines += _elsewhere(results.info, rankings)
    else:
        lines += ['<a id="tuned-rankings"></a>', "", f"### Rankings, equally tuned ({CHOSEN})", ""]
        lines += [*pivots.leaders(rankings.rows), "", *_caption(results.info, rankings)]
    ranks = results.tuned_ranks
    if ranks.rows:
        lines += ['<a id="tuned-ranks"></a>', "", f"### {ranks.title}", ""]
        lines += [what_accounting_costs(ranks.rows), "", *side_by_side(ranks.rows), ""]
        lines += _caption(results.info, ranks)
    return lines


def _elsewhere(info: StudyInfo, table: Table) -> list[str]:
    """A table of the main study that stands on the page of who leads."""
    told = f"{table.caption} [Who leads](leaders.md) sums it up; all: {csv_link(info, table.name)}."
    return [f'<a id="{table.name}"></a>', "", f"## {table.title}", "", told, ""]


def _caption(info: StudyInfo, table: Table) -> list[str]:
    return [f"{table.caption} All: {csv_link(info, table.name)}.", ""]


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
    if not results.info.accuracy:
        items.append("[Time and memory](#cost)")
    if results.figures or results.paper_figures:
        items.append("[Figures](#figures)")
    items.append("[Runs without a result](#empty)")
    return [f"On this page: {' · '.join(items)}", ""]


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

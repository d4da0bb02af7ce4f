"""docs/results.md and docs/results/STUDY.md: what the committed records say, written by one command.

`dpgnn report --docs` reads docs/reference/STUDY/runs and writes the pages, docs/reference/STUDY/tables (CSV,
Markdown, LaTeX), the pages' figures and the README's front figure. No number in them is typed by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.results import pivots
from dpgnn.results.drawing import Picture, write_png
from dpgnn.results.front_figure import front_figure
from dpgnn.results.info import StudyInfo
from dpgnn.results.rerun import rerun_of_row
from dpgnn.results.stand_ins import on_real_graphs
from dpgnn.results.study_results import StudyResults
from dpgnn.results.table import Row, Table, format_value, signed, to_markdown, write_table
from dpgnn.results.targets import target_lines
from dpgnn.storage import write_text

MADE = "<!-- Made by `dpgnn report --docs` from docs/reference; do not edit. -->"
MAX_ROWS = 400  # a longer table stands in its file only


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
        folder = docs / "reference" / results.info.name / "tables"
        for stale in (*folder.glob("*.csv"), *folder.glob("*.md"), *folder.glob("*.tex")):
            stale.unlink()
        for table in (*results.tables.values(), *results.papers):
            # runs are the records themselves; seconds of cost are those of one execution
            if table.rows and table.name not in ("runs", "cost"):
                write_table(folder, table)
        for picture, _ in results.figures:
            if picture.name not in ("training-curves", "class-accuracy"):
                write_png(docs / "figures" / results.info.name, picture)
        texts[results.info.name] = study_page(results)
    front = front_figure(found)
    if front is not None:
        write_png(docs / "figures", front)
    pages = {docs / "results" / f"{name}.md": text for name, text in texts.items()}
    pages[docs / "results.md"] = index_page(found, infos, texts, front=front)
    for path, text in pages.items():
        write_text(path, text)
    return list(pages)


def index_page(
    found: Sequence[StudyResults],
    infos: Sequence[StudyInfo],
    texts: Mapping[str, str],
    front: Picture | None = None,
) -> str:
    """What we found across studies, and where each table and figure of each paper stands.

    Args:
        found, infos: see `write_docs`.
        texts: the studies' pages by name, which links must lead into.
        front: the figure at the top.
    """
    lines = [MADE, "", "# Results", ""]
    lines += _run_lines(found)
    lines += ["## What we found", "", *_findings(found, front)]
    lines += ["## Every table and figure of the papers", "", *target_lines(infos, texts)]
    return "\n".join(lines).rstrip() + "\n"


def study_page(results: StudyResults) -> str:
    """One study: its findings, the paper's tables beside ours, comparisons, rankings, figures."""
    info = results.info
    lines = [MADE, "", f"# {info.title or info.name}", "", "[All results](../results.md)", ""]
    scored = sum(len(cell.runs) for cell in results.cells)
    dates = (
        "" if results.started is None else f", run {' to '.join(t[:10] for t in results.started)}"
    )
    lines += [
        f"Study `{_argument(info)}`, tier {info.tier}: {scored} of {len(info.planned)} planned runs have a "
        f"score{dates}. Command: `dpgnn run {_argument(info)} --tier {info.tier}`. Records: "
        f"[docs/reference/{info.name}](../reference/{info.name}); every table here with full numbers, as "
        f"CSV, Markdown and LaTeX: [tables](../reference/{info.name}/tables). Versions: "
        + ", ".join(f"{name} {version}" for name, version in results.versions.items())
        + ".",
        "",
    ]
    lines += _contents(results)
    lines += ["## Summary", ""]
    for finding in results.summary:
        if finding.topic != "What was asked":
            lines += [f"**{finding.topic}.** {' '.join(finding.sentences)}", ""]
    for table in results.papers:
        lines += [*_table_lines(info, table), *_commands(results, table)]
    for name, table in results.tables.items():
        if name.startswith("paper-") and table.rows:
            lines += _table_lines(info, table)
    comparisons = results.tables["comparisons"]
    if comparisons.rows:
        lines += ['<a id="comparisons"></a>', "", "## Comparisons the study asks for", ""]
        lines += ["Differences in percentage points at equal splits, with 95 % intervals.", ""]
        lines += [*pivots.comparison_lines(comparisons), comparisons.caption, ""]
    rankings = results.tables["rankings"]
    if rankings.rows:
        lines += ['<a id="rankings"></a>', "", "## Rankings under one guarantee", ""]
        lines += [*pivots.ranking_lines(rankings), rankings.caption, ""]
    tuned = results.tables["tuned"]
    if tuned.rows:
        lines += _table_lines(info, tuned)
        lines += ['<a id="tuned-rankings"></a>', "", "### Rankings, equally tuned", ""]
        lines += pivots.ranking_lines(results.tables["tuned-rankings"])
    for name, table in results.tables.items():
        if (name == "audits" or name.startswith("attack")) and table.rows:
            lines += _table_lines(info, table)
    lines += _figure_lines(results)
    status = results.tables["status"]
    lines += ['<a id="empty"></a>', "", "## Runs without a result", ""]
    lines += _status_lines(status)
    return "\n".join(lines).rstrip() + "\n"


def _run_lines(found: Sequence[StudyResults]) -> list[str]:
    lines = [
        "| study | tier | runs with a score | of planned | page |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for results in found:
        info = results.info
        scored = sum(len(cell.runs) for cell in results.cells)
        lines.append(
            f"| {info.title or info.name} | {info.tier} | {scored} | {len(info.planned)} | "
            f"[{info.name}](results/{info.name}.md) |"
        )
    return [*lines, ""]


def _findings(found: Sequence[StudyResults], front: Picture | None) -> list[str]:
    lines: list[str] = []
    if front is not None:
        lines += [f"![{front.title}](figures/{front.name}.png)", "", f"*{front.caption}*", ""]
    lines += ['<a id="guarantees"></a>', "", "### Which published guarantees hold", ""]
    lines += _guarantees(found)
    lines += [
        '<a id="soundness"></a>',
        "",
        "### What soundness costs or gains at equal epsilon",
        "",
    ]
    lines += _asked(found, ("soundness", "exact count"))
    lines += ['<a id="best"></a>', "", "### Which method is best under which claim", ""]
    main = [results for results in found if results.info.name == "headtohead"] or list(found)
    for results in main:
        table = results.tables["rankings"]
        if table.rows:
            link = f"[{results.info.name}](results/{results.info.name}.md#rankings)"
            lines += [
                f"Study {link}. {_count_text(results)}",
                "",
                *pivots.leaders(_real(table.rows)),
                "",
            ]
    if lines[-2] == "### Which method is best under which claim":
        lines += ["Nowhere do two entries give the same guarantee yet.", ""]
    lines += ['<a id="controls"></a>', "", "### Do edges help under privacy?", ""]
    lines += _asked(found, ("beat", "add", "ahead", "better", "gain"))
    lines += [
        '<a id="not-reproduced"></a>',
        "",
        "### Which published results did not reproduce",
        "",
    ]
    return [*lines, *_not_reproduced(found)]


def _guarantees(found: Sequence[StudyResults]) -> list[str]:
    rows = []
    for results in found:
        methods = {cell.entry: cell.method for cell in results.cells}
        for row in results.tables["claims"].rows:
            if row["mode"] == "published" and "~" not in row["entry"]:
                voiding = tuple(name for name in row["caveats"] if CAVEATS[name].voids)
                extra = {"study": results.info.name, "voiding": voiding}
                rows.append({**row, **extra, "method": methods[row["entry"]]})
    if not rows:
        return ["No published entry has a record.", ""]
    proved = [float(row["proved"]) for row in rows if row["proved"] is not None]
    finite = sum(value < float("inf") for value in proved)
    holds = sum(
        row["proved"] is not None and float(row["proved"]) <= float(row["claimed"]) * (1 + 1e-9)
        for row in rows
    )
    return [
        f"Of {len(rows)} cells run as published, {holds} state an ε that we can prove for what was run, "
        f"{finite - holds} have a larger finite one, and for {len(rows) - finite} no finite ε is known. "
        "Points of sweeps are left out. Links go to the reason, with a demonstration.",
        "", *pivots.guarantee_lines(rows), "",
    ]  # fmt: skip


def _asked(found: Sequence[StudyResults], words: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for results in found:
        rows = results.tables["comparisons"].rows
        for question in dict.fromkeys(row["question"] for row in rows):
            if any(word in question for word in words) and not (
                "soundness" in question and "soundness" not in words
            ):
                here = _real([row for row in rows if row["question"] == question])
                link = f"[{results.info.name}](results/{results.info.name}.md#comparisons)"
                lines += [f"{question} ({link}; points, over data sets and settings)", ""]
                lines += [*pivots.comparison_summary(here), ""]
    return lines or ["No study with records asks this.", ""]


def _real(rows: Sequence[Row]) -> list[Row]:
    """Rows on graphs that were not drawn as stand-ins, where there are any."""
    return on_real_graphs(rows, itemgetter("dataset")) or list(rows)


def _attacked(found: Sequence[StudyResults]) -> list[str]:
    """Where audits and attacks stand, and whether one shows more than a claim allows."""
    lines = ["What is tried, and what it can show: [audits](audits.md).", ""]
    for results in found:
        for name, table in results.tables.items():
            if (name == "audits" or name.startswith("attack")) and table.rows:
                link = f"[{table.title}](results/{results.info.name}.md#{name})"
                lines += [f"Study {results.info.name}: {link}, {len(table.rows)} rows.", ""]
        rows = results.tables["claims"].rows
        measured = [row for row in rows if row.get("measured") is not None]
        above = [row for row in measured if float(row["measured"]) > float(row["claimed"])]
        if measured:
            names = ", ".join(dict.fromkeys(row["label"] for row in above)) or "none"
            lines += [
                f"Of {len(measured)} audited cells of study {results.info.name}, {len(above)} show more "
                f"than the claim allows: {names}.",
                "",
            ]
    return lines


def _count_text(results: StudyResults) -> str:
    caption = results.tables["rankings"].caption
    start = caption.find("(") + 1
    return f"Verdicts are corrected for all pairs: {caption[start : caption.find(')', start)]}."


def _not_reproduced(found: Sequence[StudyResults]) -> list[str]:
    lines: list[str] = []
    for results in found:
        for table in results.papers:
            verdicts = [row.get("verdict", "") for row in table.rows]
            if not table.reproduces or "verdict" not in (table.rows[0] if table.rows else {}):
                continue
            parts = [f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)]
            link = f"results/{results.info.name}.md#{table.name}"
            lines += [f"[{table.title}]({link}): of {len(verdicts)} values {', '.join(parts)}.", ""]
            outside = [row for row in table.rows if row["verdict"] == "outside"]
            if outside:
                lines += [*_outside(outside), ""]
    return lines or ["No study with a paper's table has records yet.", ""]


def _outside(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    body = [
        [
            row["dataset"], row["method"], row["detail"], row["epsilon"] or "–",
            format_value(row["paper_mean"], "percent"), format_value(row["our_mean"], "percent"),
            signed(100 * row["difference"]), row["reason"] or "not known",
        ]
        for row in rows
    ]  # fmt: skip
    head = [
        "Data set",
        "Method",
        "Variant",
        "ε",
        "Paper",
        "Ours",
        "Difference",
        "What may explain it",
    ]
    return pivots.markdown(head, body)


def _contents(results: StudyResults) -> list[str]:
    further = [
        table for name, table in results.tables.items() if name.startswith("paper-") and table.rows
    ]
    items = [f"[{table.title}](#{table.name})" for table in (*results.papers, *further)]
    if results.tables["comparisons"].rows:
        items.append("[Comparisons](#comparisons)")
    if results.tables["rankings"].rows:
        items.append("[Rankings](#rankings)")
    if results.tables["tuned"].rows:
        items.append("[Equal tuning budget](#tuned)")
    items += ["[Figures](#figures)", "[Runs without a result](#empty)"]
    return [f"On this page: {' · '.join(items)}", ""]


def _table_lines(info: StudyInfo, table: Table) -> list[str]:
    anchor = [f'<a id="{table.name}"></a>', ""]
    if len(table.rows) > MAX_ROWS:
        link = f"../reference/{info.name}/tables/{table.name}.csv"
        return [*anchor, f"## {table.title}", "", f"{len(table.rows)} rows: [CSV]({link}).", ""]
    return [*anchor, to_markdown(table).rstrip(), ""]


def _commands(results: StudyResults, table: Table) -> list[str]:
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
        if picture.name in ("training-curves", "class-accuracy"):
            continue
        path = f"../figures/{results.info.name}/{picture.name}.png"
        lines += [f'<a id="{picture.name}"></a>', "", f"### {picture.title}", ""]
        lines += [f"![{picture.title}]({path})", "", picture.caption, ""]
    for table in results.tables.values():
        for row in table.rows:
            name = f"paper-{results.info.paper}-{row.get('figure')}"
            if row.get("figure") and name not in names:
                lines += [f'<a id="{name}"></a>', "", f"### {row['figure']}: {row['title']}", ""]
                lines += [f"Not drawn: {row['reason'] or 'no cell of it has a record'}.", ""]
    return lines


def _status_lines(status: Table) -> list[str]:
    if not status.rows:
        return [status.empty, ""]
    counts: dict[tuple[str, str, str], int] = {}
    for row in status.rows:
        key = (f"{row['dataset']} ({row['setting']})", row["status"], row["reason"])
        counts[key] = counts.get(key, 0) + len(str(row["repeats"]).split(", "))
    body = [[*key[:2], str(number), key[2] or "–"] for key, number in counts.items()]
    return [
        *pivots.markdown(["Data set", "Status", "Runs", "Reason"], body),
        "",
        status.caption,
        "",
    ]


def _argument(info: StudyInfo) -> str:
    return "quick" if info.config_path == "config.yaml" else info.name

"""docs/results.md: ten findings and the papers' claims; and the pages with their evidence."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.core.grouping import grouped
from dpgnn.core.wording import count
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.attacks import AttackResult
from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.asked import asked_lines, csv_of, summed_lines
from dpgnn.report.pages.docs_questions import about_edges, answer, tuned_lines
from dpgnn.report.pages.finding_differences import (
    beyond_these_splits,
    changed_by_tuning,
    tuned_note,
)
from dpgnn.report.pages.headline import Headline, lines_of
from dpgnn.report.pages.ladders import STUDY as LADDER
from dpgnn.report.pages.ladders import ladder_summary
from dpgnn.report.pages.more_repeats import repeat_lines
from dpgnn.report.pages.paper_claims import claim_lines
from dpgnn.report.pages.public_options import option_lines
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.pages.ten_findings import published_rows
from dpgnn.report.paper.rows import ONE_REPEAT, PaperRow
from dpgnn.report.paper.targets import target_lines
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.code_states import CodeState, told
from dpgnn.report.tables.rows import ComparisonRow, RankingRow
from dpgnn.report.tables.table import DASH, epsilon_text, format_value, markdown_text, signed

MADE = "<!-- Made by `dpgnn report --docs` from docs/reference; do not edit. -->"
T = TypeVar("T", RankingRow, ComparisonRow)
STATES = "reference/code_states.csv"  # below docs
MOST = 5  # undecided differences that are listed; the tables have all


def index_page(
    found: Sequence[StudyResults],
    infos: Sequence[StudyInfo],
    texts: Mapping[str, str],
    made: Sequence[Headline],
    attacked: Sequence[AttackResult] = (),
) -> str:
    """Ten findings, then each paper's claims and whether they hold here.

    Args:
        found, infos: see `write_docs`.
        texts: the pages below docs/results by name; every link must lead to one of them.
        made: the findings.
        attacked: committed attacks.
    """
    lines = [MADE, "", "# Results", ""]
    lines += [
        "Differences are in points; [how to read them](terms.md#in-tables-and-findings). "
        f"{tuned_note(made)}[Which method?](choose.md), "
        + ", ".join(f"[{title.lower()}](results/{name}.md)" for name, title in BEHIND.items())
        + ".",
        "",
        "## Ten findings" if len(made) == 10 else "## Findings",
        "",
        *lines_of(made, texts),
        "## What the papers claim",
        "",
        "In our words, on real graphs (mostly not the paper's) or, where said, drawn ones; as published "
        "unless a row says sound. "
        "Yes: every difference is decided, or most where said.",
        "",
        *claim_lines(found, texts, attacked),
        method_line(infos),
    ]
    return "\n".join(lines).rstrip() + "\n"


BEHIND = {
    "guarantees": "Published guarantees",
    "comparisons": "Comparisons",
    "leaders": "Who leads",
    "options": "Options from public graphs",
    "reproduction": "Reproduction",
    "papers": "The papers' tables and figures",
}


def pages_behind(
    found: Sequence[StudyResults],
    infos: Sequence[StudyInfo],
    texts: Mapping[str, str],
    made: Sequence[Headline],
) -> dict[str, str]:
    """Name below docs/results -> page, for the pages in `BEHIND`."""
    bodies = {
        "guarantees": _guarantees(found),
        "comparisons": [*_comparisons(found), *changed_by_tuning(made), *beyond_these_splits(made)],
        "leaders": _leaders(found),
        "options": option_lines(_main(found)),
        "reproduction": _not_reproduced(found),
        "papers": [*_run_lines(found), *target_lines(infos, texts, _further(found))],
    }
    up = "[All results](../results.md)"
    return {
        name: "\n".join([MADE, "", f"# {BEHIND[name]}", "", up, "", *map(below, body)]).rstrip()
        + "\n"
        for name, body in bodies.items()
    }


def below(line: str) -> str:
    """A line of a page in docs/, with its links made relative to docs/results."""
    line = re.sub(r"\]\((?!results/|https?:|#)", "](../", line)
    return line.replace("](results/", "](")


def _further(found: Sequence[StudyResults]) -> dict[str, list[tuple[str, str]]]:
    """Study -> (name, title) of tables of its paper that compare more than accuracies."""
    return {
        results.info.name: [
            (name, table.title)
            for name, table in results.tables.items()
            if name.startswith("paper-") and not name.endswith("-figures") and table.rows
        ]
        for results in found
    }


def states_of(found: Sequence[StudyResults]) -> list[CodeState]:
    """Table of the versions of the code that made the studies' records."""
    by_name = sorted(found, key=lambda results: results.info.name)
    return [state for results in by_name for state in results.code_states]


def _run_lines(found: Sequence[StudyResults]) -> list[str]:
    states = states_of(found)
    lines = [
        "| study | tier | runs with a score | of planned | states of a method's code | page |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for results in found:
        info = results.info
        scored = sum(len(cell.runs) for cell in results.cells)
        lines.append(
            f"| {markdown_text(info.title or info.name)} | {info.tier} | {scored} | {len(info.planned)} | "
            f"{told(states, info.name)} | [{info.name}](results/{info.name}.md) |"
        )
    return [
        *lines, "",
        "Where a method has more than one state, its runs in the study were made before and after a change "
        f"of the code that decides them; [CSV]({STATES}) has each state with its runs and dates.", "",
    ]  # fmt: skip


def _comparisons(found: Sequence[StudyResults]) -> list[str]:
    lines = ['<a id="soundness"></a>', "", "## From published to sound at equal epsilon", ""]
    lines += _soundness(found)
    lines += ['<a id="controls"></a>', "", "## Do edges help under privacy?", ""]
    main = _main(found)
    told = answer([*main, *(results for results in found if results not in main)])
    lines += [*told, ""] if told else []
    lines += asked_lines(main, about_edges)
    lines += summed_lines([results for results in found if results not in main], about_edges)
    lines += ['<a id="further"></a>', "", "## What else was asked", ""]
    return [*lines, *summed_lines(found, _else), *repeat_lines(found)]


def _leaders(found: Sequence[StudyResults]) -> list[str]:
    lines: list[str] = []
    for results in _main(found):
        table = results.rankings
        if table.rows:
            link = f"[{results.info.name}](results/{results.info.name}.md#rankings)"
            lines += [
                f"Study {link}, {csv_of(results, table.name)}. {_count_text(results)}",
                "",
                *pivots.leaders(_real(table.rows)),
                "",
                *_over_graphs(results),
                *tuned_lines(results),
            ]
    return lines or ["Nowhere do two entries give the same guarantee yet.", ""]


def _main(found: Sequence[StudyResults]) -> list[StudyResults]:
    """The head-to-head study; all studies if it has no records."""
    return [results for results in found if results.info.name == MAIN_STUDY] or list(found)


def _over_graphs(results: StudyResults) -> list[str]:
    """Mean ranks over graphs, at the smallest and the largest budget, with a caption."""
    table = results.mean_ranks
    lines = pivots.mean_rank_lines(table.rows, ends=True)
    link = f"[{table.title}](results/{results.info.name}.md#{table.name})"
    head = f"{link}: mean ranks, {csv_of(results, table.name)}."
    return [head, "", *lines, "", table.caption, ""] if lines else []


def _guarantees(found: Sequence[StudyResults]) -> list[str]:
    stated = []
    for results in found:
        methods = {cell.entry: cell.method for cell in results.cells}
        for row in published_rows(results):
            voiding = tuple(name for name in row.caveats if CAVEATS[name].voids)
            method = methods[row.entry]
            stated.append(
                pivots.Guarantee(study=results.info.name, method=method, voiding=voiding, claim=row)
            )
    if not stated:
        return ["No published entry has a record.", ""]
    rows = [item.claim for item in stated]
    proved = [row.proved for row in rows if row.proved is not None]
    finite = sum(value < float("inf") for value in proved)
    holds = sum(
        row.proved is not None
        and row.claimed is not None
        and row.proved <= row.claimed * (1 + 1e-9)
        for row in rows
    )
    # what is proved under another relation answers another question than the claim
    other = [row.proved_relation or "" for row in rows if row.proved_elsewhere is not None]
    elsewhere = (
        f"{len(other)} have a finite one under another relation alone "
        f"({', '.join(sorted(set(other)))}), "
        if other
        else ""
    )
    return [
        f"Of {len(rows)} cells run as published, with our variants, {holds} state an ε that we can prove for "
        f"what was run, {finite - holds} have a larger finite one, {elsewhere}and for "
        f"{len(rows) - finite - len(other)} no finite ε is known. "
        "Points of sweeps and controls without privacy are left out. Links go to the reason, with a "
        "demonstration.",
        "", *pivots.guarantee_lines(stated), "",
    ]  # fmt: skip


def _soundness(found: Sequence[StudyResults]) -> list[str]:
    """The ladder, which changes one thing at a time; without it, other studies' questions on soundness."""
    rungs = [
        line for results in found if results.info.name == LADDER for line in ladder_summary(results)
    ]
    return rungs or asked_lines(found, _about_soundness)


def _else(results: StudyResults, question: str) -> bool:
    told = _about_soundness(results, question) or about_edges(results, question)
    return not (told or results.info.name == LADDER)


def _about_soundness(results: StudyResults, question: str) -> bool:
    return any(word in question for word in ("soundness", "exact count"))


def _real(rows: Sequence[T]) -> list[T]:
    """Rows on graphs that were not drawn as stand-ins, where there are any."""
    return on_real_graphs_if_any(rows, lambda row: row.dataset)


def _count_text(results: StudyResults) -> str:
    caption = results.rankings.caption
    start = caption.find("(") + 1
    return (
        f"Verdicts are corrected within each ranking ({caption[start : caption.find(')', start)]})."
    )


def _not_reproduced(found: Sequence[StudyResults]) -> list[str]:
    lines: list[str] = []
    for results in found:
        for table in results.papers:
            verdicts = [row.verdict for row in table.rows]
            if not table.reproduces or not table.rows:
                continue
            parts = [f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)]
            link = f"results/{results.info.name}.md#{table.name}"
            lines += [
                f"[{table.title}]({link}): of {len(verdicts)} values {', '.join(parts)}. Each with its cell: "
                f"{csv_of(results, table.name)}.",
                "",
            ]
            different = [row for row in table.rows if row.verdict == "different"]
            if different:
                lines += [*_different(different), ""]
            lines += _undecided([row for row in table.rows if row.verdict == "undecided"])
    return lines or ["No study with a paper's table has records yet.", ""]


def _undecided(rows: Sequence[PaperRow]) -> list[str]:
    """Undecided values: the largest differences among them, and the repeats that would decide them."""
    if not rows:
        return []
    largest = sorted(rows, key=lambda row: -abs(row.difference or 0.0))[:MOST]
    named = "; ".join(
        f"{row.dataset}, {', '.join(filter(None, (row.method, row.detail)))}"
        f"{', ε = ' + row.epsilon if row.epsilon else ''}: {signed(100 * (row.difference or 0.0))}"
        f" ({row.needed or ONE_REPEAT})"
        for row in largest
    )
    verb = "is" if len(rows) == 1 else "are"
    few = "the largest differences" if len(rows) > len(largest) else "the differences"
    return [
        f"{count(len(rows), 'value')} {verb} undecided; {few} in points, with the repeats that would "
        f"decide them: {named}.",
        "",
    ]


def _different(rows: Sequence[PaperRow]) -> list[str]:
    """Values that differ; those of one method, data set and reason share a line."""
    groups = grouped(
        rows, lambda row: (row.dataset, row.method, row.detail, row.reason or "not known")
    )
    body = [
        [
            *key[:3], _ends([epsilon_text(row.epsilon) if row.epsilon else DASH for row in here]),
            str(len(here)),
            _ends([format_value(row.paper_mean, "percent") for row in here]),
            _ends([format_value(row.our_mean, "percent") for row in here]),
            _ends([signed(100 * (row.difference or 0.0)) for row in here]), key[3],
        ]
        for key, here in groups.items()
    ]  # fmt: skip
    head = ["Data set", "Method", "Variant", "ε", "Values", "Paper", "Ours", "Difference"]
    return pivots.markdown([*head, "What may explain it"], body)


def _ends(texts: Sequence[str]) -> str:
    """The first and the last of several."""
    return texts[0] if len(set(texts)) == 1 else f"{texts[0]} … {texts[-1]}"


PAGES = {
    "dpgnn": ("dp_gnn", "dp_mlp", "dp_mlp_smooth"),
    "drw": ("drw",),
    "dpar": ("dpar",),
    "caribou": ("caribou",),
    "gap": ("gap", "dpdgc", "lapgraph", "edgerand", "pertgraph"),
    "lpgnet": ("lpgnet",),
    "progap": ("progap",),
    "heterpoisson": ("heterpoisson",),
    "votes": ("votes", "dp_linear"),
    "selected": ("selected",),
}


def method_line(infos: Sequence[StudyInfo], up: str = "") -> str:
    """Links to the pages of the studies' papers and methods.

    Args:
        infos: the studies.
        up: from the page to the folder docs, such as "../".
    """
    papers = {info.paper for info in infos}
    methods = {entry.method for info in infos for entry in info.entries}
    names = [name for name, of in PAGES.items() if name in papers or methods & {*of}]
    links = [f"[{name}]({up}methods/{name}.md)" for name in names or PAGES]
    return f"Methods, and what we changed: {', '.join(links)}."

"""Where to find each table and figure of each paper, and the command that makes it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import yaml

from dpgnn.data.raw.sources import data_folder
from dpgnn.records.info import PAPERS, StudyInfo
from dpgnn.report.paper import figures as paper_figures
from dpgnn.report.paper.captions import load_captions, place_of
from dpgnn.report.paper.map import PaperTable, entry_pattern, load_map, read_numbers, rows_of
from dpgnn.report.paper.rows import row_matches
from dpgnn.report.tables import pivots

SMALL = ("digits", "chains-50")  # graphs of tier S, which no paper has
NOTE = (
    "For every number of a paper's table a page gives the paper's value, ours, the difference and a verdict, "
    "or the reason why ours is not there, and the command that makes the cell again where a cell stands for "
    "it; figures have the command of their study. A command here names a tier that has all of the paper's "
    "own graphs; a page names the tier whose records it shows. Each paper's own tables and figures "
    "stand first, by "
    "their numbers (F5 has the parts F5a and F5b); names with a word after the number (T1-fixed, "
    "F2-here) and "
    "without one are ours: the same question with one fixed configuration, in sound mode, or on graphs "
    "at hand; "
    "-stand-in is a drawn graph in the shape of the paper's. Tier L is the paper's whole grid, on data "
    "sets that have "
    "to be fetched."
)


def target_lines(
    infos: Sequence[StudyInfo],
    texts: Mapping[str, str],
    further: Mapping[str, Sequence[tuple[str, str]]],
) -> list[str]:
    """A table of all targets: paper, table or figure with its link, what it shows, command.

    Args:
        infos: all studies.
        texts: pages by study; every link must lead to one of them.
        further: study -> (anchor, title) of tables on its page besides those of values.
    """
    body = []
    for info in infos:
        if info.paper:
            body += _in_order(info.paper, _rows(info, texts, further))
    return [NOTE, "", *pivots.markdown(["Paper", "Table or figure", "Shows", "Command"], body), ""]


def _in_order(paper: str, rows: Mapping[str, list[str]]) -> list[list[str]]:
    """The paper's own names first, in its order, with the reason if there is no target; then ours."""
    body, left = [], dict(rows)
    for name, caption in load_captions()[paper].items():
        whole = name if name in rows else place_of(name)[0]
        if caption.reason:
            body.append(
                [PAPERS.get(paper, paper), name, caption.shows or "–", f"none: {caption.reason}"]
            )
        elif whole in left:
            row = left.pop(whole)
            if caption.absent:
                row = [*row[:2], f"{row[2]} (not on the paper's data: {caption.absent})", row[3]]
            body.append(row)
    return [*body, *left.values()]


def _rows(
    info: StudyInfo,
    texts: Mapping[str, str],
    further: Mapping[str, Sequence[tuple[str, str]]],
) -> dict[str, list[str]]:
    """Label -> paper, link, title and command of each target of a study's paper."""
    name, found = PAPERS.get(info.paper, info.paper), dict[str, list[str]]()
    for label, title, tier in _with_results(info):
        anchor = f"paper-{info.paper}-{label}"
        there = f'id="{anchor}"' in texts.get(info.name, "")
        link = (
            f"[{label}](results/{info.name}.md#{anchor})" if there else f"{label} (no records yet)"
        )
        found[label] = [name, link, title, _run(info, tier)]
    for anchor, title in further.get(info.name, ()):
        label = anchor.removeprefix(f"paper-{info.paper}-")
        link = f"[{label}](results/{info.name}.md#{anchor})"
        shown = title.removeprefix(f"{info.paper} ").removeprefix(f"{label}: ")
        found.setdefault(label, [name, link, shown, _run(info, info.tier)])
    for label, stated in _without_results().get(info.paper, {}).items():
        page = posixpath.relpath(stated["page"], "docs")
        found[label] = [
            name,
            f"[{label}]({page})",
            stated["title"],
            f"`.venv/bin/{stated['command']}`",
        ]
    return found


def _run(info: StudyInfo, tier: str) -> str:
    return f"`.venv/bin/dpgnn run {info.name} --tier {tier}`"


def _with_results(info: StudyInfo) -> Iterator[tuple[str, str, str]]:
    """(name, title, tier); the study's own tier if it has all of the paper's places, else L."""
    mapping = load_map(info.paper)
    numbers = read_numbers(mapping.source)
    for name, table in mapping.tables.items():
        rows = [row for row in rows_of(table, numbers) if row_matches(row, table.where)]
        stated = {row["dataset"] for row in rows} - set(table.unavailable)
        own = {table.datasets.get(name, name).partition(".")[0] for name in stated}
        yield name, table.title, info.tier if _plans_cells(info, table, own) else "L"
    drawn = paper_figures.load_figures(info.paper)
    for name, figure in (drawn.figures if drawn else {}).items():
        planned = paper_figures.planned_of(figure, info)
        places = {f"{key[0]}.{key[1]}" for keys in planned.values() for key in keys}
        named = [place for _, part in figure.lettered for place in part.places]
        wanted = {place for place in named if place.partition(".")[0] not in SMALL}
        yield name, figure.title, info.tier if places and places >= wanted else "L"


def _plans_cells(info: StudyInfo, table: PaperTable, datasets: set[str]) -> bool:
    """Whether the tier has all of these data sets, and cells of the table's setting and entries."""
    planned = {dataset for dataset, *_ in info.cell_order}
    return datasets <= planned and any(
        setting == (rule.setting or table.setting)
        and any(
            fnmatchcase(entry, name) for name in (entry_pattern(rule.entry), *rule.select) if name
        )
        for _, setting, entry, _ in info.cell_order
        for rule in table.rules
    )


def _without_results() -> dict[str, dict[str, dict[str, str]]]:
    """Tables of data sets and options: paper -> table -> title, page, command."""
    path = data_folder() / "papers" / "other_tables.yaml"
    stated: dict[str, dict[str, dict[str, str]]] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return stated

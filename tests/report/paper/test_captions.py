"""A walk over every table and figure of the papers: its target is there by its own name, and varies what
it says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import pytest
import yaml
from helpers import ROOT
from studies import known

from dpgnn.cli.report import describe
from dpgnn.data.datasets import is_stand_in
from dpgnn.data.raw.sources import data_folder
from dpgnn.records.info import PAPERS, StudyInfo
from dpgnn.report.paper.captions import Caption, load_captions, place_of
from dpgnn.report.paper.drawn import further_tables
from dpgnn.report.paper.figures import PaperFigure, load_figures, matches, varied_words
from dpgnn.report.paper.map import load_map
from dpgnn.report.paper.printed import _caption
from dpgnn.study.study import Study

NAMES = [(paper, name) for paper, captions in load_captions().items() for name in captions]


@cache
def study_of(paper: str) -> Study:
    return known(ROOT / "workflow" / "studies" / f"{paper}.yaml", "L")


@cache
def info_of(paper: str) -> StudyInfo:
    path = ROOT / "workflow" / "studies" / f"{paper}.yaml"
    return describe(known(path), path, ROOT)


@cache
def figures_of(paper: str) -> Mapping[str, PaperFigure]:
    found = load_figures(paper)
    return {} if found is None else found.figures  # a paper of which tables alone are at hand


def figure_of(paper: str, name: str) -> PaperFigure:
    """The figure, or the lettered part of one, that a name stands for."""
    figures = figures_of(paper)
    if name in figures:
        return figures[name]
    whole, letter = place_of(name)
    return dict(figures[whole].lettered)[letter]


def test_the_list_has_every_name() -> None:
    """Numbers without a gap, as the papers have them."""
    numbered = {
        "dpgnn": ([f"T{n}" for n in range(1, 13)], ["F1", "F2a", "F2b", "F2c", "F2d", "F3a", "F3b", "F4"]),
        "drw": ([f"T{n}" for n in range(1, 5)], ["F1", "F2a", "F2b", "F2c"]),
        "dpar": (["T1", "T2"], [f"F{n}" for n in range(1, 13)]),
        "caribou": (
            ["TI", "TII", "TIII", "TIV", "TV", "TVI", "TVII", "TVIII", "TIX", "TX", "TXI", "TXII", "TXIII",
             "TXIV", "TXV", "TXVI"],
            ["F1", "F2", "F3", "F4", "F5a", "F5b", "F6a", "F6b", "F7", "F8", "F9", "F10",
             *(f"F11{letter}" for letter in "abcdef")],
        ),
    }  # fmt: skip
    # named after their methods: of these papers the tables are at hand that their repositories hold
    named = {"progap": (["LPGNet", "ProGAP"], [])}
    numbered |= named
    assert set(numbered) == set(PAPERS) == set(load_captions())
    for paper, (tables, figures) in numbered.items():
        assert list(load_captions()[paper]) == [*tables, *figures]


@pytest.mark.parametrize(("paper", "name"), NAMES)
def test_every_name_finds_its_target_or_says_why_there_is_none(paper: str, name: str) -> None:
    caption = load_captions()[paper][name]
    if caption.reason:
        assert len(caption.reason) > 8
        return
    if caption.target == "figure":
        assert figure_of(paper, name).places
    elif caption.target == "table":
        assert name in load_map(paper).tables
    elif caption.target == "made":
        assert f"paper-{paper}-{name}" in {
            table.name for table in further_tables(info_of(paper), [])
        }
    else:
        pages = yaml.safe_load((data_folder() / "papers" / "other_tables.yaml").read_text("utf-8"))
        page = pages[paper][name]["page"].partition("#")[0]
        assert (ROOT / page).exists()


# how the papers call the data sets whose raw files were not at hand when records were made
AWAY = {
    "ogbn-arxiv": "ogbn-arxiv", "ogbn-products": "ogbn-products", "ogbn-mag": "ogbn-mag",
    "Reddit": "reddit2", "Flickr": "flickr", "Arxiv": "ogbn-arxiv",
}  # fmt: skip


@pytest.mark.parametrize(("paper", "name"), NAMES)
def test_a_name_whose_data_is_away_says_what_stands_for_it(paper: str, name: str) -> None:
    caption = load_captions()[paper][name]
    here = {
        path.parent.name for path in (ROOT / "docs" / "reference").glob("*/graphs/*/graph.json")
    }
    assert not here & set(AWAY.values())
    words = [word.strip() for word in caption.data.replace(" and ", ", ").split(",")]
    away = all(
        word.removesuffix(" disjoint").removesuffix(" clustered") in {*AWAY, "clustered"}
        for word in words
    )
    followed = caption.data == "those of T2" or (paper, name) == ("dpgnn", "F4")
    measured = caption.target in ("figure", "table")
    assert bool(caption.absent) == (measured and (away or followed))
    for cited in re.findall(r"\b[TF]\d+[a-f]?(?:-[a-z-]+)?\b", caption.absent):
        assert figure_of(paper, cited).places


@pytest.mark.parametrize(
    ("paper", "name"), [(p, n) for p, n in NAMES if load_captions()[p][n].target == "figure"]
)
def test_a_figure_varies_what_its_caption_says(paper: str, name: str) -> None:
    """Its axes are what the paper varies, and so do the options of the entries behind it."""
    caption, figure = load_captions()[paper][name], figure_of(paper, name)
    wanted = {path for path in caption.varies if path == "epsilon" or path.startswith("options.")}
    axes, differing = set[str](), set[str]()
    for _, part in figure.lettered:
        axes |= _axes(part)
        differing |= _differing(paper, part)
    assert axes <= wanted | {"options.node.max_degree", "options.max_degree"} & axes, (name, axes)
    options = {path for path in wanted if path != "epsilon"}
    # a panel's fixed value (K = 4, K = 16) varies from panel to panel
    fixed = {
        path for _, part in figures_of(paper)[_key(paper, name)].lettered for path in part.where
    }
    assert options <= differing | fixed, (name, options - differing)
    if "epsilon" in wanted:
        assert (
            "epsilon" in axes
            or len(figure.epsilons) > 1
            or _budgets(figure) > 1
            or figure.kind == "checkpoints"
        )


@pytest.mark.parametrize(
    ("paper", "name"), [(paper, name) for paper in PAPERS for name in figures_of(paper)]
)
def test_a_line_differs_in_what_the_figure_says_and_in_nothing_else(paper: str, name: str) -> None:
    """Options of the entries of one line, per data set and panel, against x, row and what stands
    `besides`.
    """
    figure = figures_of(paper)[name]
    for letter, part in figure.lettered:
        said = {*_axes(part), *part.where, *part.besides, "epsilon"}
        if part.kind in ("bars", "classes", "checkpoints", "embedding"):
            continue  # an entry a line
        for dataset, label, differing in _lines(paper, part):
            assert differing <= said, (name, letter, dataset, label, differing - said)


def test_titles_and_captions_name_what_is_varied() -> None:
    for paper in PAPERS:
        for name, figure in figures_of(paper).items():
            if figure.kind not in ("lines", "heat"):
                continue
            text = _caption(figure)
            assert varied_words(figure) in text
            for _, part in figure.lettered:
                assert part.x_title in text, (paper, name)
                assert part.x == "epsilon" or part.x.removeprefix("options.") in text


def test_a_stand_in_says_so_in_its_name_title_and_caption() -> None:
    for paper in PAPERS:
        for name, figure in figures_of(paper).items():
            drawn = [
                p
                for _, part in figure.lettered
                for p in part.places
                if is_stand_in(p.partition(".")[0])
            ]
            assert bool(drawn) == bool(figure.stand_in_for) == name.endswith("-stand-in"), (
                paper,
                name,
            )
            if drawn:
                assert f"stand-in for {figure.stand_in_for} (synthetic)" in figure.title
                assert "tand-in (synthetic)" in _caption(figure)
                others = [p for _, part in figure.lettered for p in part.places if p not in drawn]
                assert not others, "a stand-in has a figure of its own"


def test_names_that_are_not_the_papers_say_that_they_are_ours() -> None:
    for paper in PAPERS:
        own = {place_of(name)[0] for name in load_captions()[paper]} | set(load_captions()[paper])
        for name, figure in figures_of(paper).items():
            assert name in own or figure.title.startswith("Ours: ") or figure.stand_in_for, (
                paper,
                name,
            )


def _key(paper: str, name: str) -> str:
    return name if name in figures_of(paper) else place_of(name)[0]


def _axes(part: PaperFigure) -> set[str]:
    """Epsilon or option paths along x, row and, where a line has another name for it, its own x."""
    if part.kind not in ("lines", "heat"):
        return set()
    found = set[str]()
    for expression in (part.x, part.row, *(series.x for series in part.series)):
        if expression:
            path = expression.removesuffix(" * epsilon")
            found |= {path} | ({"epsilon"} if path != expression else set())
    return found


def _budgets(figure: PaperFigure) -> int:
    named = {
        pattern.partition("@")[2]
        for _, p in figure.lettered
        for s in p.series
        for pattern in s.entries
    }
    return len(named - {""})


def _lines(paper: str, part: PaperFigure) -> Iterator[tuple[str, str, set[str]]]:
    """(data set, label, option paths with several values) of each line."""
    study = study_of(paper)
    for place in part.places:
        dataset = place.partition(".")[0]
        if dataset not in study.config.datasets:
            continue
        for epsilon in part.epsilons or ("",):
            panel = replace(part, epsilons=(epsilon,) if epsilon else ())
            for series in part.series:
                found = _several(_options(paper, dataset, series.entries, panel))
                yield dataset, series.label, found


def _differing(paper: str, part: PaperFigure) -> set[str]:
    """Option paths with several values among all entries of a part on one data set."""
    found = set[str]()
    for place in part.places:
        dataset = place.partition(".")[0]
        patterns = tuple(pattern for series in part.series for pattern in series.entries)
        found |= _several(_options(paper, dataset, patterns, part))
    return found


def _several(options: list[dict[str, Any]]) -> set[str]:
    names = {name for found in options for name in found}
    return {
        f"options.{name}"
        for name in names
        if len({repr(found[name]) for found in options if name in found}) > 1
    }


def _options(
    paper: str, dataset: str, patterns: tuple[str, ...], part: PaperFigure
) -> list[dict[str, Any]]:
    """Flat options of the entries that a line names on a data set, of those that `where` lets through."""
    study, found = study_of(paper), []
    for entry in study.entries.values():
        bare = tuple(pattern.partition("@")[0] for pattern in patterns)
        if not any(fnmatchcase(entry.name, pattern) for pattern in bare):
            continue
        if entry.datasets and dataset not in entry.datasets:
            continue
        budgets = entry.epsilons or study.config.epsilons
        if entry.mode != "nonprivate":
            budgets = tuple(b for b in budgets if matches(patterns, entry.name, b))
            if part.epsilons and not set(budgets) & set(part.epsilons):
                continue
        flat = _flat(entry.for_dataset(dataset).options)
        if all(
            _equal(flat.get(path.removeprefix("options.")), value)
            for path, value in part.where.items()
        ):
            found.append(flat)
    return found


def _equal(first: Any, second: Any) -> bool:
    return bool(first == second)


def _flat(options: Any, path: str = "") -> dict[str, Any]:
    values = asdict(options) if is_dataclass(options) and not isinstance(options, type) else options
    if not isinstance(values, Mapping):
        return {path: values}
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{path}.{name}" if path else str(name))
    return found


def test_a_name_without_target_or_reason_is_refused() -> None:
    assert place_of("F5a") == ("F5", "a")
    assert place_of("F10") == ("F10", "")
    assert place_of("TXIV") == ("TXIV", "")
    assert isinstance(load_captions()["dpar"]["F9"], Caption)

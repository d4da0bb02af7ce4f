"""The ten findings of docs/results.md: a claim, its n, a figure, evidence, and what would overturn it.

Sentences that depend on numbers are computed from the records each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from dpgnn import methods
from dpgnn.accountants.caveats import CAVEATS
from dpgnn.core.wording import count, listed
from dpgnn.records.info import PAPERS
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.style import MARKERS, PALETTE
from dpgnn.report.pages.finding_differences import difference_headlines
from dpgnn.report.pages.headline import Headline, range_text
from dpgnn.report.pages.paper_claims import guarantee_counts
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.statistics.choices import Choice
from dpgnn.report.statistics.equivalence import MARGIN
from dpgnn.report.tables.rows import ClaimRow
from dpgnn.report.tables.table import epsilon_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = ("proved as stated", "a larger ε proved", "no finite ε known")
KIND_COLORS = ("#0072B2", "#E69F00", "#9a9a9a")


def headlines(
    found: Sequence[StudyResults], chosen: tuple[Sequence[Choice], Picture] | None
) -> list[Headline]:
    """The findings that have records, in order.

    Args:
        found: studies with records.
        chosen: the choices of docs/choose.md and its figure; None without the main study.
    """
    made = [_guarantees(found), _best(*chosen) if chosen else None]
    made += [*difference_headlines(found), _reproduced(found)]
    return [headline for headline in made if headline is not None]


def _guarantees(found: Sequence[StudyResults]) -> Headline | None:
    by_method: dict[str, list[ClaimRow]] = {}
    reasons: dict[str, int] = {}
    for results in found:
        titles = {cell.entry: cell.method for cell in results.cells}
        for row in published_rows(results):
            by_method.setdefault(titles[row.entry], []).append(row)
            for name in row.caveats:
                if CAVEATS[name].voids:
                    reasons[name] = reasons.get(name, 0) + 1
    rows = [row for group in by_method.values() for row in group]
    if not rows:
        return None
    good, larger, none = guarantee_counts(rows)
    often = sorted(reasons, key=lambda name: -reasons[name])[:3]
    named = listed([f"[{name}](soundness.md#{name}) ({reasons[name]})" for name in often])
    return Headline(
        title="Which published guarantees hold?",
        claim=(
            f"Of {len(rows)} cells run as published, {good} state an ε that we can prove for what was "
            f"run, {larger} have a larger finite one, and for {none} none is known under the stated "
            f"relation. n = {len(rows)} cells of {count(len(by_method), 'method')}."
        ),
        more=f"Most often because of {named}.",
        picture=_bars(by_method),
        evidence=(("cell by cell", "results/guarantees.md"), ("demonstrations", "soundness.md")),
        overturn="A finite ε proved for that code, or a counterexample to one called proved.",
    )


def published_rows(results: StudyResults) -> list[ClaimRow]:
    """Cells run as published, without points of sweeps and non-private controls."""
    return [
        row
        for row in results.claims.rows
        if row.mode == "published"
        and "~" not in row.entry
        and not any(CAVEATS[name].control for name in row.caveats)
    ]


def _bars(by_method: dict[str, list[ClaimRow]]) -> Picture:
    counts = {name: guarantee_counts(rows) for name, rows in by_method.items()}
    words = "; ".join(
        f"{method}: " + ", ".join(f"{n} {kind}" for n, kind in zip(found, KINDS, strict=True))
        for method, found in counts.items()
    )
    return Picture(
        name="guarantees", title="What can be proved of cells run as published",
        caption="Cells run as published, by method.", alt=words, draw=partial(_draw_bars, counts),
    )  # fmt: skip


def _draw_bars(counts: Mapping[str, Sequence[int]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.FULL, 0.28 * len(counts) + 1.0), layout="constrained")
    axis: Axes = figure.subplots()
    left = [0.0] * len(counts)
    for place, (kind, color) in enumerate(zip(KINDS, KIND_COLORS, strict=True)):
        widths = [found[place] for found in counts.values()]
        axis.barh(range(len(widths)), widths, left=left, color=color, label=kind, height=0.7)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axis.set_yticks(range(len(counts)), [methods.get(name).title for name in counts])
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.set_xlabel("cells run as published")
    figure.legend(loc="outside lower center", ncols=3)
    return figure


def _best(chosen: Sequence[Choice], picture: Picture) -> Headline | None:
    if not chosen:
        return None
    parts: list[str] = []
    for unit in dict.fromkeys(choice.notion.privacy_unit for choice in chosen):
        here = [choice for choice in chosen if choice.notion.privacy_unit == unit]
        names = " and ".join(dict.fromkeys(choice.label for choice in here))
        decided = [choice.decided() for choice in here if choice.next]
        ahead, behind, both = (sum(found[place] for found in decided) for place in range(3))
        seen = [size for choice in here for size in choice.detectable]
        power = f", detects {100 * median(seen):.1f}" if seen else ""
        lost = f", behind in {behind}" if behind else ""
        following = "" if any(" of the next" in part for part in parts) else " of the next"
        against = f" (ahead{following} in {ahead} of {both}{lost}{power})" if both else " (alone)"
        parts.append(f"{unit}: {names}{against}")
    repeats = range_text(cell.interval.n for choice in chosen for cell in choice.best.values())
    graphs = {graph for choice in chosen for graph in choice.best}
    budgets = dict.fromkeys(epsilon_text(choice.epsilon) for choice in chosen)
    return Headline(
        title="Which proved method is best for what must be protected?",
        claim=(
            f"By mean rank, {'; '.join(parts)}. n = {repeats} splits; "
            f"{count(len(graphs), 'graph')}; ε = {', '.join(budgets)}."
        ),
        more="Among methods whose answers may be given; one fixed configuration each.",
        picture=picture,
        where="",
        evidence=(("every number", "choose.md"), ("all rankings", "results/leaders.md")),
        overturn="A proved method with a better mean rank over these graphs, tuned or not.",
    )


def _reproduced(found: Sequence[StudyResults]) -> Headline | None:
    by_paper = {
        results.info.paper: [
            row for table in results.papers if table.reproduces for row in table.rows
        ]
        for results in found
        if results.info.paper
    }
    rows = [row for group in by_paper.values() for row in group]
    both = [row for row in rows if row.our_mean is not None and row.paper_mean is not None]
    if not both:
        return None
    verdicts = [row.verdict for row in rows]
    parts = [f"{verdicts.count(word)} {word}" for word in dict.fromkeys(sorted(verdicts))]
    distances = sorted(abs(row.our_mean - row.paper_mean) for row in both)  # type: ignore[operator]
    narrow = sum(_could_be_same(row) for row in both)
    repeats = range_text(row.our_n for row in both if row.our_n)
    return Headline(
        title="Which published numbers are reproduced?",
        claim=(
            f"Of {len(rows)} values in the papers' tables {listed(parts)}; half of the {len(both)} that have "
            f"ours are within {100 * distances[len(distances) // 2]:.1f} points. n = {repeats} runs a value; "
            f"{narrow} intervals are narrow enough for “same”."
        ),
        more="",
        picture=_scatter(by_paper),
        evidence=(
            ("every value", "results/reproduction.md"),
            ("every table and figure", "results/papers.md"),
        ),
        overturn="The authors' settings where a paper leaves them open; another split; more repeats.",
    )


def _could_be_same(row: PaperRow) -> bool:
    """Whether the interval of the difference is no wider than the margin on both sides of zero."""
    if row.difference_low is None or row.difference_high is None:
        return False
    return row.difference_high - row.difference_low <= 2 * MARGIN


def _scatter(by_paper: dict[str, list[PaperRow]]) -> Picture:
    return Picture(
        name="reproduced", title="The papers' values and ours", draw=partial(_draw_scatter, by_paper),
        caption="Every value of the papers' tables that has one of ours beside it.",
        alt="Points of the paper's value against ours, along the diagonal where they agree.",
    )  # fmt: skip


def _draw_scatter(by_paper: dict[str, list[PaperRow]]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(drawing.COLUMN, drawing.COLUMN), layout="constrained")
    axis: Axes = figure.subplots()
    for place, (paper, rows) in enumerate(by_paper.items()):
        points = [
            (100 * row.paper_mean, 100 * row.our_mean)
            for row in rows
            if row.our_mean is not None and row.paper_mean is not None
        ]
        if points:
            axis.plot(
                *zip(*points), MARKERS[place], color=PALETTE[place], markersize=3, alpha=0.7,
                label=f"{PAPERS.get(paper, paper).split(' (')[0]} ({len(points)})",
            )  # fmt: skip
    axis.plot([0, 100], [0, 100], color="#444444", lw=0.8)
    axis.set_xlabel("the paper's value (%)")
    axis.set_ylabel("ours (%)")
    axis.legend(loc="upper left")
    return figure

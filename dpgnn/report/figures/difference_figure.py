"""Differences between methods at equal splits: a panel a pair, a row a graph, a dot for each epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.style import PALETTE
from dpgnn.report.statistics.pairs import Pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SPREAD = 0.62  # share of a row that the dots of one graph take


def draw_differences(name: str, title: str, panels: Mapping[str, Sequence[Pair]]) -> Picture | None:
    """A dot for each pair with its 95 % interval; hollow where the difference is not decided.

    Args:
        name: the files' stem.
        title: for people.
        panels: words -> pairs; empty ones are left out.
    """
    shown = {words: found for words, found in panels.items() if found}
    if not shown:
        return None
    graphs = list(dict.fromkeys(pair.entry.dataset for found in shown.values() for pair in found))
    return Picture(
        name=name,
        title=title,
        caption=(
            "Mean difference at equal splits with its 95 % interval; hollow: not decided after Holm's "
            "correction over a panel; n/a: not run."
        ),
        alt=f"{title}: differences on {', '.join(graphs)}.",
        draw=partial(_drawn, shown, graphs),
    )


def _drawn(panels: Mapping[str, Sequence[Pair]], graphs: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    budgets = sorted({pair.epsilon for found in panels.values() for pair in found}, key=float)
    figure = Figure(figsize=(drawing.FULL, 0.3 * len(graphs) + 1.0), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (words, found) in zip(axes, panels.items()):
        _panel(axis, words, found, graphs, budgets)
        axis.set_xlabel("points of accuracy")
    axes[0].set_yticks(range(len(graphs)), graphs)
    axes[0].set_ylim(len(graphs) - 0.5, -0.5)
    _legend(figure, budgets)
    return figure


def _legend(figure: Figure, budgets: Sequence[str]) -> None:
    """A dot and its epsilon for each budget."""
    from matplotlib.lines import Line2D

    dots = [
        Line2D(
            [], [], color=PALETTE[place % len(PALETTE)], marker="o", ls="", label=f"ε = {budget}"
        )
        for place, budget in enumerate(budgets)
    ]
    figure.legend(handles=dots, loc="outside lower center", ncols=len(dots))


def _panel(
    axis: Axes, words: str, found: Sequence[Pair], graphs: Sequence[str], budgets: Sequence[str]
) -> None:
    step = SPREAD / max(1, len(budgets) - 1)
    for pair in found:
        turn = budgets.index(pair.epsilon)
        place = graphs.index(pair.entry.dataset) - SPREAD / 2 + step * turn
        color = PALETTE[turn % len(PALETTE)]
        if pair.test.low is not None and pair.test.high is not None:
            axis.hlines(
                place, 100 * pair.test.low, 100 * pair.test.high, color=color, alpha=0.5, lw=1.2
            )
        fill = color if pair.verdict == "larger than the noise" else "white"
        axis.plot(
            100 * pair.test.mean, place, "o", color=color, markerfacecolor=fill, markersize=3.5
        )
    axis.axvline(0, color="#444444", lw=0.8)
    for row in {*range(len(graphs))} - {graphs.index(pair.entry.dataset) for pair in found}:
        drawing.not_available(axis, 0.02, row, transform=axis.get_yaxis_transform())
    drawing.panel_title(axis, words)
    axis.tick_params(axis="y", length=0)

"""The figure of attacks: true against false positives, with what a claim allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.records.attacks import AttackResult
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.parts import Part, parts
from dpgnn.report.figures.style import Look, looks
from dpgnn.report.tables.attack_verdicts import claimed_epsilon, line_of
from dpgnn.report.tables.attacks import panel_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# the panels of one figure, in this order
PANELS = (
    "LinkTeller, held-out edges", "the release itself", "G-MIA, same graph", "noise-free layer",
    "hub behind the sampler",
)  # fmt: skip
SMALLEST = 1e-3
_NUM_RATES = 151


def draw_attacks(found: Sequence[AttackResult], info: StudyInfo) -> list[Picture]:
    """True against false positives on logarithmic axes with the line of the smallest claim, by attack."""
    groups = [*_panels(found).items()]
    return [_picture(part, info) for part in parts(groups, lambda item: item[0].replace(":", ","))]


def _picture(part: Part[tuple[str, list[AttackResult]]], info: StudyInfo) -> Picture:
    words = f" ({part.words})" if part.words else ""
    return Picture(
        name=f"attacks{part.suffix}",
        title=f"Attacks: true against false positives{words}",
        caption=(
            "True positive rate (TPR) against false positive rate (FPR), both logarithmic. Grey: equality "
            "(dotted) and TPR = exp(ε) FPR + δ (solid) for the smallest claim in the panel that covers what "
            "was attacked, with 2ε if exchanging two nodes is two changes. A curve above the line of its own "
            "claim, by more than its statistical error, contradicts that claim; the table says where."
        ),
        alt="Curves of attacks: " + "; ".join(
            f"{title}: " + ", ".join(
                f"{r.label} at budget {r.epsilon} AUC {r.auc:.3f}"
                for r in results
            )
            for title, results in part.panels
        ),
        draw=partial(_draw, part.panels, looks(info), f"Attacks and what a claim allows{words}"),
    )  # fmt: skip


def _draw(
    panels: Sequence[tuple[str, list[AttackResult]]], look: Mapping[str, Look], title: str
) -> Figure:
    canvas, axes = drawing.grid(len(panels), title=title)
    for (name, results), axis in zip(panels, axes):
        for result in results:
            style = look.get(result.entry)
            points = curve_points(result.curve)
            text = f"{result.label}, ε = {result.epsilon}"
            axis.plot(
                [f for f, _ in points], [t for _, t in points],
                color=style.color if style else "#444444",
                linestyle=style.line(free=result.claim is None) if style else (0, (5, 2)),
                label=text.replace("ε = inf", "no privacy"),
            )  # fmt: skip
        _lines(axis, results)
        drawing.panel_title(axis, name)
    drawing.legend(canvas, axes)
    return canvas


def curve_points(curve: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """False and true positive rates along the axis; straight lines between thresholds."""
    false, true = (np.array([0.0, *column]) for column in zip(*curve))
    rates = np.geomspace(SMALLEST, 1.0, _NUM_RATES)
    found = np.interp(rates, false, true)
    return [(float(f), float(t)) for f, t in zip(rates, found) if t > 0]


def _panels(found: Sequence[AttackResult]) -> dict[str, list[AttackResult]]:
    """Data set and attack -> the first repeat of each entry at its smallest budget."""
    chosen: dict[tuple[str, str, str], AttackResult] = {}
    for result in found:
        if result.status != "ok" or panel_of(result) not in PANELS:
            continue
        place = (result.dataset, panel_of(result), result.entry)
        old = chosen.get(place)
        if old is None or _rank(result) < _rank(old):
            chosen[place] = result
    groups: dict[str, list[AttackResult]] = {}
    order = {name: position for position, name in enumerate(PANELS)}
    for dataset, kind, entry in sorted(chosen, key=lambda p: (p[0], order[p[1]], p[2])):
        groups.setdefault(f"{dataset}: {kind}", []).append(chosen[dataset, kind, entry])
    return groups


def _rank(result: AttackResult) -> tuple[float, int]:
    """Budgets and repeats in order."""
    return float(result.epsilon), result.repeat or 0


def _lines(axis: Axes, results: Sequence[AttackResult]) -> None:
    rates = [10 ** (-3 + step / 50) for step in range(151)]
    axis.plot(rates, rates, color="#999999", linestyle=":", linewidth=1)
    claims = [drawn for result in results if (drawn := line_of(result)) is not None]
    if claims:
        epsilon, delta = min(claims)
        from dpgnn.attacks.statistics import allowed_rate  # with scipy.special

        line = [allowed_rate(rate, epsilon, delta) for rate in rates]
        label = f"claim of ε = {epsilon:.3g}"
        if any(
            line_of(r) == (epsilon, delta) and epsilon > 1.5 * claimed_epsilon(r) for r in results
        ):
            label = f"two changes, ε = {epsilon:.3g}"
        axis.plot(rates, line, color="#666666", linewidth=1.2, label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(SMALLEST, 1)
    axis.set_ylim(SMALLEST, 1.1)
    axis.set_xlabel("false-positive rate")
    axis.set_ylabel("true-positive rate")
    assert math.isclose(rates[-1], 1.0)

"""What `dpgnn run` says last of a small study: what protects what, what it reaches, and what that costs."""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn import methods
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.ranking import ANSWERS_TO
from dpgnn.report.statistics.words import PROTECTED
from dpgnn.report.tables.table import epsilon_text

MOST_RUNS = 500  # reading more takes longer than a person waits


def closing_lines(cells: Sequence[Cell]) -> list[str]:
    """A table of the data set with the most entries, and up to five sentences on it.

    Args:
        cells: of the study; those of one place and of the smallest and the largest budget are shown.
    """
    private = [cell for cell in cells if cell.is_private and cell.claim is not None]
    if not private:
        return []
    place = max(
        dict.fromkeys(cell.place for cell in cells),
        key=lambda place: len({cell.entry for cell in private if cell.place == place}),
    )
    here = [cell for cell in cells if cell.place == place]
    budgets = sorted({cell.epsilon for cell in private if cell.place == place}, key=float)
    free = [cell for cell in here if not cell.is_private]
    covered = [cell for cell in private if cell.place == place]
    lines = ["", *_table(place[0], free, covered, budgets), ""]
    return lines + [f"- {sentence}" for sentence in _sentences(free, covered, budgets)]


def _table(
    dataset: str, free: Sequence[Cell], private: Sequence[Cell], budgets: Sequence[str]
) -> list[str]:
    shown = list(dict.fromkeys((budgets[0], budgets[-1])))
    head = f"{dataset}, {private[0].interval['n']} splits"
    rows = [[head, *(f"ε = {epsilon_text(e)}" for e in shown), "protects", "answers to"]]
    rows += [[cell.label, *[_percent(cell)] * len(shown), "nothing", "–"] for cell in free]
    for entry in sorted(
        {cell.entry for cell in private}, key=lambda e: -_mean(private, e, budgets[-1])
    ):
        found = {cell.epsilon: cell for cell in private if cell.entry == entry}
        first = next(iter(found.values()))
        rows.append([
            first.label, *(_percent(found[e]) if e in found else "–" for e in shown),
            _protects(first), ANSWERS_TO[first.answers],
        ])  # fmt: skip
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows
    ]


def _sentences(free: Sequence[Cell], private: Sequence[Cell], budgets: Sequence[str]) -> list[str]:
    last = [cell for cell in private if cell.epsilon == budgets[-1]]
    given = sorted((cell for cell in last if cell.answers != "none"), key=_score, reverse=True)
    found = []
    if len(free) > 1:
        best, *_, worst = sorted(free, key=_score, reverse=True)
        found.append(
            f"Without privacy {best.label} reaches {_percent(best)} % and {worst.label} {_percent(worst)} %."
        )
    told: set[str] = set()
    for cell in given:
        protects = _protects(cell)
        if protects in told:
            continue
        told.add(protects)
        edges = "" if methods.get(cell.method).uses_edges else ", which reads no edge,"
        lost = f", {100 * (max(map(_score, free)) - _score(cell)):.1f} below that" if free else ""
        found.append(
            f"With {protects} protected at ε = {epsilon_text(budgets[-1])}, {cell.label}{edges} "
            f"reaches {_percent(cell)} %{lost}."
        )
    for cell in sorted(last, key=_score, reverse=True):
        if cell.answers == "none":
            found.append(
                f"{cell.label} may be shown, but not its answers: they read other nodes' data, which no "
                "claim covers."
            )
            break
    found.append("The report has intervals, and says which differences are larger than the noise.")
    return found[:5]


def _protects(cell: Cell) -> str:
    assert cell.claim is not None
    return PROTECTED[cell.claim.privacy_unit]


def _score(cell: Cell) -> float:
    return float(cell.interval["mean"])


def _mean(cells: Sequence[Cell], entry: str, epsilon: str) -> float:
    return max((_score(c) for c in cells if (c.entry, c.epsilon) == (entry, epsilon)), default=0.0)


def _percent(cell: Cell) -> str:
    return f"{100 * _score(cell):.1f}"

"""Panels split into figures that can be printed: at most six in each, stand-ins apart from real graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dpgnn.data.datasets import is_stand_in
from dpgnn.report.figures.drawing import pages

T = TypeVar("T")
STAND_INS = "synthetic stand-ins"


@dataclass(frozen=True, kw_only=True)
class Part(Generic[T]):
    """Some panels of a figure.

    Attributes:
        suffix: of the file's stem: "", "-2", "-stand-in", "-stand-in-2".
        words: added to the title: "", or the part's number, and that its graphs are stand-ins.
        panels: at least one.
    """

    suffix: str
    words: str
    panels: tuple[T, ...]


def parts(
    panels: Sequence[T],
    title: Callable[[T], str],
    *,
    apart: Callable[[T], object] = lambda _: None,
    step: int = 1,
) -> list[Part[T]]:
    """The figures of some panels, those of real graphs first.

    Args:
        panels: in order.
        title: a panel's; begins with its data set.
        apart: key of a panel; panels with different keys are in different figures.
        step: number of axes of a panel.
    """
    found = []
    for drawn in (False, True):
        kind = [panel for panel in panels if is_stand_in(_dataset(title(panel))) == drawn]
        kept = [
            page
            for value in dict.fromkeys(map(apart, kind))
            for page in pages([p for p in kind if apart(p) == value], step=step)
        ]
        for number, page in enumerate(kept, start=1):
            suffix = ("-stand-in" if drawn else "") + (f"-{number}" if number > 1 else "")
            counted = f"{number} of {len(kept)}" if len(kept) > 1 else ""
            words = ", ".join(filter(None, [STAND_INS if drawn else "", counted]))
            found.append(Part(suffix=suffix, words=words, panels=tuple(page)))
    return found


def in_rows(panels: Mapping[str, Sequence[T]]) -> list[Part[tuple[str, Sequence[T]]]]:
    """The figures of data sets that have a row of two panels each."""
    return parts([*panels.items()], lambda item: item[0], step=2)


def _dataset(title: str) -> str:
    return title.partition(",")[0].partition(".")[0]

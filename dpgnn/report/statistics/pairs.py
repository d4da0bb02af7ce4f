"""Two entries at equal splits and budgets over many graphs, and the summary of their differences."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from statistics import median
from typing import Literal

from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.power import detectable
from dpgnn.report.statistics.ranking import compare, same_scores, shared_repeats
from dpgnn.report.statistics.statistics import PairedTest, Verdict, holm, paired_test, verdict

Outcome = Literal["yes", "no", "mixed", "in part", "undecided", "no records"]
Wanted = Literal["ahead", "mostly", "not-behind"]
CLEAR = "larger than the noise"
MARGIN = 0.02  # a method this much below another, a fraction, is taken not to be behind it


@dataclass(frozen=True, kw_only=True)
class Pair:
    """One difference.

    Attributes:
        entry, reference: the cells; of one data set and setting.
        test: entry less reference over shared repeats.
        verdict: after Holm's correction over all pairs that were asked for together.
        detectable: the difference that would be decided with probability 0.8; None for one repeat.
    """

    entry: Cell
    reference: Cell
    test: PairedTest
    verdict: Verdict
    detectable: float | None

    @property
    def epsilon(self) -> str:
        """The budget of the side that has one."""
        return self.entry.epsilon if self.entry.is_private else self.reference.epsilon


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts over pairs.

    Attributes:
        ahead, behind: decided after the correction.
        total: number of pairs.
        graphs: data sets in their order.
        repeats: smallest and largest number of shared splits.
        low, high: the smallest and the largest mean difference, fractions.
        close: pairs that are ahead, or whose interval lies above -MARGIN.
        half: median of half the 95 % intervals; None if each pair has one repeat.
        detects: median of `Pair.detectable` over undecided pairs that are not equal by construction; None
            without any.
    """

    ahead: int
    behind: int
    total: int
    graphs: tuple[str, ...]
    repeats: tuple[int, int]
    low: float
    high: float
    close: int
    half: float | None = None
    detects: float | None = None

    def outcome(self, wanted: Wanted = "ahead") -> Outcome:
        """The outcome for "entry is ahead", for "ahead in most cases", or for "entry is not behind"."""
        if not self.total:
            return "no records"
        if wanted == "mostly":
            if self.ahead > self.total / 2:
                return "yes"
            return "no" if self.behind >= self.total / 2 else "undecided"
        if wanted == "not-behind":
            if self.behind:
                return "in part" if self.close else "no"
            return "yes" if self.close == self.total else "undecided"
        if self.ahead and self.behind:
            return "mixed"
        if self.ahead:
            return "yes" if self.ahead == self.total else "in part"
        return "no" if self.behind else "undecided"


def pairs(
    cells: Sequence[Cell],
    entry: Sequence[str],
    against: Sequence[str],
    *,
    mode: str = "",
    epsilons: Sequence[str] = (),
    settings: Sequence[str] = (),
    datasets: Sequence[str] = (),
    widens: bool = False,
    less: tuple[Sequence[str], Sequence[str]] | None = None,
) -> list[Pair]:
    """Differences between entries that match `entry` and entries that match `against`.

    Args:
        cells: of one study.
        entry, against: fnmatch patterns; if both have a *, it must match the same text.
        mode: only private entries in this mode; "" is all.
        epsilons, settings, datasets: only these; empty is all.
        widens: one pair for each place: the difference at the largest epsilon minus that at the smallest.
        less: patterns of two more entries: each difference minus theirs at the same place and budget.

    Returns:
        pairs with at least one shared split, corrected together.
    """
    wanted = [
        cell for cell in cells
        if cell.setting in (settings or [cell.setting])
        and cell.dataset in (datasets or [cell.dataset])
        and (not cell.is_private or _counts(cell, mode, epsilons))
    ]  # fmt: skip
    found = [
        (ours, theirs, test)
        for ours, theirs in _of_one_place(wanted, entry, against)
        if (test := compare(ours, theirs)) is not None
    ]
    if widens:
        found = list(_widened(found))
    if less is not None:
        found = list(_lessened(found, list(_of_one_place(wanted, *less))))
    return list(_judged(found))


def with_overlap(found: Sequence[Pair]) -> list[Pair]:
    """The same differences, tested for a statement beyond these graphs: see `paired_test`, `overlap`.

    Args:
        found: plain differences, corrected together.
    """
    tests = [
        (pair.entry, pair.reference, compare(pair.entry, pair.reference, overlap=True))
        for pair in found
    ]
    return list(_judged([(a, b, test) for a, b, test in tests if test is not None]))


def _judged(found: Sequence[tuple[Cell, Cell, PairedTest]]) -> Iterator[Pair]:
    """Each difference with its verdict and power, corrected for all of them."""
    p_values = [test.p for *_, test in found]
    tested = max(1, sum(p is not None for p in p_values))
    for (ours, theirs, test), p in zip(found, holm(p_values), strict=True):
        yield Pair(
            entry=ours, reference=theirs, test=test, verdict=verdict(test, p),
            detectable=detectable(test, tested),
        )  # fmt: skip


def _counts(cell: Cell, mode: str, epsilons: Sequence[str]) -> bool:
    return mode in ("", cell.mode) and cell.epsilon in (epsilons or [cell.epsilon])


def _of_one_place(
    cells: Sequence[Cell], entry: Sequence[str], against: Sequence[str]
) -> Iterator[tuple[Cell, Cell]]:
    """Pairs of cells of one place and budget that match `entry` and `against`, with equal texts for *."""
    others = defaultdict[tuple[str, str], list[tuple[Cell, tuple[str, ...]]]](list)
    for theirs in cells:
        other = _matches(against, theirs.entry)
        if other is not None:
            others[theirs.place].append((theirs, other))
    for ours in cells:
        match = _matches(entry, ours.entry)
        if match is None:
            continue
        for theirs, other in others[ours.place]:
            same = theirs is not ours and _same_budget(ours, theirs)
            if same and _same_text(match, other):
                yield ours, theirs


def _matches(patterns: Sequence[str], name: str) -> tuple[str, ...] | None:
    """The texts that * matches in the first fitting pattern; plain patterns match no points of sweeps."""
    for pattern in patterns:
        if "~" in pattern or "~" not in name:
            match = _expression(pattern).fullmatch(name)
            if match is not None:
                return match.groups()
    return None


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """The pattern as a regular expression with a group for each *."""
    parts = (
        translate(part).removeprefix("(?s:").removesuffix(r")\Z") for part in pattern.split("*")
    )
    return re.compile("(.*)".join(parts))


def _same_text(ours: tuple[str, ...], theirs: tuple[str, ...]) -> bool:
    return all(one == other for one, other in zip(ours, theirs))


def _same_budget(ours: Cell, theirs: Cell) -> bool:
    return ours.epsilon == theirs.epsilon or not (ours.is_private and theirs.is_private)


Compared = tuple[Cell, Cell, PairedTest]


def _widened(found: Sequence[Compared]) -> Iterator[Compared]:
    """For each place: the difference at the largest epsilon minus that at the smallest."""
    by_place = grouped(found, lambda item: (item[0].place, item[0].entry, item[1].entry))
    for group in by_place.values():
        ordered = sorted(group, key=lambda item: float(item[0].epsilon))
        low, high = ordered[0][:2], ordered[-1][:2]
        if high[0].epsilon != low[0].epsilon:
            yield from _minus(high, low)


def _lessened(found: Sequence[Compared], others: Sequence[tuple[Cell, Cell]]) -> Iterator[Compared]:
    """Each difference minus the others at its place and budget."""
    for ours, theirs, _ in found:
        for pair in others:
            if pair[0].place == ours.place and _same_budget(ours, pair[0]):
                yield from _minus((ours, theirs), pair)


def _minus(first: tuple[Cell, Cell], second: tuple[Cell, Cell]) -> Iterator[Compared]:
    """The first pair's difference minus the second's, over the splits that all four share."""
    shared = sorted({*shared_repeats(*first)} & {*shared_repeats(*second)})
    if shared:
        one, other = (
            [ours.scores[i] - theirs.scores[i] for i in shared] for ours, theirs in (first, second)
        )
        yield *first, paired_test(one, other, resolution=first[0].resolution)


def tally(found: Sequence[Pair]) -> Tally:
    """Count pairs."""
    clear = [pair for pair in found if pair.verdict == CLEAR]
    means = [pair.test.mean for pair in found] or [0.0]
    repeats = [pair.test.n for pair in found] or [0]
    ahead = sum(pair.test.mean > 0 for pair in clear)
    halves = [
        (test.high - test.low) / 2
        for test in (pair.test for pair in found)
        if test.high is not None and test.low is not None
    ]
    undecided = (pair for pair in found if pair.verdict != CLEAR)
    open_pairs = [
        pair.detectable
        for pair in undecided
        if pair.detectable is not None and not same_scores(pair.entry, pair.reference)
    ]
    return Tally(
        ahead=ahead, behind=len(clear) - ahead, total=len(found),
        graphs=tuple(dict.fromkeys(pair.entry.dataset for pair in found)),
        repeats=(min(repeats), max(repeats)), low=min(means), high=max(means),
        close=sum(pair.test.low is not None and pair.test.low > -MARGIN for pair in found),
        half=median(halves) if halves else None, detects=median(open_pairs) if open_pairs else None,
    )  # fmt: skip

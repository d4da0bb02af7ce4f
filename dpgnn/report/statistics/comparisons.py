"""The comparisons a study asks for, each with a paired interval and a verdict in words.

`comparisons` of a study file names entries and what they are set against:

    comparisons:
      - question: Does a graph network beat DP-MLP at the same epsilon?
        entries: [dp_gcn, dp_gcn-paper]
        against: [dp_mlp, mlp]
      - question: What does each part add?       # several items may share a question
        steps: [features, features-pi, em0]      # each against the one before

A comparison is not a ranking: if the claims of the two sides do not allow one, it says why. p values are
corrected by Holm's method over all comparisons of one question on one data set and setting. A pair in several
questions gets the largest of its p values in each, so that a pair has one verdict.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell
from dpgnn.records.info import Comparison, StudyInfo
from dpgnn.report.statistics.ranking import compare, pair_of, together
from dpgnn.report.statistics.statistics import PairedTest, Verdict, judged

CLEAR = "larger than the noise"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """entry - reference at shared splits, as a study asks for.

    Attributes:
        question: what the study asks.
        entry, reference: the two cells.
        epsilon: the budget of the private side; "inf" where neither is private.
        test: None if no split is shared.
        corrected_p: Holm's p value within the family; None without a test or with one repeat.
        verdict: see `statistics.verdict`; None without a test.
        family: comparisons of this question on this data set and setting.
        claims: "" if both sides may be ranked together, else why they may not.
    """

    question: str
    entry: Cell
    reference: Cell
    epsilon: str
    test: PairedTest | None
    corrected_p: float | None
    verdict: Verdict | None
    family: int
    claims: str

    @property
    def words(self) -> str:
        """ "ahead", "behind", "inside the noise", "unclear" or "one repeat"."""
        if self.verdict != CLEAR or self.test is None:
            return self.verdict or "no shared split"
        return "ahead" if self.test.mean > 0 else "behind"


def compared(cells: Sequence[Cell], info: StudyInfo) -> list[Compared]:
    """Every comparison that the study asks for, if both sides have a score."""
    found: list[Compared] = []
    for question in dict.fromkeys(asked.question for asked in info.comparisons):
        stated = [asked for asked in info.comparisons if asked.question == question]
        pairs = [pair for asked in stated for pair in _pairs(asked, cells)]
        for place in dict.fromkeys(entry.place for entry, _ in pairs):
            found += _family(question, [pair for pair in pairs if pair[0].place == place])
    return _one_verdict(found)


def _one_verdict(found: Sequence[Compared]) -> list[Compared]:
    """The same comparisons; a pair in several questions has the largest of its p values."""
    worst: dict[frozenset[int], Compared] = {}
    for item in found:
        known = worst.setdefault(pair_of(item.entry, item.reference), item)
        if (item.corrected_p or 0.0) > (known.corrected_p or 0.0):
            worst[pair_of(item.entry, item.reference)] = item
    made = []
    for item in found:
        other = worst[pair_of(item.entry, item.reference)]
        made.append(
            replace(
                item,
                corrected_p=other.corrected_p,
                verdict=other.verdict,
                family=other.family,
            )
        )
    return made


def _pairs(asked: Comparison, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    if asked.steps:
        sides = [(after, before) for before, after in itertools.pairwise(asked.steps)]
    else:
        sides = list(itertools.product(asked.entries, asked.against))
    here = [cell for cell in cells if not asked.datasets or cell.dataset in asked.datasets]
    names = dict.fromkeys(cell.entry for cell in here)
    for entry_name, reference_name in sides:
        named = {name for name in names if fnmatchcase(name, reference_name)}
        references = grouped(
            (cell for cell in here if cell.entry in named), lambda cell: cell.place
        )
        entries = {name for name in names if fnmatchcase(name, entry_name)}
        for entry in (cell for cell in here if cell.entry in entries):
            for reference in references.get(entry.place, ()):
                both = entry.is_private and reference.is_private
                if reference.entry != entry.entry and (
                    not both or reference.epsilon == entry.epsilon
                ):
                    yield entry, reference


def _family(question: str, pairs: Sequence[tuple[Cell, Cell]]) -> list[Compared]:
    tests = [compare(entry, reference) for entry, reference in pairs]
    corrected, verdicts = judged(tests)
    size = sum(p is not None for p in corrected)
    return [
        Compared(
            question=question,
            entry=entry,
            reference=reference,
            epsilon=entry.epsilon if entry.is_private else reference.epsilon,
            test=test,
            corrected_p=p,
            verdict=word,
            family=size,
            claims=_claims_differ(entry, reference),
        )
        for (entry, reference), test, p, word in zip(pairs, tests, corrected, verdicts)
    ]


def _claims_differ(entry: Cell, reference: Cell) -> str:
    open_sides = [cell.label for cell in (entry, reference) if not cell.is_private]
    if open_sides:
        return f"{' and '.join(open_sides)} without privacy"
    allowed, reason = together(entry, reference)
    return "" if allowed else reason

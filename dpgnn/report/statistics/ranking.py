"""Rankings: which entries may be compared at equal epsilon, who leads, and what is refused.

Entries are ranked together only if `implications.may_rank_together` allows it (one guarantee must hold for
all of them) and their answers may be shown to the same people. An entry with a stronger guarantee can be in
several rankings; an entry whose claim exceeds its budget is in none.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpgnn.accountants.caveats import CAVEATS
from dpgnn.accountants.claims import ANSWERS, Answers, Claim
from dpgnn.accountants.implications import Notion, may_rank_together, notion, notion_implies
from dpgnn.core.checks import require
from dpgnn.core.grouping import grouped
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.statistics import PairedTest, Verdict, judged, paired_test

ANSWERS_TO: dict[Answers, str] = {
    "everyone": "everyone", "own-record": "their own node", "none": "nobody",
}  # fmt: skip
SLACK = 1e-9  # relative rounding error of a calibrated epsilon


_OTHER_CIRCLE = "their answers may be shown to different circles"


class RankingRefused(ValueError):
    """The claims of these entries do not allow one ranking; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """One entry of a ranking.

    Attributes:
        cell: the entry's cell.
        position: 1 for the largest mean.
        behind: leader minus this entry at shared splits; None for the leader or without shared splits.
        verdict: whether `behind` is larger than the noise; None if `behind` is None.
        clear_lead: it leads every other entry by more than the noise.
    """

    cell: Cell
    position: int
    behind: PairedTest | None
    verdict: Verdict | None
    clear_lead: bool


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Entries of one data set, setting and epsilon that share a guarantee and who may see answers.

    Attributes:
        dataset, setting, epsilon: where.
        notion: the guarantee all of them give.
        status: "proved" or "as-published".
        answers: who may see the answers under the guarantee.
        places: by position.
        num_comparisons: pairs compared, which the p values are corrected for.
    """

    dataset: str
    setting: str
    epsilon: str
    notion: Notion
    status: str
    answers: Answers
    places: tuple[Place, ...]
    num_comparisons: int

    @property
    def title(self) -> str:
        """The guarantee in a few words."""
        return f"{self.notion}, answers to {ANSWERS_TO[self.answers]}, {self.status}"


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Two kinds of claim that are not ranked together, and why."""

    first: str
    second: str
    entries: tuple[str, str]
    reason: str


def rankings(cells: Sequence[Cell]) -> list[Ranking]:
    """A ranking for every guarantee stated at each place and epsilon."""
    found = [rank(group) for members in _at_equal_budget(cells) for group in groups(members)]
    guarantees = list(dict.fromkeys(ranking.title for ranking in found))
    return sorted(found, key=lambda ranking: guarantees.index(ranking.title))


def groups(cells: Sequence[Cell]) -> list[list[Cell]]:
    """For every notion that a private cell states, the cells that give it, the largest sets first.

    A stronger notion keeps its own set even if the set of a weaker notion contains it, because the leaders
    may differ. A cell that is the only one with its notion has a set of its own only if it is in no other.

    Args:
        cells: of one data set, setting and epsilon.
    """
    kept: list[list[Cell]] = []
    usable = [cell for cell in cells if why_unranked(cell) == ""]
    for status, answers in itertools.product(("proved", "as-published"), ANSWERS):
        members = [c for c in usable if _claim(c).status == status and c.answers == answers]
        notions = list(dict.fromkeys(notion(_claim(cell)) for cell in members))
        candidates = [
            [cell for cell in members if notion_implies(notion(_claim(cell)), weakest)]
            for weakest in notions
        ]
        for candidate in sorted(candidates, key=len, reverse=True):
            # two notions never have the same set: each would imply the other
            elsewhere = any(candidate[0] in group for group in kept)
            if len(candidate) > 1 or not elsewhere:
                kept.append(candidate)
    return kept


def rank(cells: Sequence[Cell]) -> Ranking:
    """Rank cells of one data set, setting and epsilon.

    Raises:
        RankingRefused: their claims do not allow it.
        ValueError: they are not of one place and epsilon, or one is not private.
    """
    require(len(cells) > 0, "ranking", "hold at least one entry", 0)
    budgets = {(cell.dataset, cell.setting, cell.epsilon) for cell in cells}
    require(len(budgets) == 1, "ranking", "be of one data set, setting and epsilon", budgets)
    for cell in cells:
        if reason := why_unranked(cell):
            raise RankingRefused(f"{cell.entry} may not be ranked: {reason}")
    seen_by = {cell.answers for cell in cells}
    listed = ", ".join(cell.entry for cell in cells)
    if len(seen_by) > 1:
        raise RankingRefused(f"{listed} may not stand in one ranking: {_OTHER_CIRCLE}")
    answer = may_rank_together([_claim(cell) for cell in cells])
    if not answer.allowed or answer.notion is None:
        raise RankingRefused(f"{listed} may not stand in one ranking: {answer.reason}")
    ordered = sorted(cells, key=lambda cell: -cell.interval.mean)
    verdicts, tests = _against_leader(ordered)
    clear = len(ordered) > 1 and all(word == "larger than the noise" for word in verdicts)
    places = [
        Place(cell=ordered[0], position=1, behind=None, verdict=None, clear_lead=clear),
        *(
            Place(cell=cell, position=position, behind=test, verdict=word, clear_lead=False)
            for position, (cell, test, word) in enumerate(zip(ordered[1:], tests, verdicts), 2)
        ),
    ]
    first = ordered[0]
    return Ranking(
        dataset=first.dataset, setting=first.setting, epsilon=first.epsilon, notion=answer.notion,
        status=_claim(first).status, answers=first.answers, places=tuple(places),
        num_comparisons=math.comb(len(ordered), 2),
    )  # fmt: skip


def refusals(cells: Sequence[Cell]) -> list[Refusal]:
    """Pairs of kinds of claim at the same budget without a common ranking, each once."""
    found: dict[tuple[str, str], Refusal] = {}
    for members in _at_equal_budget(cells):
        for a, b in itertools.combinations(members, 2):
            reasons = [
                f"{cell.label}: {why_unranked(cell)}" for cell in (a, b) if why_unranked(cell)
            ]
            if reasons:
                reason = "; ".join(reasons)
            elif a.answers != b.answers:
                reason = _OTHER_CIRCLE
            else:
                answer = may_rank_together([_claim(a), _claim(b)])
                if answer.allowed:
                    continue
                reason = answer.reason
            kinds = (kind(a), kind(b))
            found.setdefault(
                kinds,
                Refusal(first=kinds[0], second=kinds[1], entries=(a.label, b.label), reason=reason),
            )
    return list(found.values())


def why_unranked(cell: Cell) -> str:
    """Why a cell is not ranked; "" if it may be."""
    claim = cell.claim
    if claim is None:
        return "it has no guarantee" if not cell.is_private else "its record states no claim"
    if not claim.epsilon <= float(cell.epsilon) * (1 + SLACK):
        return f"its epsilon {claim.epsilon:.4g} exceeds the budget {cell.epsilon}"
    if any(CAVEATS[name].control for name in claim.caveats):
        return "it is a control without privacy"
    return ""


def together(a: Cell, b: Cell) -> tuple[bool, str]:
    """Whether two private cells may be compared under one guarantee; why not, or which guarantee."""
    for cell in (a, b):
        if reason := why_unranked(cell):
            return False, f"{cell.label}: {reason}"
    answer = may_rank_together([_claim(a), _claim(b)])
    return answer.allowed, answer.reason


def kind(cell: Cell) -> str:
    """Notion, answers and status of a cell in a few words."""
    claim = _claim(cell)
    return f"{notion(claim)}, answers to {ANSWERS_TO[cell.answers]}, {claim.status}"


def same_scores(ours: Cell, theirs: Cell) -> bool:
    """Whether two cells have equal scores on every shared split: votes without a board are DP-MLP."""
    return all(ours.scores[i] == theirs.scores[i] for i in shared_repeats(ours, theirs))


def shared_repeats(a: Cell, b: Cell) -> list[int]:
    """Repeats both cells have, on the same split (by its hash, where both record one)."""
    shared = []
    for repeat in sorted(set(a.scores) & set(b.scores)):
        splits = (a.split_of(repeat), b.split_of(repeat))
        if None in splits or splits[0] == splits[1]:
            shared.append(repeat)
    return shared


def compare(a: Cell, b: Cell, *, overlap: bool = False) -> PairedTest | None:
    """a - b over the splits they share; None where they share none.

    Args:
        a, b: of one data set and setting.
        overlap: count what their splits have in common, see `paired_test`.

    Raises:
        ValueError: the cells are of different data sets or settings, or scored by different metrics.
    """
    require(
        a.place == b.place, "compared cells", "be of one data set and setting", (a.place, b.place)
    )
    require(a.metric == b.metric, "compared cells", "have one metric", (a.metric, b.metric))
    shared = shared_repeats(a, b)
    if not shared:
        return None
    return paired_test(
        [a.scores[repeat] for repeat in shared],
        [b.scores[repeat] for repeat in shared],
        resolution=max(a.resolution, b.resolution),
        overlap=max(a.overlap, b.overlap) if overlap else 0.0,
    )


def pair_of(entry: Cell, reference: Cell) -> frozenset[int]:
    """A key of a pair that does not depend on the order of its sides."""
    return frozenset((id(entry), id(reference)))


def _claim(cell: Cell) -> Claim:
    assert cell.claim is not None, "checked by why_unranked"
    return cell.claim


def _at_equal_budget(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Private cells with a claim, grouped by data set, setting and epsilon."""
    private = (cell for cell in cells if cell.is_private and cell.claim is not None)
    return list(grouped(private, lambda cell: (cell.place, cell.epsilon)).values())


def _against_leader(
    ordered: Sequence[Cell],
) -> tuple[list[Verdict | None], list[PairedTest | None]]:
    """Tests of the leader against the others, corrected over all pairs: the leader is chosen from the
    data."""
    pairs = list(itertools.combinations(range(len(ordered)), 2))
    tests = [compare(ordered[i], ordered[j]) for i, j in pairs]
    _, words = judged(tests)
    led = [position for position, (i, _) in enumerate(pairs) if i == 0]
    return [words[position] for position in led], [tests[position] for position in led]

"""Recommended methods: the best proved entry of each unit and budget over real graphs, and the next best.

An entry qualifies for a unit if its claim is proved and implies the unit's notion, and if its answers may be
given to everyone or to the asked node. An accounted choice is left out: it is one of the same methods with a
chosen configuration, so a method would compete with itself. The best one has the best mean rank over the
graphs that all these entries share.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpgnn.accountants.claims import Answers
from dpgnn.accountants.implications import Notion, notion, notion_implies
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.pairs import CLEAR
from dpgnn.report.statistics.power import detectable
from dpgnn.report.statistics.ranking import compare, same_scores, why_unranked
from dpgnn.report.statistics.statistics import Verdict, judged

UNITS = ("edge", "node-record", "node-bounded", "node")
GIVEN: tuple[Answers, ...] = ("everyone", "own-record")


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The best entry under one notion at one budget.

    Attributes:
        notion: what is protected.
        answers: who may see an answer.
        epsilon: the budget.
        best: its cells, data set -> cell.
        next: the next best entry of another method, in the same form; empty without one.
        against: data set -> verdict of best against next; Holm's correction over the graphs.
        detectable: for each graph where it is undecided, the difference that would be decided with
            probability 0.8.
    """

    notion: Notion
    answers: Answers
    epsilon: str
    best: dict[str, Cell]
    next: dict[str, Cell]
    against: dict[str, Verdict]
    detectable: tuple[float, ...]

    @property
    def label(self) -> str:
        """The best entry."""
        return next(iter(self.best.values())).label

    def decided(self) -> tuple[int, int, int]:
        """Number of graphs on which best is ahead of next, behind it, and that both have."""
        ahead = behind = 0
        for dataset, word in self.against.items():
            if word == "larger than the noise":
                is_ahead = self.best[dataset].interval.mean > self.next[dataset].interval.mean
                ahead, behind = ahead + is_ahead, behind + (not is_ahead)
        return ahead, behind, len(self.against)


def choices(cells: Sequence[Cell], budgets: Sequence[str]) -> list[Choice]:
    """A choice for every unit that has entries, and every budget.

    Args:
        cells: of one study, without points of sweeps.
        budgets: as cells have them.
    """
    usable = [
        cell
        for cell in cells
        if cell.is_private
        and why_unranked(cell) == ""
        and cell.claims[0].status == "proved"
        and cell.claims[0].selection != "accounted"
        and cell.answers in GIVEN
    ]
    found = []
    for unit in UNITS:
        stated = [cell for cell in usable if cell.claims[0].privacy_unit == unit]
        groups = {(notion(cell.claims[0]), cell.answers) for cell in stated}
        if not groups:
            continue
        group = max(groups, key=lambda key: _weight(key[0], _members(usable, *key)))
        members = _members(usable, *group)
        for epsilon in budgets:
            here = [cell for cell in members if cell.epsilon == epsilon]
            if here:
                found.append(_choice(group[0], group[1], epsilon, here))
    return found


def _weight(wanted: Notion, members: Sequence[Cell]) -> tuple[int, bool, int]:
    """Priority of a notion within its unit: most graphs, then add-remove, then most cells."""
    graphs = {cell.dataset for cell in members}
    return len(graphs), wanted.relation == "add-remove", len(members)


def _members(cells: Sequence[Cell], wanted: Notion, answers: Answers) -> list[Cell]:
    """Cells that give the notion; for each graph the setting with the most of them."""
    by_graph: dict[str, dict[str, list[Cell]]] = {}
    for cell in cells:
        if cell.answers == answers and notion_implies(notion(cell.claims[0]), wanted):
            by_graph.setdefault(cell.dataset, {}).setdefault(cell.setting, []).append(cell)
    return [cell for settings in by_graph.values() for cell in max(settings.values(), key=len)]


def _choice(wanted: Notion, answers: Answers, epsilon: str, cells: Sequence[Cell]) -> Choice:
    by_entry: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        by_entry.setdefault(cell.entry, {})[cell.dataset] = cell
    most = max(len(of_entry) for of_entry in by_entry.values())
    full = {entry: found for entry, found in by_entry.items() if len(found) == most}
    ordered = _by_mean_rank(full)
    best = full[ordered[0]]
    own = _method(best)
    others = (full[name] for name in ordered if _method(full[name]) != own)
    following: dict[str, Cell] = next(others, {})
    shared = [dataset for dataset in best if dataset in following]
    tests = [compare(best[dataset], following[dataset]) for dataset in shared]
    _, words = judged(tests)
    against = {dataset: word for dataset, word in zip(shared, words) if word is not None}
    seen = (
        detectable(test, max(1, len(against)))
        for dataset, test, word in zip(shared, tests, words)
        if test is not None and word != CLEAR
        if not same_scores(best[dataset], following[dataset])
    )
    return Choice(
        notion=wanted, answers=answers, epsilon=epsilon, best=best, next=following, against=against,
        detectable=tuple(found for found in seen if found is not None),
    )  # fmt: skip


def _method(cells: dict[str, Cell]) -> str:
    return next(iter(cells.values())).method


def _by_mean_rank(entries: dict[str, dict[str, Cell]]) -> list[str]:
    """Entries, the best mean rank first; equal ones by their mean score."""
    from scipy.stats import rankdata

    names = list(entries)
    graphs = sorted(set.intersection(*(set(found) for found in entries.values())))
    scores = np.array([[entries[name][graph].interval.mean for graph in graphs] for name in names])
    ranks = rankdata(np.round(-scores, 12), axis=0).mean(
        axis=1
    )  # equal counts differ in the 16th digit
    return [names[i] for i in np.lexsort((-scores.mean(axis=1), ranks))]

"""Statements that changed with more repeats: each is decided from the first splits and from all splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpgnn.records.cells import Cell
from dpgnn.records.info import PAPERS
from dpgnn.report.pages.finding_differences import main_cells, panel_pairs, questions
from dpgnn.report.pages.paper_claims import outcome, read_claims, study_of
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.pairs import Pair, Tally, tally
from dpgnn.report.tables import pivots
from dpgnn.report.tables.table import markdown_text

FIRST = 3  # number of first splits
HEADER = ["Statement", f"First {FIRST} splits", "All splits", "n"]


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A statement decided twice, with the same tests and the same correction.

    Attributes:
        statement: in our words.
        first, all: its differences over the first splits, and over all.
        outcomes: of both, in words; () for a statement that has only counts.
    """

    statement: str
    first: Tally
    all: Tally
    outcomes: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether the two decisions differ."""
        if self.outcomes:
            return len(set(self.outcomes)) > 1
        return (self.first.ahead, self.first.behind) != (self.all.ahead, self.all.behind)

    def cells(self) -> list[str]:
        """A row of the table."""
        before, after = (f"{outcome}: " for outcome in self.outcomes or ("", ""))
        low, high = self.all.repeats
        n = f"{low}" if low == high else f"{low} to {high}"
        texts = [_counts(before, self.first), _counts(after, self.all)]
        return [markdown_text(self.statement), *(text.removeprefix(": ") for text in texts), n]


def _counts(outcome: str, counted: Tally) -> str:
    return f"{outcome}ahead {counted.ahead}, behind {counted.behind} of {counted.total}"


def of_first(cells: Sequence[Cell], number: int = FIRST) -> tuple[Cell, ...]:
    """The cells with their first splits only; cells without any of these are left out.

    Args:
        cells: with scores by repeat.
        number: how many splits; repeats 0 to number - 1.
    """
    cut = (
        replace(
            cell,
            scores={repeat: score for repeat, score in cell.scores.items() if repeat < number},
        )
        for cell in cells
    )
    return tuple(cell for cell in cut if cell.scores)


def of_papers(found: Sequence[StudyResults]) -> dict[str, list[Decided]]:
    """Paper -> its claims with more than the first splits, decided twice."""
    made: dict[str, list[Decided]] = {}
    for paper, claims in read_claims().items():
        results = study_of(paper, found)
        if results is not None:
            made[paper] = [*_of_claims(claims, results)]
    return made


def _of_claims(claims: Sequence[Mapping[str, Any]], results: StudyResults) -> Iterator[Decided]:
    before = replace(results, cells=of_first(results.cells))
    for claim in claims:
        if "entry" not in claim:
            continue
        now = outcome(dict(claim), results, {})
        first = outcome(dict(claim), before, {})
        if _has_more(now.pairs):
            yield Decided(
                statement=claim["claim"], first=tally(first.pairs), all=tally(now.pairs),
                outcomes=(first.outcome, now.outcome),
            )  # fmt: skip


def of_findings(found: Sequence[StudyResults]) -> list[Decided]:
    """The sets of differences behind the main study's findings, decided twice."""
    cells = main_cells(found)
    before = of_first(cells)
    return [
        Decided(statement=words, first=tally(panel_pairs(before, entry, against)), all=tally(now))
        for question in questions()
        for words, entry, against in question.panels
        if _has_more(now := panel_pairs(cells, entry, against))
    ]


def _has_more(found: Sequence[Pair]) -> bool:
    return any(pair.test.n > FIRST for pair in found)


def repeat_lines(found: Sequence[StudyResults]) -> list[str]:
    """The section of docs/results/comparisons.md: what changed, paper by paper, and in the findings.

    Args:
        found: studies with records.
    """
    papers, findings = of_papers(found), of_findings(found)
    if not findings and not any(papers.values()):
        return []
    lines = ['<a id="repeats"></a>', "", "## What more repeats changed", ""]
    lines += [
        f"Every statement is decided twice from the same records: from the first {FIRST} splits alone, and "
        "from all, each time with Holm's correction over its differences. Nothing else differs.", "",
    ]  # fmt: skip
    for paper, decided in papers.items():
        lines += _told(PAPERS.get(paper, paper), decided)
    return lines + _told("Findings of the head-to-head", findings)


def _told(title: str, decided: Sequence[Decided]) -> list[str]:
    if not decided:
        words = f"no statement has more than {FIRST} splits, so none could change."
        return [f"**{title}**: {words}", ""]
    changed = [item for item in decided if item.changed]
    number = f"{len(changed)} of {len(decided)} statements" if changed else "none of"
    told = f"{number} changed." if changed else f"{number} {len(decided)} statements changed."
    table = pivots.markdown(HEADER, [item.cells() for item in changed]) if changed else []
    return [f"**{title}**: {told}", "", *table, *([""] if table else [])]

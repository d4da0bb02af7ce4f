"""The comparisons a study asks for, each with a paired interval and a verdict in words.

`comparisons` of a study file names entries and what they are set against:

    comparisons:
      - question: Does a graph network beat DP-MLP at the same epsilon?
        entries: [dp_gcn, dp_gcn-paper]
        against: [dp_mlp, mlp]
      - question: What does each part add?       # several items may share a question
        steps: [features, features-pi, em0]      # each against the one before

A comparison is no ranking: where the claims of the two sides allow none, it says so and why. p values are
corrected by Holm's method over all comparisons of one question on one data set and setting. A pair that
several questions ask about has the largest of its p values under each, so that one pair has one verdict.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from dpgnn.accountants.implications import may_rank_together
from dpgnn.records.cells import Cell
from dpgnn.records.info import Comparison, StudyInfo
from dpgnn.report.statistics.ranking import compare, pair_of, why_unranked
from dpgnn.report.statistics.statistics import PairedTest, Verdict, holm, verdict
from dpgnn.report.tables.table import Column, Row, Table, interval_text, signed
from dpgnn.report.tables.tables import ENTRY, ON_REPEATS, PLACE

CLEAR = "larger than the noise"


@dataclass(frozen=True, kw_only=True)
class Compared:
    """entry - reference at shared splits, asked for by a study.

    Attributes:
        question: what the study asks.
        entry, reference: the two cells.
        epsilon: the budget of the private side; "inf" where neither is private.
        test: None where no split is shared.
        corrected_p: Holm's p value within the family; None without a test or with one repeat.
        verdict: see `statistics.verdict`; None without a test.
        family: comparisons of this question on this data set and setting.
        claims: "" where both sides may stand in one ranking, else why they may not.
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
    """Every comparison the study asks for, where both sides have a score."""
    found: list[Compared] = []
    for question in dict.fromkeys(asked.question for asked in info.comparisons):
        stated = [asked for asked in info.comparisons if asked.question == question]
        pairs = [pair for asked in stated for pair in _pairs(asked, cells)]
        for place in dict.fromkeys(entry.place for entry, _ in pairs):
            found += _family(question, [pair for pair in pairs if pair[0].place == place])
    return _one_verdict(found)


def _one_verdict(found: Sequence[Compared]) -> list[Compared]:
    """The same comparisons; a pair of several questions has the most careful p value of them."""
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


def comparisons_table(found: Sequence[Compared]) -> Table:
    """All comparisons, one row each; a difference is bold only where it is clear of the noise."""
    rows = [_row(item) for item in found]
    tested = sum(item.corrected_p is not None for item in found)
    return Table(
        name="comparisons",
        title="What the study asks, answered",
        caption=(
            "Entry minus reference in percentage points on shared splits with a 95 % interval. "
            f"{tested} comparisons were made; p and the verdict are corrected by Holm's method over the m "
            "comparisons of one question on one data set and setting; a pair that several questions ask "
            "about has the largest of its p under each. Ahead, behind: larger than the noise "
            "after the correction (bold). Unclear: the interval leaves out zero, but among so many "
            "comparisons that is to be expected. A comparison is no ranking: the last column says where the "
            f"claims of the two sides differ. {ON_REPEATS}"
        ),
        columns=(
            Column(key="question", header="Question"),
            *PLACE,
            Column(key="epsilon", header="ε", kind="epsilon"),
            *ENTRY,
            Column(key="reference_label", header="Reference"),
            Column(key="reference", header="reference", form="csv"),
            Column(key="entry_mean", header="Entry %", kind="percent"),
            Column(key="reference_mean", header="Reference %", kind="percent"),
            Column(key="mean", header="Difference (points)", kind="points"),
            Column(
                key="interval", header="95 % interval", kind="points", form="read", sort="low",
                show=lambda row: interval_text(row, points=True),
            ),
            Column(key="low", header="low", form="csv"),
            Column(key="high", header="high", form="csv"),
            Column(key="verdict", header="Verdict"),
            Column(key="p", header="p (Holm, of m)", kind="p", show=_p_text),
            Column(key="family", header="m", form="csv"),
            Column(key="n", header="Pairs", kind="integer"),
            Column(key="claims", header="Claims", show=lambda row: row["claims"] or "may be ranked"),
        ),
        rows=rows,
        empty="The study asks for no comparison, or none of its sides has a score yet.",
    )  # fmt: skip


def sentences(found: Sequence[Compared], most: int = 2) -> list[str]:
    """Each question with its pairs, at the smallest and the largest budget, with numbers.

    Args:
        found: the comparisons.
        most: pairs told for one question; the rest stand in the table.
    """
    lines = []
    for question in dict.fromkeys(item.question for item in found):
        here = [item for item in found if item.question == question]
        lines.append(question)
        pairs = list(dict.fromkeys((item.entry.entry, item.reference.entry) for item in here))
        for pair in pairs[:most]:
            lines.append(
                _pair_sentence([i for i in here if (i.entry.entry, i.reference.entry) == pair])
            )
        if len(pairs) > most:
            left = len(pairs) - most
            lines.append(
                f"{left} more {'pair stands' if left == 1 else 'pairs stand'} under the comparisons."
            )
    return lines


def by_question(table: Table) -> list[Table]:
    """The comparisons as one table for each question, for reading."""
    columns = [column for column in table.columns if column.key != "question"]
    questions = dict.fromkeys(row["question"] for row in table.rows)
    made = []
    for position, question in enumerate(questions, 1):
        rows = [row for row in table.rows if row["question"] == question]
        last = position == len(questions)
        tested = sum(row["p"] is not None for row in rows)
        clear = sum(bool(row["bold"]) for row in rows)
        made.append(
            replace(
                table,
                name=f"{table.name}-{position}",
                title=str(question),
                caption=f"{tested} comparison{'' if tested == 1 else 's'}, {clear} larger than the noise."
                + (f" {table.caption}" if last else ""),
                columns=columns,
                rows=rows,
            )
        )
    return made


def _pair_sentence(group: Sequence[Compared]) -> str:
    budgets = sorted({item.epsilon for item in group}, key=float)
    parts = []
    for budget in dict.fromkeys((budgets[0], budgets[-1])):
        here = [item for item in group if item.epsilon == budget]
        where = "" if budget == "inf" else f" at ε = {budget}"
        means = [100 * item.test.mean for item in here if item.test is not None]
        if not means:
            parts.append(f"no shared split{where}")
        elif len(here) == 1:
            parts.append(f"{signed(means[0])} points{where} ({here[0].words})")
        else:
            words = [item.words for item in here]
            counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
            span = f"{signed(min(means))} to {signed(max(means))} points"
            parts.append(f"{span}{where} over {len(here)} data sets and settings ({counts})")
    return f"{group[0].entry.label} against {group[0].reference.label}: {'; '.join(parts)}."


def _pairs(asked: Comparison, cells: Sequence[Cell]) -> Iterator[tuple[Cell, Cell]]:
    if asked.steps:
        named = list(itertools.pairwise(asked.steps))
        sides = [(after, before) for before, after in named]
    else:
        sides = list(itertools.product(asked.entries, asked.against))
    for entry_name, reference_name in sides:
        for entry in cells:
            if not fnmatchcase(entry.entry, entry_name):
                continue
            for reference in cells:
                both = entry.is_private and reference.is_private
                if (
                    fnmatchcase(reference.entry, reference_name)
                    and reference.entry != entry.entry
                    and reference.place == entry.place
                    and (not both or reference.epsilon == entry.epsilon)
                ):
                    yield entry, reference


def _family(question: str, pairs: Sequence[tuple[Cell, Cell]]) -> list[Compared]:
    tests = [compare(entry, reference) for entry, reference in pairs]
    corrected = holm([None if test is None else test.p for test in tests])
    size = sum(p is not None for p in corrected)
    return [
        Compared(
            question=question,
            entry=entry,
            reference=reference,
            epsilon=entry.epsilon if entry.is_private else reference.epsilon,
            test=test,
            corrected_p=p,
            verdict=None if test is None else verdict(test, p),
            family=size,
            claims=_claims_differ(entry, reference),
        )
        for (entry, reference), test, p in zip(pairs, tests, corrected)
    ]


def _claims_differ(entry: Cell, reference: Cell) -> str:
    open_sides = [cell.label for cell in (entry, reference) if not cell.is_private]
    if open_sides:
        return f"{' and '.join(open_sides)} without privacy"
    for cell in (entry, reference):
        if reason := why_unranked(cell):
            return f"{cell.label}: {reason}"
    assert entry.claim is not None
    assert reference.claim is not None
    answer = may_rank_together([entry.claim, reference.claim])
    return "" if answer.allowed else answer.reason


def _row(item: Compared) -> dict[str, Any]:
    row: dict[str, Any] = {
        "question": item.question,
        "dataset": item.entry.dataset,
        "setting": item.entry.setting,
        "epsilon": item.epsilon,
        "entry": item.entry.entry,
        "label": item.entry.label,
        "reference": item.reference.entry,
        "reference_label": item.reference.label,
        "entry_mean": item.entry.interval["mean"],
        "reference_mean": item.reference.interval["mean"],
        "verdict": item.words,
        "p": item.corrected_p,
        "family": item.family or None,
        "claims": item.claims,
        "bold": ("mean",) if item.verdict == CLEAR else (),
    }
    for name in ("mean", "low", "high", "n"):
        row[name] = getattr(item.test, name) if item.test else None
    return row


def _p_text(row: Row) -> str:
    p = row["p"]
    if p is None:
        return "–"
    return f"{'< 0.001' if p < 0.001 else f'{p:.3f}'} (of {row['family']})"

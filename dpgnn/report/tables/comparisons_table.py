"""The comparisons that a study asks for, as a table and in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dpgnn.report.statistics.comparisons import CLEAR, Compared
from dpgnn.report.tables.rows import ComparisonRow
from dpgnn.report.tables.table import Table, columns_of, signed
from dpgnn.report.tables.tables import ON_REPEATS
from dpgnn.report.tables.tuning import CHOSEN


def comparisons_table(found: Sequence[Compared], *, tuned: bool = False) -> Table[ComparisonRow]:
    """All comparisons, one row each; a difference is bold only if it is larger than the noise.

    Args:
        found: the comparisons.
        tuned: both sides of each are tuned.
    """
    rows = [_row(item) for item in found]
    tested = sum(item.corrected_p is not None for item in found)
    return Table(
        name="tuned-comparisons" if tuned else "comparisons",
        title=f"What the study asks, answered{' with both sides tuned alike' if tuned else ''}",
        caption=(
            f"{f'Options of both sides: {CHOSEN}. ' if tuned else ''}"
            "Entry minus reference in percentage points on shared splits with a 95 % interval. "
            f"{tested} comparisons were made; p and the verdict are corrected by Holm's method over the m "
            "comparisons of one question on one data set and setting; a pair that several questions ask "
            "about has the largest of its p under each. Ahead, behind: larger than the noise "
            "after the correction (bold). Unclear: the interval leaves out zero, but among so many "
            "comparisons that is to be expected. A "
            "comparison is no ranking: the last column says where the "
            f"claims of the two sides differ. {ON_REPEATS}"
        ),
        columns=columns_of(ComparisonRow),
        rows=rows,
        empty="The study asks for no comparison, or none of its sides has a score yet.",
    )


def sentences(found: Sequence[Compared], most: int = 2) -> list[str]:
    """Each question with its pairs, at the smallest and the largest budget, with numbers.

    Args:
        found: the comparisons.
        most: number of pairs given for one question; the table has the rest.
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


def by_question(table: Table[ComparisonRow]) -> list[Table[ComparisonRow]]:
    """The comparisons as one table for each question, for reading."""
    columns = [column for column in table.columns if column.key != "question"]
    questions = dict.fromkeys(row.question for row in table.rows)
    made = []
    for position, question in enumerate(questions, 1):
        rows = [row for row in table.rows if row.question == question]
        last = position == len(questions)
        tested = sum(row.p is not None for row in rows)
        clear = sum(bool(row.bold) for row in rows)
        made.append(
            replace(
                table,
                name=f"{table.name}-{position}",
                title=question,
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


def _row(item: Compared) -> ComparisonRow:
    test = item.test
    return ComparisonRow(
        question=item.question, dataset=item.entry.dataset, setting=item.entry.setting,
        epsilon=item.epsilon, entry=item.entry.entry, label=item.entry.label,
        reference=item.reference.entry, reference_label=item.reference.label,
        entry_mean=item.entry.interval.mean, reference_mean=item.reference.interval.mean,
        mean=test.mean if test else None, low=test.low if test else None,
        high=test.high if test else None, n=test.n if test else None,
        verdict=item.words, p=item.corrected_p, family=item.family or None, claims=item.claims,
        bold=("mean",) if item.verdict == CLEAR else (),
    )  # fmt: skip

"""The comparisons that studies ask for, by question: as stated, and with both sides tuned alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.rows import ComparisonRow
from dpgnn.report.tables.table import Table, committed_name

Wanted = Callable[[StudyResults, str], bool]  # (a study, one of its questions)


def asked_lines(found: Sequence[StudyResults], wanted: Wanted) -> list[str]:
    """The selected questions, each with its pairs over all places; real graphs alone if there are any."""
    lines: list[str] = []
    for results in found:
        tuned = results.tuned_comparisons
        how = (
            "; tuned: both sides [tuned alike](#tuned), corrected among such pairs, "
            f"{csv_of(results, tuned.name)}"
        )
        for question in questions_of(results, wanted):
            lines += [
                f"{question} ({_link(results)}; points, over data sets and settings, at the smallest and the "
                f"largest ε{how if tuned.rows else ''})",
                "", *question_lines(results, question, real=True), "",
            ]  # fmt: skip
    return lines or ["No study with records asks this.", ""]


def summed_lines(found: Sequence[StudyResults], wanted: Wanted) -> list[str]:
    """The selected questions, one line each; their study's page has the pairs."""
    asked = [
        (question, _link(results), _rows(results.comparisons, question, real=True))
        for results in found
        for question in questions_of(results, wanted)
    ]
    told = "Differences in points over all pairs, data sets and settings of a question."
    return [told, "", *pivots.question_summary(asked), ""] if asked else []


def question_lines(results: StudyResults, question: str, *, real: bool = False) -> list[str]:
    """A question's pairs over all places, as stated and tuned alike, at the smallest and the largest epsilon.

    Args:
        results: the study that asks.
        question: one of its comparisons.
        real: leave out stand-ins where there are real graphs.
    """
    return pivots.comparison_summary(
        _rows(results.comparisons, question, real=real),
        ends=True,
        tuned=_rows(results.tuned_comparisons, question, real=real),
    )


def questions_of(results: StudyResults, wanted: Wanted = lambda *_: True) -> list[str]:
    """The selected questions of a study that have records, in its order."""
    rows = results.comparisons.rows
    return [q for q in dict.fromkeys(row.question for row in rows) if wanted(results, q)]


def csv_of(results: StudyResults, table: str) -> str:
    """A link from docs/ to a table of a study; its rows name the cells of the records."""
    return f"[CSV](reference/{results.info.name}/tables/{committed_name(table)})"


def _rows(table: Table[ComparisonRow], question: str, *, real: bool) -> list[ComparisonRow]:
    found = [row for row in table.rows if row.question == question]
    return on_real_graphs_if_any(found, lambda row: row.dataset) if real else found


def _link(results: StudyResults) -> str:
    name = results.info.name
    return f"[{name}](results/{name}.md#comparisons), {csv_of(results, 'comparisons')}"

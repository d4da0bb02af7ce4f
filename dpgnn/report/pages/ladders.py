"""The cost of soundness, one change at a time: each rung of study `ladder` against the one before.

A rung differs from the one before in one thing, on the same splits, so its difference has one cause; a test
checks this on the study's file. Whole ladders and single rungs are comparisons of the study.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables import pivots
from dpgnn.report.tables.rows import ComparisonRow
from dpgnn.report.tables.table import format_value, signed

STUDY = "ladder"
RUNGS = "one change at a time"  # in a question whose steps are a ladder


def ladder_lines(results: StudyResults) -> list[str]:
    """Markdown: a table for each method's ladder and data set, then the single comparisons between rungs."""
    rows = results.comparisons.rows
    questions = list(dict.fromkeys(row.question for row in rows))
    link = f"[{results.info.name}](results/{results.info.name}.md#comparisons)"
    lines = [
        f"Study {link}: from each published form to the sound one, on the same splits. A rung differs "
        f"from the one "
        "above it in what its name says and in nothing else; mode `sound` brings what its rung names. "
        "Change: points "
        "against the rung above with a 95 % interval over n paired repeats, bold where it is larger "
        "than the noise "
        "after Holm's correction over the ladder.",
        "",
    ]
    for question in questions:
        here = [row for row in rows if row.question == question]
        lines += [f"**{question}**", ""]
        table = _rungs if RUNGS in question else _pairs
        for place in dict.fromkeys((row.dataset, row.setting, row.epsilon) for row in here):
            chosen = [row for row in here if (row.dataset, row.setting, row.epsilon) == place]
            lines += [f"{place[0]}, ε = {place[2]}:", "", *table(chosen), ""]
    return lines


def ladder_summary(results: StudyResults) -> list[str]:
    """Markdown: the two ends of each ladder, and the rungs whose change is larger than the noise."""
    rows = results.comparisons.rows
    link = f"[{results.info.name}](results/{results.info.name}.md#comparisons)"
    body = []
    for question in dict.fromkeys(row.question for row in rows if RUNGS in row.question):
        here = [row for row in rows if row.question == question]
        for place in dict.fromkeys((row.dataset, row.setting, row.epsilon) for row in here):
            rungs = [row for row in here if (row.dataset, row.setting, row.epsilon) == place]
            body.append(_summed(question, place[0], place[2], rungs))
    head = ["Ladder", "Data set", "ε", "First rung", "Last rung", "Rungs", "Larger than the noise"]
    return [
        f"From each published form to the sound one, on the same splits, one change a rung; the rungs with "
        f"their intervals and n: study {link}. Scores in percent; changes in points against the rung above, "
        "those larger than the noise after Holm's correction over the ladder.",
        "",
        *pivots.markdown(head, body),
        "",
    ]


def _summed(question: str, dataset: str, epsilon: str, rungs: Sequence[ComparisonRow]) -> list[str]:
    clear = [
        f"{row.label}: {signed(100 * row.mean)} (n {row.n})"
        for row in rungs
        if row.bold and row.mean is not None
    ]
    return [
        question.partition(":")[0], dataset, epsilon,
        format_value(rungs[0].reference_mean, "percent"),
        format_value(rungs[-1].entry_mean, "percent"), str(len(rungs)), "; ".join(clear) or "none",
    ]  # fmt: skip


def _rungs(rows: Sequence[ComparisonRow]) -> list[str]:
    """Rungs from the top, each with its score and its change."""
    first = rows[0]
    body = [[first.reference_label, format_value(first.reference_mean, "percent"), "", "", ""]]
    body += [[row.label, format_value(row.entry_mean, "percent"), *_change(row)] for row in rows]
    last, whole = rows[-1], rows[-1].entry_mean - first.reference_mean
    body.append([f"from the first rung to “{last.label}”", "", signed(100 * whole), "", ""])
    return pivots.markdown(["Rung", "Score", "Change", "Verdict", "Repeats to decide"], body)


def _pairs(rows: Sequence[ComparisonRow]) -> list[str]:
    body = [
        [row.reference_label, format_value(row.reference_mean, "percent"), row.label,
         format_value(row.entry_mean, "percent"), *_change(row)]
        for row in rows
    ]  # fmt: skip
    head = ["From", "Score", "To", "Score", "Change", "Verdict", "Repeats to decide"]
    return pivots.markdown(head, body)


def _change(row: ComparisonRow) -> list[str]:
    """(change with its interval and n, verdict, repeats)."""
    if row.mean is None:
        return ["–", row.verdict, ""]
    text = signed(100 * row.mean)
    if row.bold:
        text = f"**{text}**"
    if row.low is not None and row.high is not None:
        text += f" ({signed(100 * row.low)} to {signed(100 * row.high)}, n {row.n})"
    return [text, row.verdict, row.needed]

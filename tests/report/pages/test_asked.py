"""Questions of a study: pairs as stated and tuned alike, side by side."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dpgnn.report.pages.asked import asked_lines, csv_of, question_lines, summed_lines
from dpgnn.report.pages.docs_page import study_page
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables.rows import ComparisonRow


@pytest.fixture
def asked(documented: tuple[StudyResults, Path]) -> StudyResults:
    """The toy study where DP-GCN gains three points by tuning."""
    found = documented[0]
    rows = [
        replace(row, mean=row.mean + 0.03, verdict="ahead")
        for row in found.comparisons.rows
        if row.mean is not None and row.entry == "dp_gcn"
    ]
    return replace(found, tuned_comparisons=replace(found.tuned_comparisons, rows=rows))


def question_of(results: StudyResults) -> str:
    """The question about DP-GCN."""
    return next(row.question for row in results.comparisons.rows if row.question.startswith("Does"))


def test_tuned_pairs_have_columns_of_their_own(asked: StudyResults) -> None:
    head, _, line = question_lines(asked, question_of(asked))
    assert [cell.strip() for cell in head.split("|")[1:-1]] == [
        "Entry", "Against", "ε = 1", "ε = 8", "ε = 1, tuned", "ε = 8, tuned",
    ]  # fmt: skip
    assert line.split(" | ")[2:] == [
        "−10.0 to −10.0 (2 behind)", "+2.0 to +2.0 (2 ahead)",
        "−7.0 to −7.0 (2 ahead)", "+5.0 to +5.0 (2 ahead) |",
    ]  # fmt: skip


def test_a_pair_that_is_not_tuned_has_dashes(asked: StudyResults) -> None:
    question = question_of(asked)
    other = [
        replace(row, label="Other", verdict="behind")
        for row in asked.comparisons.rows
        if row.question == question
    ]
    rows = [*asked.comparisons.rows, *other]
    results = replace(asked, comparisons=replace(asked.comparisons, rows=rows))
    assert question_lines(results, question)[-1].endswith("| – | – |")


def test_without_tuning_a_question_has_its_columns_alone(
    documented: tuple[StudyResults, Path],
) -> None:
    results = documented[0]
    assert not results.tuned_comparisons.rows
    assert "tuned" not in "".join(question_lines(results, question_of(results)))
    assert "tuned" not in asked_lines([results], lambda *_: True)[0]
    assert "tuned alike" not in study_page(results)


def test_pages_say_what_tuned_columns_are(asked: StudyResults) -> None:
    wanted = question_of(asked)
    lines = asked_lines([asked], lambda _, question: question == wanted)
    link = "reference/toy/tables/tuned-comparisons.csv.gz"
    assert lines[0].startswith(wanted)
    assert f"[tuned alike](#tuned), corrected among such pairs, [CSV]({link})" in lines[0]
    assert f"where both are, corrected among themselves; [CSV](../{link})" in study_page(asked)
    assert csv_of(asked, "comparisons") == "[CSV](reference/toy/tables/comparisons.csv)"


def test_stand_ins_are_left_out_where_there_are_real_graphs(asked: StudyResults) -> None:
    question = question_of(asked)

    def moved(rows: list[ComparisonRow]) -> list[ComparisonRow]:
        return [*rows, *(replace(row, dataset="synthetic-a", mean=0.9) for row in rows)]

    results = replace(
        asked,
        comparisons=replace(asked.comparisons, rows=moved([*asked.comparisons.rows])),
        tuned_comparisons=replace(
            asked.tuned_comparisons, rows=moved([*asked.tuned_comparisons.rows])
        ),
    )
    real = question_lines(results, question, real=True)
    assert real == question_lines(asked, question, real=True) != question_lines(results, question)
    (line,) = summed_lines([results], lambda _, q: q == question)[-2:-1]
    assert "+90" not in line

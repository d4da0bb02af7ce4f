"""A page stays short, and what it sums up is said right and stands in a file."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from dpgnn.records.info import StudyInfo
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.pages.folded import (
    LONGEST,
    MAX_ROWS,
    figure_lines,
    paper_tables_lines,
    table_lines,
)
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.paper.pivot import at_the_ends, pivot, verdict_pivot
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.tables import pivots
from dpgnn.report.tables.claims_table import AuditRow
from dpgnn.report.tables.table import Table, columns_of


def paper_table(methods: int, budgets: tuple[str, ...], name: str = "T1") -> Table[PaperRow]:
    """Rows of one data set; ours is a point above the paper, and undecided at the last budget."""
    rows = [
        PaperRow(
            dataset="d", method=f"m{method}", detail="", epsilon=budget, paper_mean=0.5, paper_std=None,
            our_mean=0.51, difference=0.01, rounding=0.0,
            verdict="undecided" if budget == budgets[-1] else "same",
        )
        for method in range(methods)
        for budget in budgets
    ]  # fmt: skip
    return Table(
        name=f"paper-toy-{name}", title=name, columns=columns_of(PaperRow), rows=rows,
        caption=f"Values in percent. {len(rows)} values. Of the stated values nothing is known.",
    )  # fmt: skip


def test_a_long_paper_table_keeps_its_ends_and_the_longest_its_verdicts(info: StudyInfo) -> None:
    stated = replace(info, paper="toy")
    whole = "\n".join(paper_tables_lines(stated, [paper_table(5, ("1", "2", "4", "8"))]))
    assert whole.count("| m") == 20
    assert "layout.csv" not in whole
    ends = paper_table(11, ("1", "2", "4", "8"))
    text = "\n".join(paper_tables_lines(stated, [ends]))
    assert text.count("| m") == 22 < LONGEST < 44
    assert "| m3 | 1 |" in text
    assert "| m3 | 8 |" in text
    assert "| m3 | 2 |" not in text
    assert "[CSV](../reference/toy/tables/paper-toy-T1-layout.csv)" in text
    counted = paper_table(LONGEST, ("1", "2", "4", "8"))
    text = "\n".join(paper_tables_lines(stated, [counted]))
    assert "| m3 | 3= 1?, +1.0 |" in text
    assert len(verdict_pivot(counted)[1]) == LONGEST


def test_without_privacy_stays_and_a_method_keeps_its_own_ends() -> None:
    table = paper_table(1, ("2", "4", "8", "inf"))
    assert [row.epsilon for row in at_the_ends(table).rows] == ["2", "8", "inf"]
    assert pivot(at_the_ends(paper_table(2, ("",))))[1] == pivot(paper_table(2, ("",)))[1]


def test_what_all_captions_say_is_said_once(info: StudyInfo) -> None:
    tables = [paper_table(2, ("1",)), paper_table(3, ("1",), "T2")]
    text = "\n".join(paper_tables_lines(replace(info, paper="toy"), tables))
    assert text.count("Values in percent.") == text.count("nothing is known.") == 1
    assert text.count("2 values.") == text.count("3 values.") == 1


def audit(entry: str, outcome: str, repeat: int | None = None) -> AuditRow:
    return AuditRow(
        dataset="d", setting="s", entry=entry, label=entry, epsilon="1", repeat=repeat, attack="a",
        outcome=outcome, epsilon_lower_bound=None, detectable_epsilon=None, attained=None,
        confidence=None, num_trials=None, note=None,
    )  # fmt: skip


def audits(rows: list[AuditRow]) -> Table[AuditRow]:
    columns = columns_of(AuditRow)
    return Table(name="audits", title="Audits", caption="C.", columns=columns, rows=rows)


def test_of_many_audits_those_that_did_not_pass_are_shown(info: StudyInfo) -> None:
    words = ["passed"] * MAX_ROWS + ["failed", "not-run"]
    rows = [audit(f"e{place}", word) for place, word in enumerate(words)]
    text = "\n".join(table_lines(info, audits(rows)))
    assert (
        f"{MAX_ROWS + 2} rows: {MAX_ROWS} passed, 1 failed, 1 not-run. Those that did not pass:"
        in text
    )
    assert f"| e{MAX_ROWS} | 1 | a | failed |" in text
    assert f"| e{MAX_ROWS + 1} | 1 | a | not-run |" in text
    assert "| e7 |" not in text
    few = "\n".join(table_lines(info, audits(rows[:3])))
    assert few.count("| passed |") == 3


def test_repeats_of_an_audit_that_ended_alike_are_shown_once(info: StudyInfo) -> None:
    rows = [audit(f"e{place}", "not-run", repeat) for place in range(MAX_ROWS) for repeat in (0, 1)]
    rows.append(audit("e0", "failed", 2))
    text = "\n".join(table_lines(info, audits([*rows[:-3], rows[-1]])))
    assert "1 failed. Those that did not pass, repeats that ended alike once:" in text
    assert text.count("| not-run |") == MAX_ROWS - 1
    assert text.count("| e0 |") == 2


def test_a_table_without_rows_says_why_and_links_no_file(info: StudyInfo) -> None:
    table = Table(name="t", title="T", caption="C.", columns=(), empty="Nothing was asked.")
    text = "\n".join(table_lines(info, table))
    assert "Nothing was asked." in text
    assert ".csv" not in text


def picture(name: str, title: str, caption: str) -> Picture:
    return Picture(name=name, title=title, caption=caption, alt="", draw=Figure)


def test_parts_share_a_heading_captions_their_words_and_stand_ins_are_linked(
    info: StudyInfo,
) -> None:
    means = "Means over repeats. Dotted: the majority class."
    pictures = [
        picture("a", "F1: Hops (1 of 2)", f"{means} Varied: hops."),
        picture("a-2", "F1: Hops (2 of 2)", f"{means} Varied: hops."),
        picture("b", "F2: Budget", f"{means} Varied: ε."),
        picture("c", "F3: Batch", f"{means} Varied: m. 0.5 is chance."),
        picture("d", "F4: Map", "Scores. Varied: c."),
        picture("s", "F2 (synthetic stand-ins, 1 of 2)", means),
        picture("training-curves-1", "Curves", means),
    ]
    lines = figure_lines(info, pictures, [])
    text = "\n".join(lines)
    assert Counter(line for line in lines if line.startswith("### ")) == Counter(
        ["### F1: Hops", "### F2: Budget", "### F3: Batch", "### F4: Map",
         "### On synthetic stand-ins"]
    )  # fmt: skip
    assert f"- F1, F2, F3: {means}" in text
    assert text.count("Means over repeats.") == text.count("Varied: hops.") == 1
    assert "\nVaried: m. 0.5 is chance.\n" in text
    assert "\nScores. Varied: c.\n" in text
    for name in ("a", "a-2", "b", "c", "d", "s"):
        assert text.count(f'<a id="{name}"></a>') == 1
    assert "![F2 (synthetic" not in text
    assert "[F2 (synthetic stand-ins, 1 of 2)](" in text
    assert "training-curves" not in text


def test_commands_of_a_papers_table_stand_in_a_file(documented: tuple[StudyResults, Path]) -> None:
    table = paper_table(1, ("8",))
    row = replace(
        table.rows[0], entry="dp_gcn", our_dataset="alpha", our_setting="random", our_epsilon="8"
    )
    stated = replace(documented[0].info, paper="toy")
    text = "\n".join(paper_tables_lines(stated, [replace(table, rows=[row])]))
    assert "`.venv/bin/dpgnn run toy --tier S --table T1 --dataset alpha`" in text
    assert "tables/paper-toy-T1-commands.txt)" in text


def test_a_question_is_summed_up_at_its_ends(documented: tuple[StudyResults, Path]) -> None:
    rows = documented[0].comparisons.rows
    here = [row for row in rows if row.question.startswith("Does")]
    (_, _, line) = pivots.question_summary([("Does it?", "[toy](toy.md)", here)])
    assert line == (
        "| Does it? | [toy](toy.md) | 2 | ε = 1: −10.0 to −10.0 (2 behind) | "
        "ε = 8: +2.0 to +2.0 (2 ahead) |"
    )
    few = [replace(row, epsilon="4") for row in here[:1]] + here
    assert len(pivots.comparison_summary(few, ends=True)[0].split("|")) == 6  # no column for 4

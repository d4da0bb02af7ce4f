"""Tables of comparisons, rankings and claims folded for a page of Markdown: a column for each budget.

They read the rows of the full tables, so a folded number is a number of the CSV beside it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from dpgnn.core.grouping import grouped
from dpgnn.records.cells import UNCOVERED_WORDS
from dpgnn.report.tables.rows import ClaimRow, MeanRankRow, RankingRow, SpreadRow, marked
from dpgnn.report.tables.table import (
    DASH,
    committed_name,
    epsilon_text,
    format_value,
    signed,
    without_tags,
)

CLEAR = ("ahead", "behind")
S = TypeVar("S", bound=SpreadRow)


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """A row of the table of claims, with its study, its method and the caveats that break it."""

    study: str
    method: str
    voiding: tuple[str, ...]
    claim: ClaimRow


def comparison_summary(
    rows: Sequence[SpreadRow], *, ends: bool = False, tuned: Sequence[SpreadRow] = ()
) -> list[str]:
    """Pairs of a question over all places: counts of verdicts, and the range of differences.

    Args:
        rows: pairs.
        ends: only the smallest and the largest budget of the question.
        tuned: the pairs of which both sides are tuned; they get columns of their own.
    """
    budgets = sorted({row.epsilon for row in rows}, key=float)
    if ends:
        budgets = list(dict.fromkeys((budgets[0], budgets[-1])))
    made, again = (
        dict(_fold(found, lambda row: (row.label, row.reference_label), budgets, _spread_text))
        for found in (rows, tuned)
    )
    heads = [_budget_head(text) for text in budgets]
    if tuned:
        none = [DASH] * len(budgets)
        made = {key: [*cells, *again.get(key, none)] for key, cells in made.items()}
        heads += [f"{head}, tuned" for head in heads]
    # an entry for one budget between the ends has none of these
    body = [[*key, *cells] for key, cells in made.items() if {*cells} != {DASH}]
    return markdown(["Entry", "Against", *heads], body)


def question_summary(asked: Sequence[tuple[str, str, Sequence[SpreadRow]]]) -> list[str]:
    """One line for each question of a study: its pairs at the smallest and the largest budget.

    Args:
        asked: (question, its study as a link, pairs).
    """
    body = []
    for question, link, rows in asked:
        budgets = sorted({row.epsilon for row in rows}, key=float)
        ends = [[row for row in rows if row.epsilon == text] for text in (budgets[0], budgets[-1])]
        texts = [f"{_budget_head(here[0].epsilon)}: {_spread_text(here)}" for here in ends]
        texts[1] = texts[1] if len(budgets) > 1 else DASH
        body.append([question, link, str(len({row.dataset for row in rows})), *texts])
    return markdown(["Question", "Study", "Graphs", "Smallest ε", "Largest ε"], body)


def leaders(ranked: Sequence[RankingRow]) -> list[str]:
    """Who leads under each guarantee at the smallest and the largest budget, in one table."""
    body = []
    for name, rows in _by_guarantee(ranked):
        budgets = sorted({row.epsilon for row in rows}, key=float)
        for budget in dict.fromkeys((budgets[0], budgets[-1])):
            here = [row for row in rows if row.epsilon == budget]
            first = [row for row in here if row.position == 1]
            clear = [row for row in first if row.bold]
            body.append([name, epsilon_text(budget), _counted(first), _counted(clear) or "nowhere"])
    head = ["Guarantee", "ε", "Largest mean on", "Ahead of all by more than the noise"]
    lines = markdown(head, body)
    if any(row.answers == "none" for row in ranked):
        lines += ["", UNCOVERED_WORDS]
    return lines


def mean_rank_lines(rows: Sequence[MeanRankRow], *, ends: bool = False) -> list[str]:
    """Mean ranks over graphs, one line for each guarantee and budget; empty without any.

    Args:
        rows: mean ranks, the best of each group first.
        ends: only the smallest and the largest budget of each guarantee.
    """
    body = []
    for (guarantee, setting), group in grouped(
        rows, lambda row: (row.guarantee, row.setting)
    ).items():
        budgets = grouped(group, lambda row: row.epsilon)
        order = sorted(budgets, key=float)
        for budget in dict.fromkeys((order[0], order[-1])) if ends else order:
            here = budgets[budget]
            places = " · ".join(_rank_text(row) for row in here)
            close = [marked(row) for row in here if row.verdict == "not told apart"]
            first = here[0]
            body.append(
                [f"{guarantee} (setting {setting})", epsilon_text(budget), places, ", ".join(close) or "none",
                 first.left_out or "none", str(first.num_graphs), f"{first.critical:.1f}",
                 format_value(first.p, "p")]
            )  # fmt: skip
    if not body:
        return []
    head = ["Guarantee", "ε", "Mean rank, best first", "Not told apart from the first",
            "Left out, not on all graphs", "Graphs", "Critical difference", "p (all equal)"]  # fmt: skip
    return markdown(head, body, numbers=3)


def _rank_text(row: MeanRankRow) -> str:
    text = f"{marked(row)} {row.rank:.1f}"
    return f"**{text}**" if row.bold else text


def _by_guarantee(ranked: Sequence[RankingRow]) -> Iterator[tuple[str, list[RankingRow]]]:
    """Rows under each guarantee; split by setting if a data set has several, so that it counts once."""
    for guarantee in dict.fromkeys(row.guarantee for row in ranked):
        rows = [row for row in ranked if row.guarantee == guarantee]
        places = {(row.dataset, row.setting) for row in rows}
        if len(places) == len({dataset for dataset, _ in places}):
            yield guarantee, rows
            continue
        for setting in dict.fromkeys(row.setting for row in rows):
            there = [row for row in rows if row.setting == setting]
            yield f"{guarantee} (setting {setting})", there


def _counted(rows: Sequence[RankingRow]) -> str:
    """Each label with its data sets, the most frequent first: "GAP (2: cora, cs)"."""
    counts = grouped(rows, marked)
    return "; ".join(
        f"{label} ({len(here)}: {', '.join(row.dataset for row in here)})"
        for label, here in sorted(counts.items(), key=lambda pair: -len(pair[1]))
    )


def guarantee_lines(rows: Sequence[Guarantee]) -> list[str]:
    """As-published claims: what is claimed and what can be proved for what was run."""
    groups = grouped(
        rows, lambda row: (row.study, row.method, re.sub(r", degree ≤ \d+", "", row.claim.unit))
    )
    body = []
    for (study, method, unit), here in groups.items():
        claims = [row.claim for row in here]
        counts = Counter(name for row in here for name in row.voiding)
        links = ", ".join(
            f"[{name}](soundness.md#{name})" + (f" ({number})" if number < len(here) else "")
            for name, number in counts.items()
        )
        body.append(
            [
                f"[{study}](reference/{study}/tables/{committed_name('claims')})", method,
                _with_bounds(unit, claims), str(len(here)),
                _range([claim.claimed for claim in claims]), _proved(claims),
                links or "none known",
            ]
        )  # fmt: skip
    head = [
        "Study",
        "Method",
        "Protects",
        "Cells",
        "Claimed ε",
        "Proved ε",
        "Breaks the claim (cells, if not all)",
    ]
    return markdown(head, body)


def markdown(head: Sequence[str], body: Sequence[Sequence[str]], *, numbers: int = 0) -> list[str]:
    """A Markdown table without HTML; the last `numbers` columns are right-aligned."""
    rule = ["---"] * (len(head) - numbers) + ["---:"] * numbers
    rows = [head, rule, *body]
    cells = [[without_tags(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [f"| {' | '.join(row)} |" for row in cells]


def _fold(
    rows: Sequence[S],
    key: Callable[[S], tuple[str, ...]],
    budgets: Sequence[str],
    text: Callable[[Sequence[S]], str],
) -> list[tuple[tuple[str, ...], list[str]]]:
    """Group rows by key, with a cell for each budget."""
    made = []
    for name, members in grouped(rows, key).items():
        cells = [[row for row in members if row.epsilon == budget] for budget in budgets]
        made.append((name, [text(found) if found else "–" for found in cells]))
    return made


def _spread_text(rows: Sequence[SpreadRow]) -> str:
    means = [100 * row.mean for row in rows if row.mean is not None]
    if not means:
        return "–"
    words = [row.verdict for row in rows]
    parts = [f"{words.count(w)} {w}" for w in (*CLEAR, "one repeat") if w in words]
    rest = words.count("unclear") + words.count("inside the noise")
    parts += [f"{rest} undecided"] if rest else []
    if len(rows) == 1:
        return f"{signed(means[0])} ({parts[0].removeprefix('1 ')})"
    return f"{signed(min(means))} to {signed(max(means))} ({', '.join(parts)})"


def _budget_head(text: str) -> str:
    return "no privacy" if text == "inf" else f"ε = {epsilon_text(text)}"


def _with_bounds(unit: str, rows: Sequence[ClaimRow]) -> str:
    """The unit with the degrees its rows declare."""
    found = {int(n) for row in rows for n in re.findall(r", degree ≤ (\d+)", row.unit)}
    if not found:
        return unit
    bounds = str(min(found)) if len(found) == 1 else f"{min(found)} to {max(found)}"
    return f"{unit[:-1]}, degree ≤ {bounds})"


def _range(values: Sequence[Any]) -> str:
    if all(value is None for value in values):
        return "nothing"
    known = sorted(float(value) for value in values if value is not None)
    ends = dict.fromkeys((epsilon_text(known[0]), epsilon_text(known[-1])))
    missing = len(values) - len(known)
    return " to ".join(ends) + (f"; nothing in {missing}" if missing else "")


def _proved(rows: Sequence[ClaimRow]) -> str:
    """What is proved of the rows' claims, and what under another relation if nothing is under theirs."""
    found = _range([row.proved for row in rows])
    other = [row for row in rows if row.proved_elsewhere is not None]
    for relation in dict.fromkeys(row.proved_relation for row in other):
        here = [row.proved_elsewhere for row in other if row.proved_relation == relation]
        found += f"; {_range(here)} under {relation}"
        found += f" in {len(here)}" if len(here) < len(rows) else ""
    return found

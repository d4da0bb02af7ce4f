"""Attacks that were repeated: a table per data set with what all repeats of an entry and budget show."""

from __future__ import annotations

from collections.abc import Sequence

from dpgnn.core.grouping import grouped
from dpgnn.records.attacks import LEAKS, AttackResult
from dpgnn.report.statistics.statistics import LEVEL, holm
from dpgnn.report.tables.attack_grid import CANNOT, ORDER, SAYS_NOTHING
from dpgnn.report.tables.attack_pivots import COLUMNS, first_of, is_victim, table_of
from dpgnn.report.tables.attack_verdicts import (
    can_stand,
    detects,
    has_scorer,
    lower_bound,
    p_value,
)
from dpgnn.report.tables.table import DASH

LARGE_BUDGET = 16.0
Kind = tuple[str, str, str]
SHOWN = ("LinkTeller", "held-out", "fresh noise", "the release", "G-MIA", "same graph")


def blocks(found: Sequence[AttackResult]) -> dict[str, str]:
    """Name -> Markdown: `repeats-DATASET`, a row for each private entry and budget with several repeats.

    Args:
        found: all results of the study, as `read_attacks` gives them: p values are corrected over them.
    """
    accused, tests = contradicted(found), sum(p_value(result) is not None for result in found)
    blind = blind_attacks(found)
    here = [r for r in found if r.claim is not None and r.attack not in LEAKS and not is_victim(r)]
    again = {result.place for result in here if result.repeat}
    tables = {}
    for dataset, results in grouped((r for r in here if r.place in again), _dataset).items():
        ranked = sorted(results, key=lambda result: ORDER[str(result.mode)])
        rows = [_row(of_cell, accused, blind, tests) for of_cell in grouped(ranked, _cell).values()]
        heads = [
            "method",
            "entry",
            "mode",
            "ε",
            "repeats",
            *SHOWN,
            "ε ≥",
            "can show",
            "contradicted",
        ]
        tables[f"repeats-{dataset}"] = f"{table_of(heads, rows)}\n\nCorrected over {tests} tests."
    return tables


def contradicted(found: Sequence[AttackResult]) -> set[int]:
    """The `id` of each result in `found` that contradicts its claim among all of the study.

    Holm's method over the p values of all tests in one run: if every claim is true, the probability that any
    of them is named is at most `LEVEL`.
    """
    corrected = holm([p_value(result) for result in found])
    return {id(result) for result, p in zip(found, corrected) if p is not None and p < LEVEL}


def kind(result: AttackResult) -> Kind:
    """What a test is of: the attack, the entry and the graph."""
    return result.attack, result.entry, result.dataset


def blind_attacks(found: Sequence[AttackResult]) -> set[Kind]:
    """Attacks that find nothing of an entry on a graph at any budget, the largest being 16 or more.

    A bound of 0 where the claim allows so much is no evidence of privacy: the attack's score does not see.
    """
    tested = [r for r in found if r.one_run is not None and lower_bound(r) is not None]
    shown = {kind(result) for result in tested if lower_bound(result)}
    asked = {kind(result) for result in tested if float(result.epsilon) >= LARGE_BUDGET}
    return asked - shown


def _dataset(result: AttackResult) -> str:
    return result.dataset


def _cell(result: AttackResult) -> tuple[str, str]:
    return result.entry, result.epsilon


def _row(
    found: Sequence[AttackResult], accused: set[int], blind: set[Kind], num_tests: int
) -> list[str]:
    """What the repeats of one entry and budget show."""
    first = found[0]
    runs = list(grouped(found, lambda result: result.repeat).values())
    bounds = [bound for result in found if (bound := lower_bound(result)) is not None]
    most = [bound for result in found if (bound := detects(result)) is not None]
    seeing = [[result for result in of_run if kind(result) not in blind] for of_run in runs]
    tested = [of_run for of_run in seeing if any(can_stand(r, num_tests) for r in of_run)]
    times = sum(any(id(result) in accused for result in of_run) for of_run in tested)
    said = f"**{times}**" if times else "0"
    return [
        first.label, f"`{first.entry}`", str(first.mode), first.epsilon, str(len(runs)),
        *(_range([first_of(of_run, of_run[0], COLUMNS[name]) for of_run in runs]) for name in SHOWN),
        f"{max(bounds):.2f}" if bounds else DASH,
        f"{max(most):.2f}" if most else DASH,
        f"{said} of {len(tested)}" if tested else "cannot say" if most else DASH,
    ]  # fmt: skip


def _range(results: Sequence[AttackResult | None]) -> str:
    """Smallest and largest AUC over repeats."""
    made = [result for result in results if result is not None and result.status == "ok"]
    if not made:
        return CANNOT if any(results) else DASH
    scores = [float(result.auc) for result in made if result.auc is not None and has_scorer(result)]
    if not scores:
        return SAYS_NOTHING
    low, high = f"{min(scores):.3f}", f"{max(scores):.3f}"
    return low if low == high else f"{low} to {high}"

"""CARIBOU's Table XI in full: a table per data set and attack, a row per entry, a column per budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpgnn.records.attacks import LEAKS, AttackResult
from dpgnn.report.tables.attack_pivots import (
    first_of,
    is_victim,
    matching,
    table_of,
)
from dpgnn.report.tables.attack_verdicts import detects, has_scorer, lower_bound, verdict
from dpgnn.report.tables.table import DASH

# what each table shows in a cell, in this order
TABLES: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "linkteller": (
        {"attack": "linkteller", "pair_set": "unbalanced", "direction": "scale"},
        {"attack": "linkteller", "pair_set": "held-out"},
        {"attack": "linkteller", "noise": "fresh"},
    ),
    "release": ({"attack": "released-state"},),
    "gmia": (
        {"attack": "gmia", "variant": "original"},
        {"attack": "gmia", "variant": "same-graph"},
    ),
}
ORDER = {"nonprivate": 0, "sound": 1, "published": 2}
CANNOT = "n/a"
# the classifier gave all nodes one score
SAYS_NOTHING = "·"


def blocks(found: Sequence[AttackResult]) -> dict[str, str]:
    """Name -> Markdown: `grid-DATASET-ATTACK`, of the runs of repeat 0.

    Args:
        found: results as `read_attacks` gives them.
    """
    here = [r for r in found if not is_victim(r) and r.attack not in LEAKS]
    here = [r for r in here if not r.repeat]
    tables = {}
    for dataset in dict.fromkeys(result.dataset for result in here):
        for name, wanted in TABLES.items():
            attack = wanted[0]["attack"]
            chosen = [r for r in here if r.dataset == dataset and r.attack == attack]
            if any(result.status == "ok" for result in chosen):
                tables[f"grid-{dataset}-{name}"] = _table(chosen, wanted)
    return tables


def _table(found: Sequence[AttackResult], wanted: Sequence[Mapping[str, Any]]) -> str:
    """Rows of entries, columns of budgets, and below the table the reasons for missing answers."""
    budgets = sorted({r.epsilon for r in found}, key=float)
    ranked = sorted(found, key=lambda result: ORDER[str(result.mode)])
    rows, reasons = [], dict[str, list[str]]()
    for entry, result in {r.entry: r for r in ranked}.items():
        cells = []
        for epsilon in budgets:
            of_cell = matching(found, entry=entry, epsilon=epsilon)
            cell = _cell(of_cell, wanted)
            if cell == CANNOT:
                titles = reasons.setdefault(of_cell[0].reason, [])
                titles += [str(result.title)] * (result.title not in titles)
            cells.append(cell)
        rows.append([str(result.title), f"`{entry}`", str(result.mode), *cells])
    heads = [
        "method",
        "entry",
        "mode",
        *("∞" if epsilon == "inf" else epsilon for epsilon in budgets),
    ]
    lines = [f"- {CANNOT}, {', '.join(titles)}: {reason}" for reason, titles in reasons.items()]
    return "\n".join([table_of(heads, rows), *([""] * bool(lines)), *lines])


def _cell(found: Sequence[AttackResult], wanted: Sequence[Mapping[str, Any]]) -> str:
    results = [first_of(found, found[0], selected) for selected in wanted] if found else []
    made = [result if result and result.status == "ok" else None for result in results]
    if not any(made):
        return CANNOT if found else DASH
    return " / ".join(_number(result) for result in made)


def _number(result: AttackResult | None) -> str:
    if result is None:
        return DASH
    if not has_scorer(result):
        return SAYS_NOTHING
    text = f"{result.auc:.3f}"
    if result.attack == "released-state" and detects(result) is not None:
        text += f" ({lower_bound(result):.2f})"
    return f"**{text}**" if verdict(result) == "exceeds the claim" else text

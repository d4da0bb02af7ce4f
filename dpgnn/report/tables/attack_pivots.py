"""Results of all attacks side by side: a row per entry and budget, a column per attack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpgnn.records.attacks import LEAKS, AttackResult
from dpgnn.report.tables.attack_verdicts import (
    NO_SCORER,
    detects,
    has_scorer,
    lower_bound,
    short_verdict,
    verdict,
)
from dpgnn.report.tables.attacks import kind_of
from dpgnn.report.tables.pivots import markdown
from dpgnn.report.tables.table import DASH

SETS = ("unbalanced", "low", "high", "balanced", "held-out")
# column -> the results that it shows
COLUMNS: Mapping[str, Mapping[str, Any]] = {
    "LinkTeller": {"attack": "linkteller", "pair_set": "unbalanced", "direction": "scale"},
    "balanced": {"attack": "linkteller", "pair_set": "balanced", "direction": "scale", "noise": "frozen"},
    "held-out": {"attack": "linkteller", "pair_set": "held-out"},
    "fresh noise": {"attack": "linkteller", "noise": "fresh"},
    "the release": {"attack": "released-state"},
    "G-MIA": {"attack": "gmia", "variant": "original"},
    "same graph": {"attack": "gmia", "variant": "same-graph"},
}  # fmt: skip
# entries with tables of their own; the victim of G-MIA's paper, and that with one option changed
PLAIN, VICTIM = "gcn", "gcn-mia"
# all entries side by side on this data set at these budgets; `attack_grid` has the rest
EXAMPLE, SHOWN_BUDGETS = "cora", ("inf", "1", "8")


def blocks(found: Sequence[AttackResult]) -> dict[str, str]:
    """Name -> Markdown table: plain models under both attacks, attacks for one leak, every entry on Cora.

    Of entries that were attacked again, the first run; `attack_repeats` has all.
    """
    made = [r for r in found if r.status == "ok" and (not r.repeat or is_victim(r))]
    tables = {"linkteller": _linkteller(made), "gmia": _gmia(made), "leaks": _leaks(made)}
    here = [r for r in made if r.dataset == EXAMPLE and r.attack not in LEAKS]
    tables[EXAMPLE] = _dataset([r for r in here if r.epsilon in SHOWN_BUDGETS])
    return {name: text for name, text in tables.items() if text}


def _linkteller(found: Sequence[AttackResult]) -> str:
    rows = []
    for result in matching(
        found, entry=PLAIN, attack="linkteller", pair_set="unbalanced", direction="scale"
    ):
        asked = [{"attack": "linkteller", "pair_set": kind} for kind in SETS]
        rows.append([result.dataset, *(_auc(first_of(found, result, one)) for one in asked)])
    return table_of(
        ["graph", *(f"{name} degree" if name in ("low", "high") else name for name in SETS)], rows
    )


def _gmia(found: Sequence[AttackResult]) -> str:
    rows = []
    for result in matching(filter(is_victim, found), variant="original"):
        same = first_of(found, result, {"attack": result.attack, "variant": "same-graph"})
        cells = [_both_numbers(r) for r in (result, same)]
        _, _, change = str(result.title).partition(", ")
        if result.attack == "gmia-script":
            change = "edges as the script numbers them"
        rows.append([
            result.dataset, change or "as described", str(result.repeat), *cells, _label_auc(result),
            f"{result.train_accuracy:.3f}", f"{result.outside_accuracy:.3f}",
        ])  # fmt: skip
    heads = [
        "graph",
        "network",
        "repeat",
        "original",
        "same graph",
        "the class alone",
        "accuracy on members",
        "on others",
    ]
    return table_of(heads, rows)


def _dataset(found: Sequence[AttackResult]) -> str:
    order = {"nonprivate": 0, "sound": 1, "published": 2}
    rows = []
    ranked = sorted(found, key=lambda result: order[str(result.mode)])
    keys = {result.place: result for result in ranked}
    used: set[str] = set()
    for result in keys.values():
        if is_victim(result):
            continue
        here = {name: first_of(found, result, wanted) for name, wanted in COLUMNS.items()}
        used |= {name for name, value in here.items() if value is not None}
        of_run = of_run_of(found, result)
        bounds = [b for r in of_run if (b := lower_bound(r)) is not None]
        could = [most for r in of_run if (most := detects(r)) is not None]
        exceeding = [r for r in of_run if verdict(r) == "exceeds the claim"]
        epsilon = "∞" if result.epsilon == "inf" else result.epsilon
        shown = DASH if not bounds else f"{max(bounds):.2f}"
        rows.append([
            str(result.title), str(result.mode), epsilon,
            *(_auc(value) for value in here.values()),
            shown + (", **exceeds**" if exceeding else ""),
            DASH if not could else f"{max(could):.2f}",
        ])  # fmt: skip
    heads = ["entry", "mode", "ε", *COLUMNS, "ε ≥", "can show"]
    kept = [i for i, head in enumerate(heads) if head not in COLUMNS or head in used]
    return table_of([heads[i] for i in kept], [[row[i] for i in kept] for row in rows])


def _leaks(found: Sequence[AttackResult]) -> str:
    rows = []
    for result in found:
        if result.attack in LEAKS:
            assert result.line is not None
            rows.append([
                result.label, result.dataset, str(result.mode), result.epsilon, kind_of(result),
                str(result.num_trials), _auc(result),
                f"{result.line.epsilon_lower_bound:.2f} (level {result.line.level:g})",
                f"{detects(result):.2f}", short_verdict(result),
            ])  # fmt: skip
    heads = ["entry", "graph", "mode", "ε", "attack", "runs", "AUC", "ε ≥", "can show", "the claim"]
    return table_of(heads, rows)


def _both_numbers(result: AttackResult | None) -> str:
    if result is None or not has_scorer(result):
        return DASH if result is None else NO_SCORER
    return f"{result.script_auroc:.3f} ({result.auc:.3f})"


def _label_auc(result: AttackResult) -> str:
    return DASH if result.label_auc is None else f"{result.label_auc:.3f}"


def is_victim(result: AttackResult) -> bool:
    """Whether a result attacks the network of G-MIA's paper, or a variant of it."""
    return result.entry.startswith(VICTIM)


def matching(found: Iterable[AttackResult], **wanted: Any) -> list[AttackResult]:
    """The results whose fields have these values."""
    return [r for r in found if all(getattr(r, name) == value for name, value in wanted.items())]


def of_run_of(found: Iterable[AttackResult], run: AttackResult) -> list[AttackResult]:
    """The results on the same run as a result."""
    return [r for r in found if (r.place, r.repeat) == (run.place, run.repeat)]


def first_of(
    found: Sequence[AttackResult], run: AttackResult, wanted: Mapping[str, Any]
) -> AttackResult | None:
    """The first match on a result's run; for LinkTeller with the run's own noise unless one is named."""
    rest = {} if "noise" in wanted or wanted["attack"] != "linkteller" else {"noise": "frozen"}
    chosen = matching(of_run_of(found, run), **{**rest, **wanted})
    return chosen[0] if chosen else None


def _auc(result: AttackResult | None) -> str:
    if result is None:
        return DASH
    return f"{result.auc:.3f}" if has_scorer(result) else NO_SCORER


def table_of(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; empty without rows."""
    return "\n".join(markdown(heads, rows)) if rows else ""

"""Results of `dpgnn attack` beside claims: a table, and lower bounds on epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from dpgnn.records.attacks import KEY, AttackResult
from dpgnn.records.cells import Cell
from dpgnn.report.tables.attack_verdicts import (
    NO_SCORER,
    detects,
    has_scorer,
    line_of,
    lower_bound,
    verdict,
)
from dpgnn.report.tables.claims_table import proved_epsilon
from dpgnn.report.tables.rows import Budget, Dataset, Entry, Label, Setting
from dpgnn.report.tables.table import DASH, Column, Table, columns_of

SHOWN_RATE = 0.01
NAMES = {
    "linkteller": "LinkTeller",
    "gmia": "G-MIA",
    "gmia-script": "G-MIA, edges as its script numbers them",
    "noise-free-layer": "noise-free layer",
    "hub": "hub behind the sampler",
    "released-state": "the release itself",
    "board": "board of votes",
}
COPIED = (
    "mode", "direction", "noise", "auc", "label_auc", "script_auroc", "average_precision", "num_members",
    "num_others",
)  # fmt: skip


def _auc_text(row: AttackRow) -> str:
    return NO_SCORER if row.scorer == "constant" else _three(row.auc)


def _label_auc_text(row: AttackRow) -> str:
    return _three(row.label_auc)


def _script_text(row: AttackRow) -> str:
    return _three(row.script_auroc)


def _three(value: float | None) -> str:
    return DASH if value is None else f"{value:.3f}"


def _rate_text(row: AttackRow) -> str:
    if row.tpr is None:
        return DASH
    return f"{row.tpr:.3f} ({row.tpr_low:.3f} to {row.tpr_high:.3f})"


@dataclass(frozen=True, kw_only=True)
class AttackRow:
    """One attack, variant and run; None if the attack has no such value."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    mode: Annotated[str | None, Column(header="Mode")]
    epsilon: Budget
    attack_words: Annotated[str, Column(header="Attack")]
    auc: Annotated[float | None, Column(header="AUC", show=_auc_text, kind="number")]
    label_auc: Annotated[
        float | None,
        Column(header="Label AUC", show=_label_auc_text, kind="number", optional=True),
    ]
    verdict: Annotated[str, Column(header="Verdict")]
    claimed: Annotated[float | None, Column(header="Claimed ε", kind="epsilon", optional=True)]
    proved: Annotated[float | None, Column(header="Proved ε", kind="epsilon", optional=True)]
    bound: Annotated[float | None, Column(header="ε ≥", kind="epsilon", optional=True)]
    detects: Annotated[float | None, Column(header="Can show", kind="epsilon", optional=True)]
    tpr: Annotated[float | None, Column(header="TPR at 1 % FPR", show=_rate_text, kind="number")]
    script_auroc: Annotated[
        float | None, Column(header="Script's", show=_script_text, kind="number", optional=True)
    ]
    unit: Annotated[str | None, Column(header="unit", form="csv")]
    repeat: Annotated[int | None, Column(header="repeat", form="csv")]
    attack: Annotated[str, Column(header="attack", form="csv")]
    direction: Annotated[str | None, Column(header="direction", form="csv")]
    noise: Annotated[str | None, Column(header="noise", form="csv")]
    covered: Annotated[str | None, Column(header="covered", form="csv")]
    line_epsilon: Annotated[float | None, Column(header="line_epsilon", form="csv")]
    line_delta: Annotated[float | None, Column(header="line_delta", form="csv")]
    scorer: Annotated[str | None, Column(header="scorer", form="csv")]
    tpr_low: Annotated[float | None, Column(header="tpr_low", form="csv")]
    tpr_high: Annotated[float | None, Column(header="tpr_high", form="csv")]
    average_precision: Annotated[float | None, Column(header="average_precision", form="csv")]
    num_members: Annotated[int | None, Column(header="num_members", form="csv")]
    num_others: Annotated[int | None, Column(header="num_others", form="csv")]


def kind_of(result: AttackResult) -> str:
    """The attack in words: its name, the set or variant."""
    name = NAMES.get(result.attack, result.attack)
    if result.variant is not None:
        return f"{name}, {'same graph' if result.variant == 'same-graph' else 'original'}"
    if result.attack == "linkteller":
        kind = str(result.pair_set)
        return f"{name}, {kind + ' edges' if kind == 'held-out' else kind}"
    if result.attack == "board" and result.what is not None:
        return f"{name}, {result.what}"
    if result.attack == "hub" and result.hub_degree is not None:
        return f"{name}, {result.hub_degree} nodes"
    return name


def full_kind_of(result: AttackResult) -> str:
    """The attack in words, with how features were moved and whether the noise was fresh."""
    words = [kind_of(result)]
    if result.direction == "mix":
        words.append("moved by another row")
    if result.noise == "fresh":
        words.append("fresh noise")
    return ", ".join(words)


def panel_of(result: AttackResult) -> str:
    """The panel of the figure that shows an attack."""
    return NAMES["hub"] if result.attack == "hub" else kind_of(result)


def as_audits(found: Sequence[AttackResult]) -> list[dict[str, Any]]:
    """Lower bounds as audits, for the table of claimed, proved and measured epsilon."""
    audits = []
    for result in found:
        bound = lower_bound(result)
        if bound is not None:
            level = None if result.line is None else result.line.level
            audits.append({
                "key": {**dict(zip(KEY, result.place)), "repeat": result.repeat},
                "attack": kind_of(result),
                "epsilon_lower_bound": bound,
                "confidence": None if level is None else 1 - level,
                "num_trials": (result.num_members or 0) + (result.num_others or 0),
            })  # fmt: skip
    return audits


def attacks_table(found: Sequence[AttackResult], cells: Sequence[Cell] = ()) -> Table[AttackRow]:
    """One row per attack, variant and run."""
    known = {tuple(getattr(cell, name) for name in KEY): cell for cell in cells}
    rows = [_row(result, known) for result in found if result.status != "not-applicable"]
    return Table(
        name="attacks",
        title="Attacks",
        caption=(
            "AUC: probability that a member (edge, or training node) scores above a non-member, ties half; "
            "0.5 is guessing; 'no scorer': the attack's classifier gave all nodes one score. Label AUC: "
            "that of the true class alone, which the published form of G-MIA mixes with membership. ε ≥: "
            "the lower bound that the attack shows, if the claim covers what was attacked. Can show: the "
            "bound with every guess right; if that is at most the claim, the attack cannot test the claim. "
            "TPR: share of members found when at most 1 % of the others are accused, with a 95 % "
            "Clopper-Pearson interval. Script's: the number G-MIA's own script calls AUROC, the balanced "
            "accuracy of hard guesses. LinkTeller on held-out edges and G-MIA on one graph compare like with "
            "like; the published forms do not. LinkTeller moves a node's features by a share of themselves, "
            "or by another node's row; noise is that of the run, or fresh, which is one more release for "
            "every query. Further columns are in the CSV."
        ),
        columns=columns_of(AttackRow),
        rows=rows,
        empty="No attack was run on this study.",
    )


def _row(result: AttackResult, known: Mapping[tuple[Any, ...], Cell]) -> AttackRow:
    claim, cell = result.claim, known.get(result.place)
    scored = result.pair_set is not None or result.auc is not None
    rate = next((r for r in reversed(result.rates) if r.asked == SHOWN_RATE), None)
    bound, line = lower_bound(result), line_of(result) or (None, None)
    scorer = None if result.variant is None else "trained" if has_scorer(result) else "constant"
    covered = None
    if claim and result.status == "ok":
        covered = "no" if bound is None else "yes"
    copied: dict[str, Any] = {name: getattr(result, name) for name in (*KEY, *COPIED)}
    return AttackRow(
        **copied,
        label=result.label, repeat=result.repeat,
        attack=kind_of(result) if scored else NAMES.get(result.attack, result.attack),
        attack_words=full_kind_of(result), verdict=verdict(result),
        unit=None if claim is None else claim.privacy_unit,
        claimed=None if claim is None else claim.epsilon,
        proved=None if cell is None else proved_epsilon(cell),
        bound=bound, detects=detects(result), covered=covered,
        line_epsilon=line[0], line_delta=line[1], scorer=scorer,
        tpr=None if rate is None else rate.tpr, tpr_low=None if rate is None else rate.tpr_low,
        tpr_high=None if rate is None else rate.tpr_high,
    )  # fmt: skip

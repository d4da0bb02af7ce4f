"""Published attacks beside claims: what `dpgnn attack` wrote, as a table and lower bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any

from dpgnn.core.checks import require
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.archive import read_attack_texts
from dpgnn.records.cells import Cell
from dpgnn.report.tables.attack_verdicts import (
    NO_SCORER,
    detects,
    has_scorer,
    line_of,
    lower_bound,
    verdict,
)
from dpgnn.report.tables.claims_table import AUDIT_KEY, proved_epsilon
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
    """One attack, variant and run. None where the attack has no such value."""

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


def read_attacks(folder: str | Path, pattern: str = "*.json") -> list[dict[str, Any]]:
    """Results of a study's attacks, one mapping per result, with its run's key.

    From files and from `attacks.parquet`, in order of data set, entry, budget and repeat.

    Args:
        folder: where they lie; none where it is not there.
        pattern: of the names of the files.

    Raises:
        ValueError, DamagedFileError: a file is not of the form `dpgnn attack` writes; names it.
    """
    found = []
    for name, text in read_attack_texts(folder).items():
        if not fnmatchcase(name, pattern):
            continue
        path = Path(folder) / name
        content = _parsed(text, path)
        is_mapping = isinstance(content, Mapping) and isinstance(content.get("key"), Mapping)
        missing = ["key"] if not is_mapping else [n for n in AUDIT_KEY if n not in content["key"]]
        require(not missing, f"{path}: attack", "name its run by " + ", ".join(AUDIT_KEY), missing)
        found += list(_flat(content))
    return sorted(found, key=lambda result: _place(result["key"]))


def _parsed(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedFileError(f"{path} is not JSON ({error}); attack the run again") from None


def _place(key: Mapping[str, Any]) -> tuple[Any, ...]:
    names = [str(key[name]) for name in ("dataset", "setting", "entry")]
    return (*names, float(key["epsilon"]), key.get("repeat") or 0)


def _flat(content: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    base = {name: content.get(name) for name in ("key", "title", "method", "mode", "claim")}
    for result in content["results"]:
        variants = result.get("variants")
        if variants is None:
            yield base | dict(result)
            continue
        rest = {name: value for name, value in result.items() if name != "variants"}
        for name, variant in variants.items():
            yield base | rest | dict(variant) | {"variant": name}


def kind_of(result: Mapping[str, Any]) -> str:
    """The attack in words: its name, the set or variant."""
    name = NAMES.get(str(result["attack"]), str(result["attack"]))
    if "variant" in result:
        return f"{name}, {'same graph' if result['variant'] == 'same-graph' else 'original'}"
    if result["attack"] == "linkteller":
        kind = str(result["pair_set"])
        return f"{name}, {kind + ' edges' if kind == 'held-out' else kind}"
    if result["attack"] == "board" and "what" in result:
        return f"{name}, {result['what']}"
    if result["attack"] == "hub" and "hub_degree" in result:
        return f"{name}, {result['hub_degree']} nodes"
    return name


def full_kind_of(result: Mapping[str, Any]) -> str:
    """The attack with how features were moved and whose noise answered, where it asks anew."""
    words = [kind_of(result)]
    if result.get("direction") == "mix":
        words.append("moved by another row")
    if result.get("noise") == "fresh":
        words.append("fresh noise")
    return ", ".join(words)


def panel_of(result: Mapping[str, Any]) -> str:
    """The panel of the figure that shows an attack."""
    return NAMES["hub"] if result["attack"] == "hub" else kind_of(result)


def as_audits(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Lower bounds in the form of audits, for the table of claimed, proved and measured epsilon."""
    audits = []
    for result in found:
        bound = lower_bound(result)
        if bound is not None:
            level = (result.get("line") or {}).get("level")
            audits.append({
                "key": {**result["key"], "epsilon": str(result["key"]["epsilon"])},
                "attack": kind_of(result),
                "epsilon_lower_bound": bound,
                "confidence": None if level is None else 1 - level,
                "num_trials": result["num_members"] + result["num_others"],
            })  # fmt: skip
    return audits


def attacks_table(
    found: Sequence[Mapping[str, Any]], cells: Sequence[Cell] = ()
) -> Table[AttackRow]:
    """One row per attack, variant and run."""
    known = {tuple(getattr(cell, name) for name in AUDIT_KEY): cell for cell in cells}
    rows = [_row(result, known) for result in found if result.get("status") != "not-applicable"]
    return Table(
        name="attacks",
        title="Attacks",
        caption=(
            "AUC: probability that a member (edge, or training node) scores above a non-member, ties half; "
            "0.5 says nothing; 'no scorer': the attack's classifier gave everybody one score. Label AUC: "
            "that of the true class alone, which the published form of G-MIA mixes with membership. ε ≥: "
            "what the attack shows, only where the claim is about what was attacked. Can show: the same with "
            "every guess right; where that is no more than the claim, the attack cannot say whether it is "
            "true. "
            "TPR: share of members found when at most 1 % of the others are accused, with a 95 % "
            "Clopper-Pearson interval. Script's: the number G-MIA's own script calls AUROC, the balanced "
            "accuracy of hard guesses. LinkTeller on held-out edges and G-MIA on one graph compare like with "
            "like; the published forms do not. LinkTeller moves a node's features by a share of themselves, "
            "or by another node's row; noise is that of the run, or fresh, which is one more release for "
            "every query. Further columns stand in the CSV."
        ),
        columns=columns_of(AttackRow),
        rows=rows,
        empty="No attack was run on this study.",
    )


def _row(result: Mapping[str, Any], known: Mapping[tuple[Any, ...], Cell]) -> AttackRow:
    key, claim = result["key"], result.get("claim") or {}
    cell = known.get(tuple(str(key[name]) for name in AUDIT_KEY))
    scored = "pair_set" in result or "auc" in result
    rates = [rate for rate in result.get("rates", ()) if rate["asked"] == SHOWN_RATE]
    rate = rates[-1] if rates else {}
    copied: dict[str, Any] = {name: result.get(name) for name in COPIED}
    copied |= {name: rate.get(name) for name in ("tpr", "tpr_low", "tpr_high")}
    bound, line = lower_bound(result), line_of(result) or (None, None)
    scorer = None if "variant" not in result else "trained" if has_scorer(result) else "constant"
    covered = None
    if claim and result.get("status") == "ok":
        covered = "no" if bound is None else "yes"
    return AttackRow(
        **{name: key[name] for name in AUDIT_KEY},
        **copied,
        label=result.get("title") or key["entry"], repeat=key.get("repeat"),
        attack=kind_of(result) if scored else NAMES.get(str(result["attack"]), result["attack"]),
        attack_words=full_kind_of(result), verdict=verdict(result),
        unit=claim.get("privacy_unit"), claimed=claim.get("epsilon"),
        proved=None if cell is None else proved_epsilon(cell),
        bound=bound, detects=detects(result), covered=covered,
        line_epsilon=line[0], line_delta=line[1], scorer=scorer,
    )  # fmt: skip

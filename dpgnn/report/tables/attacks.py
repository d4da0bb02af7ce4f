"""Published attacks beside claims: what `dpgnn attack` wrote, as a table and lower bounds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dpgnn.core.checks import require
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.attack_archive import read_attack_texts
from dpgnn.records.cells import Cell
from dpgnn.report.tables.attack_verdicts import (
    NO_SCORER,
    detects,
    has_scorer,
    line_of,
    lower_bound,
    verdict,
)
from dpgnn.report.tables.claims_table import AUDIT_KEY, ENTRY, PLACE, proved_epsilon
from dpgnn.report.tables.table import DASH, Column, Row, Table

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


def attacks_table(found: Sequence[Mapping[str, Any]], cells: Sequence[Cell] = ()) -> Table:
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
        columns=(
            *PLACE, *ENTRY,
            Column(key="mode", header="Mode"),
            Column(key="epsilon", header="Budget ε", kind="epsilon"),
            Column(key="attack_words", header="Attack"),
            Column(key="auc", header="AUC", show=_auc_text, kind="number"),
            Column(
                key="label_auc", header="Label AUC", show=_three("label_auc"), kind="number",
                optional=True,
            ),
            Column(key="verdict", header="Verdict"),
            Column(key="claimed", header="Claimed ε", kind="epsilon", optional=True),
            Column(key="proved", header="Proved ε", kind="epsilon", optional=True),
            Column(key="bound", header="ε ≥", kind="epsilon", optional=True),
            Column(key="detects", header="Can show", kind="epsilon", optional=True),
            Column(key="tpr", header="TPR at 1 % FPR", show=_rate_text, kind="number"),
            Column(
                key="script_auroc", header="Script's", show=_three("script_auroc"), kind="number",
                optional=True,
            ),
            Column(key="unit", header="unit", form="csv"),
            Column(key="repeat", header="repeat", form="csv"),
            Column(key="attack", header="attack", form="csv"),
            Column(key="direction", header="direction", form="csv"),
            Column(key="noise", header="noise", form="csv"),
            Column(key="covered", header="covered", form="csv"),
            Column(key="line_epsilon", header="line_epsilon", form="csv"),
            Column(key="line_delta", header="line_delta", form="csv"),
            Column(key="scorer", header="scorer", form="csv"),
            Column(key="tpr_low", header="tpr_low", form="csv"),
            Column(key="tpr_high", header="tpr_high", form="csv"),
            Column(key="average_precision", header="average_precision", form="csv"),
            Column(key="num_members", header="num_members", form="csv"),
            Column(key="num_others", header="num_others", form="csv"),
        ),
        rows=rows,
        empty="No attack was run on this study.",
    )  # fmt: skip


def _row(result: Mapping[str, Any], known: Mapping[tuple[Any, ...], Cell]) -> dict[str, Any]:
    key, claim = result["key"], result.get("claim") or {}
    cell = known.get(tuple(str(key[name]) for name in AUDIT_KEY))
    row: dict[str, Any] = {name: key[name] for name in AUDIT_KEY} | {"repeat": key.get("repeat")}
    row |= {
        "label": result.get("title") or key["entry"],
        "mode": result.get("mode"),
        "unit": claim.get("privacy_unit"),
        "claimed": claim.get("epsilon"),
        "proved": None if cell is None else proved_epsilon(cell),
        "attack": kind_of(result) if "pair_set" in result or "auc" in result else
        NAMES.get(str(result["attack"]), result["attack"]),
        "attack_words": full_kind_of(result),
        "verdict": verdict(result),
    }  # fmt: skip
    for name in ("direction", "noise", "auc", "label_auc", "script_auroc", "average_precision", "num_members",
                 "num_others"):  # fmt: skip
        row[name] = result.get(name)
    rates = [rate for rate in result.get("rates", ()) if rate["asked"] == SHOWN_RATE]
    for rate in rates:
        row |= {name: rate[name] for name in ("tpr", "tpr_low", "tpr_high")}
    row |= {"bound": lower_bound(result), "detects": detects(result)}
    row["scorer"] = (
        None if "variant" not in result else "trained" if has_scorer(result) else "constant"
    )
    row["line_epsilon"], row["line_delta"] = line_of(result) or (None, None)
    if claim and result.get("status") == "ok":
        row["covered"] = "yes" if row["bound"] is not None else "no"
    return row


def _auc_text(row: Row) -> str:
    return NO_SCORER if row.get("scorer") == "constant" else str(_three("auc")(row))


def _three(name: str) -> Any:
    return lambda row: DASH if row.get(name) is None else f"{row[name]:.3f}"


def _rate_text(row: Row) -> str:
    if row.get("tpr") is None:
        return DASH
    return f"{row['tpr']:.3f} ({row['tpr_low']:.3f} to {row['tpr_high']:.3f})"

"""Published attacks beside claims: what `dpgnn attack` wrote, as a table, a figure and lower bounds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.attacks.statistics import allowed_rate
from dpgnn.core.checks import require
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.attack_archive import read_attack_texts
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import drawing
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.style import looks
from dpgnn.report.tables.attack_verdicts import (
    NO_SCORER,
    claimed_epsilon,
    detects,
    has_scorer,
    line_of,
    lower_bound,
    verdict,
)
from dpgnn.report.tables.claims_table import AUDIT_KEY, proved_epsilon
from dpgnn.report.tables.table import DASH, Column, Row, Table
from dpgnn.report.tables.tables import ENTRY, PLACE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN_RATE = 0.01
NAMES = {
    "linkteller": "LinkTeller",
    "gmia": "G-MIA",
    "gmia-script": "G-MIA, edges as its script numbers them",
    "noise-free-layer": "noise-free layer",
    "hub": "hub behind the sampler",
    "released-state": "the release itself",
}
# what one figure's panels show, in this order
PANELS = (
    "LinkTeller, held-out edges", "the release itself", "G-MIA, same graph", "noise-free layer",
    "hub behind the sampler",
)  # fmt: skip
SMALLEST = 1e-3
_NUM_RATES = 151


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


def draw_attacks(found: Sequence[Mapping[str, Any]], info: StudyInfo) -> Picture | None:
    """True against false positives on logarithmic axes with the line of the smallest claim, by attack."""
    groups = _panels(found)
    if not groups:
        return None
    look = looks(info)
    with drawing.style():
        canvas, axes = drawing.grid(len(groups), title="Attacks and what a claim allows")
        for (title, results), axis in zip(groups.items(), axes):
            for result in results:
                style = look.get(str(result["key"]["entry"]))
                points = curve_points(result["curve"])
                text = f"{result.get('title') or result['key']['entry']}, ε = {result['key']['epsilon']}"
                axis.plot(
                    [f for f, _ in points], [t for _, t in points],
                    color=style.color if style else "#444444",
                    linestyle=style.line(free=not result["claim"]) if style else (0, (5, 2)),
                    label=text.replace("ε = inf", "no privacy"),
                )  # fmt: skip
            _lines(axis, results)
            axis.set_title(title, loc="left")
        drawing.legend(canvas, axes)
        png, svg = drawing.to_bytes(canvas)
    return Picture(
        name="attacks",
        title="Attacks: true against false positives",
        caption=(
            "Share of members found against share of others accused, both logarithmic. Grey: equality "
            "(dotted) and TPR = exp(ε) FPR + δ (solid) for the smallest claim in the panel that is about "
            "what was attacked, twice ε where exchanging two nodes is two changes; a large ε allows "
            "everything from the left end on. A curve above the line of its own claim, beyond the error of "
            "its trials, contradicts that claim; the table says where."
        ),
        alt="Curves of attacks: " + "; ".join(
            f"{title}: " + ", ".join(
                f"{r.get('title') or r['key']['entry']} at budget {r['key']['epsilon']} AUC {r['auc']:.3f}"
                for r in results
            )
            for title, results in groups.items()
        ),
        png=png,
        svg=svg,
    )  # fmt: skip


def curve_points(curve: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """(false, true) rates along the axis; between two thresholds a coin decides, so ties are straight."""
    false, true = (np.array([0.0, *column]) for column in zip(*curve))
    rates = np.geomspace(SMALLEST, 1.0, _NUM_RATES)
    found = np.interp(rates, false, true)
    return [(float(f), float(t)) for f, t in zip(rates, found) if t > 0]


def _panels(found: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Data set and attack -> the first repeat of each entry at its smallest budget."""
    chosen: dict[tuple[str, str, str], Mapping[str, Any]] = {}
    for result in found:
        if result.get("status") != "ok" or panel_of(result) not in PANELS:
            continue
        key = result["key"]
        place = (str(key["dataset"]), panel_of(result), str(key["entry"]))
        rank = (float(key["epsilon"]), key.get("repeat") or 0)
        old = chosen.get(place)
        if old is None or rank < (float(old["key"]["epsilon"]), old["key"].get("repeat") or 0):
            chosen[place] = result
    groups: dict[str, list[Mapping[str, Any]]] = {}
    order = {name: position for position, name in enumerate(PANELS)}
    for dataset, kind, entry in sorted(chosen, key=lambda p: (p[0], order[p[1]], p[2])):
        groups.setdefault(f"{dataset}: {kind}", []).append(chosen[dataset, kind, entry])
    return groups


def _lines(axis: Axes, results: Sequence[Mapping[str, Any]]) -> None:
    rates = [10 ** (-3 + step / 50) for step in range(151)]
    axis.plot(rates, rates, color="#999999", linestyle=":", linewidth=1)
    claims = [drawn for result in results if (drawn := line_of(result)) is not None]
    if claims:
        epsilon, delta = min(claims)
        line = [allowed_rate(rate, epsilon, delta) for rate in rates]
        label = f"claim of ε = {epsilon:.3g}"
        if any(
            line_of(r) == (epsilon, delta) and epsilon > 1.5 * claimed_epsilon(r) for r in results
        ):
            label = f"two changes, ε = {epsilon:.3g}"
        axis.plot(rates, line, color="#666666", linewidth=1.2, label=label)
    axis.set_xscale("log")
    axis.set_yscale("log")
    axis.set_xlim(SMALLEST, 1)
    axis.set_ylim(SMALLEST, 1.1)
    axis.set_xlabel("false-positive rate")
    axis.set_ylabel("true-positive rate")
    assert math.isclose(rates[-1], 1.0)

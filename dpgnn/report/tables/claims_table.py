"""Claimed, proved and measured epsilon side by side; measured if audit files are present."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from dpgnn.accountants.implications import notion, notion_implies
from dpgnn.audits.findings import CHOICE_ATTACK
from dpgnn.core.checks import require
from dpgnn.core.checksums import check
from dpgnn.core.grouping import grouped
from dpgnn.records.archive import read_texts
from dpgnn.records.attacks import KEY, parsed
from dpgnn.records.cells import Cell
from dpgnn.report.statistics.statistics import LEVEL, holm
from dpgnn.report.tables.rows import Budget, ClaimRow, Dataset, Entry, Label, Setting
from dpgnn.report.tables.table import Column, Table, columns_of

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim

STALE = "of another claim"


@dataclass(frozen=True, kw_only=True)
class AuditRow:
    """One audit or attack and its result; None if it has no such value."""

    dataset: Dataset
    setting: Setting
    entry: Entry
    label: Label
    epsilon: Budget
    repeat: Annotated[int | None, Column(header="Repeat", kind="integer", optional=True)]
    attack: Annotated[str | None, Column(header="Attack")]
    outcome: Annotated[str | None, Column(header="Outcome", optional=True)]
    epsilon_lower_bound: Annotated[float | None, Column(header="ε ≥", kind="epsilon")]
    detectable_epsilon: Annotated[
        float | None, Column(header="Detects ε ≥", kind="epsilon", optional=True)
    ]
    attained: Annotated[float | None, Column(header="Reached", kind="percent", optional=True)]
    p: Annotated[float | None, Column(header="p (Holm)", kind="p", optional=True)] = None
    confidence: Annotated[float | None, Column(header="Confidence", kind="number", optional=True)]
    num_trials: Annotated[int | None, Column(header="Trials", kind="integer", optional=True)]
    note: Annotated[str | None, Column(header="Note", optional=True)]


def read_audits(folder: str | Path) -> list[dict[str, Any]]:
    """Audit results of a study: every object, or list of objects, in `*.json` and `audits.parquet`.

    Each has `key` (dataset, setting, entry, epsilon and perhaps repeat) and `epsilon_lower_bound`; `attack`,
    `confidence`, `privacy_unit` and others may follow. Attacks that an audit lists beside its own findings
    (`kind` "attack") are left out: the report reads them from `attacks/`.

    Raises:
        ValueError, DamagedFileError: a file is not of this form; names it.
    """
    found = []
    for file in Path(folder).glob("*.json"):
        check(file)
    for name, text in read_texts(folder, "audits").items():
        path = Path(folder) / name
        content = parsed(text, path, "audit the entry again")
        for item in content if isinstance(content, list) else [content]:
            is_mapping = isinstance(item, Mapping) and isinstance(item.get("key"), Mapping)
            missing = ["key"] if not is_mapping else [n for n in KEY if n not in item["key"]]
            require(not missing, f"{path}: audit", "name its run by " + ", ".join(KEY), missing)
            if item.get("kind") != "attack":
                found.append(dict(item))
    return found


def proved_epsilon(cell: Cell) -> float | None:
    """The smallest proved epsilon that covers what the first claim promises to protect.

    A proved claim counts when its notion implies the first claim's and its delta is no larger.

    Returns:
        math.inf if the proof gives no finite bound; None if nothing is proved.
    """
    return proved_of(cell.claims)


def proved_of(claims: Sequence[Claim]) -> float | None:
    """The same for the claims of a run or plan; the first claim is the calibrated one."""
    if not claims:
        return None
    target = claims[0]
    proved = [
        claim.epsilon
        for claim in claims
        if claim.status == "proved"
        and notion_implies(notion(claim), notion(target))
        and claim.delta <= target.delta
    ]
    return min(proved, default=None)


def proved_elsewhere(claims: Sequence[Claim]) -> Claim | None:
    """The smallest finite epsilon proved for the first claim's unit under another relation.

    It does not prove the first claim; it says what else is known if nothing is proved of it.

    Returns:
        None if the first claim itself is proved, or if nothing finite is proved under another relation.
    """
    if not claims or proved_of(claims) is not None:
        return None
    target = claims[0]
    found = [
        claim
        for claim in claims
        if claim.status == "proved"
        and (claim.privacy_unit, claim.degree_bound) == (target.privacy_unit, target.degree_bound)
        and claim.delta <= target.delta
        and math.isfinite(claim.epsilon)
    ]
    return min(found, key=lambda claim: claim.epsilon, default=None)


def measured_epsilon(cell: Cell, audits: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The largest lower bound an audit showed for a cell: epsilon_lower_bound, attack, confidence.

    An audit of another claim than the cell's (the entry was changed since) does not count.

    Args:
        cell: one with a claim.
        audits: those that name this cell.
    """
    matching = [
        audit
        for audit in audits
        if not _tests_another_claim(audit, cell) and audit.get("epsilon_lower_bound") is not None
    ]
    if not matching:
        return {}
    return dict(max(matching, key=lambda audit: float(audit["epsilon_lower_bound"])))


def _key(cell: Cell) -> tuple[str, ...]:
    return cell.dataset, cell.setting, cell.entry, cell.epsilon


def _audited(audit: Mapping[str, Any]) -> tuple[str, ...]:
    """The key of the cell that an audit names."""
    return tuple(str(audit["key"][name]) for name in KEY)


def _tests_another_claim(audit: Mapping[str, Any], cell: Cell) -> bool:
    """Whether an audit with a cell's name is of another claim than the cell's records state."""
    if not cell.claims:
        return False
    claim = cell.claims[0]
    if any(
        audit.get(name) not in (None, getattr(claim, name)) for name in ("privacy_unit", "relation")
    ):
        return True
    # the plan of an audit is made on its own graph, so its epsilon may differ a little
    # a pure run of a choice is tested at delta 0; older files state no other
    delta = "claimed_delta" if "claimed_delta" in audit else "delta"
    known = (("claimed_epsilon", claim.epsilon, 0.02), (delta, claim.delta, 1e-6))
    return any(
        isinstance(audit.get(name), float)
        and not math.isclose(audit[name], value, rel_tol=tolerance)
        for name, value, tolerance in known
    )


def audits_table(
    audits: Sequence[Mapping[str, Any]], cells: Sequence[Cell] = ()
) -> Table[AuditRow]:
    """Every audit and attack of a study, one row each; `cells` give the titles of entries."""
    titles = {cell.entry: cell.label for cell in cells}
    by_key = grouped(cells, _key)
    rows = [_audit_row(audit, by_key.get(_audited(audit), []), titles) for audit in audits]
    if any(row.repeat for row in rows):
        rows = [replace(row, repeat=row.repeat or 0) for row in rows]
    rows, family = _corrected(rows, audits)
    return Table(
        name="audits",
        title="Audits and attacks",
        caption=(
            "Lower bounds from attacks on the run itself: with the stated confidence, ε is no smaller. "
            "A lower bound far below the claim does not prove the claim; one above it disproves it. "
            "Outcome: failed is an accusation; not-run means that no test was possible. Detects: the "
            "smallest true ε that the claim tests would have accused with probability 0.8, at the share of "
            "the sensitivity that the canary reached (Reached); not known, and left out, for a release whose "
            f"share is not known.{family}"
        ),
        columns=columns_of(AuditRow),
        rows=rows,
        empty="This study has no audits.",
    )


def _audit_row(
    audit: Mapping[str, Any], cells: Sequence[Cell], titles: Mapping[str, str]
) -> AuditRow:
    key, outcome, note = audit["key"], audit.get("outcome"), audit.get("note")
    if any(_tests_another_claim(audit, cell) for cell in cells):
        outcome, note = STALE, "the entry was changed since; audit it again"
    return AuditRow(
        **{name: key[name] for name in KEY},
        label=titles.get(str(key["entry"]), key["entry"]), repeat=key.get("repeat"),
        attack=audit.get("attack"), outcome=outcome, note=note,
        epsilon_lower_bound=audit.get("epsilon_lower_bound"),
        detectable_epsilon=_detectable(audit),
        attained=audit.get("attained_share_of_sensitivity"),
        confidence=audit.get("confidence"), num_trials=audit.get("num_trials"),
    )  # fmt: skip


def _detectable(audit: Mapping[str, Any]) -> float | None:
    """The stated one; None for a release whose share is not known, where older files take the whole."""
    known = audit.get("attained_share_of_sensitivity") is not None
    if not known and not str(audit.get("attack")).endswith(CHOICE_ATTACK):
        return None
    return audit.get("detectable_epsilon")


def _corrected(
    rows: Sequence[AuditRow], audits: Sequence[Mapping[str, Any]]
) -> tuple[list[AuditRow], str]:
    """Correct the p-values of a study's audits and withdraw accusations that are no longer significant.

    An audit is called failed if its own test rejects at its level and its p-value, corrected by Holm's method
    over all audits of the study, is below `LEVEL`. So the probability of any false accusation is at most the
    smaller of `LEVEL` and the sum of the levels.
    """
    corrected = holm([audit.get("p_value") for audit in audits])
    made, levels = [], []
    for row, audit, p in zip(rows, audits, corrected):
        if p is not None:
            levels.append(1 - float(audit.get("confidence") or 1.0))
            row = replace(row, p=p)
            if row.outcome == "failed" and p >= LEVEL:
                note = f"{row.note}; not clear among {len(audits)} audits"
                row = replace(row, outcome="unclear", note=note)
        made.append(row)
    if not levels:
        return made, ""
    return made, (
        f" p: corrected by Holm's method over the {len(levels)} audits. If every claim is true, the "
        f"probability that any of them is called failed is at most {min(LEVEL, sum(levels)):.2g}."
    )


def claims_table(
    cells: Sequence[Cell], audits: Sequence[Mapping[str, Any]] = ()
) -> Table[ClaimRow]:
    """One row per private cell: claimed, proved and measured epsilon."""
    by_key = grouped(audits, _audited)
    rows = [_row(cell, by_key.get(_key(cell), [])) for cell in cells if cell.is_private]
    return Table(
        name="claims",
        title="What is claimed, proved and measured",
        caption=(
            "Budget: the ε asked for. Claimed: the ε stated for the run, by the paper's own formula in "
            "published mode. Proved: the smallest ε we can prove for what was run, for the same protected "
            "element, relation and δ (∞: no finite one; where there is none, what is proved under another "
            "relation). Measured: the largest lower bound an audit has shown; a claim "
            "below it is false."
        ),
        columns=columns_of(ClaimRow),
        rows=rows,
        empty="No private run has a score or was released.",
    )


def _row(cell: Cell, audits: Sequence[Mapping[str, Any]]) -> ClaimRow:
    found = measured_epsilon(cell, audits)
    row = ClaimRow(
        dataset=cell.dataset, setting=cell.setting, entry=cell.entry, label=cell.label, mode=cell.mode,
        unit=cell.unit_text, epsilon=cell.epsilon, delta=cell.delta,
        measured=found.get("epsilon_lower_bound"), attack=found.get("attack"),
        confidence=found.get("confidence"),
    )  # fmt: skip
    claim, other = cell.claim, proved_elsewhere(cell.claims)
    if claim is None:
        return row
    return replace(
        row,
        claimed=claim.epsilon, proved=proved_epsilon(cell), delta=claim.delta, status=claim.status,
        accountant=claim.accountant, caveats=claim.caveats, assumed_public=claim.assumed_public,
        released=claim.released, selection=claim.selection, words=" | ".join(cell.words),
        proved_elsewhere=None if other is None else other.epsilon,
        proved_relation=None if other is None else other.relation,
    )  # fmt: skip

"""One-run audits of an entry: many canaries in one run of each clipped sum; for reports, not for finding
faults."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import FixedSizeRoots, compose, parts
from dpgnn.audits import release_audit, training_audit
from dpgnn.audits.entry_audit import guarded, of_runs, one_thread, refuse_other_number
from dpgnn.audits.findings import Finding
from dpgnn.audits.request import case_of, claimed_plan
from dpgnn.audits.statistics import ClaimLine
from dpgnn.core import seeds
from dpgnn.core.checks import at_least

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Mechanism
    from dpgnn.audits.capture import Case
    from dpgnn.audits.request import AuditRequest


def audit_in_one_run(request: AuditRequest, num_canaries: int) -> tuple[Finding, ...]:
    """Bound the epsilon of every clipped sum from one run with many canaries.

    Guarantee: `one_run.guess` for each mechanism. A claim of the steps that were run is accused by its
    p-value (f-DP, the whole curve), a true one with probability <= request.level; the bound is reported.

    Args:
        request: the audit; `max_steps` steps are run, `num_runs` is ignored.
        num_canaries: number of records that are in or out, each by its own fair coin.
    """
    at_least("one-run canaries", num_canaries, 8)
    one_thread()
    found = list(of_runs(request, partial(audit_in_one_run, num_canaries=num_canaries)))
    if found:
        return (*found, _left_out(claimed_plan(request).mechanisms))
    case = _case(request, num_canaries)
    for mechanism in case.plan.mechanisms:
        if mechanism.clipping_norm is not None:
            print(f"{request.label} {mechanism.name}: one run", file=sys.stderr, flush=True)
            found.append(
                guarded(
                    mechanism.name, lambda m=mechanism: _one(request, case, m, num_canaries)  # type: ignore[misc]
                )
            )  # fmt: skip
    releases = release_audit.release_mechanisms(case.plan)
    if releases:
        found.append(_left_out(releases))
    return tuple(found)


def _case(request: AuditRequest, num_canaries: int) -> Case:
    """The entry's case; with fixed-size batches its plan is for the roots of all canaries."""
    case = case_of(request)
    events = [event for each in case.plan.mechanisms for event, _ in parts(each.event)]
    if not any(isinstance(event, FixedSizeRoots) for event in events):
        return case
    return case_of(request, num_canaries)


def _left_out(mechanisms: Sequence[Mechanism]) -> Finding:
    reason = "one-run audits are for clipped sums; run without --one-run"
    names = "+".join(mechanism.name for mechanism in mechanisms)
    return Finding(mechanism=names, attack="none", verdict=None, reason=reason)


def _one(request: AuditRequest, case: Case, mechanism: Mechanism, num_canaries: int) -> Finding:
    refuse_other_number(request, mechanism)
    start, delta = time.monotonic(), case.plan.claims[0].delta
    steps = min(mechanism.num_steps, request.max_steps)
    (event, _), *_ = parts(mechanism.event)
    claimed = curve(compose(event, steps))
    result = training_audit.one_run(
        case, mechanism, num_canaries=num_canaries, num_steps=steps, delta=delta, level=request.level,
        seed=seeds.child_seed(request.root_seed, "audit", part="one-run", mechanism=mechanism.name),
        line=ClaimLine.of(claimed),
    )  # fmt: skip
    return Finding(
        mechanism=mechanism.name,
        attack=f"one run, {num_canaries} canaries",
        verdict=None,
        one_run=result,
        claimed_of_steps=claimed.epsilon(delta),
        num_steps=steps,
        seconds=time.monotonic() - start,
    )

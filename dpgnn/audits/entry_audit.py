"""Audit of an entry: every private mechanism of its plan, in several processes, resumable."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import Event, FixedSizeRoots, compose, compose_all, parts
from dpgnn.accountants.plan import Mechanism
from dpgnn.audits import mechanics, release_audit, training_audit
from dpgnn.audits.capture import CannotAudit
from dpgnn.audits.choice_audit import audit_choice
from dpgnn.audits.findings import Finding
from dpgnn.audits.power import Design, Detectable, detectable
from dpgnn.audits.request import AuditRequest, case_of, claimed_plan
from dpgnn.audits.statistics import ClaimLine, judge
from dpgnn.core import seeds
from dpgnn.core.storage import Store
from dpgnn.methods.base import no_runs

if TYPE_CHECKING:
    pass

# runs of one world that a process makes between two saves
CHUNK = 25


def audit(request: AuditRequest) -> tuple[Finding, ...]:
    """Audit every private mechanism of the entry's plan; an accused one is audited again with new seeds.

    Guarantee: a correct mechanism is called failed only if two independent audits accuse it.

    Raises:
        ValueError: the plan cannot be made.
    """
    one_thread()
    found = list(of_runs(request, audit))
    seed = seeds.child_seed(request.root_seed, "audit", part="again")
    second = dataclasses.replace(request, root_seed=seed, label=f"{request.label} again")
    for name, first in _audits(request):
        finding = guarded(name, first)
        if finding.accuses:
            finding = dataclasses.replace(finding, again=guarded(name, dict(_audits(second))[name]))
        found.append(finding)
    return tuple(found)


def of_runs(
    request: AuditRequest, audited: Callable[[AuditRequest], tuple[Finding, ...]]
) -> Iterator[Finding]:
    """Findings about runs of other methods that the entry's fit executes; of equal plans the first run's.

    Each is audited as an entry of its own, within the epsilon that its part of the plan comes to.

    Args:
        request: of the entry.
        audited: the audit of a run.
    """
    method = methods.get(request.entry.method)
    if method.inner is no_runs:
        return
    seen = set()
    for place, (entry, plan) in enumerate(method.inner(request.entry, claimed_plan(request))):
        events = tuple(each.event for each in plan.mechanisms)
        if events in seen:
            continue
        seen.add(events)
        budget = dataclasses.replace(request.budget, epsilon=plan.claims[0].epsilon)
        run = dataclasses.replace(
            request, entry=entry, budget=budget, label=f"{request.label} run {place}"
        )
        for finding in audited(run):
            yield dataclasses.replace(finding, mechanism=f"run {place}: {finding.mechanism}")


def _audits(request: AuditRequest) -> list[tuple[str, Callable[[], Finding]]]:
    """Names of the plan's private mechanisms (releases grouped), and the audit of each."""
    plan = claimed_plan(request)
    if methods.get(request.entry.method).inner is not no_runs:
        return [(each.name, partial(audit_choice, request, each)) for each in plan.mechanisms]
    delta = plan.claims[0].delta
    found: list[tuple[str, Callable[[], Finding]]] = [
        (mechanism.name, partial(_training, request, mechanism, delta))
        for mechanism in plan.mechanisms
        if mechanism.clipping_norm is not None
    ]
    releases = release_audit.release_mechanisms(plan)
    if releases:
        names = "+".join(mechanism.name for mechanism in releases)
        found.append((names, partial(_release, request, releases, delta)))
    return found


def one_thread() -> None:
    """Use one torch thread: small batches lose more by synchronisation than they gain."""
    import torch

    torch.set_num_threads(1)


def guarded(name: str, make: Callable[[], Finding]) -> Finding:
    """Run an audit; if it cannot be run, return a finding with the reason. Other errors propagate."""
    try:
        return make()
    except CannotAudit as error:
        return Finding(mechanism=name, attack="none", verdict=None, reason=str(error))


def _training(request: AuditRequest, mechanism: Mechanism, delta: float) -> Finding:
    start = time.monotonic()
    refuse_other_number(request, mechanism)
    (event, _), *_ = parts(mechanism.event)
    shape = _shape_of_release(_Frozen(request))
    if shape is not None and not shape.passed:
        raise CannotAudit(f"the release before it has another shape in G': {shape.found}")
    aim = _training_aim(_Frozen(request), mechanism.name)
    steps = min(mechanism.num_steps, request.max_steps)
    checks = mechanics.examine_loop(
        aim, mechanism, level=request.level,
        seed=seeds.child_seed(request.root_seed, "audit", part="loop", mechanism=mechanism.name),
    )  # fmt: skip
    scores = _scores(request, mechanism.name)
    run, step = compose(event, steps), compose(event, 1)
    verdict = judge(_sums(scores), line_of(run), delta=delta, level=request.level / 2)
    steps_seen = (scores[0].ravel(), scores[1].ravel())
    step_verdict = judge(steps_seen, line_of(step), delta=delta, level=request.level / 2)
    share = min(1.0, aim.moved() / mechanism.sensitivity) if mechanism.sensitivity else None
    sizes, level = ((step, scores[0].size), (run, len(scores[0]))), request.level / 2
    return Finding(
        mechanism=mechanism.name,
        attack="two worlds, canary, all iterates seen",
        verdict=verdict,
        step_verdict=step_verdict,
        detectable=_detectable(sizes, share, level, mechanism.event, delta),
        checks=checks,
        num_steps=steps,
        attained_share=share,
        seconds=time.monotonic() - start,
    )


def refuse_other_number(request: AuditRequest, mechanism: Mechanism) -> None:
    """Refuse a mechanism that needs the same number of roots in all worlds, where they differ in it.

    Raises:
        CannotAudit: its batches have a fixed size and the relation is add-remove.
    """
    (event, _), *_ = parts(mechanism.event)
    if isinstance(event, FixedSizeRoots) and request.entry.relation == "add-remove":
        raise CannotAudit(
            "fixed-size batches are counted for one public number of roots, and add-remove changes it "
            "(caveat population-changes): the loop of G' is refused"
        )


def _release(request: AuditRequest, mechanisms: list[Mechanism], delta: float) -> Finding:
    start = time.monotonic()
    whole = compose_all(*(mechanism.event for mechanism in mechanisms))
    shape = _shape_of_release(_Frozen(request))
    names = "+".join(mechanism.name for mechanism in mechanisms)
    if shape is not None and not shape.passed:
        return Finding(
            mechanism=names,
            attack="two worlds, shape of the release",
            verdict=None,
            checks=(shape,),
        )
    scores = _scores(request, RELEASE)
    verdict = judge(_sums(scores), line_of(whole), delta=delta, level=request.level)
    share = release_audit.attained_share(*_sums(scores), curve(whole).mu)
    return Finding(
        mechanism=names,
        attack="two worlds, canary, the noisy release",
        verdict=verdict,
        detectable=_detectable(((whole, len(scores[0])),), share, request.level, whole, delta),
        checks=() if shape is None else (shape,),
        attained_share=share,
        seconds=time.monotonic() - start,
    )


def _detectable(
    sizes: Sequence[tuple[Event[Any], int]],
    share: float | None,
    level: float,
    whole: Event[Any],
    delta: float,
) -> Detectable | None:
    """What tests of the events see by that many scores of each world; not known if the share is not."""
    if share is None:
        return None
    designs = [
        Design(event=event, num_scores=size // 2, level=level, attained_share=share)
        for event, size in sizes
    ]
    return detectable(designs, whole, delta)


def line_of(event: Event[Any]) -> ClaimLine:
    """The line of a claim's event.

    Raises:
        CannotAudit: no accountant counts the event.
    """
    try:
        return ClaimLine.of(curve(event))
    except TypeError as error:
        raise CannotAudit(f"no curve of the claim: {error}") from error


def _sums(scores: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Scores of whole runs."""
    return scores[0].sum(axis=1), scores[1].sum(axis=1)


RELEASE = "release"


class _Frozen:
    """A request as a cache key."""

    def __init__(self, request: AuditRequest) -> None:
        self.request, self._key = request, request.fingerprint

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and other._key == self._key


@lru_cache(maxsize=4)
def _training_aim(frozen: _Frozen, name: str) -> training_audit.Aim:
    case = case_of(frozen.request)
    return training_audit.aim_at(case, case.plan.mechanism(name))


@lru_cache(maxsize=4)
def _release_aim(frozen: _Frozen) -> release_audit.ReleaseAim:
    request = frozen.request
    return release_audit.aim_at_release(
        case_of(request), seeds.child_seed(request.root_seed, "audit", part="pilots")
    )


@lru_cache(maxsize=4)
def _shape_of_release(frozen: _Frozen) -> mechanics.Check | None:
    seed = seeds.child_seed(frozen.request.root_seed, "audit", part="shape")
    return release_audit.shapes(case_of(frozen.request), seed)


def forget() -> None:
    """Clear captured values (after code has been replaced)."""
    _shape_of_release.cache_clear()
    _training_aim.cache_clear()
    _release_aim.cache_clear()


def chunk_scores(request: AuditRequest, name: str, inside: bool, first: int) -> np.ndarray:
    """Scores of up to CHUNK runs of one world, float64, shape (runs, steps); stored when `work` is given."""
    one_thread()
    store = Store(request.work, request.fingerprint)
    label = f"{name}-{'in' if inside else 'out'}-{first}"
    kept = store.load(label)
    last = min(first + CHUNK, request.num_runs)
    if kept is not None and len(kept[0]["scores"]) >= last - first:
        return np.asarray(kept[0]["scores"][: last - first])
    make = _scorer(request, name, inside)
    scores = np.array([make(_seed(request, name, inside, run)) for run in range(first, last)])
    store.save(label, {"scores": scores}, {})
    return scores


def _scorer(request: AuditRequest, name: str, inside: bool) -> Callable[[int], np.ndarray]:
    frozen = _Frozen(request)
    if name == RELEASE:
        release = _release_aim(frozen)
        return lambda seed: np.array([release.score(seed, inside=inside)])
    aim = _training_aim(frozen, name)
    score = training_audit.Score.of(aim)
    mechanism = case_of(request).plan.mechanism(name)
    steps = min(mechanism.num_steps, request.max_steps)
    return lambda seed: score(
        training_audit.projections(aim, steps, seed, inside=inside, stage=name)
    )


def _seed(request: AuditRequest, name: str, inside: bool, run: int) -> int:
    return seeds.child_seed(request.root_seed, "audit", part=name, world=int(inside), run=run)


def _scores(request: AuditRequest, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Scores of all runs in G and in G', shape (runs, steps)."""
    tasks = [
        (inside, first) for inside in (True, False) for first in range(0, request.num_runs, CHUNK)
    ]
    found: dict[bool, list[np.ndarray]] = {True: [], False: []}
    start = time.monotonic()
    for done, (task, scores) in enumerate(zip(tasks, _run(request, name, tasks)), start=1):
        found[task[0]].append(scores)
        _say(request, name, done, len(tasks), start)
    return np.concatenate(found[True]), np.concatenate(found[False])


def _run(request: AuditRequest, name: str, tasks: list[tuple[bool, int]]) -> Iterator[np.ndarray]:
    if request.num_processes == 1:
        for inside, first in tasks:
            yield chunk_scores(request, name, inside, first)
        return
    # spawned processes: a fork would copy the state of other threads
    with ProcessPoolExecutor(request.num_processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(
            chunk_scores, *zip(*[(request, name, inside, first) for inside, first in tasks])
        )


def _say(request: AuditRequest, name: str, done: int, total: int, start: float) -> None:
    left = (time.monotonic() - start) / done * (total - done)
    end = "\r" if sys.stderr.isatty() and done < total else "\n"
    if end == "\r" or done in (1, total) or done % max(1, total // 8) == 0:
        text = f"{request.label} {name}: {done}/{total} chunks, {left:.0f} s left"
        print(text, end=end, file=sys.stderr, flush=True)

"""Audit of an entry: every private mechanism of its plan, in several processes, resumable."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import Event, FixedSizeRoots, compose, compose_all, parts
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.audits import mechanics, release_audit, training_audit
from dpgnn.audits.canary import NODE_UNITS, AuditGraph
from dpgnn.audits.capture import CannotAudit, Case, caught_plan
from dpgnn.audits.findings import Finding
from dpgnn.audits.power import Design, detectable
from dpgnn.audits.statistics import ClaimLine, judge
from dpgnn.core import seeds
from dpgnn.core.checks import at_least, open_probability, require
from dpgnn.core.storage import Store, sha256_json
from dpgnn.methods.base import Entry, Facts

if TYPE_CHECKING:
    from pathlib import Path

# runs of one world that a process makes before it stores them
CHUNK = 25
# an audit graph that must be as large as its plan says has at most this many training nodes
MOST_ROOTS = 160
# nodes of an audit graph that may not be training roots (validation, test and the canary)
MARGIN = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditRequest:
    """What is audited and how hard.

    Attributes:
        entry: the entry for its data set.
        budget: epsilon and delta asked for.
        facts: public facts of the data set, for plans that count Poisson roots or releases; None plans for
            the audit graph itself.
        root_seed: of all streams of the audit.
        num_runs: runs of each world and mechanism.
        max_steps: steps of one run, at most those of the plan.
        level: probability of accusing a correct mechanism, for the claim test and for the exact tests.
        num_processes: 1 stays in this process.
        work: where finished chunks are kept; None keeps none.
        label: stands before progress lines.
    """

    entry: Entry
    budget: Budget
    facts: Facts | None = None
    root_seed: int = 0
    num_runs: int = 400
    max_steps: int = 64
    level: float = 0.001
    num_processes: int = 1
    work: Path | None = None
    label: str = "audit"

    def __post_init__(self) -> None:
        at_least("num_runs", self.num_runs, 8)
        at_least("max_steps", self.max_steps, 1)
        open_probability("level", self.level)
        at_least("num_processes", self.num_processes, 1)
        require(self.entry.mode != "nonprivate", "entry", "be private", self.entry.name)

    @property
    def fingerprint(self) -> str:
        """Hash of what decides the scores, and of the code that makes them."""
        from dpgnn.core.code_hash import code_sha256

        code = code_sha256(methods.TABLE[self.entry.method], "dpgnn.audits.entry_audit")
        fields = {
            "entry": dataclasses.asdict(self.entry),
            "budget": dataclasses.asdict(self.budget),
            "facts": None if self.facts is None else self.facts.recorded(),
            "numbers": [self.root_seed, self.max_steps],
            "code": code,
        }
        return sha256_json(fields)


def audit(request: AuditRequest) -> tuple[Finding, ...]:
    """Audit every private mechanism of the entry's plan; what is accused is audited again with new seeds.

    Guarantee: a correct mechanism is called failed only if two independent audits accuse it.

    Raises:
        ValueError: the plan cannot be made.
    """
    one_thread()
    seed = seeds.child_seed(request.root_seed, "audit", part="again")
    second = dataclasses.replace(request, root_seed=seed, label=f"{request.label} again")
    found = []
    for name, first in _audits(request):
        finding = guarded(name, first)
        if finding.accuses:
            finding = dataclasses.replace(finding, again=guarded(name, dict(_audits(second))[name]))
        found.append(finding)
    return tuple(found)


def _audits(request: AuditRequest) -> list[tuple[str, Callable[[], Finding]]]:
    """Names of the plan's private mechanisms, releases together, and the audit of each."""
    plan = case_of(request).plan
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
    """Small batches lose more by waiting for other threads than they gain; processes are the workers."""
    import torch

    torch.set_num_threads(1)


def case_of(request: AuditRequest) -> Case:
    """The entry's two worlds and its one plan."""
    entry, facts = request.entry, request.facts
    recipe = recipe_of(entry, facts)
    if facts is not None:
        plan = _plan_for_data_set(request, recipe, facts)
        if plan is not None:
            return Case(entry=entry, recipe=recipe, plan=plan, root_seed=request.root_seed)
        wanted = min(facts.num_train, MOST_ROOTS) - recipe.num_nodes
        recipe = dataclasses.replace(
            recipe, num_background=recipe.num_background + max(wanted, 0) // 2 * 2
        )
        entry = _fitting(entry, facts.num_train, recipe.num_nodes)
    plan = caught_plan(entry, recipe, None, request.budget)
    return Case(entry=entry, recipe=recipe, plan=plan, root_seed=request.root_seed)


def _fitting(entry: Entry, num_train: int, num_here: int) -> Entry:
    """The entry with a batch that its data set can fill and the audit graph cannot at the same rate."""
    training = getattr(entry.options, "training", None)
    batch = getattr(training, "expected_batch_size", None)
    if not isinstance(batch, int) or batch <= num_here - MARGIN or batch > num_train:
        return entry
    size = max(1, round(batch * (num_here - MARGIN) / num_train))
    smaller = dataclasses.replace(training, expected_batch_size=size)  # type: ignore[type-var]
    return dataclasses.replace(entry, options=dataclasses.replace(entry.options, training=smaller))


def recipe_of(entry: Entry, facts: Facts | None = None) -> AuditGraph:
    """An audit graph on which the entry's canary can do its worst."""
    method = methods.get(entry.method)
    degrees = method.degrees(entry)
    declared = degrees.declared or degrees.slots
    leaves = max(2 * degrees.slots, 20)
    if entry.privacy_unit == "node-bounded":
        leaves = min(degrees.slots, declared)
    if entry.privacy_unit == "edge":
        leaves = 1
    num_leaves = leaves if entry.privacy_unit in NODE_UNITS else min(leaves, 8)
    return AuditGraph(
        privacy_unit=str(entry.privacy_unit),
        relation=str(entry.relation),
        num_leaves=num_leaves,
        num_classes=3 if facts is None else max(2, min(facts.num_classes, 3)),
        task="multiclass" if facts is None else facts.task,  # type: ignore[arg-type]
        mentions_stay=entry.privacy_unit == "node-record" and method.list_owner == "source",
        minimum_degree=degrees.minimum,
    )


def _plan_for_data_set(request: AuditRequest, recipe: AuditGraph, facts: Facts) -> Plan | None:
    """The very plan of the data set; None where its mechanisms need the data set's own number of roots."""
    case = Case(entry=request.entry, recipe=recipe, plan=Plan(), root_seed=request.root_seed)
    _, _, sample = case.prepared(True)
    structure = {} if sample is None else dict(sample.facts)
    own_roots = methods.get(request.entry.method).counts_own_roots
    if own_roots or "num_subgraphs" in structure:
        return None
    plan = caught_plan(
        request.entry,
        recipe,
        dataclasses.replace(facts, structure=structure, num_features=recipe.num_features),
        request.budget,
    )
    events = [event for m in plan.mechanisms for event, _ in parts(m.event)]
    return None if any(isinstance(event, FixedSizeRoots) for event in events) else plan


def guarded(name: str, make: Callable[[], Finding]) -> Finding:
    """A finding, or one that says why nothing was run. Any other error is an error."""
    try:
        return make()
    except CannotAudit as error:
        return Finding(mechanism=name, attack="none", verdict=None, reason=str(error))


def _training(request: AuditRequest, mechanism: Mechanism, delta: float) -> Finding:
    start = time.monotonic()
    (event, _), *_ = parts(mechanism.event)
    if isinstance(event, FixedSizeRoots) and request.entry.relation == "add-remove":
        raise CannotAudit(
            "fixed-size batches are counted for one public number of roots, and add-remove changes it "
            "(caveat population-changes): the loop of G' is refused"
        )
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
    designs = tuple(
        Design(
            event=event, num_scores=size // 2, level=request.level / 2, attained_share=share or 1.0
        )
        for event, size in ((step, scores[0].size), (run, len(scores[0])))
    )
    return Finding(
        mechanism=mechanism.name,
        attack="two worlds, canary, all iterates seen",
        verdict=verdict,
        step_verdict=step_verdict,
        detectable=detectable(designs, mechanism.event, delta),
        checks=checks,
        num_steps=steps,
        attained_share=share,
        seconds=time.monotonic() - start,
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
    design = Design(
        event=whole,
        num_scores=len(scores[0]) // 2,
        level=request.level,
        attained_share=share or 1.0,
    )
    return Finding(
        mechanism=names,
        attack="two worlds, canary, the noisy release",
        verdict=verdict,
        detectable=detectable((design,), whole, delta),
        checks=() if shape is None else (shape,),
        attained_share=share,
        seconds=time.monotonic() - start,
    )


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
    """Drop what was captured (after code has been replaced)."""
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
    # fresh processes: a fork would copy the state of other threads
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

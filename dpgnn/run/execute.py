"""Makes one run: plan from public facts, fit, predict, score, record."""

from __future__ import annotations

import dataclasses
import gc
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Facts, Fitted, Method, PlannedRun, facts_of
from dpgnn.records.schema import Record, claim_of, plan_of
from dpgnn.run.finished import (
    check_counted,
    check_not_released,
    copy_run,
    find_copy,
    keep_copy,
    write_fingerprint,
)
from dpgnn.run.method_checks import check_answer, check_fitted
from dpgnn.run.plan import propose, with_caveats
from dpgnn.run.record import Clock, budget_of, first_record, identified, write_run
from dpgnn.run.specification import RunInputs, Specification, processes_of, specify
from dpgnn.training import evaluation

if TYPE_CHECKING:
    from dpgnn.run.staging import Place


def run_one(
    inputs: RunInputs,
    out: Path,
    *,
    work: Path | None,
    finished: Path | None = None,
    releases: Path | None = None,
) -> Record:
    """Make one run and write its files; `record.json` is written last.

    Guarantee: a private run of a release is made once, even if processes die: it is made in a staging folder,
    one rename moves it into `releases` with its entry in the graph's ledger, and only then it appears in
    `out`. A second training would be another release of the same data, with its own epsilon.

    Args:
        inputs: what the run reads.
        out: the run's folder; gets history.parquet, model.safetensors, resources.json, record.json.
        work: where checkpoints live; None keeps none.
        finished: folder for a copy of the run's files, which is used instead of running if it is complete and
            of this very run; for processes that make many runs.
        releases: folder of private runs of releases; None keeps none, and every call is a new release.

    Returns:
        the record; its status is "failed" when the plan cannot be made (the reason says why).

    Raises:
        ValueError, LedgerError: training went wrong, the run was released before, or a budget of its graph
            does not allow it; no record is written.
    """
    clock = Clock()
    _set_threads(inputs.performance.num_threads)
    run = specify(inputs)
    if run.is_private_release and releases is not None:
        from dpgnn.run.staging import place_of  # it imports all accountants

        return _release(run, out, place_of(run, releases), work, clock)
    kept = find_copy(finished, run.fingerprint)
    if finished is not None and kept is not None:
        copy_run(finished, out, link=True)
        return kept
    made = make(run, work, clock)
    write_run(out, made.record, made.fitted, clock.resources(inputs.performance) | made.resources)
    keep_copy(out, finished, run.fingerprint)
    made.store.clear()
    return made.record


def _release(
    run: Specification, out: Path, place: Place, work: Path | None, clock: Clock
) -> Record:
    """Make a release in a staging folder, move it in place and copy it to the run's folder; or reuse it."""
    with place.held():
        kept = find_copy(place.folder, run.fingerprint, only=True)
        if kept is None:
            check_not_released(place.folder)
            kept = find_copy(place.staged, run.fingerprint)
            if kept is None:  # an interrupted release is never complete
                check_counted(out, place.ledger.root)
                made = make(run, work, clock, lambda plan: place.begin(plan, run.inputs))
                used = clock.resources(run.inputs.performance) | made.resources
                if made.fitted is None:
                    write_run(out, made.record, None, used)
                    return made.record
                write_run(place.staged, made.record, made.fitted, used)
                write_fingerprint(place.staged, run.fingerprint)
                kept = made.record
            place.commit()
    copy_run(place.folder, out)
    Store(work).clear()
    return kept


@dataclass(frozen=True, kw_only=True)
class Made:
    """A run that is not written yet; without a plan it has no fit and no checkpoint."""

    record: Record
    fitted: Fitted | None = None
    store: Store = field(default_factory=lambda: Store(None))
    resources: dict[str, float] = field(default_factory=dict)


def make(
    run: Specification,
    work: Path | None,
    clock: Clock,
    begin: Callable[[Plan], object] = lambda plan: None,
) -> Made:
    """Plan, fit and score; only checkpoints are written.

    Guarantee: the fit executes the plan: each mechanism enters the ledger once, before it reads private data;
    the state after the fit is what the claim's `released` names.

    Args:
        run: the run to make.
        work: where checkpoints live; None keeps none.
        clock: started with the run.
        begin: called with the plan before private data is read; may refuse it.

    Returns:
        the record and what the fit left; a record that says "failed" has no fit.

    Raises:
        ValueError, LedgerError: training went wrong.
    """
    inputs, first = run.inputs, first_record(run)
    facts = facts_of(inputs.graph, inputs.split, inputs.prepared, inputs.population)
    run.method.check_sizes(inputs.entry, facts)
    try:
        plan = propose(run, facts)
    except (ValueError, TypeError) as error:
        return Made(record=dataclasses.replace(first, status="failed", reason=f"plan: {error}"))
    plan = with_caveats(plan, run, facts)
    begin(plan)
    store = _store(run, work if may_go_on(plan, run.method, inputs.randomness) else None)
    fitted = _fit(run, plan, store)
    if inputs.randomness == "release":
        fitted = identified(fitted, inputs.graph)
    resources = {"train_seconds": clock.seconds()}
    record = _completed(first, run, facts, plan, fitted)
    return Made(record=record, fitted=fitted, store=store, resources=resources)


def _store(run: Specification, folder: Path | None) -> Store:
    """Checkpoints; those of a release are its owner's, and of one device, since the claim states it."""
    if run.inputs.randomness == "study":
        return Store(folder, run.fingerprint)
    return Store(folder, f"{run.fingerprint} {run.inputs.performance.device}", owner_only=True)


def may_go_on(plan: Plan, method: Method, randomness: str) -> bool:
    """Whether a stopped run may resume from a checkpoint.

    In a study every stage repeats its draws. In a release it does not: a later stage that resumes from a
    checkpoint would mix two draws of an earlier stage's noise, unless the method keeps the first.

    Args:
        plan: of the run.
        method: of the run.
        randomness: study or release.
    """
    return randomness == "study" or len(plan.mechanisms) <= 1 or method.restartable


def _fit(run: Specification, plan: Plan, store: Store) -> Fitted:
    """Execute the plan; every mechanism must have entered the ledger at the end."""
    inputs, ledger = run.inputs, Ledger(plan)
    context = Context(
        ledger=ledger,
        streams=run.streams,
        store=store,
        performance=inputs.performance,
        label="/".join(str(inputs.key[k]) for k in ("dataset", "entry", "epsilon", "repeat")),
    )
    if not gc.isenabled():  # the command line keeps it off until most imports are done
        gc.freeze()
        gc.enable()
    fitted = run.method.fit(PlannedRun(
        entry=inputs.entry, graph=inputs.graph, split=inputs.split, prepared=inputs.prepared,
        plan=plan, context=context,
    ))  # fmt: skip
    check_fitted(inputs.entry, plan, fitted)
    ledger.close()
    return fitted


def _completed(
    first: Record, run: Specification, facts: Facts, plan: Plan, fitted: Fitted
) -> Record:
    """The record of a finished run."""
    scores, prediction = _score(run.inputs, fitted)
    return dataclasses.replace(
        first,
        facts=facts.recorded(),
        plan=plan_of(plan),
        claims=tuple(claim_of(claim) for claim in plan.claims),
        budget=budget_of(run, plan.claims[0].epsilon if plan.claims else None),
        metrics=scores,
        prediction=prediction,
        details=dict(fitted.details) | processes_of(run.inputs.performance),
    )


def _score(inputs: RunInputs, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores of a study, and whether claims cover the answers; a release is not scored.

    Even an unused score could raise an error, and then one node would decide whether there is a release.
    """
    method, graph, split = methods.get(inputs.entry.method), inputs.graph, inputs.split
    nodes = np.concatenate([split.val_idx, split.test_idx])
    answer = method.predict(inputs.entry, fitted, graph, nodes)
    logits = check_answer(inputs.entry, answer, len(nodes), graph.num_classes)
    scores = {}
    first = 0
    for part, idx in (("val", split.val_idx), ("test", split.test_idx)):
        rows = logits[first : first + len(idx)]
        first += len(idx)
        # of a user's graph, nodes without a label may be in the test part; the score tells how many have one
        labelled = graph.y[idx] >= 0 if graph.y.ndim == 1 else np.ones(len(idx), dtype=bool)
        if labelled.any() and inputs.randomness == "study":
            scores[part] = evaluation.metrics(
                rows[labelled], graph.y[idx[labelled]], task=graph.task, num_classes=graph.num_classes,
                dataset=str(inputs.key["dataset"]),
            )  # fmt: skip
    return scores, {"answers": answer.answers, "note": answer.note}


def _set_threads(num_threads: int) -> None:
    import torch

    torch.set_num_threads(num_threads)
    os.environ["NUMBA_NUM_THREADS"] = str(num_threads)

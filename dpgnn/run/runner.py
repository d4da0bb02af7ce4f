"""One run: plan from public facts, fit, predict, score, and the record of it all."""

from __future__ import annotations

import dataclasses
import gc
import math
import os
import resource
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.claims import mark_large_delta
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core.checks import fail
from dpgnn.core.code_hash import code_sha256
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import (
    Store,
    atomic_write,
    column_of,
    read_json,
    sha256_json,
    write_json,
    write_parquet,
)
from dpgnn.methods.base import (
    Context,
    Entry,
    Fitted,
    Method,
    Performance,
    Prepared,
    facts_of,
)
from dpgnn.records.recorded import claim_of, plan_of, versions
from dpgnn.records.schema import Record, read_record
from dpgnn.run.method_checks import RELEASED_COLUMNS, check_answer, check_fitted, check_plan
from dpgnn.training import evaluation

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

# what else decides a record besides the method's own code; a split says which edges are left
RUNNER_MODULES = ("dpgnn.run.runner", "dpgnn.training.evaluation", "dpgnn.data.splits")
# the record is last: where it stands, the others do too
RUN_FILES = ("history.parquet", "model.safetensors", "resources.json", "record.json")
# beside a kept copy, and written after it: what configuration, code and inputs it is of
FINGERPRINT = "fingerprint.json"


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What one run reads, already loaded.

    Attributes:
        key: study, dataset, setting, entry, epsilon (text), repeat.
        entry: the entry for this data set.
        epsilon: the target; math.inf without privacy.
        delta: a number, or "auto" (see `resolve_delta`).
        graph: its edges are those of the setting.
        split: who is trained, selected and tested on.
        prepared: the prepared sample, or None.
        hashes: sha256 of graph, split and prepared sample.
        caveats: caveats any claim carries, from the graph's and the split's preprocessing.
        edge_caveats: those that only methods which read edges carry.
        root_seed, randomness: of the study.
        performance: speed settings.
    """

    key: Mapping[str, Any]
    entry: Entry
    epsilon: float
    delta: float | str
    graph: Graph
    split: Split
    prepared: Prepared | None
    hashes: Mapping[str, Any]
    caveats: tuple[str, ...] = ()
    edge_caveats: tuple[str, ...] = ()
    root_seed: int = 0
    randomness: Any = "study"
    performance: Performance = Performance()


def resolve_delta(delta: float | str, privacy_unit: str | None, graph: Graph) -> float:
    """The delta of a run.

    "auto" is 1 / (10 * num_nodes) for the node units, and 10^-(digits of the number of edges + 1) for
    edges, so that only the order of magnitude of the number of edges is taken as public.

    Args:
        delta: "auto" or a number in (0, 1).
        privacy_unit: of the entry; None counts as a node unit.
        graph: for its public size.
    """
    if not isinstance(delta, str):
        return float(delta)
    if privacy_unit == "edge":
        return 10.0 ** -(len(str(max(graph.num_edges, 1))) + 1)
    return 1.0 / (10 * graph.num_nodes)


def run_one(
    inputs: RunInputs, out: Path, *, work: Path | None, finished: Path | None = None
) -> Record:
    """Make one run and write its files; `record.json` is written last.

    Args:
        inputs: what the run reads.
        out: the run's folder; gets history.parquet, model.safetensors, resources.json, record.json.
        work: where checkpoints live; None keeps none.
        finished: a copy of the run's files is kept here, and used instead of running when it is of this very
            run; for processes that make many runs, and for releases.

    Returns:
        the record; its status is "failed" when the plan cannot be made (the reason says why).

    Guarantee: a private run of a release that was made and kept is not made a second time, which would be
    another release of the same data, whose epsilon adds up with the first's.

    Raises:
        ValueError, LedgerError: training went wrong, or the run was released before; no record is written.
    """
    started, clock = time.time(), time.monotonic()
    _set_threads(inputs.performance.num_threads)
    method = methods.get(inputs.entry.method)
    code = code_sha256(methods.TABLE[inputs.entry.method], *RUNNER_MODULES)
    config = config_of(inputs)
    fingerprint = sha256_json({"config": config, "code": code, "inputs": inputs.hashes})
    delta = resolve_delta(inputs.delta, inputs.entry.privacy_unit, inputs.graph)
    inputs = dataclasses.replace(inputs, graph=method.sees(inputs.graph))
    streams = Streams(
        root_seed=inputs.root_seed,
        axes={k: v for k, v in inputs.key.items() if k != "study"},
        randomness=inputs.randomness,
    )
    base = Record(
        key=inputs.key,
        entry=_entry_of(inputs.entry, method.title),
        source=method.source,
        config_sha256=sha256_json(config),
        code_sha256=code,
        inputs=recorded_inputs(inputs),
        budget=_budget(inputs.epsilon, delta, None),
        randomness=streams.recorded(),
        num_threads=inputs.performance.num_threads,
        versions=versions(),
    )
    kept = _kept(finished, fingerprint)
    if finished is not None and kept is not None:
        _copy(finished, out)
        return kept
    if inputs.randomness == "release" and inputs.entry.mode != "nonprivate":
        _check_first(finished)
    facts = facts_of(inputs.graph, inputs.split, inputs.prepared)
    try:
        budget = Budget(epsilon=inputs.epsilon, delta=delta)
        plan = method.plan(inputs.entry, facts, budget)
        check_plan(inputs.entry, plan, inputs.epsilon)
    except (ValueError, TypeError) as error:
        record = dataclasses.replace(base, status="failed", reason=f"plan: {error}")
        _write(out, record, None, {}, _resources(started, clock, inputs.performance))
        _keep(out, finished, fingerprint)
        return record
    edge_caveats = inputs.edge_caveats if method.uses_edges else ()
    # here, so that no method can forget it
    claims = mark_large_delta(plan.claims, delta, facts.num_nodes)
    plan = dataclasses.replace(plan, claims=claims)
    plan = _with_caveats(plan, (*inputs.caveats, *edge_caveats))
    if inputs.delta == "auto" and inputs.entry.privacy_unit == "edge":
        plan = _with_public(plan, "order of magnitude of the number of edges (delta)")
    ledger = Ledger(plan)
    context = Context(
        ledger=ledger,
        streams=streams,
        store=Store(work if _may_go_on(plan, method, inputs.randomness) else None, fingerprint),
        performance=inputs.performance,
        label="/".join(str(inputs.key[k]) for k in ("dataset", "entry", "epsilon", "repeat")),
    )
    if not gc.isenabled():  # put off by the command line until most imports are done
        gc.freeze()
        gc.enable()
    fitted = method.fit(inputs.entry, inputs.graph, inputs.split, inputs.prepared, plan, context)
    check_fitted(inputs.entry, fitted)
    ledger.close()
    trained = time.monotonic() - clock
    scores, prediction = _score(inputs, fitted)
    record = dataclasses.replace(
        base,
        facts=facts.recorded(),
        plan=plan_of(plan),
        claims=tuple(claim_of(claim) for claim in plan.claims),
        budget=_budget(inputs.epsilon, delta, plan.claims[0].epsilon if plan.claims else None),
        metrics=scores,
        prediction=prediction,
        details=dict(fitted.details) | _processes(inputs.performance),
    )
    resources = _resources(started, clock, inputs.performance) | {"train_seconds": trained}
    _write(out, record, fitted, {"released": method.name}, resources)
    _keep(out, finished, fingerprint)
    context.store.clear()
    return record


def _may_go_on(plan: Plan, method: Method, randomness: str) -> bool:
    """Whether a run that was stopped may go on from a checkpoint.

    In a study every stage repeats its draws. In a release it does not: a later stage that goes on from a
    checkpoint would mix two draws of an earlier stage's noise, unless the method keeps the first.
    """
    return randomness == "study" or len(plan.mechanisms) <= 1 or method.restartable


def recorded_inputs(inputs: RunInputs) -> dict[str, Any]:
    """Hashes of the inputs as the record holds them; none in a release, where they tell graphs apart."""
    return dict(inputs.hashes) if inputs.randomness == "study" else {}


def _kept(folder: Path | None, fingerprint: str) -> Record | None:
    """The record of a kept run when it is of the same configuration, code and inputs."""
    if folder is None or not (folder / FINGERPRINT).exists():
        return None
    same = read_json(folder / FINGERPRINT) == fingerprint
    return read_record(folder / RUN_FILES[-1]) if same else None


def _check_first(folder: Path | None) -> None:
    """Refuse what was released before, of another configuration, code or graph."""
    path = None if folder is None else folder / RUN_FILES[-1]
    if path is None or not path.exists():
        return
    earlier = read_record(path)
    if earlier.status == "ok":
        day = time.strftime("%Y-%m-%d", time.gmtime(path.stat().st_mtime))
        fail(
            "a private run", "be released once",
            f"a release of {day} with epsilon {earlier.budget['spent_epsilon']:.4g} in {folder}",
            "take that one; another adds its epsilon to it (move the folder away to make it all the same)",
        )  # fmt: skip


def _keep(out: Path, folder: Path | None, fingerprint: str) -> None:
    """Keep a copy of a run's files; the fingerprint, which may read private inputs, stays with the copy."""
    if folder is None:
        return
    (folder / FINGERPRINT).unlink(missing_ok=True)
    _copy(out, folder)
    write_json(folder / FINGERPRINT, fingerprint)


def _copy(source: Path, target: Path) -> None:
    """Copy a run's files, the record last."""
    for name in RUN_FILES:
        with atomic_write(target / name) as file:
            file.write((source / name).read_bytes())


def _with_caveats(plan: Plan, caveats: tuple[str, ...]) -> Plan:
    if not caveats or not plan.claims:
        return plan
    claims = tuple(
        dataclasses.replace(claim, caveats=tuple(sorted({*claim.caveats, *caveats})))
        for claim in plan.claims
    )
    return dataclasses.replace(plan, claims=claims)


def _with_public(plan: Plan, fact: str) -> Plan:
    claims = tuple(
        dataclasses.replace(claim, assumed_public=(*claim.assumed_public, fact))
        for claim in plan.claims
    )
    return dataclasses.replace(plan, claims=claims)


def _score(inputs: RunInputs, fitted: Fitted) -> tuple[dict[str, Any], dict[str, Any]]:
    """Scores of a study and what is said of the answers; a release is not scored.

    A score that is thrown away could still raise, and then one node would decide whether there is a release.
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
        if len(idx) and inputs.randomness == "study":
            scores[part] = evaluation.metrics(
                rows, graph.y[idx], task=graph.task, num_classes=graph.num_classes
            )
    return scores, {"covered": answer.covered, "note": answer.note}


def _entry_of(entry: Entry, title: str) -> dict[str, Any]:
    fields = dataclasses.asdict(entry)
    return {**fields, "title": title}


def config_of(inputs: RunInputs) -> dict[str, Any]:
    """What of a run's inputs is configuration: the record states its hash."""
    return {
        "key": dict(inputs.key),
        "entry": dataclasses.asdict(inputs.entry),
        "epsilon": inputs.epsilon,
        "delta": inputs.delta,
        "root_seed": inputs.root_seed,
        "randomness": inputs.randomness,
        "num_threads": inputs.performance.num_threads,
        **_processes(inputs.performance),
    }


def _processes(performance: Performance) -> dict[str, int]:
    """How many processes, where it is more than one: sums are then added in another order."""
    return {"num_processes": performance.num_processes} if performance.num_processes > 1 else {}


def _budget(epsilon: float, delta: float, spent: float | None) -> dict[str, Any]:
    return {"target_epsilon": epsilon, "delta": delta, "spent_epsilon": spent}


def _write(
    out: Path,
    record: Record,
    fitted: Fitted | None,
    note: Mapping[str, str],
    resources: Mapping[str, Any],
) -> None:
    import pyarrow as pa

    rows = [] if fitted is None else [_plain_row(row) for row in fitted.history]
    if record.randomness.get("kind") == "release":
        rows = [{name: row[name] for name in RELEASED_COLUMNS if name in row} for row in rows]
    names = sorted({name for row in rows for name in row} | {"step"})
    columns = {name: [row.get(name) for row in rows] for name in names}
    types = {name: np.int64 if name == "step" else np.float64 for name in names}
    missing = {name: np.array([value is None for value in columns[name]], bool) for name in names}
    filled = {name: [0 if value is None else value for value in columns[name]] for name in names}
    table = pa.table(
        {name: column_of(np.array(filled[name], types[name]), missing[name]) for name in names}
    )
    write_parquet(out / "history.parquet", table)
    _write_state(out / "model.safetensors", fitted, note)
    write_json(out / "resources.json", resources)
    write_json(out / "record.json", record)


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    plain = {}
    for name, value in row.items():
        number = float(value) if value is not None else None
        plain[name] = None if number is not None and math.isnan(number) else number
    plain["step"] = int(row["step"])
    return plain


def _write_state(path: Path, fitted: Fitted | None, note: Mapping[str, str]) -> None:
    from safetensors.torch import save

    state = {} if fitted is None else {k: v.contiguous().cpu() for k, v in fitted.state.items()}
    with atomic_write(path) as file:
        file.write(save(state, metadata=dict(note)))


def _resources(started: float, clock: float, performance: Performance) -> dict[str, Any]:
    return {
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": time.monotonic() - clock,
        "max_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "device": performance.device,
        "num_threads": performance.num_threads,
    }


def _set_threads(num_threads: int) -> None:
    import torch

    torch.set_num_threads(num_threads)
    os.environ["NUMBA_NUM_THREADS"] = str(num_threads)

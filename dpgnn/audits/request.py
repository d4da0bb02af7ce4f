"""The request of an audit: entry, budget and effort, and the resulting worlds and plan."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.events import FixedSizeRoots, parts
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.audits.canary import NODE_UNITS, AuditGraph
from dpgnn.audits.capture import Case, caught_plan
from dpgnn.core.checks import at_least, open_probability, require
from dpgnn.core.randomness import Randomness
from dpgnn.core.storage import sha256_json
from dpgnn.methods.base import Entry, Facts, no_runs

if TYPE_CHECKING:
    from pathlib import Path


# an audit graph that must be as large as its plan says has at most this many training nodes
MOST_ROOTS = 160
# nodes of an audit graph that may not be training roots (validation, test and the canary)
MARGIN = 8
# options that say how many roots a batch has
BATCHES = ("expected_batch_size", "batch_size")


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditRequest:
    """An audit's entry, budget and effort.

    Attributes:
        entry: the entry for its data set.
        budget: epsilon and delta asked for.
        facts: public facts of the data set, for plans of Poisson roots or releases; None plans for the audit
            graph itself.
        root_seed: of all streams of the audit.
        num_runs: runs of each world and mechanism.
        max_steps: largest number of steps of one run, at most those of the plan.
        level: probability of accusing a correct mechanism, for the claim test and for the exact tests.
        num_processes: 1 stays in this process.
        work: folder of finished chunks; None keeps none.
        label: prefix of progress lines.
        randomness: audit the draws of a study, or those of a release from seeded bits.
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
    randomness: Randomness = "study"

    def __post_init__(self) -> None:
        at_least("num_runs", self.num_runs, 8)
        at_least("max_steps", self.max_steps, 1)
        open_probability("level", self.level)
        at_least("num_processes", self.num_processes, 1)
        require(self.entry.mode != "nonprivate", "entry", "be private", self.entry.name)

    @property
    def fingerprint(self) -> str:
        """Hash of everything that decides the scores, including the code."""
        from dpgnn.core.code_hash import code_sha256

        own = code_sha256(methods.TABLE[self.entry.method], "dpgnn.audits.entry_audit")
        code = methods.get(self.entry.method).with_outside(own, self.entry)
        fields = {
            "entry": dataclasses.asdict(self.entry),
            "budget": dataclasses.asdict(self.budget),
            "facts": None if self.facts is None else self.facts.recorded(),
            "numbers": [self.root_seed, self.max_steps],
            "randomness": self.randomness,
            "code": code,
        }
        return sha256_json(fields)


def case_of(request: AuditRequest, num_canaries: int = 1) -> Case:
    """The entry's worlds and its one plan."""
    entry, facts = request.entry, request.facts
    recipe = dataclasses.replace(recipe_of(entry, facts), num_canaries=num_canaries)
    if facts is not None:
        plan = _plan_for_data_set(request, recipe, facts)
        if plan is not None:
            return _case(request, entry, recipe, plan)
        wanted = min(facts.num_train, MOST_ROOTS) - recipe.num_nodes
        recipe = dataclasses.replace(
            recipe, num_background=recipe.num_background + max(wanted, 0) // 2 * 2
        )
        entry = _fitting(entry, facts.num_train, recipe.num_nodes)
    plan = caught_plan(entry, recipe, None, request.budget)
    return _case(request, entry, recipe, plan)


@lru_cache(maxsize=4)
def claimed_plan(request: AuditRequest) -> Plan:
    """The plan whose claim is audited: for a choice among runs that of the data set, else that of `case_of`.

    Raises:
        ValueError: the plan cannot be made.
    """
    method = methods.get(request.entry.method)
    if method.inner is no_runs or request.facts is None:
        return case_of(request).plan
    return method.plan(request.entry, request.facts, request.budget)


def _case(request: AuditRequest, entry: Entry, recipe: AuditGraph, plan: Plan) -> Case:
    return Case(
        entry=entry, recipe=recipe, plan=plan, root_seed=request.root_seed,
        randomness=request.randomness,
    )  # fmt: skip


def _fitting(entry: Entry, num_train: int, num_here: int) -> Entry:
    """The entry with batches that its data set can fill and the audit graph cannot at the same rate."""
    return dataclasses.replace(entry, options=_smaller(entry.options, num_train, num_here - MARGIN))


def _smaller(options: Any, num_train: int, room: int) -> Any:
    """The same for options, also those of parts of the method."""
    changed: dict[str, Any] = {}
    for each in dataclasses.fields(options):
        value = getattr(options, each.name)
        if dataclasses.is_dataclass(value):
            changed[each.name] = _smaller(value, num_train, room)
        elif each.name in BATCHES and isinstance(value, int) and room < value <= num_train:
            changed[each.name] = max(1, round(value * room / num_train))
    return dataclasses.replace(options, **changed)


def recipe_of(entry: Entry, facts: Facts | None = None) -> AuditGraph:
    """An audit graph on which the entry's canary has the largest influence."""
    method = methods.get(entry.method)
    degrees = method.degrees(entry)
    declared = degrees.declared or degrees.slots
    leaves = max(2 * degrees.slots, 20)
    if entry.privacy_unit == "node-bounded":
        leaves = min(degrees.slots, declared)
    if entry.privacy_unit == "edge":
        leaves = 1
    num_leaves = leaves if entry.privacy_unit in NODE_UNITS else min(leaves, 8)
    sizes: dict[str, Any] = {}
    if facts is not None and method.fixed_sizes(entry):
        sizes = {"num_features": facts.num_features, "num_classes": facts.num_classes}
    return AuditGraph(
        privacy_unit=str(entry.privacy_unit),
        relation=str(entry.relation),
        num_leaves=num_leaves,
        **{"num_classes": 3 if facts is None else max(2, min(facts.num_classes, 3)), **sizes},
        task="multiclass" if facts is None else facts.task,  # type: ignore[arg-type]
        mentions_stay=entry.privacy_unit == "node-record" and method.list_owner == "source",
        minimum_degree=degrees.minimum,
    )


def _plan_for_data_set(request: AuditRequest, recipe: AuditGraph, facts: Facts) -> Plan | None:
    """The data set's own plan; None if its mechanisms need the data set's number of roots."""
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

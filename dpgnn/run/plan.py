"""The plan of a run: the method's plan from public facts, with every caveat of its claims."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dpgnn import methods
from dpgnn.accountants.claims import Arithmetic, Claim, mark_large_delta
from dpgnn.accountants.events import (
    BestOf,
    ContractiveIteration,
    Event,
    FixedSizeRoots,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    parts,
)
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.accountants.population import with_sizes
from dpgnn.core.checks import fail, one_line
from dpgnn.methods.base import Entry, Facts, Method
from dpgnn.run.method_checks import check_plan
from dpgnn.run.specification import Specification, check_run_delta

# what a release draws by the law of real numbers (docs/accounting.md, theorem 16): Laplace noise and answers
# alone are of 0/1 cells and their numbers, which float64 holds as they are; the others are of sums and scores
OF_CELLS: tuple[type[Event[Any]], ...] = (LaplaceRelease, RandomizedResponse)
OF_SUMS: tuple[type[Event[Any]], ...] = (
    PoissonRoots, FixedSizeRoots, GaussianRelease, ContractiveIteration, GumbelTopK,
)  # fmt: skip
NUM_EDGES = "order of magnitude of the number of edges (delta)"


def propose(run: Specification, facts: Facts) -> Plan:
    """The method's plan within the run's budget.

    Guarantee: unit, relation and epsilon of the plan are those of its first claim; it is made from public
    facts, before private data are touched.

    Args:
        run: what is to be run.
        facts: public ones.

    Raises:
        ValueError, TypeError: delta is too large, no plan meets the budget, or another claim is made.
    """
    inputs = run.inputs
    check_run_delta(inputs, run.delta, facts.num_nodes)
    budget = Budget(epsilon=inputs.epsilon, delta=run.delta)
    plan = plan_within(run.method, inputs.entry, facts, budget)
    check_plan(inputs.entry, plan, inputs.epsilon)
    return plan


def plan_within(method: Method, entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """The method's plan; if a number is out of the accountants' range, the error names the option to change.

    Guarantee: as the method's own plan.

    Args:
        method: of the entry.
        entry: its options decide noise and steps.
        facts: public ones.
        budget: of the run.

    Raises:
        ValueError, TypeError: as the method raises; or an overflow or lack of memory, naming the largest
            option.
    """
    try:
        return method.plan(entry, facts, budget)
    except (ArithmeticError, MemoryError) as error:
        rule = "lie where noise and epsilon can be computed"
        named, value = _largest_option(entry)
        fail(named, rule, value, f"lower it ({one_line(error) or type(error).__name__})")


def _largest_option(entry: Entry) -> tuple[str, float]:
    """Dotted name and value of the option that is furthest from 1."""
    found = [("options", math.nan)]
    places = [("", dataclasses.asdict(entry.options))]
    while places:
        path, values = places.pop()
        for name, value in values.items():
            if isinstance(value, dict):
                places.append((f"{path}{name}.", value))
            elif isinstance(value, (int, float)) and not isinstance(value, bool) and value:
                found.append((f"{path}{name}", value))
    return max(found, key=lambda pair: abs(math.log(abs(pair[1]))) if pair[1] == pair[1] else -1.0)


def with_caveats(plan: Plan, run: Specification, facts: Facts) -> Plan:
    """The plan with the caveats of any method: a large delta, preprocessing, public facts.

    Added here so that no method can omit them.

    Args:
        plan: as the method made it.
        run: what is to be run.
        facts: public ones.
    """
    inputs = run.inputs
    edge_caveats = inputs.edge_caveats if run.method.uses_edges else ()
    claims = stated_claims(inputs.entry, plan, facts, run.delta)
    if inputs.randomness == "release":
        claims = tuple(
            dataclasses.replace(
                claim, arithmetic=release_arithmetic(plan, inputs.performance.device)
            )
            if claim.status == "proved"
            else claim
            for claim in claims
        )
    plan = dataclasses.replace(plan, claims=claims)
    plan = add_caveats(plan, (*inputs.caveats, *edge_caveats))
    if inputs.delta == "auto" and inputs.entry.privacy_unit == "edge":
        plan = _add_public(plan, NUM_EDGES)
    return plan


def release_arithmetic(plan: Plan, device: str = "cpu") -> Arithmetic:
    """How far a release's proof covers floating-point arithmetic, from the events of its plan.

    Guarantee: "real" if every release follows its distribution exactly; "rounded-sums" if sums of
    floating-point terms are released on a public grid, "rounded-sums-assumed" if a GPU computed the terms;
    for any other event the caveat stays.

    Args:
        plan: of a release.
        device: where the terms are computed.

    Source: docs/accounting.md, theorem 16.
    """
    events = [event for mechanism in plan.mechanisms for event in _drawn(mechanism.event)]
    if all(isinstance(event, OF_CELLS) for event in events):
        return "real"
    known = all(isinstance(event, OF_CELLS + OF_SUMS) for event in events)
    if not known:
        return "float-caveat"
    return "rounded-sums" if device == "cpu" else "rounded-sums-assumed"


def _drawn(event: Event[Any]) -> list[Event[Any]]:
    """The events of a composition, and those of the runs among which is chosen.

    How many runs there are and of which candidate follows the law of real numbers to the last bit.
    """
    found: list[Event[Any]] = []
    for part, _ in parts(event):
        inner = part.runs if isinstance(part, BestOf) else ()
        found += [one for run in inner for one in _drawn(run)] if inner else [part]
    return found


def stated_claims(entry: Entry, plan: Plan, facts: Facts, delta: float) -> tuple[Claim, ...]:
    """The plan's claims with the sizes that are taken as public, and the caveats that follow from facts.

    Args:
        entry: its method says whether the shape of a release shows the number of nodes.
        plan: its claims come first.
        facts: public facts the plan was made from, and whether its sizes were declared.
        delta: of the run; a caveat is added if it is too large for the number of nodes.
    """
    claims = mark_large_delta(plan.claims, delta, facts.num_nodes)
    shows_nodes = methods.get(entry.method).shows_nodes(entry)
    return with_sizes(claims, declared=facts.declared, shows_nodes=shows_nodes)


def add_caveats(plan: Plan, caveats: tuple[str, ...]) -> Plan:
    """The plan with `caveats` added to its claims; ids, sorted, each once.

    Args:
        plan: any.
        caveats: names of `caveats.CAVEATS`.
    """
    if not caveats or not plan.claims:
        return plan
    claims = tuple(
        dataclasses.replace(claim, caveats=tuple(sorted({*claim.caveats, *caveats})))
        for claim in plan.claims
    )
    return dataclasses.replace(plan, claims=claims)


def _add_public(plan: Plan, fact: str) -> Plan:
    claims = tuple(
        dataclasses.replace(claim, assumed_public=(*claim.assumed_public, fact))
        for claim in plan.claims
    )
    return dataclasses.replace(plan, claims=claims)

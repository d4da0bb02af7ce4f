"""200 audits of correct systems, each at level 0.1 %: real loops and releases, exact tests included."""

import functools

import numpy as np
import pytest

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import compose, compose_all, parts
from dpgnn.accountants.plan import Budget
from dpgnn.audits import entry_audit, mechanics
from dpgnn.audits.request import AuditRequest, case_of
from dpgnn.audits.statistics import ClaimLine, judge, rate_bounds
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts

LEVEL, NUM_RUNS, NUM_STEPS, AUDITS_EACH = 0.001, 30, 3, 40
FACTS = Facts(num_nodes=1000, num_train=60, num_features=50, num_classes=7, task="multiclass")
TRAINING = {"num_steps": 20, "expected_batch_size": 20}
SYSTEMS = (
    ("dp_mlp", "node", "add-remove", {"width": 8, "training": TRAINING}),
    ("dp_mlp", "node", "replace-one", {"width": 8, "training": TRAINING}),
    ("dp_gnn", "node-record", "add-remove", {"width": 8, "max_degree": 3, "training": TRAINING}),
    ("edgerand", "edge", "add-remove", {}),
    ("gap", "edge", "add-remove", {"head": {"hidden": 4, "encoder_layers": 0}}),
)


@functools.cache
def system(position):
    """(request, plan, scorer of either world, mechanism or None for a release)."""
    name, unit, relation, options = SYSTEMS[position]
    entry = Entry(
        name=name, method=name, mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(methods.get(name).config, options),
    )  # fmt: skip
    request = AuditRequest(
        entry=entry, facts=FACTS, budget=Budget(epsilon=4.0, delta=1e-4), max_steps=NUM_STEPS
    )
    plan = case_of(request).plan
    mechanism = plan.mechanisms[0]
    name = entry_audit.RELEASE if mechanism.clipping_norm is None else mechanism.name
    scorers = [entry_audit._scorer(request, name, inside) for inside in (True, False)]
    return request, plan, scorers, None if mechanism.clipping_norm is None else mechanism


@functools.cache
def line(event):
    return ClaimLine.of(curve(event))


def accused(position, number):
    """One audit with draws of its own; the captured worlds are shared."""
    request, plan, scorers, mechanism = system(position)
    seeds = np.random.default_rng([position, number]).integers(2**62, size=(2, NUM_RUNS))
    scores = [np.array([make(int(seed)) for seed in side]) for make, side in zip(scorers, seeds)]
    runs = (scores[0].sum(axis=1), scores[1].sum(axis=1))
    if mechanism is None:
        event = compose_all(*(m.event for m in plan.mechanisms))
        return judge(runs, line(event), delta=1e-4, level=LEVEL).rejected
    (event, _), *_ = parts(mechanism.event)
    aim = entry_audit._training_aim(entry_audit._Frozen(request), mechanism.name)
    checks = mechanics.examine_loop(
        aim, mechanism, level=LEVEL, seed=int(seeds[0, 0]) + 1, num_steps=10
    )
    steps = (scores[0].ravel(), scores[1].ravel())
    tests = [
        judge(runs, line(compose(event, NUM_STEPS)), delta=1e-4, level=LEVEL / 2),
        judge(steps, line(compose(event, 1)), delta=1e-4, level=LEVEL / 2),
    ]
    return any(test.rejected for test in tests) or not all(check.passed for check in checks)


@pytest.mark.slow
def test_of_200_audits_of_correct_systems_at_most_two_accuse():
    total = len(SYSTEMS) * AUDITS_EACH
    assert total == 200
    found = [
        (position, number)
        for position in range(len(SYSTEMS))
        for number in range(AUDITS_EACH)
        if accused(position, number)
    ]
    low, high = rate_bounds(len(found), total, 0.025)
    print(
        f"{len(found)} of {total} audits accuse a correct system; rate in [{low:.4f}, {high:.4f}]"
    )
    assert len(found) <= 2, found

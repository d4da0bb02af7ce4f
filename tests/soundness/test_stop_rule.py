"""Caveat stop-rule-overshoot: the released code looks at the budget every fifty steps and stops once it is
exceeded, so what was run costs more than what is stated. The planner fixes the number of steps before.
"""

import numpy as np
import pytest
from scipy.stats import norm

from dpgnn.accountants import gdp, published
from dpgnn.accountants.calibration import max_steps
from dpgnn.accountants.events import FixedSizeRoots, GaussianRelease, compose
from dpgnn.audits.statistics import ClaimLine, judge

EVERY, DELTA = 50, 1e-5


def steps_of_the_released_rule(spent, target):
    """Train, look every fifty steps, stop when the budget is exceeded."""
    steps = EVERY
    while spent(steps) <= target:
        steps += EVERY
    return steps


def test_the_first_row_of_the_paper_is_run_beyond_its_budget_by_its_own_formula():
    event = FixedSizeRoots(
        relation="replace-one", noise_stddev=32.0, clipping_norm=1.0, population=90941,
        batch_size=10000, changed_roots=8,
    )  # fmt: skip
    delta = 1 / 909410
    run = steps_of_the_released_rule(lambda t: published.dpgnn_epsilon(event, t, delta), 12.0)
    assert run == 700
    assert published.dpgnn_epsilon(event, run, delta) == pytest.approx(12.32, abs=0.01)
    assert published.dpgnn_num_steps(event, 12.0, delta) == 668


def full_batch(noise):
    return GaussianRelease(relation="replace-one", noise_stddev=noise, sensitivity=1.0)


def test_an_adversary_who_sees_the_steps_breaks_the_stated_epsilon_and_not_that_of_the_plan():
    """Full batches, where the account is exact: the sum of T steps is N(+-T/2, T noise^2)."""
    noise, target = 5.0, 4.0
    stated = gdp.mu(target, DELTA)
    run = steps_of_the_released_rule(lambda t: gdp.epsilon(np.sqrt(t) / noise, DELTA), target)
    planned = max_steps(
        full_batch(noise), target_epsilon=target, delta=DELTA, relation="replace-one", limit=10_000
    ).value
    assert planned < run <= planned + EVERY
    # the best test at the stated epsilon exceeds delta after the released rule, and not after the plan
    for steps, broken in ((run, True), (planned, False)):
        mu = np.sqrt(steps) / noise
        cut = target / mu + mu / 2
        attained = norm.sf(cut - mu) - np.exp(target) * norm.sf(cut)
        assert bool(attained > DELTA) is broken
    # and the audit of real draws accuses the claim of the stated epsilon
    rng, count = np.random.default_rng(0), 200_000
    mu = np.sqrt(run) / noise
    scores = (mu + rng.standard_normal(count), rng.standard_normal(count))
    line = ClaimLine(deltas=np.array([gdp.delta(float(e), stated) for e in _epsilons()]))
    assert judge(scores, line, delta=DELTA, level=0.001).rejected
    assert compose(full_batch(noise), planned).parts[0][1] == planned


def _epsilons():
    from dpgnn.audits import statistics

    return statistics._EPSILONS

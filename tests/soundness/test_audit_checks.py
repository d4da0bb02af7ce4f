"""Tests of claims use the half of the trials, the limits and the number of steps that their level needs."""

import math

import numpy as np
import pytest
from scipy.special import betaincinv

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import GaussianRelease, parts
from dpgnn.accountants.plan import Budget
from dpgnn.audits import entry_audit
from dpgnn.audits.entry_audit import audit
from dpgnn.audits.request import AuditRequest, case_of
from dpgnn.audits.statistics import ClaimLine, judge
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts

LINE = ClaimLine.of(
    curve(GaussianRelease(relation="replace-one", noise_stddev=1.0, sensitivity=0.5))
)


def test_what_the_first_half_of_the_runs_shows_is_tested_on_the_second():
    """The first halves are a mile apart, the second ones alike: nothing may be accused or bounded."""
    half = 200
    second = np.random.default_rng(0).standard_normal(2 * half)
    scores = (
        np.concatenate([np.full(half, 5.0), second[:half]]),
        np.concatenate([np.full(half, -5.0), second[half:]]),
    )
    verdict = judge(scores, LINE, delta=0.0, level=0.05)
    assert not verdict.rejected
    assert verdict.epsilon_lower_bound < 1.0
    swapped = tuple(np.concatenate([side[half:], side[:half]]) for side in scores)
    assert judge(swapped, LINE, delta=0.0, level=0.05).true_positive_rate_low <= 1.0


@pytest.mark.parametrize("level", [0.2, 0.01])
def test_each_limit_of_a_verdict_is_at_half_of_the_level(level):
    half = 100
    world, other = np.arange(half) < 90, np.arange(half) < 10
    scores = (np.tile(world, 2).astype(float), np.tile(other, 2).astype(float))
    verdict = judge(scores, LINE, delta=1e-3, level=level)
    # by symmetry the test that accepts "0" for G' has the same counts
    low = betaincinv(90, 11, level / 2)
    high = betaincinv(11, 90, 1 - level / 2)
    assert verdict.true_positive_rate_low == pytest.approx(low)
    assert verdict.false_positive_rate_high == pytest.approx(high)
    assert verdict.epsilon_lower_bound == pytest.approx(math.log((low - 1e-3) / high))


def test_runs_cut_short_are_compared_with_the_claim_of_as_many_steps(monkeypatch):
    """Two of ten steps against the line of ten would pass whatever those two steps do."""
    asked, real = [], entry_audit.line_of

    def spy(event):
        asked.append(event)
        return real(event)

    monkeypatch.setattr(entry_audit, "line_of", spy)
    chosen = methods.get("dp_mlp")
    entry = Entry(
        name="e", method="dp_mlp", mode="sound", privacy_unit="node", relation="add-remove",
        options=strict.read(chosen.config, chosen.example),
    )  # fmt: skip
    facts = Facts(num_nodes=1000, num_train=600, num_features=50, num_classes=7, task="multiclass")
    request = AuditRequest(
        entry=entry, facts=facts, budget=Budget(epsilon=4.0, delta=1e-4), num_runs=8, max_steps=2
    )
    ((step, planned),) = parts(case_of(request).plan.mechanisms[0].event)
    (finding,) = audit(request)
    assert planned > 2 == finding.num_steps
    assert [parts(event) for event in asked] == [((step, 2),), ((step, 1),)]

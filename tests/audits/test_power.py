"""The smallest violation a test can see: against simulated runs, and in the directions that theory says."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dpgnn.accountants import gdp
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import (
    GaussianRelease,
    PoissonRoots,
    RandomizedResponse,
    compose,
    compose_all,
    parts,
)
from dpgnn.audits.power import FACTORS, POWER, Design, detectable, power, weakened
from dpgnn.audits.statistics import ClaimLine, judge

GAUSSIAN = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
DELTA = 1e-5


def design(num_scores: int, share: float = 1.0) -> Design:
    return Design(event=GAUSSIAN, num_scores=num_scores, level=0.01, attained_share=share)


def test_weakened_noise_is_smaller_by_the_factor_in_every_part() -> None:
    roots = PoissonRoots(
        relation="add-remove", d_plus=1, d_minus=0, noise_stddev=3.0, clipping_norm=1.0,
        sampling_probability=0.1,
    )  # fmt: skip
    whole = compose_all(compose(GAUSSIAN, 2), compose(roots, 5))
    weak = weakened(whole, 1.5)
    assert [(event.noise_stddev, count) for event, count in parts(weak)] == [(1 / 1.5, 2), (2.0, 5)]
    (event, _) = next(iter(parts(weakened(roots, 1.0))))
    assert event == roots


@pytest.mark.parametrize("factor", [1.2, 3.0])
def test_weakened_randomised_response_has_the_factor_times_its_epsilon(factor: float) -> None:
    told = RandomizedResponse(relation="add-remove", one_if_one=0.75, one_if_zero=0.25)
    ((weak, _),) = parts(weakened(told, factor))
    assert np.log(weak.one_if_one / weak.one_if_zero) == pytest.approx(factor * np.log(3))
    assert weak.one_if_one + weak.one_if_zero == pytest.approx(1.0)


@pytest.mark.parametrize("factor", [2.0, 3.0])
def test_the_power_is_that_of_simulated_audits(factor: float) -> None:
    """Scores of a Gaussian whose noise is too small; the judge chooses its test on the first half."""
    claimed = ClaimLine.of(curve(GAUSSIAN))
    asked = design(60)
    true = ClaimLine.of(curve(weakened(GAUSSIAN, factor)))
    expected = power(true, claimed, num_scores=asked.num_scores, level=asked.level)
    rng, accused, trials = np.random.default_rng(0), 0, 60
    for _ in range(trials):
        scores = (rng.normal(factor, 1, 120), rng.normal(0, 1, 120))
        accused += judge(scores, claimed, delta=DELTA, level=asked.level).rejected
    # the best test is at least as strong as one that is chosen on half of the runs
    spread = 3 * np.sqrt(0.25 / trials)
    assert accused / trials <= expected + spread
    assert accused / trials >= expected - 0.2 - spread


def test_more_runs_see_smaller_violations_and_a_weak_canary_larger_ones() -> None:
    def factor(num_scores: int, share: float = 1.0) -> float:
        return detectable([design(num_scores, share)], GAUSSIAN, DELTA).noise_factor or np.inf

    found = [factor(num) for num in (40, 400, 4000)]
    assert found == sorted(found, reverse=True)
    assert found[0] > found[-1]
    # a third of the sensitivity: the noise must be three times smaller to be seen
    assert factor(400, share=0.34) == pytest.approx(3 * factor(400), rel=0.35)


def test_what_too_few_runs_cannot_see_is_said_to_be_unseen() -> None:
    none = detectable([design(4)], GAUSSIAN, DELTA)
    assert (none.noise_factor, none.epsilon) == (None, None)


def test_worlds_that_do_not_differ_show_nothing() -> None:
    none = detectable([design(4000, share=0.0)], GAUSSIAN, DELTA)
    assert (none.noise_factor, none.epsilon) == (None, None)
    # another test of the same worlds may have a share
    assert detectable([design(4000, share=0.0), design(4000)], GAUSSIAN, DELTA).epsilon is not None
    with pytest.raises(ValueError, match=r"factor must be > 0, got 0\.0"):
        weakened(GAUSSIAN, 0.0)


def test_the_reported_epsilon_is_that_of_all_steps_with_the_seen_noise() -> None:
    whole = compose(GAUSSIAN, 9)
    found = detectable([design(4), design(4000)], whole, DELTA)
    assert found.noise_factor in FACTORS
    assert found.power == POWER
    assert found.epsilon == pytest.approx(gdp.epsilon(3 * found.noise_factor, DELTA), rel=1e-6)
    # the best of several tests counts
    alone = detectable([design(4000)], whole, DELTA)
    assert alone == found
    assert replace(alone, power=POWER) == found

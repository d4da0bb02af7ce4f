"""Ranking, rates and the line of a claim against plain counts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.metrics import average_precision_score, roc_auc_score

from dpgnn.attacks import statistics


def counted_auc(scores: np.ndarray, member: np.ndarray) -> float:
    """Every pair by itself."""
    wins = [
        1.0 if a > b else 0.5 if a == b else 0.0 for a in scores[member] for b in scores[~member]
    ]
    return float(np.mean(wins))


@pytest.mark.parametrize("levels", [2, 5, 1000])
def test_auc_and_average_precision_with_ties(levels: int) -> None:
    rng = np.random.default_rng(levels)
    scores = rng.integers(0, levels, 80).astype(float)
    member = rng.random(80) < 0.3
    assert statistics.auc(scores, member) == pytest.approx(counted_auc(scores, member))
    assert statistics.auc(scores, member) == pytest.approx(roc_auc_score(member, scores))
    expected = average_precision_score(member, scores)
    assert statistics.average_precision(scores, member) == pytest.approx(expected)


def test_equal_scores_say_nothing() -> None:
    member = np.array([True, False, False, True])
    assert statistics.auc(np.zeros(4), member) == 0.5
    found = statistics.rates_at(np.zeros(4), member, 0.1)
    assert (found.tpr, found.fpr) == (0.0, 0.0)


def test_the_curve_is_every_threshold_counted() -> None:
    rng = np.random.default_rng(0)
    scores, member = rng.integers(0, 9, 60).astype(float), rng.random(60) < 0.5
    false, true = statistics.curve(scores, member)
    for f, t in zip(false, true):
        hit = [
            threshold
            for threshold in (*np.unique(scores), math.inf)
            if np.isclose((scores[member] >= threshold).mean(), t)
            and np.isclose((scores[~member] >= threshold).mean(), f)
        ]
        assert hit
    assert (false[0], true[0], false[-1], true[-1]) == (0, 0, 1, 1)


def test_rates_hold_the_asked_rate_and_their_limits_are_clopper_pearson() -> None:
    scores = np.concatenate([np.arange(50, 100), np.arange(0, 100)]).astype(float)
    member = np.arange(150) < 50
    found = statistics.rates_at(scores, member, 0.1)
    # 9 others score above 90 and 9 members do: at 90 both would have 10, and 10 of 100 is allowed
    assert (found.fpr, found.tpr) == (0.1, 0.2)
    assert binom.sf(9, 50, found.tpr_low) == pytest.approx(0.025, abs=1e-6)
    assert binom.cdf(10, 50, found.tpr_high) == pytest.approx(0.025, abs=1e-6)


def test_the_line_test_accuses_a_true_claim_no_more_often_than_it_says() -> None:
    level, alarms, above, repeats = 0.05, 0, 0, 300
    for repeat in range(repeats):
        rng = np.random.default_rng(repeat)
        member = np.arange(400) < 200
        # randomised response at epsilon = 1 attains the line
        truth = math.e / (1 + math.e)
        scores = np.where(member, rng.random(400) < truth, rng.random(400) >= truth).astype(float)
        found = statistics.line_test(scores, member, epsilon=1.0, delta=0.0, level=level, rng=rng)
        alarms += found.crossed
        above += found.epsilon_lower_bound > 1.0
    # more than that is shown by 300 trials of rate 5 % once in a thousand
    assert max(alarms, above) <= binom.ppf(0.999, repeats, level)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_line_test_finds_a_false_claim(sign: int) -> None:
    rng = np.random.default_rng(0)
    member = np.arange(2000) < 1000
    scores = sign * (rng.standard_normal(2000) + 3.0 * member)
    found = statistics.line_test(scores, member, epsilon=1.0, delta=1e-5, level=0.001, rng=rng)
    assert found.crossed
    assert found.epsilon_lower_bound > 1.5
    # a claim that is true of two unit normals three apart
    delta = norm.cdf(1.5 - 8 / 3) - math.exp(8) * norm.cdf(-1.5 - 8 / 3)
    wide = statistics.line_test(scores, member, epsilon=8.0, delta=delta, level=0.001, rng=rng)
    assert not wide.crossed


def test_the_scripts_number_is_balanced_accuracy_by_batch() -> None:
    member = np.array([True, True, False, False])
    guessed = np.array([True, False, False, False])
    rng = np.random.default_rng(0)
    found = statistics.balanced_accuracy_of_batches(guessed, member, 4, rng=rng)
    assert found == pytest.approx(0.75) == roc_auc_score(member, guessed)


def test_best_guesses_counts_as_by_hand() -> None:
    scores = np.array([5.0, 4.0, 3.0, 2.0, 1.0])
    member = np.array([True, False, True, False, False])
    found = statistics.best_guesses(scores, member, 0.41)
    assert found == {"guesses": 3, "precision": 2 / 3, "recall": 1.0, "f1": 0.8}


@pytest.mark.parametrize("share", [0.1, 0.25, 0.7])
def test_guesses_among_equal_scores_have_the_density_as_precision(share: float) -> None:
    member = np.arange(40) < 10
    found = statistics.best_guesses(np.zeros(40), member, share)
    assert found["precision"] == pytest.approx(0.25)
    assert found["recall"] == pytest.approx(share)


def test_guesses_that_cut_ties_count_the_mean_over_their_orders() -> None:
    scores = np.array([3.0, 1.0, 1.0, 1.0, 1.0, 0.0])
    member = np.array([False, True, True, False, False, True])
    orders = []
    for seed in range(4000):
        shuffled = np.random.default_rng(seed).permutation(6)
        best = shuffled[np.argsort(-scores[shuffled], kind="stable")[:3]]
        orders.append(member[best].mean())
    found = statistics.best_guesses(scores, member, 0.5)
    assert found["precision"] == pytest.approx(1 / 3)
    # the mean of 4000 orders has a standard deviation below 0.003
    assert abs(np.mean(orders) - 1 / 3) < 0.015


def test_one_kind_of_trial_is_an_error() -> None:
    with pytest.raises(ValueError, match="trials must hold members and others"):
        statistics.auc(np.ones(3), np.ones(3, dtype=bool))

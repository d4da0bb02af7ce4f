"""Equivalence against hand computation, simulation, and the number of repeats it asks for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import t

from dpgnn.report.statistics.equivalence import (
    Spread,
    equivalence,
    repeats_of_interval,
    repeats_to_decide,
)
from dpgnn.report.statistics.statistics import paired_test


@pytest.mark.parametrize(
    ("difference", "std", "n", "verdict"),
    [
        (0.0, 0.01, 10, "same"),  # half = 1.73 * 0.0045 = 0.8 points
        (0.011, 0.01, 10, "same"),
        (0.013, 0.01, 10, "undecided"),
        (0.027, 0.01, 10, "undecided"),
        (0.029, 0.01, 10, "different"),
        (-0.029, 0.01, 10, "different"),
        (0.0, 0.05, 3, "undecided"),
    ],
)
def test_verdicts_by_hand(difference: float, std: float, n: int, verdict: str) -> None:
    """Two equal samples: Welch's degrees of freedom are 2 (n - 1)."""
    found = equivalence(difference, Spread(std=std, n=n), Spread(std=std, n=n))
    half = t.ppf(0.95, 2 * (n - 1)) * std * math.sqrt(2 / n)
    assert (found.low, found.high) == pytest.approx(
        (difference - half, difference + half), rel=1e-4
    )
    assert found.verdict == verdict


def test_a_spread_that_is_not_stated_is_ours_and_runs_not_counted_are_one() -> None:
    ours = Spread(std=0.01, n=10)
    borrowed = equivalence(0.0, ours, Spread(std=None, n=10))
    # one estimate of the spread, with its 9 degrees of freedom, and not two with 18
    assert borrowed.high == pytest.approx(t.ppf(0.95, 9) * 0.01 * math.sqrt(2 / 10))
    theirs = equivalence(0.0, Spread(std=None, n=1), Spread(std=0.01, n=5))
    assert theirs.high == pytest.approx(t.ppf(0.95, 4) * 0.01 * math.sqrt(1 + 1 / 5))
    alone = equivalence(0.0, ours, Spread(std=0.01, n=None))
    assert alone.high is not None
    assert borrowed.high is not None
    assert alone.high > 2 * borrowed.high
    nothing = equivalence(0.5, Spread(std=None, n=1), Spread(std=None, n=3))
    assert (nothing.verdict, nothing.low, nothing.needed) == ("undecided", None, None)


def test_a_borrowed_spread_covers_as_often_as_it_says() -> None:
    rng, inside, tries = np.random.default_rng(0), 0, 2000
    for _ in range(tries):
        ours, theirs = rng.normal(0, 0.01, 3), rng.normal(0, 0.01, 3)
        found = equivalence(
            ours.mean() - theirs.mean(),
            Spread(std=float(ours.std(ddof=1)), n=3),
            Spread(std=None, n=3),
        )
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 0 <= found.high
    assert inside / tries == pytest.approx(0.9, abs=0.02)


def test_rounding_and_one_test_node_widen() -> None:
    still = Spread(std=0.0, n=3)
    assert equivalence(0.0199, still, still).verdict == "same"
    assert equivalence(0.0199, still, still, rounding=0.0005).verdict == "undecided"
    assert equivalence(0.03, still, still, resolution=0.02).verdict == "undecided"
    assert equivalence(0.03, still, still).verdict == "different"


@pytest.mark.parametrize(("difference", "std"), [(0.01, 0.03), (0.035, 0.03), (0.0, 0.02)])
def test_the_number_of_repeats_is_the_least_that_decides(difference: float, std: float) -> None:
    stated = Spread(std=0.001, n=10)
    found = equivalence(difference, Spread(std=std, n=3), stated)
    assert found.verdict == "undecided"
    assert found.needed is not None
    for repeats, decided in ((found.needed, True), (found.needed - 1, False)):
        again = equivalence(difference, Spread(std=std, n=repeats), stated)
        assert (again.verdict != "undecided") is decided, repeats


def test_no_number_of_ours_decides_where_the_stated_mean_is_too_uncertain() -> None:
    found = equivalence(0.01, Spread(std=0.01, n=10), Spread(std=0.05, n=3))
    assert (found.verdict, found.needed) == ("undecided", None)


def test_the_chance_of_a_false_answer_is_at_most_its_level() -> None:
    """At the edge of the margin neither answer may be given in more than 5 % of cases, each."""
    rng = np.random.default_rng(0)
    counts = {"same": 0, "different": 0, "undecided": 0}
    rounds = 2000
    for _ in range(rounds):
        ours, stated = rng.normal(0.52, 0.03, 8), rng.normal(0.5, 0.03, 5)
        found = equivalence(
            float(ours.mean() - stated.mean()),
            Spread(std=float(ours.std(ddof=1)), n=8),
            Spread(std=float(stated.std(ddof=1)), n=5),
        )
        counts[found.verdict] += 1
    for word in ("same", "different"):
        assert counts[word] / rounds < 0.065, counts


def test_repeats_of_a_paired_difference() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(0.01, 0.02, 5)
    test = paired_test(list(scores), [0.0] * 5)
    assert test.std is not None
    needed = repeats_to_decide(test.mean, test.std, test.n)
    assert needed is not None
    error = test.std / math.sqrt(needed)
    assert abs(test.mean) > t.ppf(0.975, needed - 1) * error
    assert abs(test.mean) <= t.ppf(0.975, needed - 2) * test.std / math.sqrt(needed - 1)
    assert repeats_to_decide(1e-9, 0.02, 5) is None
    assert test.low is not None
    assert test.high is not None
    assert repeats_of_interval(test.mean, test.low, test.high, test.n) == needed
    many = repeats_to_decide(test.mean, test.std, test.n, corrections=10)
    assert many is not None
    assert many > needed

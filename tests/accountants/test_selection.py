"""Theorem 19: the best of a random number of private runs, against brute force and against a library."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.accountants import composition, gdp, rdp
from dpgnn.accountants.events import BestOf, GaussianRelease, PoissonRoots, compose, compose_all
from dpgnn.accountants.selection import NumberOfRuns, best_loss, best_rdp, mixture_rdp
from dpgnn.records.schema import event_from, event_of

LAWS = [(0.0, 0.1), (0.0, 0.6), (1.0, 0.25), (-0.5, 0.02), (2.0, 0.3), (0.5, 0.5)]
ORDERS = rdp.OUR_ORDERS
EPSILONS = np.linspace(0, 6, 61)


def gaussian(noise: float, sensitivity: float = 1.0) -> GaussianRelease:
    return GaussianRelease(relation="add-remove", noise_stddev=noise, sensitivity=sensitivity)


def best_of(*runs, eta: float = 0.0, gamma: float = 0.1) -> BestOf:
    return BestOf(relation="add-remove", runs=runs, eta=eta, gamma=gamma)


def epsilon_of(event, delta: float, accountant: str = "pld") -> float:
    return composition.epsilon(event, delta=delta, relation="add-remove", accountant=accountant)


def law_of_the_best(q: np.ndarray, law: NumberOfRuns) -> np.ndarray:
    """Exact law of the largest of K outcomes: all K are at most y with probability F(Q[<= y])."""
    below = np.concatenate(([0.0], np.cumsum(q)))
    below[-1] = 1.0
    if law.eta == 0:
        return np.diff(np.log(1 - (1 - law.gamma) * below) / math.log(law.gamma))
    powers = (1 - (1 - law.gamma) * below) ** -law.eta - 1
    return np.diff(powers / (law.gamma**-law.eta - 1))


def renyi(p: np.ndarray, q: np.ndarray, orders: np.ndarray) -> np.ndarray:
    kept = p > 0
    log_p, log_q = np.log(p[kept]), np.log(q[kept])
    moments = [np.logaddexp.reduce(a * log_p + (1 - a) * log_q) for a in orders]
    return np.maximum(0.0, np.array(moments)) / (orders - 1)


def profile(p: np.ndarray, q: np.ndarray):
    def deltas(epsilons: np.ndarray) -> np.ndarray:
        grown = np.exp(np.asarray(epsilons))[:, None]
        sides = [np.maximum(a - grown * b, 0).sum(axis=1) for a, b in ((p, q), (q, p))]
        return np.maximum(*sides)

    return deltas


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_probabilities_sum_to_one_and_the_mean_is_theirs(eta, gamma):
    law = NumberOfRuns(eta=eta, gamma=gamma)
    chances = law.probabilities(4000)
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    assert chances @ np.arange(1, 4001) == pytest.approx(law.mean, rel=1e-10)


def test_the_logarithmic_and_the_geometric_law_have_their_textbook_form():
    k = np.arange(1, 30)
    logarithmic = 0.8**k / k / math.log(5)
    assert NumberOfRuns(eta=0.0, gamma=0.2).probabilities(29) == pytest.approx(logarithmic)
    assert NumberOfRuns(eta=1.0, gamma=0.2).probabilities(29) == pytest.approx(0.2 * 0.8 ** (k - 1))
    assert NumberOfRuns(eta=1.0, gamma=0.2).mean == pytest.approx(5)
    assert NumberOfRuns(eta=0.0, gamma=0.2).mean == pytest.approx(4 / math.log(5))
    assert NumberOfRuns(eta=1e-9, gamma=0.2).mean == pytest.approx(4 / math.log(5))


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_draws_follow_the_law(eta, gamma):
    law, count = NumberOfRuns(eta=eta, gamma=gamma), 4000
    rng = np.random.default_rng(7)
    seen = np.bincount([law.draw(rng) for _ in range(count)], minlength=7)[1:7]
    expected = law.probabilities(6)
    spread = np.sqrt(expected * (1 - expected) / count)
    assert np.all(np.abs(seen / count - expected) < 4.5 * spread)


def test_few_bits_leave_the_number_open_and_more_decide_it():
    law = NumberOfRuns(eta=0.0, gamma=0.1)
    edge = law.probabilities(1)[0]
    assert law._first_above(int(edge * 2**8), 8) is None
    assert law._first_above(int(edge * 2**40) - 2, 40) == 1
    assert law._first_above(int(edge * 2**40) + 2, 40) == 2


@pytest.mark.parametrize(("eta", "gamma"), LAWS)
def test_the_law_of_the_best_is_the_sum_over_the_number_of_runs(eta, gamma):
    law, q = NumberOfRuns(eta=eta, gamma=gamma), np.array([0.2, 0.5, 0.3])
    k = np.arange(1, 4001)
    below = np.array([law.probabilities(4000) @ x**k for x in (0.0, 0.2, 0.7, 1.0)])
    assert law_of_the_best(q, law) == pytest.approx(np.diff(below), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(LAWS), st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_the_exact_divergence_of_the_best_is_within_both_bounds(choice, size, seed):
    law = NumberOfRuns(eta=choice[0], gamma=choice[1])
    rng = np.random.default_rng(seed)
    spread = rng.choice([0.3, 1.0, 3.0])
    q = rng.dirichlet(np.full(size, 2.0))
    other = q * np.exp(spread * rng.standard_normal(size))
    other /= other.sum()
    best, best_other = law_of_the_best(q, law), law_of_the_best(other, law)
    orders = np.array([1.1, 1.5, 2.0, 4.0, 16.0, 64.0])
    bound = best_rdp(ORDERS, renyi(q, other, ORDERS), renyi(other, q, ORDERS), law)
    exact = renyi(best, best_other, orders)
    assert np.all(exact <= np.interp(orders, ORDERS, bound) * (1 + 1e-3) + 1e-9)
    loss = best_loss([profile(q, other)], law, 1e-3)
    assert np.all(profile(best, best_other)(EPSILONS) <= loss.deltas(EPSILONS) + 1e-12)


@pytest.mark.parametrize("forgotten", ["mean", "odds"])
def test_brute_force_finds_a_term_that_is_left_out(forgotten):
    law = NumberOfRuns(eta=1.0, gamma=0.05)
    # rare outcomes that win: the best of about 20 runs has them 20 times as often
    q, other = np.array([0.99, 0.01]), np.array([0.999, 0.001])
    if (
        forgotten == "odds"
    ):  # the one that loses: 20 runs that all miss the other are told from few that do
        q, other = np.array([0.05, 0.95]), np.array([0.01, 0.99])
    there, back = renyi(q, other, ORDERS), renyi(other, q, ORDERS)
    exact = renyi(law_of_the_best(q, law), law_of_the_best(other, law), ORDERS)
    whole = best_rdp(ORDERS, there, back, law)
    mean = math.log(law.mean) / (ORDERS - 1)
    assert np.all(exact <= whole + 1e-9)
    assert np.any(exact > (whole - mean if forgotten == "mean" else there + mean) + 1e-6), forgotten


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 5), st.integers(2, 4), st.integers(0, 2**32 - 1))
def test_a_candidate_that_is_told_is_no_worse_than_the_worst(size, candidates, seed):
    rng = np.random.default_rng(seed)
    q, other = (rng.dirichlet(np.ones(size) * 2, size=candidates) + 1e-6 for _ in range(2))
    q, other = (x / x.sum(axis=1, keepdims=True) for x in (q, other))
    orders = np.array([1.5, 2.0, 8.0])
    each = [renyi(a, b, orders) for a, b in zip(q, other, strict=True)]
    told = renyi(q.ravel() / candidates, other.ravel() / candidates, orders)
    hidden = renyi(q.mean(axis=0), other.mean(axis=0), orders)
    bound = mixture_rdp(orders, each)
    assert bound == pytest.approx(told)
    assert np.all(hidden <= bound + 1e-12)
    assert np.all(bound <= np.max(each, axis=0) + 1e-12)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.1), (1.0, 0.25), (2.0, 0.3)])
def test_the_renyi_bound_is_that_of_dp_accounting(eta, gamma):
    from dp_accounting import dp_event
    from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant

    orders = [float(order) for order in range(2, 65)]
    library = RdpAccountant(orders)
    once = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.1, dp_event.GaussianDpEvent(4.0)), 50
    )
    mean = NumberOfRuns(eta=eta, gamma=gamma).mean
    library.compose(dp_event.RepeatAndSelectDpEvent(once, mean, eta))
    step = PoissonRoots(
        relation="add-remove", noise_stddev=4.0, clipping_norm=1.0, sampling_probability=0.1,
        d_plus=1, d_minus=0,
    )  # fmt: skip
    law = NumberOfRuns(eta=eta, gamma=gamma)
    there, back = (50 * side for side in rdp.event_rdp(step, np.array(orders)))
    ours = best_rdp(np.array(orders), there, there, law)
    theirs = np.asarray(library._rdp)
    # the library also lets lower orders take the divergence of higher ones
    assert np.minimum.accumulate(ours[::-1])[::-1] == pytest.approx(theirs, rel=1e-4)
    event = best_of(compose(step, 50), eta=eta, gamma=gamma)
    forward, backward = rdp.event_rdp(event, np.array(orders))
    assert forward == pytest.approx(best_rdp(np.array(orders), there, back, law))
    assert backward == pytest.approx(best_rdp(np.array(orders), back, there, law))
    assert np.all(back <= there)  # so the library, which knows no directions, lies above
    assert np.all(np.maximum(forward, backward) <= ours + 1e-9)


@pytest.mark.parametrize("mu", [0.1, 0.4, 0.8])
@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.1), (1.0, 0.25), (-0.5, 0.02)])
def test_the_profile_is_tighter_than_renyi_and_costs_more_than_one_run(mu, eta, gamma):
    event = best_of(gaussian(1 / mu), eta=eta, gamma=gamma)
    tight, loose = epsilon_of(event, 1e-5), epsilon_of(event, 1e-5, "rdp")
    assert gdp.epsilon(mu, 1e-5) < tight < loose
    law = NumberOfRuns(eta=eta, gamma=gamma)
    moves = np.linspace(0, 4, 4001)
    odds = min(math.log(math.exp(t) + gdp.delta(t, mu) / gamma) for t in moves)
    closed = gdp.epsilon(mu, 1e-5 / law.mean) + (1 + eta) * odds
    assert tight == pytest.approx(closed, rel=2e-4)


def test_the_best_of_candidates_costs_at_most_the_best_of_the_dearest():
    cheap, dear = gaussian(4.0), compose_all(gaussian(2.0), gaussian(9.0))
    both = epsilon_of(best_of(cheap, dear), 1e-5)
    assert epsilon_of(best_of(cheap), 1e-5) < both < epsilon_of(best_of(dear), 1e-5)
    twice = epsilon_of(best_of(dear, dear), 1e-5)
    assert twice == pytest.approx(epsilon_of(best_of(dear), 1e-5), rel=1e-9)


def test_it_composes_with_other_events_and_with_itself():
    event = best_of(gaussian(3.0))
    alone = epsilon_of(event, 1e-5)
    assert alone < epsilon_of(compose_all(event, gaussian(5.0)), 1e-5)
    assert alone < epsilon_of(compose(event, 2), 1e-5) < 2 * epsilon_of(event, 5e-6) * 1.001


def test_deltas_at_many_epsilons_are_those_at_each():
    step = PoissonRoots(
        relation="add-remove", noise_stddev=1.0, clipping_norm=1.0, sampling_probability=0.2,
        d_plus=2, d_minus=1,
    )  # fmt: skip
    curve = composition.curve(compose(step, 20))
    places = np.linspace(-5, 12, 35)
    expected = [curve.delta(float(place)) for place in places]
    assert curve.deltas(places) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_the_event_is_recorded_and_read_again():
    event = best_of(compose(gaussian(2.0), 3), compose_all(gaussian(1.0), gaussian(2.0)), eta=0.5)
    assert event_from(event_of(event)) == event


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"eta": -1.0}, "eta must be > -1"),
        ({"gamma": 1.0}, "gamma must be"),
        ({"runs": ()}, "runs must hold"),
    ],
)
def test_bad_numbers_are_refused(changed, words):
    given = {"relation": "add-remove", "runs": (gaussian(1.0),), "eta": 0.0, "gamma": 0.1}
    with pytest.raises(ValueError, match=words):
        BestOf(**(given | changed))


def test_runs_of_another_relation_are_refused():
    with pytest.raises(TypeError, match="add-remove"):
        BestOf(relation="replace-one", runs=(gaussian(1.0),), eta=0.0, gamma=0.1)

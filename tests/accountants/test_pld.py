"""The two-sided pair and its discretisation, against brute force, closed forms and dp-accounting."""

import math
from itertools import combinations, product

import numpy as np
import pytest
from dp_accounting import privacy_accountant
from dp_accounting.pld import privacy_loss_distribution as library
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import binom

from dpgnn.accountants import composition, events, gdp, mixtures, pld
from dpgnn.accountants.events import compose

STEP = 1e-4
GAMMAS = (0.5, 0.9, 1.0, 1.2, 2.0, 5.0)


def hockey_stick(pair, gamma):
    """H_gamma(P || Q) of a mixture pair with increasing loss, in closed form at the crossing."""
    low, high = -60.0, 60.0
    target = math.log(gamma)

    def excess(x):
        return float(pair.loss(np.array([x]))[0]) - target

    if excess(low) >= 0:
        return 1 - gamma
    if excess(high) <= 0:
        return 0.0
    at = np.array([brentq(excess, low, high, xtol=1e-12)])
    return float(pair.p.upper_tail(at)[0] - gamma * pair.q.upper_tail(at)[0])


class Planar:
    """The true output law of one step when the changed gradients are given vectors in the plane.

    The integral over y is a trapezoid sum (exact for such smooth functions), that over x uses the normal
    distribution function between the crossings, so that only crossings cost accuracy.
    """

    def __init__(self, plus, minus, rate):
        means = np.concatenate([self._sums(plus), self._sums(minus)])
        y = np.arange(means[:, 1].min() - 6.5, means[:, 1].max() + 6.5, 0.25)
        self.x = np.arange(means[:, 0].min() - 6.5, means[:, 0].max() + 6.5, 0.01)
        self.p = self._law(plus, rate, y)
        self.q = self._law(minus, rate, y)

    def divergence(self, gamma):
        density = self.p[0] - gamma * self.q[0]
        mass = np.diff(self.p[1] - gamma * self.q[1], axis=1)
        left, right = density[:, :-1], density[:, 1:]
        whole = np.where((left >= 0) & (right >= 0), mass, 0.0).sum()
        crossing = (left > 0) != (right > 0)
        top = np.maximum(np.maximum(left, right), 0.0)
        area = np.where(crossing, top**2 / np.maximum(np.abs(left - right), 1e-300), 0.0)
        mixed = 0.5 * (self.x[1] - self.x[0]) * area
        whole -= np.where(crossing & (left >= 0) & (right >= 0), mass, 0.0).sum()
        return 0.25 * float(whole + mixed.sum())

    @staticmethod
    def _sums(vectors):
        return Planar._choices(len(vectors)) @ vectors if len(vectors) else np.zeros((1, 2))

    @staticmethod
    def _choices(count):
        return np.array(list(product((0, 1), repeat=count)), dtype=float)

    def _law(self, vectors, rate, y):
        count = len(vectors)
        sums = self._sums(vectors)
        chosen = self._choices(count).sum(axis=1)
        weights = rate**chosen * (1 - rate) ** (count - chosen)
        across = weights * np.exp(-0.5 * (y[:, None] - sums[:, 1]) ** 2) / math.sqrt(2 * math.pi)
        along = self.x[:, None] - sums[:, 0]
        density = np.exp(-0.5 * along**2) / math.sqrt(2 * math.pi)
        return across @ density.T, across @ ndtr(along).T


def random_planar(rng):
    """Changed roots of both worlds: vectors of norm at most C, some worst-case directions among them."""
    d_plus = int(rng.integers(1, 5))
    d_minus = int(rng.integers(max(0, d_plus - 1), d_plus + 1))
    clip = float(rng.uniform(0.1, 1.2))

    def vectors(count, sign):
        angle = rng.uniform(0, 2 * np.pi, count)
        if rng.random() < 0.5:  # near the extreme configuration
            angle = rng.normal(0 if sign > 0 else np.pi, 0.1, count)
        length = clip * np.where(rng.random(count) < 0.7, 1.0, rng.random(count))
        return np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)

    return vectors(d_plus, 1), vectors(d_minus, -1), clip, float(rng.uniform(0.05, 0.9))


def bound(clip, rate, d_plus, d_minus):
    event = events.PoissonRoots(
        relation="add-remove", noise_stddev=1.0, clipping_norm=clip, sampling_probability=rate,
        d_plus=d_plus, d_minus=d_minus,
    )  # fmt: skip
    return mixtures.two_sided_pair(event)


def test_sixty_random_planar_data_sets_stay_below_the_two_sided_bound():
    rng = np.random.default_rng(20261121)
    largest = -math.inf
    for _ in range(60):
        plus, minus, clip, rate = random_planar(rng)
        law = Planar(plus, minus, rate)
        pair = bound(clip, rate, len(plus), len(minus))
        backward = pair.reversed()
        for gamma in GAMMAS:
            largest = max(largest, law.divergence(gamma) - hockey_stick(pair, gamma))
        law.p, law.q = law.q, law.p
        for gamma in GAMMAS:
            largest = max(largest, law.divergence(gamma) - hockey_stick(backward, gamma))
    assert largest < 2e-7  # quadrature error


def test_the_two_sided_bound_is_attained_by_opposite_gradients():
    clip, rate = 0.7, 0.3
    ahead = np.array([[clip, 0.0]] * 3)
    law = Planar(ahead, -ahead[:2], rate)
    pair = bound(clip, rate, 3, 2)
    for gamma in GAMMAS:
        assert law.divergence(gamma) == pytest.approx(hockey_stick(pair, gamma), abs=2e-7)


def test_a_one_sided_mixture_with_doubled_step_is_no_bound():
    # The counterexample: 2C times Bin(d, q) against N(0) is attained and exceeded by the two-sided pair.
    count, rate, clip = 8, 0.5, 0.3
    pair = bound(clip, rate, count, count)
    i = np.arange(count + 1)
    one_sided = mixtures.MixturePair(
        p=mixtures.Mixture(log_weights=binom.logpmf(i, count, rate), means=2 * clip * i),
        q=mixtures.Mixture(log_weights=np.zeros(1), means=np.zeros(1)),
    )
    gaps = [hockey_stick(pair, g) - hockey_stick(one_sided, g) for g in np.geomspace(1, 5, 200)]
    assert max(gaps) == pytest.approx(2.66e-2, abs=2e-4)


@pytest.mark.parametrize("numbers", [(1, 0), (1, 1), (4, 3), (8, 8), (25, 25)])
@pytest.mark.parametrize("noise_stddev", [0.5, 3.0, 20.0])
def test_the_discrete_loss_is_a_tight_upper_bound_of_one_step(poisson, numbers, noise_stddev):
    event = poisson(noise_stddev, 0.15, *numbers)
    pair = mixtures.two_sided_pair(event)
    for one in (pair, pair.reversed()):
        loss = pld.mixture_loss(one, max(1e-3, 0.01 / noise_stddev))
        assert loss.mass.sum() + loss.infinity_mass == pytest.approx(1.0, abs=1e-12)
        for gamma in (0.7, 1.0, 1.05, 1.5, 4.0):
            exact = max(0.0, hockey_stick(one, gamma))
            ours = loss.delta(math.log(gamma))
            assert ours >= exact - 1e-12
            assert ours <= exact + 1e-2 * max(exact, 1e-4)


@pytest.mark.parametrize(
    ("noise", "rate", "runs"), [(1.0, 0.01, 2000), (0.8, 0.1, 50), (3.0, 0.4, 300)]
)
def test_one_added_root_agrees_with_dp_accounting(poisson, noise, rate, runs):
    theirs = library.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=STEP
    ).self_compose(runs)
    ours = composition.curve(compose(poisson(noise, rate, 1, 0), runs), step=STEP)
    expected = theirs.get_epsilon_for_delta(1e-5)
    assert ours.epsilon(1e-5) == pytest.approx(expected, abs=1e-8, rel=1e-7)
    # At a small delta the rounding of either Fourier transform (about 1e-13 in delta) shows.
    expected = theirs.get_epsilon_for_delta(1e-8)
    assert ours.epsilon(1e-8) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("noise", "rate", "runs"), [(1.0, 0.01, 2000), (3.0, 0.4, 300)])
def test_one_replaced_root_agrees_with_dp_accounting(poisson, noise, rate, runs):
    theirs = library.from_gaussian_mechanism(
        noise, sampling_prob=rate, value_discretization_interval=STEP,
        neighboring_relation=privacy_accountant.NeighboringRelation.REPLACE_ONE,
    ).self_compose(runs)  # fmt: skip
    event = compose(poisson(noise, rate, 1, 1, "replace-one"), runs)
    ours = composition.curve(event, step=STEP)
    expected = theirs.get_epsilon_for_delta(1e-5)
    assert ours.epsilon(1e-5) == pytest.approx(expected, abs=1e-8, rel=1e-7)


def test_vanishing_roots_agree_with_the_library_of_one_sided_mixtures(poisson):
    weights = binom.pmf(np.arange(5), 4, 0.2)
    theirs = library.from_mixture_gaussian_mechanism(
        4.0, np.arange(5.0), weights, value_discretization_interval=2e-3
    ).self_compose(100)
    ours = composition.curve(compose(poisson(4.0, 0.2, 4, 0), 100), step=2e-3)
    expected = theirs.get_epsilon_for_delta(1e-5)
    assert ours.epsilon(1e-5) == pytest.approx(expected, abs=1e-8, rel=1e-7)


def test_a_gaussian_agrees_with_its_closed_form():
    for mu in (0.05, 1.0, 7.0):
        loss = pld.gaussian_loss(mu, 1e-3)
        for epsilon in (0.0, 0.5, 3.0, 30.0):
            exact = gdp.delta(epsilon, mu)
            assert exact - 1e-14 <= loss.delta(epsilon) <= exact * (1 + 1e-3) + 1e-6


def test_many_composed_gaussians_agree_with_their_closed_form():
    # 10,000 runs by FFT: what rounding does to small deltas.
    loss = pld.gaussian_loss(0.02, 1e-4).self_compose(10_000)
    assert loss.epsilon(1e-9) == pytest.approx(gdp.epsilon(2.0, 1e-9), rel=2e-3)
    assert loss.epsilon(1e-5) == pytest.approx(gdp.epsilon(2.0, 1e-5), rel=1e-4)
    assert loss.epsilon(1e-5) >= gdp.epsilon(2.0, 1e-5)


def test_one_changed_root_without_replacement_dominates_both_worlds(fixed):
    # Batches are enumerated: populations of records in a line, one replaced by its opposite.
    rng = np.random.default_rng(5)
    for _ in range(20):
        population, batch = 6, int(rng.integers(1, 6))
        clip, noise = 1.0, float(rng.uniform(0.7, 3.0))
        values = rng.uniform(-clip, clip, population)
        other = values.copy()
        values[0], other[0] = clip, -clip
        worlds = []
        for v in (values, other):
            sums = _batch_sums(v, batch)
            worlds.append(sums / noise)
        x = np.linspace(-batch / noise - 9, batch / noise + 9, 20001)
        p, q = (np.exp(-0.5 * (x[:, None] - s) ** 2).mean(axis=1) for s in worlds)
        p, q = p / math.sqrt(2 * math.pi), q / math.sqrt(2 * math.pi)
        loss = pld.glued_loss(fixed(noise, population, batch, 1), 1e-3) if batch < 6 else None
        for gamma in GAMMAS:
            for a, b in ((p, q), (q, p)):
                true = float(np.maximum(a - gamma * b, 0).sum() * (x[1] - x[0]))
                assert true <= loss.delta(math.log(gamma)) + 1e-6


def _batch_sums(values, batch):
    return np.array([sum(chosen) for chosen in combinations(values, batch)])


def test_without_replacement_is_the_amplified_gaussian_profile(fixed):
    # delta(log(1 + q (e^l - 1))) = q delta_Gauss(l): Balle, Barthe, Gaboardi (2018), Theorem 9.
    event = fixed(3.0, 100, 30, 1)
    loss = pld.glued_loss(event, 1e-4)
    for level in (0.0, 0.2, 1.0, 2.5):
        epsilon = math.log1p(0.3 * math.expm1(level))
        expected = 0.3 * gdp.delta(level, 2 / 3)
        assert loss.delta(epsilon) == pytest.approx(expected, rel=1e-4, abs=1e-9)
        mirrored = 1 - math.exp(-epsilon) + math.exp(-epsilon) * expected
        assert loss.delta(-epsilon) == pytest.approx(mirrored, rel=1e-5)


def test_the_revealed_pair_is_above_the_glued_one_for_a_single_root(fixed):
    event = fixed(3.0, 100, 30, 1)
    glued, revealed = pld.glued_loss(event, 1e-3), pld.revealed_loss(event, 1e-3)
    for epsilon in (0.0, 0.1, 0.5, 2.0):
        assert glued.delta(epsilon) <= revealed.delta(epsilon) + 1e-12


def test_laplace_agrees_with_its_closed_form_and_with_dp_accounting():
    event = events.LaplaceRelease(relation="null-one", scale=2.0, sensitivity=1.0)
    loss = pld.laplace_loss(event, 1e-3)
    for epsilon in (0.0, 0.1, 0.4, 0.6):
        exact = max(0.0, 1 - math.exp((epsilon - 0.5) / 2))
        assert exact - 1e-12 <= loss.delta(epsilon) <= exact + 1e-6
    theirs = library.from_laplace_mechanism(2.0, value_discretization_interval=1e-3)
    expected = theirs.self_compose(30).get_epsilon_for_delta(1e-5)
    assert loss.self_compose(30).epsilon(1e-5) == pytest.approx(expected, rel=1e-6)


def test_randomised_response_keeps_its_two_losses_and_directions():
    forward = pld.response_loss(0.6, 0.3, 1e-4)
    assert forward.delta(0.0) == pytest.approx(0.3, abs=1e-12)
    assert forward.epsilon(0.0) == pytest.approx(math.log(2), abs=2e-4)
    assert pld.response_loss(0.3, 0.6, 1e-4).epsilon(0.0) == pytest.approx(
        math.log(0.7 / 0.4), abs=2e-4
    )
    certain = pld.response_loss(0.5, 0.0, 1e-4)
    assert certain.infinity_mass == 0.5
    assert certain.epsilon(0.4) == math.inf


@pytest.mark.parametrize("numbers", [(8, 7), (3, 3)])
def test_monte_carlo_estimates_of_the_composed_divergence_agree(poisson, numbers):
    rng = np.random.default_rng(11)
    event, runs, samples = poisson(6.0, 0.2, *numbers), 25, 60_000
    pair = mixtures.two_sided_pair(event)
    curve = composition.curve(compose(event, runs), step=1e-3)
    for one, loss in ((pair, curve.forward), (pair.reversed(), curve.backward)):
        weights = np.exp(one.p.log_weights)
        index = rng.choice(len(weights), p=weights / weights.sum(), size=samples * runs)
        x = one.p.means[index] + rng.standard_normal(samples * runs)
        total = one.loss(x).reshape(samples, runs).sum(axis=1)
        for epsilon in (0.0, 0.5, 1.5):
            values = np.maximum(0.0, -np.expm1(epsilon - total))
            error = values.std() / math.sqrt(samples)
            assert loss.delta(epsilon) == pytest.approx(values.mean(), abs=4.5 * error)


def test_a_negligible_rate_loses_no_mass(poisson):
    pair = mixtures.two_sided_pair(poisson(1.0, 1e-30, 3, 2))
    loss = pld.mixture_loss(pair, 1e-3)
    assert loss.mass.sum() + loss.infinity_mass == pytest.approx(1.0, abs=1e-12)
    assert loss.delta(0.0) < 1e-15


def test_no_noise_gives_no_finite_epsilon(poisson, fixed):
    for event in (poisson(0.0, 0.1, 2, 1), fixed(0.0, 10, 2, 1), fixed(0.0, 10, 2, 3)):
        assert composition.epsilon(event, delta=1e-3, relation=event.relation) == math.inf


def test_an_unknown_event_is_refused_by_name():
    class Other(events.Event):
        pass

    with pytest.raises(TypeError, match="counts no Other"):
        pld.event_loss(Other(relation="null-one"), 1, 1e-3)


def rows_of_table_a1(vectors, poisson, fixed):
    for row in vectors["pld"]["table_a1"]:
        inputs = row["inputs"]
        d = inputs["terms"]
        noise = inputs["noise_multiplier"] * 2.0 * d
        rate = inputs["m"] / inputs["N"]
        yield (
            row,
            {
                "revealed": fixed(noise, inputs["N"], inputs["m"], d),
                "add_remove": poisson(noise, rate, d, d - 1),
                "same_roots": poisson(noise, rate, d, d, "null-one"),
                "replace_one": poisson(noise, rate, 2 * d - 1, 2 * d - 1, "replace-one"),
            },
        )


def test_table_a1_is_reproduced_to_three_digits(vectors, poisson, fixed):
    for row, found in rows_of_table_a1(vectors, poisson, fixed):
        runs, delta = row["inputs"]["T"], row["inputs"]["delta"]
        for name, event in found.items():
            whole = compose(event, runs)
            epsilon = composition.epsilon(whole, delta=delta, relation=event.relation)
            assert epsilon == pytest.approx(row["spec"][name], rel=1e-3), (row["name"], name)
            assert epsilon == pytest.approx(row["value"][name], rel=2e-5), (row["name"], name)


def test_adding_and_removing_can_differ_and_the_larger_is_taken(poisson):
    curve = composition.curve(compose(poisson(1.0, 0.01, 1, 0), 2000))
    there, back = curve.forward.epsilon(1e-5), curve.backward.epsilon(1e-5)
    assert there == pytest.approx(2.5839, abs=1e-3)
    assert back == pytest.approx(2.1425, abs=1e-3)
    assert curve.epsilon(1e-5) == max(there, back)


@pytest.mark.parametrize("mu", [0.02, 0.5, 3.0])
def test_what_lies_beyond_the_grid_is_at_infinity(mu):
    for step in (1e-3, 0.05):
        loss = pld.gaussian_loss(mu, step)
        beyond = ndtr(mu / 2 - loss.losses[-1] / mu)  # the loss is N(mu^2 / 2, mu^2)
        assert 0 < beyond * (1 - 1e-9) <= loss.infinity_mass < 1e-20


def test_a_part_that_is_dropped_from_a_mixture_is_at_infinity():
    """The mass of what `trimmed` leaves out, and of what lies beyond the grid."""
    event = events.PoissonRoots(
        relation="add-remove", noise_stddev=1.0, clipping_norm=1.0,
        sampling_probability=1e-4, d_plus=12, d_minus=0,
    )  # fmt: skip
    pair = mixtures.two_sided_pair(event)
    kept, dropped = pair.trimmed()
    assert dropped > 0
    assert len(kept.p.means) < len(pair.p.means)
    assert pld.mixture_loss(pair, 1e-3).infinity_mass > dropped

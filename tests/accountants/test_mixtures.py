"""Gaussian mixtures: tails, cells, densities, trimming; binomial and hypergeometric weights."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, hypergeom, norm

from dpgnn.accountants import mixtures
from dpgnn.accountants.mixtures import Mixture


def mixture(rng, count=5):
    weights = rng.random(count)
    return Mixture(
        log_weights=np.log(weights / weights.sum()), means=np.sort(rng.normal(0, 2, count))
    )


def test_tails_cells_and_density_agree_with_the_sum_of_normals():
    rng = np.random.default_rng(0)
    m = mixture(rng)
    w, x = np.exp(m.log_weights), np.linspace(-6, 6, 301)
    assert m.lower_tail(x) == pytest.approx(norm.cdf(x[:, None], m.means) @ w)
    assert m.upper_tail(x) == pytest.approx(norm.sf(x[:, None], m.means) @ w)
    assert m.cells(x) == pytest.approx(np.diff(norm.cdf(x[:, None], m.means) @ w), abs=1e-15)
    density = np.exp(m.log_density(x)) / math.sqrt(2 * math.pi)
    assert density == pytest.approx(norm.pdf(x[:, None], m.means) @ w)
    log_density, score = m.log_density_and_score(x)
    assert log_density == pytest.approx(m.log_density(x))
    assert score == pytest.approx(np.gradient(log_density, x), abs=2e-2)


def test_far_tails_keep_their_relative_accuracy():
    m = Mixture(log_weights=np.zeros(1), means=np.zeros(1))
    cells = m.cells(np.array([-30.0, -29.9, 0.0, 29.9, 30.0]))
    expected = norm.sf(29.9) - norm.sf(30.0)
    assert cells[0] == pytest.approx(expected, rel=1e-9)
    assert cells[-1] == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("rate", [0.0, 1e-9, 0.2, 0.999, 1.0])
def test_the_two_sided_pair_has_binomial_weights_and_opposite_means(poisson, rate):
    pair = mixtures.two_sided_pair(poisson(4.0, rate, 6, 5))
    assert np.exp(pair.p.log_weights) == pytest.approx(binom.pmf(np.arange(7), 6, rate))
    assert np.exp(pair.q.log_weights) == pytest.approx(binom.pmf(np.arange(6), 5, rate))
    assert pair.p.means == pytest.approx(np.arange(7) / 4)
    assert pair.q.means == pytest.approx(-np.arange(6) / 4)


def test_the_loss_increases_and_its_slope_is_its_derivative(poisson):
    pair = mixtures.two_sided_pair(poisson(2.0, 0.3, 4, 3))
    x = np.linspace(-8, 8, 4001)
    loss, slope = pair.loss_and_slope(x)
    assert (np.diff(loss) > 0).all()
    assert loss == pytest.approx(pair.loss(x))
    assert slope[1:-1] == pytest.approx(np.gradient(loss, x)[1:-1], abs=1e-3)


def test_reversing_twice_gives_the_pair_back(poisson):
    pair = mixtures.two_sided_pair(poisson(2.0, 0.3, 4, 3))
    x = np.linspace(-5, 5, 101)
    assert pair.reversed().loss(-x) == pytest.approx(-pair.loss(x))
    assert pair.reversed().reversed().loss(x) == pytest.approx(pair.loss(x))


def test_trimming_drops_only_negligible_weights():
    m = Mixture(log_weights=np.log([1e-30, 0.5, 0.5]), means=np.arange(3.0))
    kept, dropped = m.trimmed()
    assert dropped == pytest.approx(1e-30)
    assert list(kept.means) == [1.0, 2.0]


def test_the_range_leaves_negligible_tails():
    m = mixture(np.random.default_rng(3))
    low, high = m.range()
    assert m.lower_tail(np.array([low]))[0] <= 10 * mixtures.NEGLIGIBLE
    assert m.upper_tail(np.array([high]))[0] <= 10 * mixtures.NEGLIGIBLE


@pytest.mark.parametrize(
    ("population", "marked", "drawn"),
    [(10, 3, 4), (10, 3, 10), (5, 5, 2), (90941, 8, 10000), (6, 4, 5), (196615, 11, 10000)],
)
def test_hypergeometric_weights(population, marked, drawn):
    ours = np.exp(mixtures.hypergeometric(population, marked, drawn))
    theirs = hypergeom.pmf(np.arange(marked + 1), population, marked, drawn)
    assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-300)
    assert ours.sum() == pytest.approx(1.0, abs=1e-14)


@pytest.mark.parametrize("count", [1, 2, 3, 9])
@pytest.mark.parametrize("spread", [0.0, 0.3, 20.0])
def test_densities_are_those_of_logsumexp_to_the_last_bit(count, spread):
    rng = np.random.default_rng(count)
    weights = rng.random(count)
    found = Mixture(log_weights=np.log(weights / weights.sum()), means=spread * np.arange(count))
    x = np.append(np.linspace(-40, 60, 1001), found.means.mean())
    offsets = x[:, None] - found.means
    exponents = found.log_weights - 0.5 * offsets * offsets
    assert found.log_density(x).tobytes() == logsumexp(exponents, axis=1).tobytes()
    parts = np.exp(exponents - exponents.max(axis=1)[:, None])
    density, score = found.log_density_and_score(x)
    assert density == pytest.approx(found.log_density(x), rel=1e-14)
    assert score.tobytes() == (-np.einsum("ij,ij->i", parts, offsets) / parts.sum(axis=1)).tobytes()


def test_two_components_of_one_height_are_counted_twice():
    found = Mixture(log_weights=np.log([0.5, 0.5]), means=np.array([-1.0, 1.0]))
    assert found.log_density(np.zeros(1)) == pytest.approx([-0.5], rel=1e-15)

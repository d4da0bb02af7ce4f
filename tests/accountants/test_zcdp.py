"""zCDP of Gumbel top-K: the selection really is an exponential mechanism, and the conversions bound it."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
import zcdp_conversion
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.accountants import composition, gdp, zcdp
from dpgnn.accountants.events import GaussianRelease, GumbelTopK, LaplaceRelease, compose
from dpgnn.methods.dpar.rows import select_gumbel


def top_k(scale=20.0, num_selected=2, sensitivity=1.0):
    return GumbelTopK(
        relation="replace-one", scale=scale, score_sensitivity=sensitivity,
        num_selected=num_selected,
    )  # fmt: skip


def ordered_law(scores, scale, k):
    """Law of the ordered top-k after Gumbel noise: peeled softmaxes."""
    law = {(): 1.0}
    for _ in range(k):
        grown = {}
        for chosen, p in law.items():
            rest = [i for i in range(len(scores)) if i not in chosen]
            weights = np.exp(scores[rest] / scale)
            for i, w in zip(rest, weights / weights.sum()):
                grown[(*chosen, i)] = p * w
        law = grown
    return law


def test_gumbel_noise_and_peeled_softmaxes_give_one_law():
    scores, scale, samples = np.array([0.0, 1.0, 0.4, 0.8]), 0.7, 20_000
    rows = sp.csr_array(np.tile(scores, (samples, 1)))
    picks = select_gumbel(rows, 1.0, scale, 2, rng=np.random.default_rng(0))
    law = ordered_law(scores, scale, 2)
    for outcome, p in law.items():
        seen = float((picks == outcome).all(axis=1).mean())
        assert seen == pytest.approx(p, abs=5 * math.sqrt(p / samples))


@given(st.lists(st.floats(0, 1), min_size=3, max_size=5), st.data())
def test_no_pair_of_score_vectors_exceeds_the_profile_or_the_range(scores, data):
    scores = np.array(scores)
    other = np.array(data.draw(st.lists(st.floats(0, 1), min_size=len(scores),
                                        max_size=len(scores))))  # fmt: skip
    scale, k = 0.8, 2
    event = top_k(scale=scale, num_selected=k)
    a, b = ordered_law(scores, scale, k), ordered_law(other, scale, k)
    p, q = np.array(list(a.values())), np.array([b[key] for key in a])
    loss = np.log(p / q)
    assert loss.max() <= zcdp.pure_epsilon(event) + 1e-9
    for order in (1.5, 2.0, 8.0):
        divergence = math.log(float(p @ np.exp((order - 1) * loss))) / (order - 1)
        assert divergence <= order * zcdp.event_rho(event) + 1e-9
    curve = composition.curve(event)
    for epsilon in (0.0, 0.5, 1.0):
        assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) <= curve.delta(epsilon) + 1e-9


def test_one_selection_has_bounded_range():
    scale, rng = 0.5, np.random.default_rng(1)
    event = top_k(scale=scale, num_selected=1)
    for _ in range(50):
        p = ordered_law(rng.random(5), scale, 1)
        q = ordered_law(rng.random(5), scale, 1)
        losses = [math.log(p[key] / q[key]) for key in p]
        assert max(losses) - min(losses) <= zcdp.bounded_range(event) + 1e-12


def test_rho_adds_up_and_the_loss_follows_the_profile():
    event = compose(top_k(), 35)
    rho = 35 * 2 * 0.1**2 / 8
    curve = composition.curve(event, step=1e-3)
    for epsilon in (0.1, 0.5, 1.5):
        bound = zcdp_conversion.delta(epsilon, rho)
        assert curve.delta(epsilon) <= bound * (1 + 1e-2)
        assert curve.delta(epsilon) >= gdp.delta(epsilon, math.sqrt(2 * rho))


@given(st.floats(1e-4, 20), st.floats(1e-9, 0.1))
def test_epsilon_and_delta_are_inverse_and_below_the_classical_conversion(rho, delta):
    epsilon = zcdp_conversion.epsilon(rho, delta)
    assert zcdp_conversion.delta(epsilon, rho) <= delta * (1 + 1e-6)
    assert epsilon <= rho + 2 * math.sqrt(-rho * math.log(delta)) + 1e-9  # the classical conversion
    # a Gaussian with this rho is one of the mechanisms that the conversion must cover
    assert epsilon >= gdp.epsilon(math.sqrt(2 * rho), delta) - 1e-6


def test_gaussians_have_half_mu_squared_and_other_events_are_refused():
    event = GaussianRelease(relation="null-one", noise_stddev=2.0, sensitivity=1.0)
    assert zcdp.event_rho(event) == pytest.approx(0.125)
    with pytest.raises(TypeError, match="not LaplaceRelease"):
        zcdp.event_rho(LaplaceRelease(relation="null-one", scale=1.0, sensitivity=1.0))

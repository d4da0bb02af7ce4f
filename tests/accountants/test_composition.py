"""One curve over different mechanisms: exact where Gaussian, composed per direction elsewhere."""

import math
from typing import Any

import numpy as np
import pytest

from dpgnn.accountants import composition, convolution, gdp, grid, pld
from dpgnn.accountants.events import (
    Composed,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    compose,
    compose_all,
)
from dpgnn.accountants.mixtures import two_sided_pair


def gaussian(noise_stddev, relation="replace-one"):
    return GaussianRelease(relation=relation, noise_stddev=noise_stddev, sensitivity=1.0)


def test_gaussian_compositions_are_exact():
    event = compose_all(compose(gaussian(2.0), 3), gaussian(1.0))
    curve = composition.curve(event)
    assert curve.mu == pytest.approx(math.sqrt(3 / 4 + 1))
    assert curve.epsilon(1e-6) == gdp.epsilon(curve.mu, 1e-6)
    for accountant in ("pld", "gdp"):
        value = composition.epsilon(
            event, delta=1e-6, relation="replace-one", accountant=accountant
        )
        assert value == curve.epsilon(1e-6)
        delta = composition.delta(
            event, epsilon=value, relation="replace-one", accountant=accountant
        )
        assert delta <= 1e-6


def test_gdp_refuses_a_part_that_is_not_gaussian_by_name(poisson):
    event = compose_all(gaussian(1.0), poisson(2.0, 0.1, 1, 1, "replace-one"))
    with pytest.raises(TypeError, match="not PoissonRoots with subsampling"):
        composition.epsilon(event, delta=1e-6, relation="replace-one", accountant="gdp")


def test_a_mixed_composition_lies_between_its_parts_and_their_sum(poisson):
    sgd = compose(poisson(1.5, 0.1, 1, 1, "replace-one"), 100)
    event = compose_all(compose(gaussian(1.5), 2), sgd)
    asked = {"relation": "replace-one", "delta": 1e-5}
    parts = [composition.epsilon(one, **asked) for one in (compose(gaussian(1.5), 2), sgd)]
    whole = composition.epsilon(event, **asked)
    assert max(parts) < whole < sum(parts)
    assert whole < composition.epsilon(event, accountant="rdp", **asked)


def test_a_mixed_composition_agrees_with_monte_carlo(poisson):
    from dpgnn.accountants import mixtures

    rng, runs, samples = np.random.default_rng(3), 10, 60_000
    roots = poisson(4.0, 0.3, 3, 3, "replace-one")
    curve = composition.curve(compose_all(compose(gaussian(1.5), 2), compose(roots, runs)))
    pair, mu = mixtures.two_sided_pair(roots), math.sqrt(2) / 1.5
    weights = np.exp(pair.p.log_weights)
    index = rng.choice(len(weights), p=weights / weights.sum(), size=(samples, runs))
    x = pair.p.means[index] + rng.standard_normal((samples, runs))
    total = pair.loss(x.ravel()).reshape(samples, runs).sum(axis=1)
    total += mu * (rng.standard_normal(samples) + mu) - mu * mu / 2
    for epsilon in (0.0, 1.0, 3.0):
        values = np.maximum(0.0, -np.expm1(epsilon - total))
        error = values.std() / math.sqrt(samples)
        assert curve.delta(epsilon) == pytest.approx(values.mean(), abs=4.5 * error)


def test_directions_are_never_mixed_inside_one_run(poisson):
    # a one-sided sum and a lopsided bit: each direction is composed whole, the larger is taken
    roots = compose(poisson(1.0, 0.01, 1, 0), 500)
    bit = RandomizedResponse(relation="add-remove", one_if_one=0.6, one_if_zero=0.4)
    curve = composition.curve(compose_all(roots, compose(bit, 3)))
    there, back = curve.forward.epsilon(1e-5), curve.backward.epsilon(1e-5)
    assert there != pytest.approx(back, rel=1e-3)
    assert curve.epsilon(1e-5) == max(there, back)


def test_order_and_grouping_do_not_matter(poisson):
    events = [
        gaussian(2.0),
        LaplaceRelease(relation="replace-one", scale=4.0, sensitivity=1.0),
        GumbelTopK(relation="replace-one", scale=30.0, score_sensitivity=1.0, num_selected=2),
        poisson(3.0, 0.2, 2, 2, "replace-one"),
    ]
    first = composition.curve(compose_all(*events), step=1e-3)
    second = composition.curve(compose_all(compose_all(*events[::-1])), step=1e-3)
    for delta in (1e-3, 1e-6):
        assert first.epsilon(delta) == pytest.approx(second.epsilon(delta), rel=1e-9)


def test_every_grid_step_gives_an_upper_bound_and_smaller_is_tighter(poisson):
    event = compose(poisson(21.5, 10000 / 196615, 11, 10), 543)
    values = [composition.curve(event, step=h).epsilon(5.086e-7) for h in (2e-3, 1e-3, 5e-4, 1e-4)]
    assert values == sorted(values, reverse=True)
    default = composition.epsilon(event, delta=5.086e-7, relation="add-remove")
    assert default == pytest.approx(values[-1], rel=1e-4)


def test_an_equal_question_is_answered_from_memory(poisson):
    composition.clear_cache()
    event = compose(poisson(6.0, 0.2, 4, 3), 30)
    asked = {"delta": 1e-6, "relation": "add-remove"}
    first = composition.epsilon(event, **asked)
    before = composition._epsilon.cache_info()
    again = composition.epsilon(compose(poisson(6.0, 0.2, 4, 3), 30), **asked)
    after = composition._epsilon.cache_info()
    assert again == first
    assert after.hits == before.hits + 1
    assert after.misses == before.misses


def test_bad_questions_are_refused(poisson):
    event = poisson(6.0, 0.2, 4, 3)
    with pytest.raises(ValueError, match="delta must be in"):
        composition.epsilon(event, delta=0.0, relation="add-remove")
    with pytest.raises(ValueError, match="unknown accountant"):
        composition.epsilon(event, delta=1e-5, relation="add-remove", accountant="prv")
    with pytest.raises(ValueError, match="step must be > 0"):
        composition.curve(event, step=0.0)
    with pytest.raises(TypeError, match="event must be an Event"):
        composition.epsilon("gaussian", delta=1e-5, relation="add-remove")


def rare(rate: float, runs: int, noise: float) -> Composed[Any]:
    """Runs that nearly always leave a record out."""
    event = PoissonRoots(
        relation="add-remove", noise_stddev=noise, clipping_norm=1.0,
        sampling_probability=rate, d_plus=1, d_minus=0,
    )  # fmt: skip
    return compose(event, runs)


@pytest.mark.parametrize(
    ("rate", "runs", "noise"), [(1e-5, 10_000, 1.0), (1e-6, 1_000_000, 0.5), (1e-9, 1_000_000, 0.2)]
)
def test_a_sum_of_rare_large_losses_takes_a_small_window(
    rate: float, runs: int, noise: float
) -> None:
    """Once 850 million points: Chernoff's bound was asked at slopes of the middle of the sum alone."""
    event = rare(rate, runs, noise)
    ((part, count),) = event.parts
    one = pld.mixture_loss(two_sided_pair(part), grid.default_step(event))
    low, high = convolution._window([(one, count)])
    assert high - low < 1 << 20


def test_epsilon_of_rare_runs_is_that_of_a_finer_grid() -> None:
    event = rare(1e-5, 10_000, 1.0)
    found = composition.curve(event, step=4 * grid.default_step(event)).epsilon(1e-6)
    # an eighth of this step gives 0.0037974
    assert 0.0037973 <= found <= 1.01 * 0.0037974

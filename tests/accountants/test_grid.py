"""The default grid step: bounded size, negligible cost."""

import numpy as np
import pytest

from dpgnn.accountants import composition, grid, pld
from dpgnn.accountants.events import PoissonRoots, compose, parts
from dpgnn.accountants.mixtures import two_sided_pair


def test_more_runs_get_a_finer_grid_until_memory_bounds_it(poisson):
    event = poisson(32.0, 0.11, 8, 7)
    steps = [grid.default_step(compose(event, n)) for n in (1, 100, 10_000)]
    assert steps[0] >= steps[1] >= steps[2] > 0


@pytest.mark.parametrize("noise", [1e-4, 0.05, 1.0, 1e3])
def test_a_loss_never_gets_more_points_than_allowed(poisson, fixed, noise):
    for event in (poisson(noise, 0.1, 8, 7), fixed(noise, 100, 10, 1), fixed(noise, 100, 10, 4)):
        loss = pld.event_loss(event, 1, grid.default_step(event)).forward
        assert len(loss.mass) <= 2 * grid.MAX_POINTS_ONCE


def test_the_default_grid_costs_less_than_a_thousandth(every_event):
    for name, event in every_event.items():
        whole = compose(event, 30)
        default = composition.curve(whole)
        if default.mu is not None:
            continue
        fine = composition.curve(whole, step=grid.default_step(whole) / 4)
        for delta in (1e-3, 1e-7):
            assert default.epsilon(delta) == pytest.approx(fine.epsilon(delta), rel=1e-3), name


def _a_configuration(seed, most_runs):
    """A Poisson event with a rate from 1e-6 to 0.5, 1 to 126 changed roots, and a delta."""
    rng = np.random.default_rng(seed)
    changed = round(10 ** rng.uniform(0, 2.1))
    replaced = bool(rng.integers(2))
    event = PoissonRoots(
        relation="replace-one" if replaced else "add-remove",
        noise_stddev=10 ** rng.uniform(-0.3, 2.5),
        clipping_norm=1.0,
        sampling_probability=10 ** rng.uniform(-6, -0.3),
        d_plus=changed,
        d_minus=changed if replaced else changed - 1,
    )
    return compose(event, round(10 ** rng.uniform(0, most_runs))), 10 ** rng.uniform(-10, -3)


def _compared(seed, most_runs, finer):
    """Whether the configuration is of a size to be compared; it is, then."""
    whole, delta = _a_configuration(seed, most_runs)
    step = grid.default_step(whole)
    (event, _), *_ = parts(whole)
    if two_sided_pair(event).trimmed()[0].reach() / step * finer > 2**19:
        return False
    default = composition.curve(whole, step=step)
    small = len(default.forward.mass) * finer < 2**21
    if not (small and 0.01 < default.epsilon(delta) < 50):
        return False
    fine = composition.curve(whole, step=step / finer).epsilon(delta)
    composition.clear_cache()
    # a finer grid has more points to give rounding back for
    assert fine * (1 - 1e-3) <= default.epsilon(delta) <= fine * 1.005, (seed, whole)
    return True


def test_the_default_grid_is_within_half_a_percent_of_one_8_times_finer():
    assert sum(_compared(seed, 1.5, 8) for seed in range(40)) >= 8


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 4000, 400))
def test_200_configurations_are_within_half_a_percent_of_a_grid_32_times_finer(first):
    checked = 0
    for seed in range(first, first + 400):
        checked += _compared(seed, 4.0, 32)
        if checked == 20:
            return
    raise AssertionError(f"only {checked} of 400 configurations are small enough")


def test_many_changed_roots_at_a_low_rate_cost_what_a_fine_grid_says():
    # one record of a graph of 1.2 million training nodes, K = 7, two hops, replaced: 113 roots on each side
    event = PoissonRoots(
        relation="replace-one", noise_stddev=4.027, clipping_norm=1.0,
        sampling_probability=64 / 1_200_000, d_plus=113, d_minus=113,
    )  # fmt: skip
    assert composition.curve(compose(event, 5000)).epsilon(8e-8) == pytest.approx(0.9993, abs=1e-4)

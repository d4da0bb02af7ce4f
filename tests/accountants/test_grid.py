"""The default grid step: bounded size, negligible cost."""

import pytest

from dpgnn.accountants import composition, grid, pld
from dpgnn.accountants.events import compose


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

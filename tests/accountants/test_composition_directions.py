"""Each direction of a composition is composed by itself."""

import numpy as np
import pytest

from dpgnn.accountants import composition, pld
from dpgnn.accountants.events import PoissonRoots, compose, compose_all

STEP = 1e-3


def _roots(noise, rate, plus, minus):
    return PoissonRoots(
        relation="add-remove", noise_stddev=noise, clipping_norm=1.0, sampling_probability=rate,
        d_plus=plus, d_minus=minus,
    )  # fmt: skip


def test_each_direction_of_a_composition_is_composed_by_itself_and_the_larger_counts():
    one, two = _roots(1.0, 0.5, 1, 0), _roots(4.0, 0.1, 5, 4)
    whole = composition.curve(compose_all(compose(one, 2), compose(two, 3)), step=STEP)
    parts = pld.event_loss(one, 2, STEP), pld.event_loss(two, 3, STEP)
    by_hand = {
        side: getattr(parts[0], side).compose(getattr(parts[1], side))
        for side in ("forward", "backward")
    }
    # the two directions differ, so that one cannot stand for the other
    assert abs(by_hand["forward"].delta(1.0) - by_hand["backward"].delta(1.0)) > 1e-4
    for epsilon in (-1.0, 0.5, 1.0, 3.0):
        for side, loss in by_hand.items():
            assert getattr(whole, side).delta(epsilon) == pytest.approx(
                loss.delta(epsilon), rel=1e-9
            )
        both = [loss.delta(epsilon) for loss in by_hand.values()]
        assert whole.delta(epsilon) == pytest.approx(max(both), rel=1e-9)
    assert whole.epsilon(1e-3) == pytest.approx(
        max(loss.epsilon(1e-3) for loss in by_hand.values()), rel=1e-9
    )
    # below and above the crossing another direction is the larger one
    grid = np.linspace(-2, 2, 41)
    larger = [by_hand["forward"].delta(e) >= by_hand["backward"].delta(e) for e in grid]
    assert len(set(larger)) == 2

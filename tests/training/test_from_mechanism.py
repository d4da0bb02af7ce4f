"""The loop's noise and norm are those of the event that is counted."""

from dataclasses import replace

import pytest

from dpgnn.accountants.events import LaplaceRelease, PoissonRoots, compose
from dpgnn.accountants.plan import Mechanism
from dpgnn.training.dp_sgd import from_mechanism

POISSON = PoissonRoots(
    relation="replace-one", noise_stddev=3.0, clipping_norm=1.5, sampling_probability=0.2, d_plus=1,
    d_minus=1,
)  # fmt: skip
PLANNED = Mechanism(name="train", event=compose(POISSON, 5), noise_stddev=3.0, sensitivity=3.0,
                    num_steps=5, clipping_norm=1.5, divisor=10.0)  # fmt: skip


def test_noise_or_a_norm_that_the_event_does_not_count_is_refused():
    from_mechanism(PLANNED, num_roots=50)
    with pytest.raises(ValueError, match="noise_stddev must be the planned"):
        from_mechanism(replace(PLANNED, noise_stddev=1.5), num_roots=50)
    with pytest.raises(ValueError, match="clipping_norm must be the planned"):
        from_mechanism(replace(PLANNED, clipping_norm=15.0, noise_stddev=3.0), num_roots=50)


def test_an_event_that_is_none_of_dp_sgd_is_refused_by_name() -> None:
    event = LaplaceRelease(relation="replace-one", scale=1.0, sensitivity=1.0)
    with pytest.raises(ValueError, match=r"event must be PoissonRoots, .*LaplaceRelease"):
        from_mechanism(replace(PLANNED, event=compose(event, 5)), num_roots=50)

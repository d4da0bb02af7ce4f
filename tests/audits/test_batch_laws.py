"""Correct batches are accused as rarely as is said, and each way of drawing them wrongly is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from dpgnn.accountants.events import FixedSizeRoots, GaussianRelease, PoissonRoots
from dpgnn.audits import batch_laws
from dpgnn.audits.batch_laws import of_batches
from dpgnn.samplers.batches import FixedSizeBatches, PoissonBatches

Draw = Callable[[np.random.Generator, int], np.ndarray]
NUM_ROOTS, SIZE, STEPS = 45, 8, 40
CANARY = np.array([0])
# of each of nine tests that share a level of 0.001
EACH = 0.001 / 9


def coins(rate: float = SIZE / NUM_ROOTS) -> PoissonRoots[Any]:
    return PoissonRoots(
        relation="add-remove", d_plus=1, d_minus=0, noise_stddev=1.0, clipping_norm=1.0,
        sampling_probability=rate,
    )  # fmt: skip


def subsets(size: int = SIZE, population: int = NUM_ROOTS) -> FixedSizeRoots:
    return FixedSizeRoots(
        relation="replace-one", changed_roots=1, noise_stddev=1.0, clipping_norm=1.0,
        batch_size=size, population=population,
    )  # fmt: skip


def by_coins(rng: np.random.Generator, step: int) -> np.ndarray:
    return PoissonBatches(NUM_ROOTS, SIZE / NUM_ROOTS).draw(rng=rng)


def by_size(rng: np.random.Generator, step: int) -> np.ndarray:
    return FixedSizeBatches(NUM_ROOTS, SIZE).draw(rng=rng)


def in_turn(rng: np.random.Generator, step: int) -> np.ndarray:
    return np.sort((SIZE * step + np.arange(SIZE)) % NUM_ROOTS)


def the_last(rng: np.random.Generator, step: int) -> np.ndarray:
    return np.arange(NUM_ROOTS - SIZE, NUM_ROOTS)


def the_same(rng: np.random.Generator, step: int) -> np.ndarray:
    return by_size(np.random.default_rng(3), step)


def shuffled_once_an_epoch(rng: np.random.Generator, step: int) -> np.ndarray:
    epoch, place = divmod(step, NUM_ROOTS // SIZE)
    return np.random.default_rng([5, epoch]).permutation(NUM_ROOTS)[SIZE * place :][:SIZE]


def never_the_canary(rng: np.random.Generator, step: int) -> np.ndarray:
    return np.setdiff1d(by_coins(rng, step), CANARY)


def every_second_one_again(rng: np.random.Generator, step: int) -> np.ndarray:
    return by_coins(np.random.default_rng([11, step // 2]), step)


def accused(event: Any, draw: Draw, seed: int) -> set[str]:
    rng = np.random.default_rng([seed, 17])
    batches = [draw(rng, step) for step in range(STEPS)]
    found = of_batches(event, batches, NUM_ROOTS, CANARY)
    return {name for name, p in found.items() if p < EACH}


@pytest.mark.parametrize(
    ("event", "draw", "name"),
    [
        (coins(), by_size, "spread of batch sizes"),
        (coins(), in_turn, "fresh batches"),
        (coins(), the_last, "share of every root"),
        (coins(), the_same, "fresh batches"),
        (coins(), shuffled_once_an_epoch, "fresh batches"),
        (coins(), every_second_one_again, "fresh batches"),
        (subsets(), in_turn, "fresh batches"),
        (subsets(), the_last, "share of every root"),
        (subsets(), shuffled_once_an_epoch, "fresh batches"),
        (subsets(), by_coins, "batch size"),
    ],
)
def test_batches_that_are_drawn_otherwise_are_seen_with_every_seed(
    event: Any, draw: Draw, name: str
) -> None:
    for seed in range(10):
        assert name in accused(event, draw, seed)


def test_a_canary_that_is_drawn_less_often_is_seen_where_there_are_enough_steps() -> None:
    rng = np.random.default_rng(0)
    batches = [never_the_canary(rng, step) for step in range(80)]
    assert of_batches(coins(), batches, NUM_ROOTS, CANARY)["share of the canary's roots"] < EACH


@pytest.mark.parametrize(("event", "draw"), [(coins(), by_coins), (subsets(), by_size)])
def test_correct_batches_pass(event: Any, draw: Draw) -> None:
    assert [seed for seed in range(300) if accused(event, draw, seed)] == []


@pytest.mark.parametrize(
    ("num_roots", "size", "canary"), [(45, 8, 1), (160, 1, 4), (30, 25, 3), (400, 3, 12)]
)
@pytest.mark.parametrize("fixed", [False, True])
def test_p_values_of_correct_batches_are_as_rare_as_they_say(
    num_roots: int, size: int, canary: int, fixed: bool
) -> None:
    rng, times = np.random.default_rng(1), 400
    event = subsets(size, num_roots) if fixed else coins(size / num_roots)
    drawn = (
        FixedSizeBatches(num_roots, size) if fixed else PoissonBatches(num_roots, size / num_roots)
    )
    found = [
        of_batches(event, [drawn.draw(rng=rng) for _ in range(12)], num_roots, np.arange(canary))
        for _ in range(times)
    ]
    for name in found[0]:
        p_values = np.array([each[name] for each in found])
        for level in (0.3, 0.1, 0.01):
            # a count that a correct test exceeds with probability 1e-5
            assert (p_values <= level).sum() <= binom.isf(1e-5, times, level), (name, level)


def test_laws_are_those_of_many_draws() -> None:
    law = batch_laws._of_sum([binom.pmf(np.arange(6), 5, 0.3)], 7)
    assert np.allclose(law, binom.pmf(np.arange(36), 35, 0.3), atol=1e-14)
    two = batch_laws._of_sum([np.array([0.5, 0.5]), np.array([0.0, 0.0, 1.0])], 1)
    assert np.allclose(two, [0.0, 0.0, 0.5, 0.5])
    assert batch_laws._two_sided(two, 7) == pytest.approx(1e-12)


def test_all_roots_in_every_batch_are_all_roots() -> None:
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    whole = [np.arange(5)] * 4
    assert set(of_batches(event, whole, 5, CANARY).values()) == {1.0}
    without = of_batches(event, [*whole[1:], np.arange(1, 5)], 5, CANARY)
    assert {name for name, p in without.items() if p < EACH} == {
        "batch size", "spread of batch sizes", "share of every root", "share of the canary's roots",
    }  # fmt: skip

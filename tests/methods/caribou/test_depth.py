"""The page on contraction: its tables are the code's, and its two statements hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.accountants import gdp
from dpgnn.methods.caribou import depth
from dpgnn.methods.shared.aggregate import (
    ContractiveLayer,
    contractive_iteration,
    symmetric_operator,
)
from dpgnn.methods.shared.undirected import symmetric_adjacency


def test_the_page_shows_the_tables_of_the_code(repository: Path) -> None:
    page = (repository / "docs" / "methods" / "caribou.md").read_text(encoding="utf-8")
    for table in (
        depth.depth_table(), depth.far_table(), depth.neighbour_table(), depth.node_table(),
        depth.ceiling_table(), depth.coin_table(),
    ):  # fmt: skip
        assert table in page


@given(st.integers(1, 200), st.floats(0.01, 0.999))
@settings(max_examples=200, deadline=None)
def test_contraction_never_makes_far_features_more_visible(num_hops: int, c: float) -> None:
    assert depth.far_signal(num_hops, c) <= 1 + 1e-9


def test_contraction_saves_little_noise_for_few_hops_and_much_for_many() -> None:
    def saved(num_hops: int, c: float) -> float:
        one = depth.noise_per_sensitivity(num_hops, 1.0, epsilon=4.0, delta=1e-5)
        return one / depth.noise_per_sensitivity(num_hops, c, epsilon=4.0, delta=1e-5)

    assert saved(4, 0.9) == pytest.approx(1.006, abs=1e-3)
    assert saved(64, 0.9) == pytest.approx(1.84, abs=5e-3)
    assert saved(64, 0.7) == pytest.approx(3.36, abs=5e-3)


def test_depth_noise_has_the_digits_of_the_accounting_page() -> None:
    found = [
        depth.noise_per_sensitivity(k, 0.9, epsilon=4.0, delta=1e-5)
        for k in (1, 2, 4, 8, 16, 32, 64)
    ]
    assert found == pytest.approx([1.081, 1.527, 2.148, 2.974, 3.907, 4.554, 4.707], abs=6e-4)


def test_a_mean_never_gives_a_row_more_than_its_sensitivity_over_root_two() -> None:
    for degree in (1, 3, 10, 1000):
        assert depth.neighbour_signal(degree, aggregation="mean") < 2**-0.5
        assert depth.neighbour_signal(degree, aggregation="sum") == pytest.approx(degree / 2**0.5)


def test_the_iteration_itself_stays_below_the_ceiling_on_a_chain() -> None:
    """The real mechanism on 400 chains of 8 nodes: all its noise, the same per-node classifier."""
    ceiling, num_hops, c, beta = depth.chain_ceiling(8, epsilon=8.0, delta=1e-2)
    assert ceiling == pytest.approx(0.595, abs=5e-4)
    chains, length = 400, 8
    ends = np.arange(chains * length) % length
    pairs = np.stack([np.flatnonzero(ends < length - 1), np.flatnonzero(ends < length - 1) + 1])
    labels = np.repeat(np.arange(chains) % 2, length)
    x0 = np.zeros((chains * length, 2))
    x0[np.arange(0, len(x0), length), labels[::length]] = 1.0
    rng, accuracies = np.random.default_rng(0), []
    noise = np.sqrt(2) * c * np.sqrt(gdp.effective_hops(num_hops, c)) / gdp.mu(8.0, 1e-2)
    operator = symmetric_operator(symmetric_adjacency(pairs, len(x0)))
    for _ in range(10):
        x = contractive_iteration(
            ContractiveLayer(contraction=c, alpha1=1.0, beta=beta), operator, x0,
            num_hops=num_hops, noise_stddev=noise, draw=lambda hop, shape: rng.standard_normal(shape),
        )  # fmt: skip
        right = (x.argmax(axis=1) == labels) | (ends == 0)
        accuracies.append(right.mean())
    # 28,000 guesses: standard error 0.3 points
    assert np.mean(accuracies) < ceiling + 0.005


def test_the_best_of_many_coin_flips_is_the_simulated_one() -> None:
    draws = np.random.default_rng(0).binomial(32, 0.5, size=(2000, 600)).max(axis=1) / 32
    assert depth.best_of_coin_flips(32, 600) == pytest.approx(draws.mean(), abs=3e-3)
    assert depth.best_of_coin_flips(32, 1) == pytest.approx(0.5)
    assert 0.78 < depth.best_of_coin_flips(32, 2400) < 0.82

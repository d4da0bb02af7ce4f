"""The page on contraction: its tables are the code's, and its two statements hold."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.methods import caribou_depth as depth


def test_the_page_shows_the_tables_of_the_code(repository: Path) -> None:
    page = (repository / "docs" / "methods" / "caribou.md").read_text(encoding="utf-8")
    for table in (
        depth.depth_table(), depth.far_table(), depth.neighbour_table(), depth.node_table(),
        depth.coin_table(),
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


def test_the_best_of_many_coin_flips_is_the_simulated_one() -> None:
    draws = np.random.default_rng(0).binomial(32, 0.5, size=(2000, 600)).max(axis=1) / 32
    assert depth.best_of_coin_flips(32, 600) == pytest.approx(draws.mean(), abs=3e-3)
    assert depth.best_of_coin_flips(32, 1) == pytest.approx(0.5)
    assert 0.78 < depth.best_of_coin_flips(32, 2400) < 0.82

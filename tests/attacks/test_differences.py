"""Changed rows of many queries against products with the whole operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.attacks.differences import at_nodes, wanted_rows


def test_differences_follow_a_product_and_a_row_wise_layer() -> None:
    rng = np.random.default_rng(0)
    operator = sp.random_array((12, 12), density=0.3, rng=rng, format="csc")
    base = rng.standard_normal((12, 3))
    nodes, moved = np.array([2, 7, 2]), rng.standard_normal((3, 3))

    def layer(node: Any, rows: np.ndarray) -> np.ndarray:
        return np.maximum(rows + 0.1 * np.asarray(node)[:, None], 0)

    spread = at_nodes(nodes, moved, 12).spread(operator)
    found = spread.through(operator @ base, layer).norms(3, np.arange(12))
    for query, node in enumerate(nodes):
        changed = base.copy()
        changed[node] += moved[query]
        everyone = np.arange(12)
        truth = layer(everyone, operator @ changed) - layer(everyone, operator @ base)
        assert np.allclose(found[query], np.linalg.norm(truth, axis=1))


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), density=st.sampled_from([0.0, 0.05, 0.3, 0.9]))
def test_differences_of_many_queries_are_products_with_the_whole_operator(
    seed: int, density: float
) -> None:
    rng, size = np.random.default_rng(seed), 9
    operator = sp.random_array((size, size), density=density, rng=rng, format="csc")
    nodes, rows = rng.integers(0, size, 4), rng.standard_normal((4, 2))
    keep = rng.random((4, size)) < 0.6
    start = at_nodes(nodes, rows, size)
    near = start.spread(operator)
    joined = near.plus(start.scaled(0.5))
    found = joined.spread(operator, keep=keep)
    dense = np.zeros((4, size, 2))
    dense[np.arange(4), nodes] = rows
    truth = operator.toarray() @ dense
    for result, expected in (
        (near, truth),
        (joined, truth + 0.5 * dense),
        (found, operator.toarray() @ (truth + 0.5 * dense) * keep[:, :, None]),
    ):
        assert (np.diff(result.key) > 0).all()
        filled = np.zeros((4, size, 2))
        filled[result.query, result.node] = result.value
        assert np.allclose(filled, expected)
    assert keep[found.query, found.node].all()


@settings(deadline=None)
@given(seed=st.integers(0, 10_000), num_spreads=st.integers(1, 4))
def test_rows_that_are_not_wanted_change_nothing_that_is(seed: int, num_spreads: int) -> None:
    rng, size = np.random.default_rng(seed), 9
    operator = sp.random_array((size, size), density=0.15, rng=rng, format="csr")
    keep = rng.random((3, size)) < 0.2
    masks = wanted_rows(operator, keep, num_spreads)
    assert len(masks) == num_spreads
    assert masks[-1] is keep
    rows = rng.standard_normal((3, size, 2))
    everything, wanted = rows, rows
    for mask in masks:
        # own rows beside the neighbours', as SAGE and restarts have them
        everything = operator.toarray() @ everything + everything
        wanted = (operator.toarray() @ wanted + wanted) * mask[:, :, None]
    assert np.allclose(wanted, everything * keep[:, :, None])
    if num_spreads == 2:
        reads = (operator.toarray() != 0) | np.eye(size, dtype=bool)
        assert np.array_equal(masks[0], (keep.astype(int) @ reads.astype(int)) > 0)

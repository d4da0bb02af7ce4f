"""Chunks keep every root once and in order, and their layout is that of the roots' trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dpgnn.training.chunks import chunk_layout, chunks_of, level_ptr, summed_rows


@pytest.mark.parametrize("max_rows", [1, 5, 20, 10_000])
def test_chunks_are_pieces_of_at_most_that_many_rows(
    make_problem: Callable[..., Any], max_rows: int
) -> None:
    problem = make_problem(1, num_hops=2)
    rows = np.diff(problem.trees.row_ptr)
    chunks = list(chunks_of(problem.trees, problem.roots, max_rows))
    np.testing.assert_array_equal(np.concatenate(chunks), problem.roots)
    assert all(len(chunk) == 1 or rows[chunk].sum() <= max_rows for chunk in chunks)
    # no chunk could have taken the first root of the next one
    for chunk, after in zip(chunks, chunks[1:]):
        assert rows[chunk].sum() + rows[after[0]] > max_rows


def test_the_layout_lists_the_rows_of_each_level(make_problem: Callable[..., Any]) -> None:
    problem = make_problem(2, num_hops=2)
    trees, roots = problem.trees, problem.roots
    layout, ptr = chunk_layout(trees, roots), level_ptr(trees, roots)
    np.testing.assert_array_equal(np.diff(ptr, axis=1), trees.level_rows[roots].T)
    nodes = [trees.node[trees.row_ptr[r] :][: trees.level_rows[r, 0]] for r in roots]
    np.testing.assert_array_equal(layout.node.numpy(), np.concatenate(nodes))
    # after both hops one row a root is left: the root itself
    left = layout.keep(2, layout.keep(1, layout.node[:, None].double()))[:, 0]
    np.testing.assert_array_equal(left.numpy(), trees.node[trees.row_ptr[roots]])


def test_an_aggregate_is_the_weighted_sum_over_the_trees_entries(
    make_problem: Callable[..., Any],
) -> None:
    problem = make_problem(3, num_hops=1)
    trees, roots = problem.trees, problem.roots
    layout = chunk_layout(trees, roots)
    h = torch.arange(layout.ptr[0, -1], dtype=torch.float64)[:, None] + 1
    found = layout.aggregate(1, h)[:, 0].numpy()
    for i, root in enumerate(roots):
        first = trees.row_ptr[root]
        entries = slice(trees.entry_ptr[first], trees.entry_ptr[first + 1])
        read = layout.ptr[0, i] + trees.entry_row[entries] + 1
        assert found[i] == pytest.approx(float((trees.entry_weight[entries] * read).sum()))


def test_rows_are_summed_with_repeats_and_without_any() -> None:
    table = np.random.default_rng(0).integers(-9, 9, (20, 3))
    for rows in (np.array([3, 3, 19, 0]), np.arange(0)):
        np.testing.assert_array_equal(summed_rows(table, rows), table[rows].sum(axis=0))

"""Products that are kept give the norms that fresh ones give, to the bit."""

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.training import _grams, compiled
from dpgnn.training import _kernels as kernels
from dpgnn.training._grams import InputGrams
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

ROWS = np.array([1, 2, 5, 9, 3, 1, 7])
WIDTH = 6


def batch(rng, dtype, roots):
    """(rows of the roots in a chunk, where they start, features of all rows)."""
    first = np.concatenate([[0], np.cumsum(ROWS)])
    node = np.concatenate([np.arange(first[root], first[root + 1]) for root in roots])
    ptr = np.concatenate([[0], np.cumsum(ROWS[roots])])
    g = rng.standard_normal((len(node), 3)).astype(dtype)
    return node, ptr, g


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("limit", [4, 100])
def test_kept_products_of_dense_rows_give_the_same_norms(dtype, limit):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((ROWS.sum(), WIDTH)).astype(dtype)
    grams = InputGrams(ROWS, limit)
    for roots in ([3, 0, 3], [2, 5, 6, 1], [3, 2, 4], list(range(7)), [6, 6, 0]):
        node, ptr, g = batch(rng, dtype, np.array(roots))
        expected = np.empty((4, len(roots)))
        kernels.dense_norms(x[node], g, ptr, limit, *expected)
        found = grams.norms(np.array(roots), (x[node],), g, ptr)
        np.testing.assert_array_equal(found, expected)
    assert (found > 0).all()


def test_kept_products_of_sparse_rows_give_the_same_norms():
    rng = np.random.default_rng(1)
    x = sp.random_array((ROWS.sum(), WIDTH), density=0.5, format="csr", rng=rng, dtype=np.float32)
    csr = (x.indptr.astype(np.int64), x.indices.astype(np.int64), x.data)
    grams = InputGrams(ROWS, None)
    for roots in ([3, 0, 3], [2, 5, 6, 1], list(range(7))):
        node, ptr, g = batch(rng, np.float32, np.array(roots))
        expected = np.empty((4, len(roots)))
        kernels.sparse_norms(node, *csr, g, ptr, *expected)
        found = grams.norms(np.array(roots), (node, *csr), g, ptr)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("value", [np.nan, np.inf, 2e20])
def test_a_root_of_rows_without_norm_stays_marked_at_every_step(value):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((ROWS.sum(), WIDTH)).astype(np.float32)
    x[2, 0] = value  # the second row of root 1
    grams = InputGrams(ROWS, 100)
    for _ in range(3):
        node, ptr, g = batch(rng, np.float32, np.array([1, 2]))
        found = grams.norms(np.array([1, 2]), (x[node],), g, ptr)
        assert not np.isfinite(found[0, 0])
        assert np.isfinite(found[:, 1]).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("encoder_layers", [0, 1])
def test_sums_do_not_depend_on_whether_products_are_kept(
    make_problem, monkeypatch, sparse, encoder_layers
):
    problem = make_problem(
        seed=5, conv="sage", num_hops=1, encoder_layers=encoder_layers, decoder_layers=1
    )
    x = sp.csr_array(problem.x) if sparse else problem.x
    execution = Execution(path="compiled", chunk_rows=13)

    def gradients():
        return RootGradients(
            problem.network, x, problem.trees, clipping=global_clipping(0.5), execution=execution
        )

    kept = gradients()
    monkeypatch.setattr(_grams, "MOST_BYTES", 0)
    fresh = gradients()
    assert kept._engine._grams
    assert not fresh._engine._grams
    parameters = problem.parameters.float()
    for scale in (1.0, 0.5, -1.0):
        for roots in (problem.roots, problem.roots[::-1], problem.roots[:2]):
            ours = kept(parameters * scale, roots).clone()
            theirs = fresh(parameters * scale, roots)
            np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    assert ours.abs().sum() > 0


def test_only_inputs_that_no_parameter_moves_have_kept_products(make_problem):
    problem = make_problem(seed=6, conv="sage", num_hops=2, encoder_layers=1, decoder_layers=1)
    engine = compiled.CompiledEngine(
        problem.network, sp.csr_array(problem.x), problem.trees, problem.parameters.dtype
    )
    assert list(engine._grams) == [problem.network.linears[0].name]

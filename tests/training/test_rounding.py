from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy import stats

from dpgnn.samplers.batches import FixedSizeBatches, PoissonBatches, poisson_tail, room_for
from dpgnn.training import products
from dpgnn.training.clipping import clip_factors, global_clipping
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.rounding import SPREAD_SHARE, rounding_share


def test_the_share_is_a_power_of_two_that_covers_both_worlds_rounding():
    for size in (1, 100, 5000, 10**6):
        operations = 2**16 + size
        gamma = operations * 2.0**-53 / (1 - operations * 2.0**-53)
        share = rounding_share(size)
        assert share >= 2 * gamma * size / SPREAD_SHARE
        assert np.frexp(share)[0] == 0.5
    assert rounding_share(1000) < 1e-4


@pytest.mark.parametrize(("num_roots", "rate"), [(10**4, 0.001), (10**4, 0.1), (10**6, 0.01)])
def test_a_poisson_batch_is_hardly_ever_larger_than_its_bound(num_roots, rate):
    batches = PoissonBatches(num_roots, rate)
    largest = batches.largest_batch
    assert stats.binom.logsf(largest, num_roots, rate) < -200 * np.log(2)
    assert largest <= num_roots
    assert largest == min(num_roots, poisson_tail(num_roots * rate))
    assert PoissonBatches(50, 1.0).largest_batch == 50
    assert FixedSizeBatches(50, 7).largest_batch == 7


def test_a_planned_batch_has_room_for_twice_as_many_roots_and_reads_no_number_of_roots():
    rate, planned_roots = 0.05, 20_000
    sizes = {
        PoissonBatches(n, rate, rate * planned_roots).largest_batch for n in (0, 1, 9_999, 40_000)
    }
    assert sizes == {poisson_tail(2 * rate * planned_roots)}
    assert stats.binom.logsf(sizes.pop(), 2 * planned_roots, rate) < -200 * np.log(2)
    with pytest.raises(ValueError, match="planned_size"):
        PoissonBatches(9, 0.5, -1.0)


def test_a_root_whose_rows_cancel_keeps_a_bounded_spread():
    # rows of length 1e3 that cancel to 1e-3
    squared, spread = np.array([[1e-6, 1.0]]), np.array([[1e3, 1.0]])
    part_of, bounds = np.array([0]), np.array([1.0])
    plain, _ = clip_factors(squared, spread, part_of, bounds, 2.0**-24)
    bounded, _ = clip_factors(squared, spread, part_of, bounds, 2.0**-24, SPREAD_SHARE)
    assert plain[0, 0] == 1.0
    assert (bounded * spread * SPREAD_SHARE <= bounds).all()
    assert bounded[0, 1] == pytest.approx(1 / (1 + SPREAD_SHARE), rel=1e-6)


@pytest.mark.parametrize("path", ["compiled", "autograd", "torch"])
@pytest.mark.parametrize("seed", range(4))
def test_a_sum_for_a_release_is_the_exact_sum_of_its_terms_but_for_the_share(
    make_problem, path, seed
):
    problem = make_problem(seed, num_roots=30, num_hops=seed % 3, scale=10.0**seed)
    clipping, roots = global_clipping(0.7), np.arange(30)
    execution = Execution(path=path, chunk_rows=7)

    def gradients() -> RootGradients:
        given = (problem.network, problem.x, problem.trees)
        return RootGradients(*given, clipping=clipping, execution=execution)

    found = gradients()
    found.sum_for_release()
    parameters = problem.parameters.float()
    total = found(parameters, roots).clone()
    assert total.dtype == torch.float64
    # chunk by chunk the terms have the same bits; their exact sum in fractions
    exact = [Fraction(0)] * len(total)
    for first in _chunks(problem.trees, 7):
        one = gradients()
        one.sum_for_release()
        part = one(parameters, first)
        exact = [e + Fraction(float(p)) for e, p in zip(exact, part)]
    error = np.array([float(Fraction(float(t)) - e) for t, e in zip(total, exact)])
    assert np.linalg.norm(error) <= rounding_share(30) * 0.7 / 2
    # in float32 the same sum is further away than the share allows for
    narrow = gradients()(parameters, roots).double().numpy()
    assert np.linalg.norm(narrow - total.numpy()) > 100 * np.linalg.norm(error)


def test_a_chunk_of_sparse_rows_is_one_addition_to_a_sum_for_a_release(make_problem, monkeypatch):
    problem = make_problem(1, num_roots=30, num_hops=1, encoder_layers=1)
    gradients = RootGradients(
        problem.network, sp.csr_array(problem.x), problem.trees, clipping=global_clipping(0.7),
        execution=Execution(path="compiled", chunk_rows=7),
    )  # fmt: skip
    gradients.sum_for_release()
    found, real = [], products.sparse_outer

    def spy(*arguments):
        found.append(arguments[-1].any())
        real(*arguments)

    monkeypatch.setattr(products, "sparse_outer", spy)
    total = gradients(problem.parameters.float(), np.arange(30))
    assert len(found) > 3
    assert not any(found)
    assert float(total.norm()) > 0


def _chunks(trees, rows):
    from dpgnn.training.chunks import chunks_of

    return chunks_of(trees, np.arange(30), rows)


def test_two_processes_sum_for_a_release_in_float64(make_problem):
    from dpgnn.training.shared import SharedRootGradients

    problem, clipping = make_problem(0), global_clipping(0.7)
    given = (problem.network, problem.x, problem.trees)
    alone = RootGradients(*given, clipping=clipping)
    shared = SharedRootGradients(*given, clipping=clipping, num_processes=2)
    try:
        for gradients in (alone, shared):
            gradients.sum_for_release()
        parameters, roots = problem.parameters.float(), np.arange(9)
        total = shared(parameters, roots)
        assert total.dtype == torch.float64
        torch.testing.assert_close(total, alone(parameters, roots), rtol=1e-5, atol=1e-6)
    finally:
        shared.close()


@pytest.mark.parametrize("path", ["compiled", "autograd"])
def test_a_root_with_too_many_rows_adds_nothing_and_refuses_nothing(
    make_problem, monkeypatch, path
):
    problem = make_problem(1, num_roots=30, num_hops=2)
    rows = np.diff(problem.trees.row_ptr)
    most, roots = int(np.median(rows)), np.arange(30)
    assert 0 < (rows > most).sum() < 30

    def total(some):
        gradients = RootGradients(
            problem.network, problem.x, problem.trees, clipping=global_clipping(0.7),
            execution=Execution(path=path),
        )  # fmt: skip
        gradients.sum_for_release()
        return gradients(problem.parameters.float(), some).clone()

    small = total(roots[rows <= most])
    monkeypatch.setattr("dpgnn.training.gradients.ROWS_OF_A_PRODUCT", most)
    torch.testing.assert_close(total(roots), small, rtol=0, atol=1e-12)
    assert float(small.norm()) > 0
    assert not total(roots[rows > most]).any()


@pytest.mark.parametrize(
    ("outputs", "task"), [(4, "multiclass"), (7, "multiclass"), (5, "multilabel")]
)
@pytest.mark.parametrize("activation", ["relu", "tanh", "selu"])
@pytest.mark.parametrize("hops", [0, 1, 2])
def test_a_roots_rows_do_not_depend_on_other_roots_to_the_last_bit(
    make_problem, outputs, task, activation, hops
):
    config = {"num_hops": hops, "activation": activation, "num_outputs": outputs, "task": task}
    problem = make_problem(hops, num_roots=40, num_features=37, width=19, **config)
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=global_clipping(0.3)
    )
    gradients.sum_for_release()
    engine, parameters = gradients._engine, problem.network.views(problem.parameters.float())
    rng, seen = np.random.default_rng(0), {}
    for size in (1, 2, 3, 4, 5, 17, 40):
        for _ in range(3):
            roots = rng.permutation(40)[:size]
            for root, rows in zip(roots, rows_of_roots(engine, parameters, roots)):
                for first, second in zip(seen.setdefault(root, rows), rows, strict=True):
                    assert np.array_equal(first, second)


@pytest.mark.parametrize("activation", ["tanh", "selu"])
@pytest.mark.parametrize("task", ["multiclass", "multilabel"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_by_rows_are_the_sums_of_the_library_but_for_rounding(
    make_problem, activation, task, dtype
):
    problem = make_problem(0, num_hops=1, activation=activation, task=task)
    clipping, execution = global_clipping(0.3), Execution(dtype=dtype)
    given = (problem.network, problem.x, problem.trees)
    plain = RootGradients(*given, clipping=clipping, execution=execution)
    release = RootGradients(*given, clipping=clipping, execution=execution)
    release.sum_for_release()
    parameters, roots = problem.parameters.to(execution.torch_dtype), np.arange(9)
    expected, found = plain(parameters, roots).double(), release(parameters, roots)
    # clipping takes a thousandth of the spread more
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-3)


def rows_of_roots(engine, parameters, roots):
    """For each root: its rows of all values and gradients, and its norms."""
    from dpgnn.training.chunks import level_ptr, row_nodes

    trees = engine.trees
    ptr = level_ptr(trees, roots)
    node = np.empty(ptr[0, -1], dtype=np.int64)
    row_nodes(roots, ptr[0], trees.row_ptr, trees.node, node)
    read = roots, (trees.row_ptr, trees.entry_ptr, trees.entry_row, trees.entry_weight)
    values = engine._forward(parameters, read, ptr, node)
    values[1:] = [value.clone() for value in values[1:]]
    gradient, _ = engine._loss_gradient(values[-1], roots, with_loss=False)
    found = engine._backward(parameters, gradient, read, ptr, values)
    grads = {i: g.clone() for i, g in found.items()}
    norms = engine._norms(roots, ptr, node, values, grads)
    levels = engine.network.levels
    for i in range(len(roots)):
        own = [value[ptr[levels[at], i] : ptr[levels[at], i + 1]].numpy().copy()
               for at, value in [*enumerate(values[1:], 1), *grads.items()]]  # fmt: skip
        yield [*own, *(norm[:, i].copy() for norm in norms)]


@pytest.mark.parametrize("path", ["autograd", "torch"])
def test_with_attention_a_root_stands_alone_in_a_release(make_problem, path):
    problem = make_problem(2, num_roots=25, num_features=37, conv="gat")
    gradients = RootGradients(
        problem.network, problem.x, problem.trees,
        clipping=global_clipping(0.3), execution=Execution(path=path),
    )  # fmt: skip
    gradients.sum_for_release()
    terms: dict[int, set[bytes]] = {root: set() for root in range(25)}
    inner = gradients._add_chunk

    def alone(named, chunk):
        (root,) = chunk
        held = gradients._sum.clone()
        gradients._sum.zero_()
        loss = inner(named, chunk)
        terms[root].add(gradients._sum.numpy().tobytes())
        gradients._sum.add_(held)
        return loss

    gradients._add_chunk = alone
    parameters = problem.parameters.float()
    for roots in (np.arange(25), np.arange(24, -1, -1), np.array([3]), np.arange(5, 20)):
        gradients(parameters, roots)
    assert {len(found) for found in terms.values()} == {1}


def test_the_shares_of_the_proof_are_those_of_the_code() -> None:
    # docs/accounting.md, theorem 16 (c): of batches of n roots, and of Poisson batches of that mean
    for n, fixed, poisson in ((1000, -15, -14), (90_941, -8, -6)):
        assert rounding_share(n) == 2.0**fixed
        assert rounding_share(room_for(n)) == 2.0**poisson

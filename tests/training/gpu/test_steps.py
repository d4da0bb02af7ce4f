"""Clipped sums on a (simulated) GPU equal the plain loop, step by step and replayed from a graph."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from benchmarks.reference import plain_sum
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gpu import norms, shapes, steps
from dpgnn.training.gradients import Execution, RootGradients

NETWORKS = [
    {"num_hops": 0, "encoder_layers": 2},
    {"num_hops": 1, "skip": True},
    {"num_hops": 2, "conv": "gin", "bias": False},
    {"num_hops": 2, "conv": "sage", "decoder_layers": 0},
    {"num_hops": 1, "conv": "gat"},
    {"num_hops": 1, "conv": "weighted", "bias": False, "activation": "relu"},
    {"num_hops": 3, "conv": "symmetric", "task": "multilabel", "encoder_layers": 0},
]
SETTINGS = settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def on_gpu(problem: Any, clipping: Any, dtype: str = "float64", **execution: Any) -> RootGradients:
    return RootGradients(
        problem.network, problem.x, problem.trees, clipping=clipping,
        execution=Execution(device="cuda", dtype=dtype, **execution),  # type: ignore[arg-type]
    )  # fmt: skip


def sum_of(gradients: RootGradients, problem: Any, roots: np.ndarray) -> torch.Tensor:
    parameters = problem.parameters.to("cuda", gradients.execution.torch_dtype)
    return gradients(parameters, roots).cpu().double()


def plain(problem: Any, roots: np.ndarray, clipping: Any) -> torch.Tensor:
    return plain_sum(problem.network, problem.parameters, problem.x, problem.trees, roots, clipping)


def close(found: torch.Tensor, expected: torch.Tensor, tolerance: float) -> bool:
    return float((found - expected).norm()) <= tolerance * (1e-3 + float(expected.norm()))


@SETTINGS
@given(
    config=st.sampled_from(NETWORKS), seed=st.integers(0, 2**32 - 1),
    per=st.sampled_from(["global", "group", "tensor"]), bound=st.sampled_from([1e-3, 0.3, 100.0]),
)  # fmt: skip
def test_first_captured_and_replayed_steps_equal_the_plain_loop(
    gpu, make_problem, config, seed, per, bound
):
    problem = make_problem(seed, num_roots=12, **config)
    clipping, rng = uniform_clipping(problem.network, per, bound), np.random.default_rng(seed)
    wide, narrow = on_gpu(problem, clipping), on_gpu(problem, clipping, "float32")
    before = gpu.replays
    for _ in range(3):
        # another batch each time, of about the same size: a graph must read it anew
        roots = rng.permutation(12)[: 9 + int(rng.integers(0, 2))]
        expected = plain(problem, roots, clipping)
        assert close(sum_of(wide, problem, roots), expected, 1e-11)
        assert close(sum_of(narrow, problem, roots), expected, 1e-4)
    assert gpu.replays > before


@pytest.mark.parametrize("config", NETWORKS, ids=lambda config: f"{config.get('conv', 'gcn')}")
def test_rows_may_be_scaled_in_their_memory_as_the_fused_kernels_do(
    gpu, make_problem, monkeypatch, config
):
    """Layers whose outputs are added have one gradient: scaled twice, it would be scaled wrongly."""

    class InPlace:
        """The operations of `norms`, with rows scaled where they lie."""

        def __getattr__(self, name: str) -> Any:
            return getattr(norms, name)

        def scaled(self, a, g, owner, factor, bad):
            for rows, found in zip((a, g), norms.scaled(a, g, owner, factor, bad)):
                rows.copy_(found)
            return a, g

    problem = make_problem(6, num_roots=12, **config)
    clipping, roots = uniform_clipping(problem.network, "group", 0.3), np.arange(9)
    monkeypatch.setattr(steps, "chosen_operations", lambda *_: ("in place", InPlace()))
    found = sum_of(on_gpu(problem, clipping), problem, roots)
    assert close(found, plain(problem, roots, clipping), 1e-11)


@pytest.mark.parametrize("config", NETWORKS, ids=lambda config: f"{config.get('conv', 'gcn')}")
def test_without_clipping_the_sum_is_the_gradient_and_the_loss_that_of_the_cpu(
    gpu, make_problem, config
):
    problem = make_problem(5, num_roots=20, **config)
    there = on_gpu(problem, None)
    here = RootGradients(
        problem.network, problem.x, problem.trees, clipping=None,
        execution=Execution(dtype="float64", path="torch"),
    )  # fmt: skip
    there.track_loss = here.track_loss = True
    for _ in range(3):
        found = sum_of(there, problem, problem.roots)
        expected = here(problem.parameters, problem.roots)
        assert close(found, expected, 1e-12)
        assert there.mean_loss == pytest.approx(here.mean_loss, rel=1e-6)


def test_a_step_waits_for_the_device_nowhere(gpu, make_problem):
    problem = make_problem(6, num_roots=30, num_hops=2, skip=True)
    gradients = on_gpu(problem, uniform_clipping(problem.network, "group", 0.3))
    parameters = problem.parameters.to("cuda")
    for _ in range(4):
        gradients(parameters, problem.roots)
    assert gpu.waits == 0
    assert gpu.replays == 3


def test_chunks_and_batches_of_any_size_give_the_sum(gpu, make_problem):
    problem = make_problem(7, num_roots=60, num_hops=2)
    clipping = uniform_clipping(problem.network, "global", 0.2)
    whole, pieces = on_gpu(problem, clipping), on_gpu(problem, clipping, chunk_rows=20)
    for size in (60, 1, 0, 7):
        roots = np.arange(size)
        expected = plain(problem, roots, clipping)
        assert close(sum_of(whole, problem, roots), expected, 1e-12)
        assert close(sum_of(pieces, problem, roots), expected, 1e-12)


def test_the_sum_of_a_batch_does_not_depend_on_the_batches_before(gpu, make_problem):
    problem = make_problem(8, num_roots=60, num_hops=1)
    clipping = uniform_clipping(problem.network, "global", 0.2)
    fresh, used = (on_gpu(problem, clipping, "float32") for _ in range(2))
    rng = np.random.default_rng(8)
    for size in (60, 3, 41, 42, 43):
        sum_of(used, problem, rng.permutation(60)[:size])
    roots = np.arange(10, 50)
    assert torch.equal(sum_of(fresh, problem, roots), sum_of(used, problem, roots))


def test_sparse_features_stay_sparse_and_give_the_sum_of_dense_ones(gpu, make_problem):
    problem = make_problem(9, num_roots=30, num_features=40, num_hops=1)
    keep = np.random.default_rng(9).random(problem.x.shape) < 0.2
    problem.x = np.where(keep, problem.x, 0.0).astype(np.float32)
    problem.x[3] = 0.0
    clipping = uniform_clipping(problem.network, "tensor", 0.1)
    expected = plain(problem, problem.roots, clipping)
    for x in (problem.x, sp.csr_array(problem.x)):
        problem.x = x
        assert close(sum_of(on_gpu(problem, clipping), problem, problem.roots), expected, 1e-12)


@pytest.mark.parametrize("conv", ["gcn", "gat"])
def test_large_trees_go_their_own_way(gpu, make_problem, monkeypatch, conv):
    monkeypatch.setattr(shapes, "LARGEST_TREE", 4)
    problem = make_problem(10, num_roots=40, num_hops=2, conv=conv)
    clipping = uniform_clipping(problem.network, "group", 0.2)
    gradients = on_gpu(problem, clipping, chunk_rows=30)
    assert gradients._resident is not None
    fits = gradients._resident.shapes.fits
    assert 5 < fits.sum() < 35
    for roots in (np.arange(40), np.flatnonzero(~fits), np.flatnonzero(fits)):
        expected = plain(problem, roots, clipping)
        assert close(sum_of(gradients, problem, roots), expected, 1e-12)


def test_a_root_that_is_not_finite_adds_nothing_and_spoils_nobody(gpu, make_problem):
    problem = make_problem(11, num_roots=30, num_hops=1)
    clipping = uniform_clipping(problem.network, "group", 0.3)
    first = problem.trees.row_ptr[:-1]
    victim = int(problem.trees.node[first[4]])
    reads = np.array([
        victim in problem.trees.node[a:b] for a, b in zip(first, problem.trees.row_ptr[1:])
    ])  # fmt: skip
    for value in (np.nan, np.inf, 1e25):
        x = problem.x.copy()
        problem.x[victim] = value
        gradients = on_gpu(problem, clipping)
        problem.x = x
        for _ in range(3):
            found = sum_of(gradients, problem, np.arange(30))
            assert close(found, plain(problem, np.flatnonzero(~reads), clipping), 1e-12)


def test_new_bounds_and_a_release_are_taken_up(gpu, make_problem):
    problem = make_problem(12, num_roots=30, num_hops=1)
    gradients = on_gpu(problem, None, "float32")
    for per, bound in (("global", 0.2), ("group", 0.3), ("global", 0.01)):
        clipping = uniform_clipping(problem.network, per, bound)  # type: ignore[arg-type]
        gradients.clip(clipping)
        for _ in range(3):
            expected = plain(problem, problem.roots, clipping)
            assert close(sum_of(gradients, problem, problem.roots), expected, 1e-4)
    # a release clips roots whose rows cancel more, so it is compared with a release
    here = RootGradients(problem.network, problem.x, problem.trees, clipping=clipping)
    for each in (here, gradients):
        each.sum_for_release()
    expected = here(problem.parameters.float(), problem.roots)
    for _ in range(3):
        total = gradients(problem.parameters.to("cuda", torch.float32), problem.roots)
        assert total.dtype == torch.float64
        assert close(total.cpu(), expected, 1e-5)


def test_norms_of_parts_are_those_of_the_cpu(gpu, make_problem):
    problem = make_problem(13, num_roots=30, num_hops=2)
    there = on_gpu(problem, None)
    here = RootGradients(
        problem.network, problem.x, problem.trees, clipping=None,
        execution=Execution(dtype="float64"),
    )  # fmt: skip
    found = there.part_norms(problem.parameters.to("cuda"), problem.roots, "tensor")
    expected = here.part_norms(problem.parameters, problem.roots, "tensor")
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_few_graphs_are_kept(gpu, make_problem, monkeypatch):
    monkeypatch.setattr(steps, "NUM_GRAPHS", 2)
    problem = make_problem(14, num_roots=50, num_hops=1)
    clipping = uniform_clipping(problem.network, "global", 0.2)
    gradients = on_gpu(problem, clipping)
    assert gradients._resident is not None
    for size in (50, 25, 12, 50):
        roots = np.arange(size)
        assert close(sum_of(gradients, problem, roots), plain(problem, roots, clipping), 1e-12)
        assert len(gradients._resident._graphs) <= 2


def test_memory_of_the_device_is_freed_with_its_owner_without_a_search_for_cycles(
    gpu, make_problem
):
    problem = make_problem(3, num_hops=2)
    gradients = on_gpu(problem, uniform_clipping(problem.network, "group", 0.3))
    for _ in range(3):
        sum_of(gradients, problem, problem.roots)
    assert gradients._resident is not None
    held = weakref.ref(gradients._resident)
    gc.disable()
    try:
        del gradients
        assert held() is None
    finally:
        gc.enable()


def test_garbage_that_holds_a_graph_does_not_spoil_a_capture(gpu, make_problem, monkeypatch):
    problem = make_problem(3, num_hops=2)
    clipping = uniform_clipping(problem.network, "group", 0.3)
    old, new = on_gpu(problem, clipping), on_gpu(problem, clipping)
    for _ in range(3):
        sum_of(old, problem, problem.roots)
    sum_of(new, problem, problem.roots)
    cycle: list[Any] = [old]
    cycle.append(cycle)
    held, whole = [cycle], steps.ResidentSteps._body
    del old, cycle

    def body(*given: Any) -> None:
        held.clear()
        _ = [[] for _ in range(3000)]  # enough for a search for cycles
        whole(*given)

    monkeypatch.setattr(steps.ResidentSteps, "_body", body)
    found = [sum_of(new, problem, problem.roots) for _ in range(2)]
    expected = plain(problem, problem.roots, clipping)
    assert all(close(each, expected, 1e-9) for each in found)


def test_without_graphs_the_sum_is_the_same_to_the_bit(gpu, make_problem):
    problem = make_problem(15, num_roots=30, num_hops=1)
    clipping = uniform_clipping(problem.network, "global", 0.2)
    with_graphs, without = (on_gpu(problem, clipping, "float32") for _ in range(2))
    assert without._resident is not None
    without._resident.capture = False
    for _ in range(3):
        one, other = (sum_of(g, problem, problem.roots) for g in (with_graphs, without))
        assert torch.equal(one, other)


def test_features_that_do_not_fit_and_lower_precision_are_refused(simulated, make_problem):
    problem = make_problem(16, num_hops=1)
    rule = r"features and trees must take at most 70% of the GPU memory that is free \(0.0 GB\)"
    with simulated.simulated_cuda(free=1000), pytest.raises(ValueError, match=rule):
        on_gpu(problem, None)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        with (
            simulated.simulated_cuda(),
            pytest.raises(ValueError, match="float32_matmul_precision must be highest, got 'high'"),
        ):
            on_gpu(problem, None)
    finally:
        torch.set_float32_matmul_precision(before)


def test_operations_are_chosen_and_a_kernel_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(steps.importlib.util, "find_spec", lambda name: None)
    device = torch.device("cuda")
    assert (
        steps.chosen_operations("auto", device)[0]
        == steps.chosen_operations("torch", device)[0]
        == "torch"
    )
    with pytest.raises(ValueError, match="kernels must be torch if Triton's are missing or differ"):
        steps.chosen_operations("triton", device)


def test_settings_of_torch_are_put_back(monkeypatch):
    assert not torch.are_deterministic_algorithms_enabled()
    with steps.repeatable(True):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]

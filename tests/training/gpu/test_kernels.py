"""The fused kernels in Triton's interpreter: `pip install -r envs/kernels.lock`, then `make kernels`."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from benchmarks.reference import plain_sum
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gpu import norms as plain
from dpgnn.training.gpu.shapes import Shape
from dpgnn.training.gpu.steps import ResidentSteps, chosen_operations
from dpgnn.training.gradients import Execution, RootGradients

NAME = "dpgnn.training.gpu.kernels"
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def kernels() -> Iterator[ModuleType]:
    """The module of kernels, run by Triton's interpreter."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: make kernels")
    if NAME in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip("the kernels were imported without the interpreter before")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_INTERPRET", "1")
        from dpgnn.training.gpu import kernels

        yield kernels


def test_kernels_that_agree_with_torch_are_trusted_and_others_are_not(kernels, monkeypatch):
    kernels.trusted.cache_clear()
    assert kernels.trusted(CPU)
    for name in ("slot_norms", "clip_factors", "scaled", "sum_rows"):
        whole = getattr(kernels, name)

        def half(*given, whole=whole):
            found = whole(*given)
            return (found[0] * 0.5, found[1]) if isinstance(found, tuple) else found * 0.5

        kernels.trusted.cache_clear()
        monkeypatch.setattr(kernels, name, half)
        assert not kernels.trusted(CPU), name
        monkeypatch.setattr(kernels, name, whole)
    kernels.trusted.cache_clear()
    monkeypatch.setattr(kernels, "sum_rows", None)  # as where a kernel does not compile
    assert not kernels.trusted(CPU)
    kernels.trusted.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_norms_of_rows_that_cancel_are_upper_bounds(kernels, dtype):
    rng = np.random.default_rng(1)
    for _ in range(5):
        a = torch.from_numpy(rng.standard_normal((11, 19))).to(dtype)
        g = torch.from_numpy(rng.standard_normal((11, 6))).to(dtype)
        # the last row nearly takes back what the ten before add
        a[10] = a[:10].sum(dim=0)
        g[:10] = g[0]
        g[10] = -g[0]
        ptr = torch.tensor([0, 11])
        found = kernels.slot_norms(a, g, ptr, Shape(0, (), (), ()), ptr, 0)
        with np.errstate(all="ignore"):
            exact = (a.numpy().astype(np.longdouble).T @ g.numpy().astype(np.longdouble)) ** 2
        assert float(found[0, 0]) >= float(exact.sum())
        assert float(found[0, 0]) <= float(exact.sum()) + 1e-9 * float(found[1, 0]) ** 2


def test_factors_keep_each_part_within_its_bound(kernels):
    rng = np.random.default_rng(2)
    squared = torch.from_numpy(10.0 ** rng.uniform(-12, 12, (5, 300)))
    spread = torch.from_numpy(10.0 ** rng.uniform(-6, 6, (5, 300)))
    squared[2, 7], spread[1, 9], squared[0, 11] = torch.nan, torch.inf, 0.0
    bounds = plain.Bounds(
        (np.array([0, 1, 1, 0, 2]), np.array([1e-3, 0.5, 7.0])), 2.0**-24, 0.0, CPU
    )
    found, bad = kernels.clip_factors(squared, spread, bounds, torch.float64)
    expected, expected_bad = plain.clip_factors(squared, spread, bounds, torch.float64)
    assert torch.equal(bad, expected_bad)
    torch.testing.assert_close(found, expected, rtol=1e-14, atol=0.0)
    assert bad[300]
    assert bad[[7, 9]].all()
    assert bad.sum() == 3


@pytest.mark.parametrize("config", [
    {"num_hops": 1, "skip": True}, {"num_hops": 2, "conv": "sage"}, {"num_hops": 1, "conv": "gat"},
    {"num_hops": 0}, {"num_hops": 1, "conv": "weighted", "bias": False},
])  # fmt: skip
def test_a_step_by_kernels_equals_the_plain_loop(
    simulated, kernels, make_problem, config, monkeypatch
):
    problem = make_problem(3, num_roots=12, **config)
    with simulated.simulated_cuda() as gpu:
        kernels.trusted.cache_clear()
        assert chosen_operations("triton", torch.device("cuda"))[0] == "triton"
        for per in ("group", "tensor"):
            clipping = uniform_clipping(problem.network, per, 0.3)
            gradients = RootGradients(
                problem.network, problem.x, problem.trees, clipping=clipping,
                execution=Execution(device="cuda", dtype="float64"),
            )  # fmt: skip
            assert isinstance(gradients._resident, ResidentSteps)
            assert gradients._resident.kernels == "triton"
            rng = np.random.default_rng(3)
            for _ in range(3):
                roots = rng.permutation(12)[:9]
                found = gradients(problem.parameters.to("cuda"), roots).cpu()
                expected = plain_sum(
                    problem.network, problem.parameters, problem.x, problem.trees, roots, clipping
                )
                assert float((found - expected).norm()) <= 1e-11 * float(expected.norm())
        assert gpu.operations["dpgnn::gram_norms"] > 0
        assert gpu.operations["dpgnn::scale_rows"] > 0

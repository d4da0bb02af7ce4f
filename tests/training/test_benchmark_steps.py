"""The benchmark compares steps that do the same work: on a small shape all give the same weights."""

import importlib.util
import sys

import pytest
import torch


@pytest.fixture
def benchmarks(repository, monkeypatch):
    monkeypatch.syspath_prepend(str(repository))
    for name in [name for name in sys.modules if name.split(".")[0] == "benchmarks"]:
        monkeypatch.delitem(sys.modules, name)
    assert importlib.util.find_spec("benchmarks") is not None
    from benchmarks import _variants, _workloads

    return _variants, _workloads


def test_every_private_step_ends_in_the_same_weights_up_to_the_noise(benchmarks, monkeypatch):
    variants, workloads = benchmarks
    work = workloads.dpar(20, 3)
    seen = {}
    monkeypatch.setattr(variants, "add_noise", lambda total, stddev, *, rng: total)

    class Spy(variants.Optimizer):
        def step(self, gradient):
            seen[name] = gradient.clone()

    monkeypatch.setattr(variants, "Optimizer", Spy)
    steps = {
        "compiled": lambda: variants.engine(work, "compiled", private=True),
        "torch": lambda: variants.engine(work, "torch", private=True),
        "vmap": lambda: variants.vmap_grad(work, 7, work.batch_size),
        "opacus": lambda: variants.opacus(work, 25, work.batch_size),
    }
    for name, make in steps.items():  # noqa: B007 the spy reads the name
        make()()
    flat = seen["compiled"]
    torch.testing.assert_close(seen["torch"], flat, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(seen["vmap"], flat, rtol=1e-4, atol=1e-6)
    # Opacus' layers have their own initial weights: the sum must still be within its bound
    assert float(seen["opacus"].norm()) <= work.clipping.total_norm * (1 + 1e-5)
    name = "padded"
    variants.padded(work)()
    whole = seen["padded"].clone()
    variants.padded(work, 7)()
    torch.testing.assert_close(seen["padded"], whole, rtol=1e-4, atol=1e-6)
    name = "twin"
    variants.engine(work, "compiled", private=False)()
    torch.testing.assert_close(seen["twin"], whole, rtol=1e-4, atol=1e-6)
    variants.floor(work)()

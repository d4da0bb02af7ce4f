"""Two real processes make the clipped sums of one, and noise is drawn once."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.samplers.batches import PoissonBatches
from dpgnn.training.clipping import global_clipping, uniform_clipping
from dpgnn.training.dp_sgd import DPSGD, train
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import joint_noise
from dpgnn.training.options import OptimizerConfig
from dpgnn.training.shared import SharedRootGradients, root_gradients, share_of

NORM = 0.3


@pytest.fixture(scope="module")
def problem(make_problem: Callable[..., Any]) -> Any:
    """A two-hop network and 41 roots."""
    return make_problem(3, num_roots=41, num_hops=2)


# first, since one process can hold one set of others at a time
def test_a_process_that_dies_is_named_and_nothing_hangs(problem: Any) -> None:
    parameters, clipping = problem.parameters.float(), global_clipping(NORM)
    given = (problem.network, problem.x, problem.trees)
    with root_gradients(
        *given, clipping=clipping, execution=Execution(), num_processes=2
    ) as gradients:
        gradients(parameters, np.arange(41))
        with pytest.raises(RuntimeError, match="one set of processes is open already"):
            SharedRootGradients(*given, clipping=None, num_processes=2)
        (worker,) = gradients._workers  # type: ignore[attr-defined]
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
        with pytest.raises(RuntimeError, match=r"process \[1\] of 2 ended while training"):
            gradients(parameters, np.arange(41))
    assert not torch.distributed.is_initialized()


def test_processes_that_read_features_from_a_file_give_the_same_bits(
    problem: Any, tmp_path: Any
) -> None:
    from dpgnn.data.stored import FileArray, StoredRows

    np.save(tmp_path / "x.npy", problem.x)
    roots, parameters = np.arange(41), problem.parameters.float()
    found = []
    for x in (problem.x, StoredRows(FileArray(tmp_path / "x.npy"))):
        with root_gradients(
            problem.network, x, problem.trees, clipping=global_clipping(NORM),
            execution=Execution(), num_processes=2,
        ) as gradients:  # fmt: skip
            found.append(gradients(parameters, roots).clone())
    assert torch.equal(*found)


def test_a_study_says_how_many_processes_a_run_has(small_graph: Any, tmp_path: Any) -> None:
    from helpers import TOY

    from dpgnn.data.splits import SplitConfig, make_split
    from dpgnn.methods.base import Performance
    from dpgnn.run.execute import run_one
    from dpgnn.run.specification import RunInputs
    from dpgnn.study.study import resolve

    study = resolve(TOY | {"num_processes": 2})
    key = next(key for key in study.keys if key.entry == "dp_mlp")
    assert study.run_params(key)["num_processes"] == 2
    assert "num_processes" not in resolve(TOY).run_params(key)
    config = SplitConfig(kind="random", train_fraction=0.5, val_fraction=0.2)
    split = make_split(small_graph, config, rng=np.random.default_rng(0))
    records = []
    for count in (1, 2):
        inputs = RunInputs(
            key={"study": "s", **key.axes}, entry=study.entries["dp_mlp"].for_dataset("two"),
            epsilon=4.0, delta=1e-3, graph=small_graph, split=split, prepared=None, hashes={},
            performance=Performance(num_processes=count),
        )  # fmt: skip
        records.append(run_one(inputs, tmp_path / str(count), work=None))
    one, two = records
    assert two.details == {"num_processes": 2}
    assert one.config_sha256 != two.config_sha256
    assert one.plan == two.plan
    # the toy's weights differ by rounding only, which changes no answer here
    assert one.metrics["test"]["accuracy"] == two.metrics["test"]["accuracy"]


@pytest.fixture(scope="module", params=["float64", pytest.param("float32", marks=pytest.mark.slow)])
def pair(request: Any, problem: Any) -> Iterator[tuple[RootGradients, SharedRootGradients]]:
    """The sums of one process, and of two that are really there."""
    clipping, execution = global_clipping(NORM), Execution(dtype=request.param)
    given = (problem.network, problem.x, problem.trees)
    alone = RootGradients(*given, clipping=clipping, execution=execution)
    shared = SharedRootGradients(*given, clipping=clipping, execution=execution, num_processes=2)
    yield alone, shared
    shared.close()
    assert not any(worker.is_alive() for worker in shared._workers)


def tolerance(gradients: RootGradients, roots: np.ndarray) -> float:
    """What is promised: rounding relative to the sum of the terms' norms."""
    unit = 1e-12 if gradients.execution.dtype == "float64" else 1e-5
    return unit * NORM * max(len(roots), 1)


@pytest.mark.parametrize("roots", [np.arange(41), np.array([7]), np.zeros(0, np.int64)], ids=len)
def test_two_processes_give_the_clipped_sum_of_one(pair: Any, problem: Any, roots: Any) -> None:
    alone, shared = pair
    parameters = problem.parameters.to(alone.execution.torch_dtype)
    alone.track_loss = shared.track_loss = True
    expected, loss = alone(parameters, roots).clone(), alone.mean_loss
    found = shared(parameters, roots).clone()
    assert float((found - expected).norm()) <= tolerance(alone, roots)
    assert shared.mean_loss == pytest.approx(loss, rel=1e-5, nan_ok=True)
    # one number of processes, one sum, bit for bit
    assert torch.equal(shared(parameters, roots), found)


def test_new_bounds_hold_in_every_process(pair: Any, problem: Any) -> None:
    alone, shared = pair
    parameters, roots = problem.parameters.to(alone.execution.torch_dtype), np.arange(41)
    clipping = uniform_clipping(problem.network, "group", NORM / 10)
    alone.clip(clipping)
    shared.clip(clipping)
    expected = alone(parameters, roots).clone()
    assert float((shared(parameters, roots) - expected).norm()) <= tolerance(alone, roots)
    assert shared.clipping == clipping
    alone.clip(global_clipping(NORM))
    shared.clip(global_clipping(NORM))


class Counted(Streams):
    """Streams that remember what was drawn."""

    def numpy(self, stream: str, **extra: Any) -> np.random.Generator:
        DRAWN.append((stream, extra["step"]))
        return super().numpy(stream, **extra)


DRAWN: list[tuple[str, int]] = []


def test_noise_is_drawn_once_and_training_takes_the_same_steps(
    pair: Any, problem: Any, quiet: Any
) -> None:
    alone, shared = pair
    clipping = global_clipping(NORM)
    spec = DPSGD(
        num_steps=5, batches=PoissonBatches(41, 0.5), clipping=clipping,
        noise=joint_noise(clipping, 100.0), divisor=20.0,
    )  # fmt: skip
    weights = []
    for gradients in (alone, shared):
        DRAWN.clear()
        named, _ = train(
            spec, problem.network, gradients, problem.parameters, OptimizerConfig(name="sgd", lr=1.0),
            streams=Counted(root_seed=1, axes={}), store=Store(None), progress=quiet,
        )  # fmt: skip
        weights.append(problem.network.flatten(named))
        assert sorted(DRAWN) == [
            (name, step) for name in ("batches", "noise") for step in range(1, 6)
        ]
    # noise of another draw, or of two draws, would move the weights by more than 10
    moved = float((weights[0] - problem.parameters).norm())
    assert moved > 10
    assert float((weights[1] - weights[0]).norm()) <= 1e-4 * moved


def test_shares_are_disjoint_and_make_up_the_batch() -> None:
    roots = np.array([3, 5, 8, 13, 21, 34, 55])
    shares = [share_of(roots, rank, 3) for rank in range(3)]
    assert sorted(np.concatenate(shares).tolist()) == roots.tolist()


def test_a_gpu_is_used_by_one_process(problem: Any) -> None:
    with pytest.raises(ValueError, match="device must be cpu with num_processes > 1, got 'cuda'"):
        SharedRootGradients(
            problem.network, problem.x, problem.trees, clipping=None,
            execution=Execution(device="cuda"), num_processes=2,
        )  # fmt: skip

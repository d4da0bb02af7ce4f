"""Is the GPU path right? Each check gives a measured error and the bound it has to keep."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch

from benchmarks._simulated_cuda import SIMULATED, operations_so_far
from benchmarks._workloads import arcs
from benchmarks.reference import plain_sum
from dpgnn.core.randomness import FreshSecrets, Streams
from dpgnn.core.storage import Store
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import trees_of
from dpgnn.samplers.batches import PoissonBatches
from dpgnn.samplers.published import Published
from dpgnn.training.clipping import global_clipping, uniform_clipping
from dpgnn.training.dp_sgd import DPSGD, train
from dpgnn.training.gpu.noise import NoiseAhead
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise, add_rounded_noise, joint_noise
from dpgnn.training.options import OptimizerConfig

CASES: dict[str, dict[str, Any]] = {
    "dense": {"skip": True},
    "sparse features": {},
    "attention": {"conv": "gat", "num_heads": 2, "head_width": 8},
    "2 hops": {"num_hops": 2, "skip": True},
    "multi-label": {"task": "multilabel", "num_outputs": 9},
}
BOUNDS = {"float32": 1e-4, "float64": 1e-11}
STUDY = Streams(root_seed=11, axes={"entry": "check"})
# a release's own code, from bits that can be drawn again
AGAIN = FreshSecrets(root_seed=11, axes={"entry": "check"}, randomness="release", secret_seed=5)


class Quiet:
    """A progress line that shows nothing."""

    def update(self, step: int, **shown: Any) -> None:
        """Nothing."""


def problem(case: str, num_roots: int = 60) -> tuple[Network, Any, Any, torch.Tensor]:
    """Network, features, trees and float64 parameters of a small case."""
    rng, num_nodes, config = np.random.default_rng(3), 300, dict(CASES[case])
    edges = arcs(num_nodes, 1500)
    config = {"num_features": 20, "num_outputs": 5, "width": 16, "activation": "tanh"} | config
    network = Network(NetworkConfig(**config))
    hops = network.config.num_hops
    sample = Published(max_degree=4, num_hops=hops, max_subgraph_size=20).sample(
        edges, num_nodes=num_nodes, train_idx=np.arange(num_roots), rng=rng
    )
    multilabel = network.config.task == "multilabel"
    shape = (num_nodes, config["num_outputs"])
    y = rng.integers(0, 2, shape) if multilabel else rng.integers(0, shape[1], num_nodes)
    x: Any = rng.standard_normal((num_nodes, 20), dtype=np.float32)
    if case == "sparse features":
        x = sp.csr_array(np.where(rng.random(x.shape) < 0.2, x, 0.0).astype(np.float32))
    trees = trees_of(sample, y.astype(np.uint8) if multilabel else y, num_hops=hops,
                     conv=network.config.conv)  # fmt: skip
    return network, x, trees, network.initial(rng=rng, dtype=torch.float64)


def sums_of(case: str) -> Iterator[dict[str, Any]]:
    """Clipped sums on the GPU against the float64 plain loop: first, captured and replayed."""
    network, x, trees, parameters = problem(case)
    roots, clipping = np.arange(40), uniform_clipping(network, "group", 0.2)
    dense = x if isinstance(x, np.ndarray) else x.toarray()
    expected = plain_sum(network, parameters, dense, trees, roots, clipping)
    for dtype, bound in BOUNDS.items():
        execution = Execution(device="cuda", dtype=dtype)  # type: ignore[arg-type]
        gradients = RootGradients(network, x, trees, clipping=clipping, execution=execution)
        there = parameters.to("cuda", execution.torch_dtype)
        for call in ("first", "captured", "replayed"):
            found = gradients(there, roots).cpu().double()
            error = float((found - expected).norm() / expected.norm())
            yield row(f"clipped sum, {case}, {dtype}, {call}", error, bound)


def row(name: str, error: float, bound: float) -> dict[str, Any]:
    """One line of the table; NaN keeps no bound."""
    return {"check": name, "error": error, "bound": bound, "ok": bool(error <= bound)}


def noise_is_the_hosts() -> Iterator[dict[str, Any]]:
    """Noise drawn ahead equals the host's bit for bit, and no generator of the device moved."""
    size, device = 5000, torch.device("cuda")
    total = torch.linspace(-3, 3, size, dtype=torch.float64)
    before = _device_generator()
    for rounded, streams in ((False, STUDY), (True, AGAIN)):
        draw = partial(streams.numpy, "noise", stage="check")
        add: Callable[..., Any] = add_rounded_noise if rounded else add_noise
        kind = torch.float64 if rounded else torch.float32
        wrong = 0
        with NoiseAhead(1.3, size, draw, num_steps=4, rounded=rounded, dtype=torch.float32,
                        device=device) as ahead:  # fmt: skip
            for step in range(1, 5):
                found = ahead.add(total.to("cuda", kind), step).cpu()
                wrong += int((found != add(total.to(kind), 1.3, rng=draw(step=step))).sum())
        yield row(f"noise drawn ahead, {'release' if rounded else 'study'}: other bits", wrong, 0)
    moved = _device_generator() != before
    yield row("a generator of the device was used (1 = yes)", float(moved), 0)


def _device_generator() -> bytes:
    if torch.version.cuda is not None and torch.cuda.get_device_name() != SIMULATED:
        return torch.cuda.get_rng_state().numpy().tobytes()
    drawn = {n: k for n, k in operations_so_far().items() if re.search("rand|normal|uniform", n)}
    return repr(sorted(drawn.items())).encode()


def runs_repeat() -> Iterator[dict[str, Any]]:
    """Whole private runs: twice the same bits, and those of the CPU up to rounding."""
    network, x, trees, parameters = problem("2 hops")
    clipping = global_clipping(0.5)
    spec = DPSGD(num_steps=12, batches=PoissonBatches(trees.num_roots, 0.6), clipping=clipping,
                 noise=joint_noise(clipping, 0.3), divisor=30.0)  # fmt: skip

    def weights(device: str, streams: Streams) -> torch.Tensor:
        gradients = RootGradients(network, x, trees, clipping=clipping,
                                  execution=Execution(device=device))  # fmt: skip
        named, _ = train(
            spec, network, gradients, parameters.float(), OptimizerConfig(lr=0.01), streams=streams,
            store=Store(None), progress=Quiet(),
        )  # fmt: skip
        return network.flatten(named)

    for name, streams in (("study", STUDY), ("release", AGAIN)):
        first, again, here = (weights(d, streams) for d in ("cuda", "cuda", "cpu"))
        yield row(f"the same run twice, {name}: other bits", int((first != again).sum()), 0)
        error = float((first - here).norm() / here.norm())
        yield row(f"weights of GPU and CPU after 12 steps, {name}", error, 1e-3)
    if importlib.util.find_spec("randomgen") is not None:
        secret = Streams(root_seed=11, axes={}, randomness="release")
        first, again = (weights("cuda", secret) for _ in range(2))
        yield row("two releases have the same noise (1 = yes)", float(torch.equal(first, again)), 0)


def all_checks() -> dict[str, Callable[[], Iterator[dict[str, Any]]]]:
    """Every part by name, each a generator of rows."""
    parts: dict[str, Callable[[], Iterator[dict[str, Any]]]] = {
        f"sums: {case}": partial(sums_of, case) for case in CASES
    }
    return parts | {"noise": noise_is_the_hosts, "runs": runs_repeat}

"""What floating-point noise shows of a sum: one released bias after one step; a grid shows nothing of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from dpgnn.core.randomness import Streams
from dpgnn.core.rounded_noise import grid_of
from dpgnn.core.storage import Store
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.samplers.batches import PoissonBatches
from dpgnn.training.clipping import global_clipping
from dpgnn.training.dp_sgd import DPSGD, train
from dpgnn.training.gradients import RootGradients
from dpgnn.training.noise import joint_noise
from dpgnn.training.options import OptimizerConfig
from dpgnn.training.rounding import rounding_share

OUTPUTS, RUNS = 8, 600


class Silent:
    def update(self, step: int, **shown: Any) -> None:
        pass


def world(labels: list[int]) -> RootGradients:
    """Nodes without features: their gradients are those of the output layer's bias alone."""
    network = Network(NetworkConfig(num_features=1, num_outputs=OUTPUTS, num_hops=0, width=1,
                                    encoder_layers=0, decoder_layers=1))  # fmt: skip
    trees = lone_roots(np.arange(len(labels)), np.array(labels))
    x = np.zeros((len(labels), 1), np.float32)
    return RootGradients(network, x, trees, clipping=global_clipping(1.0))


def released_sums(gradients: RootGradients, stddev: float, randomness: Any) -> np.ndarray:
    """The bias of output 0 after one step from zero, of many runs: minus the noisy sum; float32."""
    network, clipping = gradients.network, global_clipping(1.0)
    spec = DPSGD(num_steps=1, batches=PoissonBatches(gradients.trees.num_roots, 1.0), clipping=clipping,
                 noise=joint_noise(clipping, stddev), divisor=1.0)  # fmt: skip
    found = []
    for repeat in range(RUNS):
        weights, _ = train(
            spec, network, gradients, torch.zeros(network.num_parameters),
            OptimizerConfig(name="sgd", lr=1.0),
            streams=Streams(root_seed=repeat, axes={}, randomness=randomness), store=Store(None),
            progress=Silent(),  # type: ignore[arg-type]
        )  # fmt: skip
        (bias,) = [value for name, value in weights.items() if name.endswith("bias")]
        found.append(-bias[0].numpy())
    return np.array(found, dtype=np.float32)


def bias_sum(gradients: RootGradients) -> np.float32:
    """The sum without noise at the bias of output 0, which who knows both graphs can compute."""
    network = gradients.network
    total = gradients(torch.zeros(network.num_parameters), np.arange(gradients.trees.num_roots))
    (bias,) = [value for name, value in network.views(total).items() if name.endswith("bias")]
    return np.float32(bias[0])


def impossible(released: np.ndarray, total: np.float32) -> np.ndarray:
    """Whether no float32 noise added in float32 to this sum gives what was released."""
    noise = (released.astype(np.float64) - total).astype(np.float32)
    near = [
        noise,
        np.nextafter(noise, np.float32(np.inf)),
        np.nextafter(noise, np.float32(-np.inf)),
    ]
    return ~np.any([total + candidate == released for candidate in near], axis=0)


@pytest.mark.parametrize(("stddev", "shares"), [(1.0, (0.295, 0.105)), (5.0, (0.114, 0.042))])
def test_float_noise_excludes_the_neighbour_and_the_grid_does_not(stddev, shares):
    worlds = [world([1, 2]), world([1, 0])]
    sums = [bias_sum(gradients) for gradients in worlds]
    assert sums == [np.float32(0.25), np.float32(-0.75)]
    step = grid_of(stddev * (1 + rounding_share(2)))
    for here, there, share in zip(sums, reversed(sums), shares):
        gradients = worlds[sums.index(here)]
        seeded = released_sums(gradients, stddev, "study")
        assert not impossible(seeded, here).any()
        # who sees the release knows in this share of runs that the neighbour was not used
        assert abs(impossible(seeded, there).mean() - share) < 5 * np.sqrt(share / RUNS)
        # in a release either world may give every multiple of the grid, and nothing else
        released = released_sums(gradients, stddev, "release").astype(np.float64)
        small = released[np.abs(released) < 2**23 * step]
        assert len(small) > RUNS // 2
        assert np.array_equal(small, np.rint(small / step) * step)
        assert not impossible(released.astype(np.float32), there).any()

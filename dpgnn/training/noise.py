"""Gaussian noise on a clipped sum, with one deviation or one for each clipped part."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numba import njit
from torch import Tensor

from dpgnn.core.checks import non_negative, require
from dpgnn.core.rounded_noise import add_rounded
from dpgnn.models.network import Network
from dpgnn.training.clipping import Clipping


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Independent centred Gaussian noise with a standard deviation for each clipped part.

    Guarantee: divide every part of the sum by its deviation: the release becomes this sum plus standard
    noise, and one root changes the sum by at most sqrt(sum_l (C_l / sigma_l)^2). So the release is as private
    as one with a single clipping norm C and deviation C * `multiplier(clipping)`, for every split into parts
    (an invertible linear map of the output is free).

    Attributes:
        stddev: part -> absolute standard deviation on the sum, by the names of `Clipping.norms`.
    """

    stddev: Mapping[str, float]

    def __post_init__(self) -> None:
        for name, value in self.stddev.items():
            non_negative(f"noise_stddev of {name}", value)

    def multiplier(self, clipping: Clipping) -> float:
        """Deviation over clipping norm of the equivalent release with one part.

        Guarantee: the release with these deviations is the Gaussian mechanism at sensitivity 1 and this
        deviation, for parts clipped as in `clipping`: the squared shifts in units of their deviations add up
        (docs/accounting.md, theorem 5).

        Args:
            clipping: bounds of the same parts.

        Raises:
            ValueError: the parts are not those of the clipping.
        """
        require(
            set(self.stddev) == set(clipping.norms), "noise parts",
            f"be {sorted(clipping.norms)}", sorted(self.stddev),
        )  # fmt: skip
        if min(self.stddev.values()) == 0.0:
            return 0.0
        ratios = [norm / self.stddev[name] for name, norm in clipping.norms.items()]
        return 1.0 / math.sqrt(sum(ratio * ratio for ratio in ratios))

    def per_coordinate(self, network: Network, clipping: Clipping) -> Tensor:
        """float64, shape (num_parameters,): the deviation of each coordinate of the flat sum.

        Args:
            network: gives the part of each tensor.
            clipping: of the same parts.

        Raises:
            ValueError: the parts are not those of the network.
        """
        part_of, _ = clipping.parts(network)
        owners = {
            "global": ["all"],
            "group": list(dict.fromkeys(network.groups.values())),
            "tensor": list(network.shapes),
        }[clipping.per]
        values = [self.stddev[owners[part]] for part in part_of]
        sizes = [int(np.prod(shape)) for shape in network.shapes.values()]
        return torch.from_numpy(np.repeat(np.array(values, dtype=np.float64), sizes))


def joint_noise(clipping: Clipping, noise_stddev: float) -> Noise:
    """The same deviation on every coordinate; its multiplier is noise_stddev / clipping.total_norm.

    Guarantee: on a sum that changes by at most the clipping norm for each changed root, this is the Gaussian
    mechanism with multiplier noise_stddev / total_norm; unit, relation and changed roots are those of the
    plan.

    Args:
        clipping: bounds of the parts.
        noise_stddev: absolute standard deviation on the sum, >= 0.

    Raises:
        ValueError: noise_stddev is negative or not finite.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
    """
    return Noise(stddev=dict.fromkeys(clipping.norms, noise_stddev))


def scaled_noise(clipping: Clipping, noise_stddev: float) -> Noise:
    """Deviations proportional to the norms of the parts, with the multiplier of `joint_noise`.

    sigma_l = noise_stddev / C * sqrt(L) * C_l with C = `total_norm` and L parts. This is usually less noise
    in total than joint noise if the C_l differ.

    Guarantee: the multiplier of `joint_noise`, so the same event: squared shifts in units of their
    deviations add up over parts (docs/accounting.md, theorem 5).

    Args:
        clipping: bounds of the parts.
        noise_stddev: absolute standard deviation on the sum of the joint noise it replaces, >= 0.

    Raises:
        ValueError: noise_stddev is negative or not finite.

    Source: McMahan et al. (2018), arXiv:1812.06210.
    """
    factor = noise_stddev / clipping.total_norm * math.sqrt(len(clipping.norms))
    return Noise(stddev={name: factor * norm for name, norm in clipping.norms.items()})


def add_noise(total: Tensor, stddev: Tensor | float, *, rng: np.random.Generator) -> Tensor:
    """total + N(0, stddev^2), drawn in float64 for each coordinate.

    Guarantee: the Gaussian mechanism on `total` with its L2 sensitivity over `stddev`, for a secret generator
    and real numbers. What floating point reveals of the sum is not covered: a release uses
    `add_rounded_noise`.

    Args:
        total: flat clipped sum, float32 or float64, on any device.
        stddev: one deviation, or one per coordinate (float64).
        rng: the stream `noise`.

    Returns:
        a new tensor like `total`; this is released.

    Source: Dwork and Roth (2014), Theorem A.1.
    """
    deviations = torch.as_tensor(stddev, dtype=torch.float64).reshape(-1).cpu().numpy()
    noisy = torch.empty_like(total, device="cpu")
    if total.device.type == "cpu":
        _add_normal(rng, total.detach().numpy(), deviations, noisy.numpy())
        return noisy
    _add_normal(rng, np.zeros_like(noisy.numpy()), deviations, noisy.numpy())
    return total + noisy.to(total.device)


def add_rounded_noise(total: Tensor, stddev: Tensor | float, *, rng: np.random.Generator) -> Tensor:
    """total + N(0, stddev^2) as a real number, rounded to a public grid.

    Guarantee: post-processing of the Gaussian mechanism on `total`; see `core.rounded_noise.add_rounded`.

    Args:
        total: flat clipped sum, float64, on any device.
        stddev: one deviation, or one per coordinate (float64); > 0.
        rng: the stream `noise`; secret.

    Returns:
        a new float64 tensor on the device of `total`; this is released.

    Raises:
        ValueError: a deviation is not > 0, or the sum is not finite.
    """
    deviations = torch.as_tensor(stddev, dtype=torch.float64).cpu().numpy()
    noisy = add_rounded(total.detach().cpu().numpy(), deviations, rng=rng)
    return torch.from_numpy(noisy).to(total.device)


@njit(cache=True)
def _add_normal(rng, total, stddev, noisy):  # type: ignore[no-untyped-def]
    """noisy = total + stddev * `rng.standard_normal(len(total))` bitwise, compiled by numba."""
    step = 0 if len(stddev) == 1 else 1
    for i in range(len(total)):
        noisy[i] = rng.standard_normal() * stddev[i * step]
        noisy[i] += total[i]

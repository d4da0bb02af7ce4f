"""Exact tests of a running DP-SGD loop: noise, batches, clipping, divisor and changed roots, one by one.

For a single fault they are far stronger than any attack: ten thousand coordinates of noise reveal an error of
three per cent in its deviation. They read the noise-free sums, which no adversary sees.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import chi2, norm

from dpgnn.accountants.events import PoissonRoots, parts
from dpgnn.audits import batch_laws
from dpgnn.audits.training_audit import Aim, watch

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism

# float32 rounding of norms and sums
_ROUNDING = 1e-4


@dataclass(frozen=True, kw_only=True)
class Check:
    """One exact test.

    Attributes:
        name: what was tested.
        passed: whether it held.
        p_value: probability of such an outcome in a correct system, at least; 0 or 1 for tests without
            randomness.
        found: in words and numbers of the audit graph.
    """

    name: str
    passed: bool
    p_value: float
    found: str


class _Recording:
    """Clipped sums that record their inputs and outputs."""

    def __init__(self, real: Any) -> None:
        self.real = real
        self.roots: list[np.ndarray] = []
        self.sums: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        total = self.real(parameters, roots)
        self.roots.append(np.array(roots))
        self.sums.append(total.double().numpy().copy())
        return total


def examine_loop(
    aim: Aim, mechanism: Mechanism, *, seed: int, level: float, num_steps: int = 40
) -> tuple[Check, ...]:
    """Test the loop in world G.

    Guarantee: a correct loop fails one or more of the tests with probability <= level.

    Args:
        aim: captured training of both worlds.
        mechanism: as planned.
        seed: of the streams.
        level: shared evenly by the tests.
        num_steps: number of observed steps.
    """
    world = aim.worlds[0]
    recording, means = _Recording(world.gradients), []

    def look(mean: Tensor) -> None:
        means.append(mean.double().numpy().copy())

    watch(
        dataclasses.replace(world, gradients=recording), aim.initial, num_steps, seed, look,
        stage=mechanism.name,
    )  # fmt: skip
    assert mechanism.divisor is not None
    deviation = world.spec.noise.per_coordinate(world.network, world.spec.clipping).numpy()
    sums, noisy = np.stack(recording.sums), np.stack(means) * mechanism.divisor
    of_noise = _of_noise((noisy - sums) / deviation, sums / deviation)
    num_roots, event = len(aim.rows[0]), parts(mechanism.event)[0][0]
    of_batches = batch_laws.of_batches(event, recording.roots, num_roots, aim.changed_roots())
    each = level / len(of_noise | of_batches)
    found = [
        Check(name=name, passed=p >= each, p_value=p, found=words)
        for p_values, words in (
            (of_noise, f"{sums.size} coordinates"),
            (of_batches, f"{len(recording.roots)} batches of {num_roots} roots"),
        )
        for name, p in p_values.items()
    ]
    return (*found, *_certain(aim, mechanism, recording.roots))


def _of_noise(z: np.ndarray, sums: np.ndarray) -> dict[str, float]:
    """p-values of standard noise z and the sums, both (steps, coordinates), in planned deviations."""
    return {
        "noise deviation": two_sided(float((z**2).sum()), z.size),
        "noise of every step": _smallest([two_sided(float((r**2).sum()), r.size) for r in z]),
        "fresh noise": normal(float((z[1:] * z[:-1]).sum()) / math.sqrt(z[1:].size)),
        "divisor": normal(_slope(z, sums)),
    }


def _certain(aim: Aim, mechanism: Mechanism, batches: list[np.ndarray]) -> list[Check]:
    """Deterministic tests, of every record that the canary may have in G'."""
    spec, event = aim.worlds[0].spec, parts(mechanism.event)[0][0]
    assert mechanism.clipping_norm is not None
    aims = (aim, *aim.also)
    largest, bound = _worst(aims, lambda each: max(_largest_norm(side) for side in each.rows))
    planned = mechanism.noise_stddev / mechanism.clipping_norm
    multiplier = spec.noise.multiplier(spec.clipping)
    repeats = sum(len(roots) - len(np.unique(roots)) for roots in batches)
    changed = tuple(max(side) for side in zip(*(each.changed() for each in aims)))
    moved, scale = _worst(aims, Aim.moved)
    allowed = (
        (event.d_plus, event.d_minus)
        if isinstance(event, PoissonRoots)
        else (getattr(event, "changed_roots", len(aim.rows[0])),) * 2
    )
    stated = scale * sum(allowed)
    return [
        plain("clipping", largest <= bound * (1 + _ROUNDING), f"norm {largest:.6g} of {bound:.6g}"),
        plain(
            "noise over clipping norm", multiplier >= planned * (1 - 1e-9),
            f"{multiplier:.6g} of {planned:.6g}",
        ),
        plain("batch without replacement", repeats == 0, f"{repeats} repeated roots"),
        plain(
            "changed roots",
            _stochastic(aim) or (changed[0] <= allowed[0] and changed[1] <= allowed[1]),
            f"{changed} of {allowed}",
        ),
        plain(
            "shift of the sum", moved <= stated * (1 + _ROUNDING), f"{moved:.6g} of {stated:.6g}",
        ),
    ]  # fmt: skip


def _stochastic(aim: Aim) -> bool:
    """With dropout a gradient depends on public masks, so equal examples give unequal rows."""
    return getattr(aim.worlds[0].gradients, "dropout", None) is not None


def _worst(aims: tuple[Aim, ...], size: Callable[[Aim], float]) -> tuple[float, float]:
    """(size, clipping norm) of the aim whose size is the largest part of its clipping norm."""
    found = [(size(aim), float(aim.worlds[0].spec.clipping.total_norm)) for aim in aims]
    return max(found, key=lambda pair: pair[0] / pair[1])


def _largest_norm(rows: np.ndarray) -> float:
    return float(np.linalg.norm(rows, axis=1).max(initial=0.0))


def plain(name: str, passed: bool, found: str) -> Check:
    """A test without randomness."""
    return Check(name=name, passed=bool(passed), p_value=float(passed), found=found)


def two_sided(value: float, freedom: int) -> float:
    """p-value of a chi-squared value, for both sides."""
    return float(min(1.0, 2 * min(chi2.cdf(value, freedom), chi2.sf(value, freedom))))


def normal(value: float) -> float:
    """p-value of a standard normal value, for both sides."""
    return float(2 * norm.sf(abs(value)))


def _smallest(p_values: list[float]) -> float:
    return float(min(1.0, len(p_values) * min(p_values)))


def _slope(z: np.ndarray, sums: np.ndarray) -> float:
    """Standardised regression of the residual on the sum; another divisor leaves part of the sum in it."""
    length = float((sums**2).sum())
    return float((z * sums).sum()) / math.sqrt(length) if length > 0 else 0.0

"""The grid step of a loss: fine enough for three digits, coarse enough for memory."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from dpgnn.accountants import gdp
from dpgnn.accountants.events import (
    Event,
    FixedSizeRoots,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    parts,
)
from dpgnn.accountants.mixtures import two_sided_pair

# a single loss and a composed loss have at most this many points; a coarser grid still gives an upper bound
MAX_POINTS_ONCE = 1 << 18
MAX_POINTS_COMPOSED = 1 << 22


def default_step(event: Event[Any]) -> float:
    """A grid step in nats that changes epsilon by far less than its third digit.

    Connect-the-dots adds at most step^2/4 to the variance of each run's loss. The step keeps the standard
    deviation that this adds to the sum below 0.005, and the added variance below 1e-4 of that of the sum.
    """
    runs, variance, total_width, coarsest = 0, 0.0, 0.0, 0.0
    for part, count in parts(event):
        mu = gdp.event_mu(part)
        if mu is not None:
            if math.isfinite(mu):
                variance += count * mu * mu
                total_width += 20 * mu * math.sqrt(count) + count * mu * mu
            continue
        runs += count
        scale, reach = _scale_and_reach(part)
        variance += count * scale * scale
        coarsest = max(coarsest, reach / MAX_POINTS_ONCE)
        total_width += min(count * reach, 20 * scale * math.sqrt(count) + 2 * count * scale**2)
    runs = max(1, runs)
    wanted = min(1e-3, 1e-2 / math.sqrt(runs))
    if variance > 0:
        wanted = min(wanted, 0.02 * math.sqrt(variance / runs))
    return max(wanted, coarsest, total_width / MAX_POINTS_COMPOSED)


def _scale_and_reach(event: Event[Any]) -> tuple[float, float]:
    """Approximate standard deviation and width of the loss of one run, in nats."""
    if isinstance(event, PoissonRoots):
        shift = event.clipping_norm / event.noise_stddev
        changed = event.d_plus + event.d_minus
        return changed * event.sampling_probability * shift, _poisson_reach(event)
    if isinstance(event, FixedSizeRoots):
        shift = 2 * event.changed_roots * event.clipping_norm / event.noise_stddev
        return shift * event.batch_size / event.population, shift * (20 + shift)
    if isinstance(event, GumbelTopK):
        width = 2 * event.num_selected * event.score_sensitivity / event.scale
        return width, 2 * width
    if isinstance(event, LaplaceRelease):
        return event.sensitivity / event.scale, 2 * event.sensitivity / event.scale
    if isinstance(event, RandomizedResponse):
        width = abs(_logit(event.one_if_one) - _logit(event.one_if_zero))
        return width / 2, 2 * width
    return 0.0, 0.0


@lru_cache(maxsize=256)
def _poisson_reach(event: PoissonRoots[Any]) -> float:
    """Width of the losses that `pld.mixture_loss` puts on the grid, in the wider direction."""
    pair = two_sided_pair(event)
    return max(side.trimmed()[0].reach() for side in (pair, pair.reversed()))


def _logit(probability: float) -> float:
    """Log odds, bounded."""
    clipped = min(max(probability, 1e-12), 1 - 1e-12)
    return math.log(clipped) - math.log1p(-clipped)

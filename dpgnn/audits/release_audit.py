"""Audit of a noisy release that is not a clipped sum: aggregates, page-rank rows, answered edges.

The method's own fit runs up to the first reader of the release, in two neighbouring worlds, many times with
fresh noise. The statistic is a projection on a direction chosen beforehand: the noise-free difference if
noise can be removed, else the difference of pilot runs that are not used again.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgnn.accountants.plan import Plan
from dpgnn.audits.canary import DESIGNS
from dpgnn.audits.capture import Case
from dpgnn.audits.mechanics import Check

# pilot runs of each world; directions are found on the first half and compared on the second
NUM_PILOTS = 120


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseAim:
    """The auditor's statistic of a release; sensitive.

    Attributes:
        case: the entry in its two worlds.
        worlds: graph, split and prepared sample of G and of G'.
        direction: float64, of the flat release's length.
    """

    case: Case
    worlds: tuple[Any, Any]
    direction: np.ndarray

    def score(self, seed: int, *, inside: bool) -> float:
        """The statistic of one run with streams of this seed."""
        release = self.case.release(self.worlds[0 if inside else 1], seed)
        return float(release @ self.direction)


def aim_at_release(case: Case, seed: int) -> ReleaseAim:
    """Choose the records and the direction that best separate pilot runs of the two worlds."""
    variants = []
    for recipe in case.recipe.labelled():
        recipes = [dataclasses.replace(recipe, design=design) for design in DESIGNS]
        variants += [dataclasses.replace(case, recipe=each, kept={}) for each in recipes]
        variants.append(dataclasses.replace(case, recipe=recipe, kept={}, opposite_rows=True))
    return max((_aimed(variant, seed) for variant in variants), key=lambda found: found[0])[1]


def attained_share(first: np.ndarray, second: np.ndarray, mu: float | None) -> float | None:
    """Part of the planned sensitivity that the scores of two worlds show, at most 1; an estimate.

    Args:
        first, second: scores of independent runs, on a direction chosen before.
        mu: of the planned release, if it is exactly Gaussian; None gives None.
    """
    if not mu:
        return None
    deviation = np.sqrt((first.var(ddof=1) + second.var(ddof=1)) / 2)
    return float(min(1.0, abs(first.mean() - second.mean()) / (deviation * mu)))


def _aimed(case: Case, seed: int) -> tuple[float, ReleaseAim]:
    """(separation of the pilot runs, the aim) for one design of the audit graph."""
    worlds = (case.prepared(True), case.prepared(False))
    pilots = [
        np.stack([case.release(world, seed + 2 * i + side) for i in range(NUM_PILOTS)])
        for side, world in enumerate(worlds)
    ]
    half = NUM_PILOTS // 2
    candidates = [_welch(pilots[0][:half], pilots[1][:half])]
    quiet = _without_noise(case.plan)
    if quiet is not None:
        # the draws of a release cannot be run without noise
        still = dataclasses.replace(case, randomness="study")
        difference = still.release(worlds[0], seed, quiet) - still.release(worlds[1], seed, quiet)
        candidates += _pieces(difference)
    separated, best = max(
        ((_separation(pilots[0][half:], pilots[1][half:], one), one) for one in candidates),
        key=lambda found: found[0],
    )
    return separated, ReleaseAim(case=case, worlds=worlds, direction=best)


def shapes(case: Case, seed: int) -> Check | None:
    """Whether one draw of the release has the same size in both worlds; None without a release."""
    if not release_mechanisms(case.plan):
        return None
    sizes = [case.release(case.prepared(inside), seed).size for inside in (True, False)]
    return Check(
        name="shape of the release", passed=sizes[0] == sizes[1], p_value=float(sizes[0] == sizes[1]),
        found=f"{sizes[0]} numbers in G, {sizes[1]} in G'",
    )  # fmt: skip


def release_mechanisms(plan: Plan) -> list[Any]:
    """The plan's mechanisms other than clipped sums that a canary, a training node, can enter."""
    return [m for m in plan.mechanisms if m.clipping_norm is None and m.population != "others"]


def _without_noise(plan: Plan) -> Plan | None:
    """The plan with Gaussian noise removed from its releases; None for other noise."""
    found = []
    for mechanism in plan.mechanisms:
        if mechanism.clipping_norm is None:
            if mechanism.noise_stddev == 0 or "scale" in mechanism.details:
                return None
            mechanism = dataclasses.replace(mechanism, noise_stddev=0.0)
        found.append(mechanism)
    return dataclasses.replace(plan, mechanisms=tuple(found))


def _welch(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Difference of means over variance, if significant."""
    variance = first.var(axis=0) + second.var(axis=0)
    difference = first.mean(axis=0) - second.mean(axis=0)
    floor = 1e-6 + 1e-3 * float(variance.mean())
    standard = np.abs(difference) / np.sqrt((variance + floor) / len(first))
    cut = min(3.0, float(standard.max(initial=0.0)))
    return np.where(standard >= cut, difference / (variance + floor), 0.0)


def _pieces(difference: np.ndarray) -> list[np.ndarray]:
    """The whole difference, and its first and second half (for releases of several hops)."""
    half = len(difference) // 2
    first, last = difference.copy(), difference.copy()
    first[half:], last[:half] = 0.0, 0.0
    return [piece for piece in (difference, first, last) if np.any(piece)]


def _separation(first: np.ndarray, second: np.ndarray, direction: np.ndarray) -> float:
    a, b = first @ direction, second @ direction
    return float(abs(a.mean() - b.mean()) / np.sqrt(a.var() + b.var() + 1e-12))

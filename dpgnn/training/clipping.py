"""Clipping: one norm for the whole gradient, per group or per tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numba import njit

from dpgnn.core.checks import one_of, positive, require
from dpgnn.models.network import Network

# rows of inputs longer than this count as non-finite: see `clip_factors`
LARGEST_ROW = 1e20

Per = Literal["global", "group", "tensor"]


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """L2 bounds on one root's gradient.

    Guarantee: the clipped gradient of one root has norm <= `total_norm`, and each part of it has norm <=
    its own bound; the bounds are public constants. Proof of the factors: see `clip_factors`.

    Attributes:
        per: "global" (one norm over all tensors), "group" (encoder, aggregation, decoder) or "tensor" (every
            weight and bias).
        norms: {"all": C}, or one bound per group or per tensor of the network, > 0.
    """

    per: Per
    norms: Mapping[str, float]

    def __post_init__(self) -> None:
        one_of("clipping", self.per, ("global", "group", "tensor"))
        for name, norm in self.norms.items():
            positive(f"clipping norm of {name}", norm)
        if self.per == "global":
            require(set(self.norms) == {"all"}, "clipping norms", "be {'all': C}", dict(self.norms))

    @property
    def total_norm(self) -> float:
        """Bound on the norm of the whole clipped gradient: the root of the sum of squares."""
        return math.sqrt(sum(norm * norm for norm in self.norms.values()))

    def parts(self, network: Network) -> tuple[np.ndarray, np.ndarray]:
        """The part of each tensor, and the bound of each part.

        Args:
            network: names tensors and groups.

        Returns:
            part_of: int64, shape (num_tensors,), in the order of `network.shapes`.
            bounds: float64, shape (num_parts,).

        Raises:
            ValueError: the bounds do not name exactly the network's groups or tensors.
        """
        owners = {
            "global": dict.fromkeys(network.shapes, "all"),
            "group": network.groups,
            "tensor": {name: name for name in network.shapes},
        }[self.per]
        names = list(dict.fromkeys(owners.values()))
        require(
            set(names) == set(self.norms), f"clipping norms per {self.per}",
            f"name exactly {', '.join(names)}", sorted(self.norms),
        )  # fmt: skip
        part_of = np.array([names.index(owners[name]) for name in network.shapes])
        return part_of, np.array([self.norms[name] for name in names], dtype=np.float64)


def global_clipping(clipping_norm: float) -> Clipping:
    """One bound C on the norm of the whole gradient.

    Guarantee: one root's clipped gradient has norm <= clipping_norm; `clip_factors` covers float32 rounding.

    Args:
        clipping_norm: C > 0, in units of the loss gradient; public.

    Raises:
        ValueError: clipping_norm is not > 0.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
    """
    return Clipping(per="global", norms={"all": clipping_norm})


def uniform_clipping(network: Network, per: Per, clipping_norm: float) -> Clipping:
    """Equal bounds for all parts; their `total_norm` is `clipping_norm`.

    Guarantee: a root's clipped gradient has norm <= clipping_norm, as under `global_clipping`.

    Args:
        network: names the parts.
        per: "global", "group" or "tensor".
        clipping_norm: C > 0; each of L parts gets C / sqrt(L).

    Raises:
        ValueError: clipping_norm is not > 0, or `per` is unknown.

    Source: McMahan et al. (2018), arXiv:1710.06963, per-layer clipping.
    """
    if per == "global":
        return global_clipping(clipping_norm)
    names = sorted(set(network.groups.values())) if per == "group" else list(network.shapes)
    return Clipping(per=per, norms=dict.fromkeys(names, clipping_norm / math.sqrt(len(names))))


def clip_factors(
    squared: np.ndarray,
    spread: np.ndarray,
    part_of: np.ndarray,
    bounds: np.ndarray,
    unit: float,
    spread_share: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Factors in [0, 1] that reduce every part of every root's gradient to its bound.

    Guarantee: for gradients sum_t a_t g_t^T of floating-point rows a_t and g_t, the exact sum of a_t
    fl(factor g_t)^T has norm <= bound, for every part. Proof: let S = sum_t |a_t||g_t|. `squared` is at least
    the exact squared norm (its kernels add gamma S^2, gamma the number of added terms times the accumulator's
    unit). Rounding of the factor and of fl(factor g_t) changes the sum by at most 2 unit S factor, which the
    term 4 unit S below covers; this relative error does not hold for factors below the normal numbers of the
    rows' dtype, which become 0. Where fl(factor g_t) underflows, an entry is wrong by at most 2^-150
    (float32); rows with |a_t| > LARGEST_ROW = 1e20 count as non-finite, so this changes the sum by less than
    2^-150 1e20 sqrt(num_entries) num_rows, far below the reserved 2^-30 of the bound, for every bound >= 1e-9
    and up to 1e12 entries and rows. A `spread_share` s > 4 unit replaces 4 unit, so that also factor S <=
    bound / s. This bounds the rounding that one root causes in a sum over the batch
    (`rounding.rounding_share`).

    A root with a non-finite norm in a tensor gets factor 0 everywhere and is reported, so that its rows can
    be set to 0 (0 times infinity is not 0).

    Args:
        squared: float64, shape (num_tensors, num_roots): upper bounds on the squared norms; sensitive.
        spread: float64, same shape: S.
        part_of, bounds: from `Clipping.parts`.
        unit: the rounding unit of the rows (2^-24 for float32, 2^-53 for float64).
        spread_share: s; 0 outside a release.

    Returns:
        factors: float64, shape (num_tensors, num_roots).
        bad: bool, shape (num_roots,); sensitive.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, with rounding included.
    """
    smallest = float(np.finfo(np.float32 if unit > 2.0**-53 else np.float64).tiny)
    factors, bad = np.empty_like(squared), np.empty(squared.shape[1], dtype=bool)
    share = max(4.0 * unit, spread_share)
    _clip_factors(squared, spread, part_of, bounds, unit, share, smallest, factors, bad)
    return factors, bad


@njit(cache=True, nogil=True, error_model="numpy")
def _clip_factors(squared, spread, part_of, bounds, unit, share, smallest, factors, bad):  # type: ignore[no-untyped-def]
    """One root after the other; without fast math, which does not recognise NaN and infinity."""
    if len(part_of) == 1:
        # the same for one tensor without inner loops, so that several roots are processed at once
        bound = bounds[0] * (1.0 - unit / 64.0)
        for i in range(squared.shape[1]):
            upper = np.sqrt(squared[0, i]) + share * spread[0, i]
            norm = np.sqrt(upper * upper) * (1.0 + 2.0**-50)
            factor = min(1.0, bound / norm)
            bad[i] = not (np.isfinite(upper) and np.isfinite(norm))
            factors[0, i] = 0.0 if bad[i] or factor < smallest else factor
        return
    total = np.empty(len(bounds))
    for i in range(squared.shape[1]):
        total[:] = 0.0
        bad[i] = False
        for tensor in range(len(part_of)):
            upper = np.sqrt(squared[tensor, i]) + share * spread[tensor, i]
            bad[i] |= not np.isfinite(upper)
            total[part_of[tensor]] += upper * upper
        for part in range(len(bounds)):
            norm = np.sqrt(total[part]) * (1.0 + 2.0**-50)
            bad[i] |= not np.isfinite(norm)
            # NaN makes the root bad, so the result of the comparison does not matter
            total[part] = min(1.0, bounds[part] * (1.0 - unit / 64.0) / norm)
        for tensor in range(len(part_of)):
            factor = total[part_of[tensor]]
            factors[tensor, i] = 0.0 if bad[i] or factor < smallest else factor

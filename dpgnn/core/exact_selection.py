"""The largest scores under exact Gumbel noise, unaffected by floating-point rounding.

G = -log(-log(1 - V)), V uniform with unlimited secret bits. 64 bits and float64 give every noisy score within
an error bound; if that leaves the choice open, more bits of the same V are drawn and interval arithmetic
decides.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpgnn.core.checks import positive, require
from dpgnn.core.exact_coins import interval, intervals


def largest_with_gumbel(
    scores: np.ndarray, scale: float, count: int, *, rng: np.random.Generator
) -> np.ndarray:
    """Positions of the `count` largest of scores + scale G, largest first, G real and independent.

    Guarantee: exactly the distribution over real numbers, for the given float64 scores: event `GumbelTopK`.
    Assumed: the generator is secret and uniform; log and log1p in float64 err by less than 2^-50 relative.

    Args:
        scores: float64, finite, shape (n,); sensitive.
        scale: > 0; public.
        count: 1 <= count <= n.
        rng: the stream `gumbel`.

    Returns:
        int64, shape (count,).

    Raises:
        ValueError: the scale is not > 0, or count is not in 1..n.
    """
    positive("scale", scale)
    require(1 <= count <= len(scores), "count", f"be in 1..{len(scores)}", count)
    bits = rng.integers(0, 2**64, size=len(scores), dtype=np.uint64)
    noisy, low, high = _noisy(scores, scale, bits)
    order = np.argsort(-noisy)
    if _is_settled(low, high, order, count):
        return order[:count]
    return _exactly(scores, scale, count, [int(b) for b in bits], 64, rng)


def _noisy(
    scores: np.ndarray, scale: float, bits: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Noisy scores in float64 from the first 64 bits of each V, and bounds on the exact ones."""
    v = np.minimum((bits.astype(np.float64) + 0.5) * 2.0**-64, 1.0 - 2.0**-53)
    exponential = -np.log1p(-v)
    gumbel = -np.log(exponential)
    # dG/dV = 1 / ((1 - V) E); V has an error from rounding and undrawn bits
    wrong = (2.0**-52 * v + 2.0**-63) / ((1.0 - v) * exponential) + 2.0**-48 * (
        1.0 + np.abs(gumbel)
    )
    # no bound above where V is clipped at 1 - 2^-53
    wrong[v >= 1.0 - 2.0**-50] = np.inf
    noisy = scores + scale * gumbel
    error = scale * wrong + 2.0**-50 * (np.abs(scores) + np.abs(scale * gumbel))
    high, low = noisy + error, noisy - error
    high[np.isinf(error)] = scores[np.isinf(error)]  # G < 0 there
    high[bits == 0] = np.inf
    return noisy, low, high


def _is_settled(low: Any, high: Any, order: np.ndarray, count: int) -> bool:
    """Whether each of the first `count` scores is certainly above all later ones."""
    after = np.append(np.maximum.accumulate(high[order][::-1])[::-1][1:], -np.inf)
    return bool((low[order[:count]] > after[:count]).all())


def _exactly(
    scores: np.ndarray,
    scale: float,
    count: int,
    prefixes: list[int],
    num_bits: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """`largest_with_gumbel` from the first bits of every V, by intervals."""
    exact, factor = [Fraction(s) for s in scores.tolist()], Fraction(scale)
    while True:
        iv = intervals(num_bits + 40)
        last = (1 << num_bits) - 1
        if all(0 < prefix < last for prefix in prefixes):
            found = []
            for prefix, score in zip(prefixes, exact):
                v = iv.mpf([prefix, prefix + 1]) * iv.mpf(2) ** -num_bits
                noise = -iv.log(-iv.log(1 - v))
                found.append(interval(iv, score) + interval(iv, factor) * noise)
            order = sorted(range(len(found)), key=lambda i: found[i].mid, reverse=True)
            if all(
                found[i].a > found[j].b
                for place, i in enumerate(order[:count])
                for j in order[place + 1 :]
            ):
                return np.array(order[:count], dtype=np.int64)
        fresh = rng.integers(0, 2**64, size=len(prefixes), dtype=np.uint64).tolist()
        prefixes = [(prefix << 64) | more for prefix, more in zip(prefixes, fresh)]
        num_bits += 64

"""Exact tests of batches: which roots are in them, how many, and whether the next batch is a fresh one.

The right number of roots over all steps says little: batches of one size, roots taken in turn, and the same
roots in every step have it too. Each p-value is of an exact law, of coins or of uniform subsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.stats import binom, hypergeom

from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots

# outcomes of a batch size that are rarer are left out of its law
_RAREST = 1e-20
# rounding of the Fourier transforms; it is added, so that a p-value is not too small
_ROUNDING = 1e-12


def of_batches(
    event: Any, batches: Sequence[np.ndarray], num_roots: int, canary: np.ndarray
) -> dict[str, float]:
    """p-values of the batches that a loop drew.

    Guarantee: for a correct loop each is at most p with probability <= p: every root by coins of its own and
    independent batches (`PoissonRoots`), independent uniform subsets (`FixedSizeRoots`), or all roots.

    Args:
        event: of one step, as planned; other events than the two are of all roots.
        batches: the roots of each step, int64.
        num_roots: roots to draw from.
        canary: the roots that the canary changes, int64.
    """
    drawn = np.zeros((len(batches), num_roots), dtype=bool)
    for row, roots in zip(drawn, batches):
        row[roots] = True
    return {
        "batch size": _size(event, batches, num_roots),
        "spread of batch sizes": _spread(event, drawn),
        "share of every root": _every_root(event, drawn),
        "share of the canary's roots": _canary(event, drawn, canary),
        "fresh batches": _fresh(drawn),
    }


def _size(event: Any, batches: Sequence[np.ndarray], num_roots: int) -> float:
    """Of all batches together by coins; of each if it is fixed."""
    if isinstance(event, FixedSizeRoots):
        return float(all(len(roots) == event.batch_size for roots in batches))
    total, trials = sum(len(roots) for roots in batches), num_roots * len(batches)
    return float(_of_binomial(np.array(total), trials, rate_of(event)))


def _spread(event: Any, drawn: np.ndarray) -> float:
    """Sum of squared distances of sizes from their rounded mean; that of a fixed size is tested as such."""
    if isinstance(event, FixedSizeRoots):
        return 1.0
    steps, num_roots = drawn.shape
    middle = round(num_roots * rate_of(event))
    chances = binom.pmf(np.arange(num_roots + 1), num_roots, rate_of(event))
    kept = np.flatnonzero(chances > _RAREST)
    law = np.bincount((kept - middle) ** 2, weights=chances[kept])
    return _two_sided(_of_sum([law], steps), int(((drawn.sum(axis=1) - middle) ** 2).sum()))


def _every_root(event: Any, drawn: np.ndarray) -> float:
    """How often each root is in a batch; Bonferroni over the roots."""
    p_values = _of_binomial(drawn.sum(axis=0), len(drawn), rate_of(event))
    return float(min(1.0, len(p_values) * p_values.min(initial=1.0)))


def _canary(event: Any, drawn: np.ndarray, canary: np.ndarray) -> float:
    """How often the canary's roots are in a batch, together."""
    (steps, num_roots), many = drawn.shape, len(canary)
    if isinstance(event, FixedSizeRoots):
        law = hypergeom.pmf(np.arange(many + 1), num_roots, many, event.batch_size)
    else:
        law = binom.pmf(np.arange(many + 1), many, rate_of(event))
    return _two_sided(_of_sum([law], steps), int(drawn[:, canary].sum()))


def _fresh(drawn: np.ndarray) -> float:
    """Roots that a batch shares with the next one, over all steps.

    Given all sizes, each batch is a uniform subset, so the overlaps are independent hypergeometric numbers,
    with coins and without.
    """
    sizes, num_roots = drawn.sum(axis=1), drawn.shape[1]
    laws = [
        hypergeom.pmf(np.arange(min(first, second) + 1), num_roots, first, second)
        for first, second in zip(sizes[:-1], sizes[1:])
    ]
    return _two_sided(_of_sum(laws, 1), int((drawn[1:] & drawn[:-1]).sum()))


def rate_of(event: Any) -> float:
    """Probability that a root is in a batch."""
    if isinstance(event, FixedSizeRoots):
        return event.batch_size / event.population
    return event.sampling_probability if isinstance(event, PoissonRoots) else 1.0


def _of_binomial(counts: np.ndarray, trials: int, rate: float) -> np.ndarray:
    low, high = binom.cdf(counts, trials, rate), binom.sf(counts - 1, trials, rate)
    return np.asarray(np.minimum(1.0, 2 * np.minimum(low, high)))


def _of_sum(laws: Sequence[np.ndarray], times: int) -> np.ndarray:
    """The law of a sum of independent numbers 0, 1, ..., one of each law, taken `times` times."""
    size = sum(len(law) - 1 for law in laws) * times + 1
    length = next_fast_len(size, real=True)
    product = np.ones(length // 2 + 1, dtype=complex)
    for law in laws:
        product *= rfft(law, length)
    return np.asarray(np.maximum(irfft(product**times, length)[:size], 0.0))


def _two_sided(law: np.ndarray, value: int) -> float:
    tails = (law[: value + 1].sum(), law[value:].sum())
    return float(min(1.0, 2 * min(tails) + _ROUNDING))

"""Mean ranks over graphs: what holds on several graphs, where a verdict on one graph speaks of that graph.

Every graph is one block: entries under one guarantee at one epsilon are ranked on it by their mean score.
Friedman's test, in the form of Iman and Davenport, asks whether all mean ranks could be equal. Two entries
are told apart where their mean ranks differ by more than Nemenyi's critical difference, which allows for all
pairs.

Source: Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7, section 3.2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgnn.core.checks import require
from dpgnn.report.statistics.statistics import LEVEL

LEAST_GRAPHS = 5  # with fewer, two entries can never be told apart


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Entries over graphs.

    Attributes:
        ranks: mean rank of each entry over graphs, 1 the best; float64, one an entry.
        critical: two mean ranks that differ by more are told apart, at the level of 5 % over all pairs.
        p: of "all entries have the same mean rank".
    """

    ranks: np.ndarray
    critical: float
    p: float


def mean_ranks(scores: np.ndarray) -> MeanRanks:
    """Rank entries on every graph and test the mean ranks.

    Args:
        scores: one row a graph, one column an entry; the larger the better; equal ones share their ranks.

    Raises:
        ValueError: fewer than two graphs or two entries, or a score that is not finite.
    """
    from scipy.stats import f, rankdata

    require(
        scores.ndim == 2 and min(scores.shape) >= 2, "scores",
        "hold two graphs and two entries at least", scores.shape,
    )  # fmt: skip
    require(bool(np.isfinite(scores).all()), "scores", "be finite", scores)
    n, k = scores.shape
    ranks = rankdata(-scores, axis=1)
    between = float(np.square(ranks.sum(axis=0) - n * (k + 1) / 2).sum())
    within = float(np.square(ranks - (k + 1) / 2).sum())
    p = 1.0
    if between > 0:
        chi_square = (k - 1) * between / within
        rest = n * (k - 1) - chi_square
        ratio = (n - 1) * chi_square / rest if rest > 1e-9 else math.inf
        # the F form gives 0 where all graphs agree; by chance they do so once in (k!) ** (n - 1)
        agree = math.exp(-(n - 1) * math.lgamma(k + 1))
        p = max(float(f.sf(ratio, k - 1, (k - 1) * (n - 1))), agree)
    critical = _quantile(k) * math.sqrt(k * (k + 1) / (6 * n))
    return MeanRanks(ranks=ranks.mean(axis=0), critical=critical, p=p)


@lru_cache
def _quantile(k: int) -> float:
    """Nemenyi's factor: the studentized range's quantile for k entries, over the root of two."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - LEVEL, k, np.inf)) / math.sqrt(2)

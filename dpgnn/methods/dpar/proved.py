"""What can be proved for a published DPAR run: the number of roots that a node reaches with high probability.

Published rows have no column cap, so a node may be in all M of them; but with the large noise it hardly ever
is. Let v be the node that differs and X the number of rows that select v. Given the exact rows the M
selections are independent, and each takes v with probability at most p in both worlds (the two functions
below), so Pr[X > c] <= Pr[Bin(M, p) > c] = slack in both.

Claim. If training is dominated by a pair (A, B) whenever at most c + 1 roots change, then the whole has
delta(epsilon) <= delta of (rows x (A, B)) + slack.
Proof. Let E be X <= c, an event of the first stage's output. For any S, Pr[G in S] <= Pr[G in S, E] + slack
and Pr[G' in S] >= Pr[G' in S, E]. On E, with p1 and q1 the laws of the first stage's output o,
Pr[G in S, E] - e^eps Pr[G' in S, E] <= integral over E of max over T of (p1 K_o(T) - e^eps q1 K'_o(T)), and
the integrand is nonnegative and at most p1 H(A || B) at order e^eps q1/p1; extending the integral to all
outputs gives the hockey-stick divergence of the composition. []
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats
from scipy.special import ndtr

from dpgnn.accountants.events import GaussianRelease, GumbelTopK
from dpgnn.core.checks import open_probability


def gumbel_selection_probability(event: GumbelTopK[Any], num_members: int) -> float:
    """The largest probability that one node is among the K selected of a vector, in either world.

    Picks are made one after the other with probabilities in proportion to exp(score / b); a clipped score
    is at most C2 and the others' are at least 0.

    Args:
        event: one vector's selection.
        num_members: N, candidates.
    """
    weight = math.exp(min(event.score_sensitivity / event.scale, 700.0))
    picks = range(min(event.num_selected, num_members))
    return min(1.0, sum(weight / (weight + num_members - 1 - i) for i in picks))


def gaussian_selection_probability(
    event: GaussianRelease[Any], max_norm: float, num_members: int, num_selected: int
) -> float:
    """The same for entries with Gaussian noise of which the K largest are kept.

    The node's score is at most C1 above its noise and the others' are at least theirs, so it is
    selected no more often than a node with a head start of C1 among others without.

    Args:
        event: one vector's release.
        max_norm: C1.
        num_members: N.
        num_selected: K.
    """
    if num_selected >= num_members:
        return 1.0
    nodes, weights = np.polynomial.legendre.leggauss(400)
    z, half = 10.0 * nodes, 10.0
    # fewer than K of the N - 1 others are above the node's score
    above = ndtr(-(z + max_norm / event.noise_stddev))
    inside = stats.binom.cdf(num_selected - 1, num_members - 1, above) * stats.norm.pdf(z)
    return float(min(1.0, half * (weights * inside).sum() + 2e-23))


def changed_roots_but_for(
    slack: float, probability: float, num_vectors: int, num_roots: int
) -> int:
    """Upper bound on the roots that a node changes, with probability at least 1 - slack.

    Args:
        slack: in (0, 1), part of delta.
        probability: p that one row contains the node.
        num_vectors: M independent rows.
        num_roots: upper bound of the result.
    """
    open_probability("slack", slack)
    most = int(stats.binom.isf(slack, num_vectors, min(probability, 1.0)))
    while stats.binom.sf(most, num_vectors, probability) > slack:
        most += 1
    return min(num_roots, most + 1)

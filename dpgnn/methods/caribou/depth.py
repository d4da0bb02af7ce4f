"""When contraction helps and when not: the numbers of docs/methods/caribou.md, from the formulas.

`python -m dpgnn.methods.caribou.depth` prints the tables of that page; a test compares the page with them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtr

from dpgnn.accountants import gdp
from dpgnn.methods.caribou.sensitivity import (
    edge_operator_sensitivity,
    node_operator_sensitivity,
    padded_edge_operator_sensitivity,
)

CONTRACTIONS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEPTHS = (1, 2, 4, 8, 16, 32, 64)


def noise_per_sensitivity(
    num_hops: int, contraction: float, *, epsilon: float, delta: float
) -> float:
    """sigma / Delta that K hops need for (epsilon, delta): sqrt(K_eff)/mu; c = 1 is plain composition."""
    return math.sqrt(gdp.effective_hops(num_hops, contraction)) / gdp.mu(epsilon, delta)


def far_signal(num_hops: int, contraction: float) -> float:
    """Signal-to-noise ratio of a feature K hops away, relative to no contraction; at most 1.

    A feature K hops away enters X_K with a weight of at most c^K, under last-hop noise proportional to c
    sqrt(K_eff) (the sensitivity is c a1 S). Relative to c = 1: r = c^(K-1) sqrt(K / K_eff).

    Proof of r <= 1. K_eff = (sum_j c^j)^2 / sum_j c^(2j), j = 0..K-1. The numerator is at least
    (K c^(K-1))^2 and the denominator at most K. With the noise of earlier hops that is still in X_K, at most
    sqrt(sum_j c^(2j)) times as much, r becomes K c^(K-1)/sum_j c^j, at most 1 for the same reason. []
    """
    effective = gdp.effective_hops(num_hops, contraction)
    return contraction ** (num_hops - 1) * math.sqrt(num_hops / effective)


def neighbour_signal(degree: int, *, aggregation: str, padding: int = 8) -> float:
    """Weight of d agreeing neighbours in a node's row over the edge sensitivity, one hop, c = a1 = 1.

    Args:
        degree: d >= 1.
        aggregation: "mean" (self-loop, no promise), "padded" (self-loops up to a public `padding`) or "sum"
            (GAP).
        padding: M.
    """
    if aggregation == "mean":
        return degree / (degree + 1) / edge_operator_sensitivity(0)
    if aggregation == "padded":
        share = degree / max(padding, degree + 1)
        return share / padded_edge_operator_sensitivity(padding)
    return degree / math.sqrt(2)


def best_of_coin_flips(num_test: int, num_draws: int) -> float:
    """Expected largest accuracy of `num_draws` runs that flip a fair coin for each of `num_test` nodes.

    The maximum of test accuracies over configurations and repeats without any signal.
    """
    from scipy.stats import binom

    counts = range(num_test)
    # E max = n - sum over k < n of Pr[max <= k]
    below = sum(float(binom.cdf(k, num_test, 0.5)) ** num_draws for k in counts)
    return (num_test - below) / num_test


def chain_ceiling(length: int, *, epsilon: float, delta: float) -> tuple[float, int, float, float]:
    """Largest mean accuracy on two-class chains of a classifier that reads only a node's row of X_K.

    Every node has its chain's class as label, and only the feature of the chain's first node shows it: that
    node is known, node i has mean s_i in its class's coordinate, and the optimal test between the classes is
    correct with probability Phi(s_i/(sqrt(2) sigma)). Optimistic: only the noise of the last hop is counted,
    and sigma is the smallest that is proved without an assumption on degrees, sqrt(2) c sqrt(K_eff)/mu.

    Returns:
        accuracy, K, c, beta of the best choice of K <= 24, c <= 0.95, a1 = 1, beta in {0, 0.1, 0.5, 1, 10}.
    """
    degree = np.full(length, 2.0)
    degree[[0, -1]] = 1.0
    operator = np.eye(length) + np.eye(length, k=1) + np.eye(length, k=-1)
    operator /= np.sqrt(np.outer(degree + 1, degree + 1))
    first = np.eye(length)[0]
    mu, best = gdp.mu(epsilon, delta), (0.0, 0, 0.0, 0.0)
    for step, beta in itertools.product(range(1, 20), (0.0, 0.1, 0.5, 1.0, 10.0)):
        c, x = 0.05 * step, first
        for num_hops in range(1, 25):
            h = c * operator @ x + beta * first
            noise = (
                edge_operator_sensitivity(0) * c * math.sqrt(gdp.effective_hops(num_hops, c)) / mu
            )
            right = ndtr(h[1:] / (math.sqrt(2) * noise))
            best = max(best, ((1 + float(right.sum())) / length, num_hops, c, beta))
            x = np.minimum(h, 1.0)
    return best


def ceiling_table() -> str:
    """Markdown: `chain_ceiling` at the authors' delta."""
    chains = {"Chain-S": (8, 1e-2), "Chain-M": (10, 1e-3), "Chain-L and X": (15, 1e-3)}
    budgets = (1, 4, 8, 32)
    rows = [
        [name, f"{100 / length + 50 * (1 - 1 / length):.2f}"]
        + [f"{100 * chain_ceiling(length, epsilon=e, delta=delta)[0]:.1f}" for e in budgets]
        for name, (length, delta) in chains.items()
    ]
    return _markdown(["chains", "labels alone", *(f"epsilon {e}" for e in budgets)], rows)


def coin_table(num_draws: int = 600) -> str:
    """Markdown: expected best of coin flips on the chains' test nodes; 600 draws are 200 options x 3."""
    sizes = {"Chain-S": 32, "Chain-M": 40, "Chain-L": 60, "Chain-X": 100, "50 chains": 1000}
    rows = [
        [name, str(size), *(f"{100 * best_of_coin_flips(size, n):.1f}" for n in (1, num_draws, 2400))]
        for name, size in sizes.items()
    ]  # fmt: skip
    return _markdown(
        ["chains", "test nodes", "one run", f"best of {num_draws}", "best of 2400"], rows
    )


def depth_table(*, epsilon: float = 4.0, delta: float = 1e-5) -> str:
    """Markdown: noise per sensitivity by depth and contraction."""
    rows = [
        [str(k), *(f"{noise_per_sensitivity(k, c, epsilon=epsilon, delta=delta):.3f}" for c in CONTRACTIONS)]
        for k in DEPTHS
    ]  # fmt: skip
    return _markdown(["K", *(f"c = {c}" for c in CONTRACTIONS)], rows)


def far_table() -> str:
    """Markdown: `far_signal` by depth and contraction."""
    rows = [[str(k), *(f"{far_signal(k, c):.3f}" for c in CONTRACTIONS)] for k in DEPTHS[:5]]
    return _markdown(["K", *(f"c = {c}" for c in CONTRACTIONS)], rows)


def neighbour_table(degrees: Sequence[int] = (1, 2, 4, 8, 32, 128)) -> str:
    """Markdown: `neighbour_signal` by degree and aggregation."""
    kinds = (("mean", 8), ("padded", 8), ("padded", 32), ("sum", 8))
    rows = [
        [str(d), *(f"{neighbour_signal(d, aggregation=kind, padding=m):.2f}" for kind, m in kinds)]
        for d in degrees
    ]
    header = ["d", "mean with self-loop", "padded, M = 8", "padded, M = 32", "sum (GAP)"]
    return _markdown(header, rows)


def node_table(degrees: Sequence[int] = (2, 5, 20, 100, 1000)) -> str:
    """Markdown: node-level sensitivity in units of c a1 beside GAP's, by declared degree bound."""
    rows = [[str(d), f"{node_operator_sensitivity(d):.2f}", f"{math.sqrt(d):.2f}"] for d in degrees]
    return _markdown(["D", "contractive layer, B(D)", "sum (GAP), sqrt(D)"], rows)


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


if __name__ == "__main__":
    tables = (depth_table, far_table, neighbour_table, node_table, ceiling_table, coin_table)
    print("\n\n".join(table() for table in tables))

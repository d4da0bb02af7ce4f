"""Privacy amplification by subsampling the records once.

Guarantee: a mechanism that is (epsilon, delta)-private, run on a random subset that holds each record with
probability q (Poisson for add-remove, a uniform subset of fixed size for replace-one), is (log(1 + q
(exp(epsilon) - 1)), q delta)-private. Source: Li, Qardaji and Su (2012); Balle, Barthe and Gaboardi (2018),
Theorems 8 and 9; proof in docs/accounting.md, theorem 7.
"""

from __future__ import annotations

import math

from dpgnn.core import checks


def amplified(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """(epsilon, delta) after subsampling at this rate.

    Guarantee: the module's, for a mechanism that is (epsilon, delta)-DP.

    Args:
        epsilon: >= 0; math.inf allowed.
        delta: in [0, 1].
        rate: q in [0, 1].

    Raises:
        ValueError: a value is out of range.
    """
    _require(delta, rate)
    checks.require(epsilon >= 0, "epsilon", "be >= 0", epsilon)
    if rate == 0:
        return 0.0, 0.0
    if math.isinf(epsilon):
        return math.inf, rate * delta
    # log(1 + q (e^x - 1)) = x + log(q + (1 - q) e^-x), which cannot overflow
    if epsilon > 1:
        return epsilon + math.log(rate + (1 - rate) * math.exp(-epsilon)), rate * delta
    return math.log1p(rate * math.expm1(epsilon)), rate * delta


def before(epsilon: float, delta: float, rate: float) -> tuple[float, float]:
    """The inverse of `amplified`: log(1 + (exp(epsilon) - 1)/q), delta/q.

    Guarantee: a mechanism with these values, run on the sample, is (epsilon, delta)-private (see
    `amplified`).

    Args:
        epsilon: >= 0, finite, after the subsample.
        delta: in [0, 1], after it.
        rate: q in (0, 1].

    Raises:
        ValueError: a value is out of range, or delta / rate is not below 1.

    Source: docs/accounting.md, theorem 7.
    """
    _require(delta, rate)
    checks.require(rate > 0, "rate", "be > 0", rate)
    checks.non_negative("epsilon", epsilon)
    remedy = "lower delta or sample more"
    checks.require(delta / rate < 1, "delta / rate", "be < 1", delta / rate, remedy)
    if epsilon > 1:
        inner = epsilon + math.log(1 / rate + (1 - 1 / rate) * math.exp(-epsilon))
    else:
        inner = math.log1p(math.expm1(epsilon) / rate)
    return inner, delta / rate


def _require(delta: float, rate: float) -> None:
    checks.probability("delta", delta)
    checks.probability("rate", rate)

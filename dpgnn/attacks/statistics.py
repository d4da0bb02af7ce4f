"""Statistics of an attack's scores: AUC, rates with exact intervals, and the line of a claim.

A larger score says "member" (node or edge). Ties count half, so constant scores have an AUC of exactly one
half.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.audits.one_run import OneRun, lower_bound
from dpgnn.audits.statistics import direct_epsilon, rate_bounds
from dpgnn.core.checks import non_negative, open_probability, probability, require

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim

# false-positive rates at which a true-positive rate is reported
LOW_RATES = (0.001, 0.01, 0.1)
# half-way points of the scores that are tried as thresholds
_NUM_THRESHOLDS = 64
_NUM_POINTS = 60


def auc(scores: np.ndarray, member: np.ndarray) -> float:
    """Probability that a member scores above a non-member, with ties counted half.

    Args:
        scores: float64, shape (num_trials,); finite.
        member: bool, shape (num_trials,); at least one of each kind.
    """
    from scipy.stats import rankdata

    member = _check(scores, member)
    ranks = rankdata(scores)
    num_in, num_out = int(member.sum()), int((~member).sum())
    above = ranks[member].sum() - num_in * (num_in + 1) / 2
    return float(above / (num_in * num_out))


def average_precision(scores: np.ndarray, member: np.ndarray) -> float:
    """Sum over distinct thresholds of (increase of recall) times precision."""
    _, accepted, hits = _steps(scores, _check(scores, member))
    gained = np.diff(hits, prepend=0) / hits[-1]
    return float((gained * hits / accepted).sum())


def curve(scores: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(false-positive rates, true-positive rates) at every distinct threshold, from (0, 0) to (1, 1)."""
    member = _check(scores, member)
    _, accepted, hits = _steps(scores, member)
    wrong = accepted - hits
    return np.append(0.0, wrong / wrong[-1]), np.append(0.0, hits / hits[-1])


def thinned_curve(scores: np.ndarray, member: np.ndarray) -> list[list[float]]:
    """At most about 60 points (FPR, TPR) of the curve, denser at low rates, for a figure."""
    false, true = curve(scores, member)
    smallest = 1.0 / max(int((~member).sum()), 1)
    wanted = np.append(0.0, np.geomspace(smallest, 1.0, _NUM_POINTS))
    places = np.unique(np.searchsorted(false, wanted, side="right") - 1)
    return [[float(false[place]), float(true[place])] for place in places]


@dataclass(frozen=True, kw_only=True)
class Rates:
    """The largest true-positive rate whose measured false-positive rate is at most `asked`.

    Attributes:
        asked: the false-positive rate asked for.
        tpr, tpr_low, tpr_high: measured, and Clopper-Pearson limits at `level` on both sides together.
        fpr, fpr_low, fpr_high: the same.
        level: 0.05 for 95 % intervals.
    """

    asked: float
    tpr: float
    tpr_low: float
    tpr_high: float
    fpr: float
    fpr_low: float
    fpr_high: float
    level: float


def rates_at(scores: np.ndarray, member: np.ndarray, asked: float, *, level: float = 0.05) -> Rates:
    """True-positive rate at a low false-positive rate.

    The intervals treat trials as independent and the threshold as given.
    """
    probability("asked", asked)
    member = _check(scores, member)
    _, accepted, hits = _steps(scores, member)
    num_in, num_out = int(member.sum()), int((~member).sum())
    wrong = accepted - hits
    last = int(np.searchsorted(wrong, asked * num_out + 1e-9, side="right")) - 1
    true, false = (int(hits[last]), int(wrong[last])) if last >= 0 else (0, 0)
    low_t, high_t = rate_bounds(true, num_in, level / 2)
    low_f, high_f = rate_bounds(false, num_out, level / 2)
    return Rates(
        asked=asked, tpr=true / num_in, tpr_low=low_t, tpr_high=high_t,
        fpr=false / num_out, fpr_low=low_f, fpr_high=high_f, level=level,
    )  # fmt: skip


def allowed_rate(false_positive_rate: float, epsilon: float, delta: float) -> float:
    """min(1, e^epsilon FPR + delta): no test of an (epsilon, delta) claim has a larger TPR."""
    if math.isinf(epsilon):
        return 1.0
    return min(1.0, math.exp(min(epsilon, 700.0)) * false_positive_rate + delta)


@dataclass(frozen=True, kw_only=True)
class LineTest:
    """Whether scores cross TPR = e^epsilon FPR + delta by more than chance.

    Attributes:
        crossed: true-positive rate above the line, up to an error of `level`.
        level: largest probability of rejecting a true claim.
        tpr_low, fpr_high: limits on fresh trials of the threshold chosen on the others.
        allowed: the line at fpr_high.
        epsilon_lower_bound: log((tpr_low - delta) / fpr_high) of the threshold chosen for it, at least 0.
        epsilon, delta: of the line; epsilon is None without a line.
        detects: the largest bound that this many trials can show if every guess is right; a line at or above
            it cannot be crossed.
    """

    crossed: bool
    level: float
    tpr_low: float
    fpr_high: float
    allowed: float
    epsilon_lower_bound: float
    epsilon: float | None
    delta: float
    detects: float


def line_detects(num_members: int, num_others: int, *, delta: float, level: float) -> float:
    """The bound of `line_test` if one threshold separates members from others without error.

    Args:
        num_members, num_others: trials, both halves.
        delta, level: of the test.
    """
    sizes = [count - count // 2 for count in (num_members, num_others)]
    return max(
        direct_epsilon(
            rate_bounds(right, right, level / 2)[0], rate_bounds(0, wrong, level / 2)[1], delta
        )
        for right, wrong in (sizes, sizes[::-1])
    )


def run_detects(run: OneRun) -> float:
    """The bound of a one-run test if every guess is right."""
    return lower_bound(
        run.num_canaries, run.num_guesses, run.num_guesses, delta=run.delta,
        level=1 - run.confidence, analysis=run.analysis,
    )  # fmt: skip


def line_test(
    scores: np.ndarray,
    member: np.ndarray,
    *,
    epsilon: float,
    delta: float,
    level: float,
    rng: np.random.Generator,
) -> LineTest:
    """Choose a threshold on half of the trials, test the line on the other half.

    Guarantee: when trials are independent and each satisfies the line, `crossed` has probability <= level,
    and so has an `epsilon_lower_bound` above epsilon. Trials of one model are not independent, even with
    random membership, so a crossed line should be confirmed by `dpgnn audit`; `one_run.guess` has the bound
    that holds within one run.

    Args:
        scores, member: one per trial; both directions are tried (large or small scores indicate members).
        epsilon, delta: of the line: the claim's if a member and a non-member differ by one change under the
            claim's relation, by group privacy if they differ by two.
        level: in (0, 1).
        rng: of the halves.
    """
    non_negative("delta", delta)
    open_probability("level", level)
    member = _check(scores, member)
    first, fresh = _halves(scores[member], scores[~member], rng)
    tried = [(cut, *_limits(cut, first, level / 2)) for cut in _cuts(np.concatenate(first))]
    for_line, *_ = max(tried, key=lambda one: one[1] - allowed_rate(one[2], epsilon, delta))
    for_bound, *_ = max(tried, key=lambda one: direct_epsilon(one[1], one[2], delta))
    low, high = _limits(for_line, fresh, level / 2)
    allowed = allowed_rate(high, epsilon, delta)
    return LineTest(
        crossed=low > allowed, level=level, tpr_low=low, fpr_high=high, allowed=allowed,
        epsilon_lower_bound=direct_epsilon(*_limits(for_bound, fresh, level / 2), delta),
        epsilon=epsilon if math.isfinite(epsilon) else None, delta=delta,
        detects=line_detects(int(member.sum()), int((~member).sum()), delta=delta, level=level),
    )  # fmt: skip


def game_result(
    scores: np.ndarray, claim: Claim, *, level: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Test of a claim by independent runs of two worlds, as an attack's JSON.

    Args:
        scores: float64, shape (2, num_runs): of the world with the member, and without.
        claim: of the plan.
        level, rng: as for `line_test`.
    """
    joined, member = scores.ravel(), np.arange(scores.size) < scores.shape[1]
    line = line_test(joined, member, epsilon=claim.epsilon, delta=claim.delta, level=level, rng=rng)
    return {
        "num_trials": scores.size,
        **summary(joined, member),
        "line": dataclasses.asdict(line),
        "detects": line.detects,
        "claimed_epsilon": claim.epsilon,
        "delta": claim.delta,
        "exceeds_claim": line.crossed or line.epsilon_lower_bound > claim.epsilon,
    }


def best_guesses(
    scores: np.ndarray, member: np.ndarray, share: float
) -> dict[str, float | int | None]:
    """Precision, recall and F1 if the largest `share` of the scores are guessed to be members.

    Ties at the cut are broken at random, and hits are the mean over their orders, so equal scores have the
    density as precision.

    Source: LinkTeller, arXiv:2108.06504: `share` is the attacker's belief of the density.
    """
    probability("share", share)
    member = _check(scores, member)
    count = math.ceil(share * len(scores))
    _, accepted, hits_at = _steps(scores, member)
    # straight between two thresholds: trials of one score are taken at random
    hits = float(np.interp(count, np.append(0, accepted), np.append(0, hits_at)))
    precision = hits / count if count else None
    recall = hits / int(member.sum())
    f1 = 2 * hits / (count + int(member.sum()))
    return {"guesses": count, "precision": precision, "recall": recall, "f1": f1}


def balanced_accuracy_of_batches(
    guessed: np.ndarray, member: np.ndarray, batch_size: int, *, rng: np.random.Generator
) -> float:
    """G-MIA's "AUROC": mean over shuffled batches of the AUC of hard 0/1 guesses, which is balanced accuracy.

    Batches with one kind only have no such number and are left out.

    Source: the published script of arXiv:2101.06570; batches of 64.
    """
    order = rng.permutation(len(member))
    found = []
    for first in range(0, len(order), batch_size):
        part = order[first : first + batch_size]
        truth, guess = member[part], guessed[part]
        if truth.any() and not truth.all():
            found.append((guess[truth].mean() + (~guess[~truth]).mean()) / 2)
    require(bool(found), "batches", "hold members and others", 0)
    return float(np.mean(found))


def summary(scores: np.ndarray, member: np.ndarray) -> dict[str, Any]:
    """AUC, average precision and rates, for an attack's JSON."""
    rates = [dataclasses.asdict(rates_at(scores, member, rate)) for rate in LOW_RATES]
    return {
        "auc": auc(scores, member),
        "average_precision": average_precision(scores, member),
        "num_members": int(member.sum()),
        "num_others": int((~member).sum()),
        "rates": rates,
        "curve": thinned_curve(scores, member),
    }


def _check(scores: np.ndarray, member: np.ndarray) -> np.ndarray:
    require(len(scores) == len(member), "scores", "be one per trial", (len(scores), len(member)))
    require(bool(np.isfinite(scores).all()), "scores", "be finite", "a value that is not")
    member = np.asarray(member, dtype=bool)
    both = member.any() and not member.all()
    require(bool(both), "trials", "hold members and others", int(member.sum()), "ask more pairs")
    return member


def _steps(scores: np.ndarray, member: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct thresholds, descending, with the numbers of accepted trials and of members among them."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    return ranked[last], last + 1, np.cumsum(member[order])[last]


def _halves(
    members: np.ndarray, others: np.ndarray, rng: np.random.Generator
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Random halves of members and others: one to choose a threshold, one to test it."""
    halves: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for side in (members, others):
        order = rng.permutation(len(side))
        halves[0].append(side[order[: len(side) // 2]])
        halves[1].append(side[order[len(side) // 2 :]])
    enough = min(len(part) for half in halves for part in half) >= 2
    require(enough, "trials", "be at least 4 members and 4 others", len(members))
    return halves


def _limits(
    cut: tuple[int, int, float], half: list[np.ndarray], error: float
) -> tuple[float, float]:
    """(lower limit of the true-positive rate, upper limit of the false-positive rate)."""
    flipped, sign, threshold = cut
    right, wrong = (half[1], half[0]) if flipped else (half[0], half[1])
    taken = [int((sign * part > threshold).sum()) for part in (right, wrong)]
    return (
        rate_bounds(taken[0], len(right), error)[0],
        rate_bounds(taken[1], len(wrong), error)[1],
    )


def _cuts(scores: np.ndarray) -> list[tuple[int, int, float]]:
    """(flipped, sign, threshold): accept if sign * score > threshold; flipped means "non-member"."""
    distinct = np.unique(scores)
    places = np.unique(np.linspace(0, len(distinct) - 1, _NUM_THRESHOLDS).astype(int))
    found = []
    for sign in (1, -1):
        values = np.sort(sign * distinct)
        chosen = np.append(values[places], values[0] - 1.0)
        found += [(flipped, sign, float(value)) for flipped in (0, 1) for value in chosen]
    return found

"""What one result of `dpgnn attack` says about the run's claim: a bound, the largest possible bound, a
verdict.

A passed test says nothing if even perfect guesses could not fail it, or if nearly all scores are equal. Older
files lack `detects`; it is computed from their number of trials, level and delta.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise

from dpgnn.attacks import statistics
from dpgnn.audits import one_run
from dpgnn.audits.statistics import ClaimLine
from dpgnn.records.attacks import AttackResult
from dpgnn.report.statistics.statistics import LEVEL

NO_SCORER = "no scorer"
# attacks whose scores are answers of a model or a classifier, which may be equal for reasons of their own
ASKED = ("linkteller", "gmia", "gmia-script")


def lower_bound(result: AttackResult) -> float | None:
    """The lower bound on epsilon, if the claim covers what was attacked; else None."""
    if not is_tested(result) or result.line is None:
        return None
    run = result.one_run
    shown = result.line.epsilon_lower_bound if run is None else run.epsilon_lower_bound
    return shown / _changes(result)


def detects(result: AttackResult) -> float | None:
    """The largest `lower_bound` that this many trials can show, if every guess is right."""
    if not is_tested(result) or result.line is None:
        return None
    stated, run = result.detects, result.one_run
    # files by f-DP state what the other analysis would show
    if run is not None and (stated is None or run.analysis == "f-DP"):
        level = round(1 - run.confidence, 12)
        stated = _of_run(run.num_canaries, run.num_guesses, run.delta, level, run.analysis)
    elif stated is None:
        assert result.num_members is not None
        assert result.num_others is not None
        stated = statistics.line_detects(
            result.num_members, result.num_others, level=result.line.level, delta=result.delta
        )
    return stated / _changes(result)


def p_value(result: AttackResult) -> float | None:
    """The largest probability of so many right guesses in one run if the claim is true; None without a test.

    By f-DP where the faster bound is at most `LEVEL`, else that bound. It is a p value: up to the level each
    of the two is one, and beyond it the faster one.

    Source: `audits.one_run.tail_of_line` and `tail`.
    """
    run = result.one_run
    if run is None or run.num_correct is None or not is_tested(result):
        return None
    allowed = result.one_run_allowed_epsilon
    epsilon = claimed_epsilon(result) if allowed is None else allowed
    if math.isinf(epsilon):
        return None
    counts = run.num_canaries, run.num_guesses, run.num_correct
    quick = one_run.tail(*counts, epsilon, run.delta)
    if quick > LEVEL:
        return quick
    return one_run.tail_of_line(*counts, ClaimLine.of_pair(epsilon, run.delta))


def is_tested(result: AttackResult) -> bool:
    """Whether a test was made of a claim that covers what was attacked."""
    made = result.status == "ok" and result.untested is None and result.line is not None
    return made and result.covered


def can_fail(result: AttackResult) -> bool:
    """Whether the test of a result could have contradicted the claim.

    Returns:
        False if even perfect guesses show no more than the claim, or if the scores are no guesses.
    """
    most = detects(result)
    return most is not None and can_guess(result) and most > claimed_epsilon(result)


def can_stand(result: AttackResult, num_tests: int) -> bool:
    """Whether a result with every guess right would contradict the claim among so many tests.

    Args:
        result: an attack's.
        num_tests: of the study, over which p values are corrected.
    """
    run = result.one_run
    if run is None or not can_guess(result):
        return False
    perfect = p_value(replace(result, one_run=replace(run, num_correct=run.num_guesses)))
    return perfect is not None and perfect < LEVEL / num_tests


def can_guess(result: AttackResult) -> bool:
    """Whether at least as many scores differ from the most frequent one as guesses are made.

    If not, most guesses are coins, whatever the claim. What a method releases once is not asked about: there,
    equal scores are what noise does.
    """
    if not has_scorer(result):
        return False
    if result.attack not in ASKED or result.one_run is None:
        return True
    trials = result.num_members or 0, result.num_others or 0
    steps = [
        (after[1] - before[1]) * trials[0] + (after[0] - before[0]) * trials[1]
        for before, after in pairwise(result.curve)
    ]
    return not steps or sum(trials) - max(steps) >= result.one_run.num_guesses


def claimed_epsilon(result: AttackResult) -> float:
    """Epsilon of the claim, for one change; math.inf without a finite one."""
    claimed = result.claimed_epsilon
    if claimed is None and result.claim is not None:
        claimed = result.claim.epsilon
    elif claimed is not None and result.one_run is None:
        claimed /= _changes(result)  # of repeated runs, the files state what was tested
    return math.inf if claimed is None else claimed


def line_of(result: AttackResult) -> tuple[float, float] | None:
    """(epsilon, delta) of the line that no test can cross if the claim is true; None without one.

    If a member and a non-member are exchanged, the line is that of two changes, because the claim is for one.
    """
    if not is_tested(result) or result.line is None:
        return None
    if result.line.epsilon is not None:
        return result.line.epsilon, result.line.delta
    if _changes(result) == 2 and result.one_run is not None:
        assert result.one_run_allowed_epsilon is not None
        return result.one_run_allowed_epsilon, result.one_run.delta
    if result.claim is None or result.claim.epsilon is None:
        return None
    return result.claim.epsilon, result.claim.delta


def has_scorer(result: AttackResult) -> bool:
    """Whether an attack's classifier gave different scores; if not, an AUC of one half says nothing."""
    if result.scorer is not None:
        return result.scorer != "constant"
    if result.variant is None or result.auc != 0.5:
        return True
    return not all(tuple(point) in ((0.0, 0.0), (1.0, 1.0)) for point in result.curve)


def verdict(result: AttackResult) -> str:
    """What a result says about the run's claim."""
    if result.status != "ok":
        return f"not available: {result.reason}"
    if result.exceeds_claim:
        return "exceeds the claim"
    if result.claim is None:
        return "no claim"
    if result.untested is not None:
        return f"not tested: {result.untested}"
    most = detects(result)
    if most is None:
        return "not about the claim"
    if not can_guess(result):
        return f"cannot say ({'nearly all scores are equal' if has_scorer(result) else NO_SCORER})"
    if not can_fail(result):
        return f"cannot say ({result.num_trials} trials show at most {most:.2f})"
    return "within the claim"


def short_verdict(result: AttackResult) -> str:
    """`verdict` in a word or two."""
    return verdict(result).split(" (")[0].removesuffix(" the claim")


def _changes(result: AttackResult) -> int:
    """Number of changes under the claim's relation between a member and a non-member."""
    tested, single = result.one_run_allowed_epsilon, result.claimed_epsilon
    if result.attack == "board" and result.claim is not None:  # states what was tested alone
        tested, single = result.claimed_epsilon, result.claim.epsilon
    return 2 if tested and single and tested > 1.5 * single else 1


@lru_cache(maxsize=4096)
def _of_run(
    num_canaries: int, num_guesses: int, delta: float, level: float, analysis: one_run.Analysis
) -> float:
    return one_run.lower_bound(
        num_canaries, num_guesses, num_guesses, delta=delta, level=level, analysis=analysis
    )

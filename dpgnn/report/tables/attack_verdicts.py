"""What one result of `dpgnn attack` says of the run's claim: a bound, what could be shown at most, a verdict.

A test that perfect guesses could not fail says nothing by passing. Files made before `detects` was recorded
lack it; it follows from the number of trials, the level and delta, which they have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dpgnn.attacks import statistics
from dpgnn.audits import one_run

Result = Mapping[str, Any]
NO_SCORER = "no scorer"


def lower_bound(result: Result) -> float | None:
    """The epsilon that a result shows at least, where the claim covers what was attacked; else None."""
    if not is_tested(result):
        return None
    if "one_run" in result:
        return float(result["one_run"]["epsilon_lower_bound"]) / _changes(result)
    return float(result["line"]["epsilon_lower_bound"])


def detects(result: Result) -> float | None:
    """The largest `lower_bound` that so many trials can show, with every guess right."""
    if not is_tested(result):
        return None
    stated = result.get("detects")
    if stated is None and "one_run" in result:
        run = result["one_run"]
        stated = _of_run(
            run["num_canaries"], run["num_guesses"], run["delta"], round(1 - run["confidence"], 12)
        )
    elif stated is None:
        stated = statistics.line_detects(
            result["num_members"], result["num_others"], level=result["line"]["level"],
            delta=float(result.get("delta") or 0.0),
        )  # fmt: skip
    return float(stated) / _changes(result)


def is_tested(result: Result) -> bool:
    """Whether a test was made of a claim that covers what was attacked."""
    if result.get("status") != "ok" or "untested" in result or "line" not in result:
        return False
    if "one_run" in result:
        return bool(result.get("claim_covers_answers", result.get("claim_covers_membership")))
    return True


def can_fail(result: Result) -> bool:
    """Whether the test of a result could have contradicted the claim.

    Returns:
        False where even perfect guesses show no more than the claim, and where there was no classifier to
        guess with.
    """
    most = detects(result)
    return most is not None and has_scorer(result) and most > claimed_epsilon(result)


def claimed_epsilon(result: Result) -> float:
    """Of the claim that was tested; math.inf where none is finite."""
    claimed = result.get("claimed_epsilon")
    if claimed is None:
        claimed = (result.get("claim") or {}).get("epsilon")
    return math.inf if claimed is None else float(claimed)


def line_of(result: Result) -> tuple[float, float] | None:
    """(epsilon, delta) of the line that no test of a result crosses if the claim is true; None without one.

    For a member and a non-member exchanged it is that of two changes, where the claim is for one.
    """
    if not is_tested(result):
        return None
    line, claim = result["line"], result.get("claim") or {}
    if "epsilon" in line:
        epsilon, delta = line["epsilon"], line["delta"]
    elif _changes(result) == 2:
        epsilon, delta = result["one_run_allowed_epsilon"], result["one_run"]["delta"]
    else:
        epsilon, delta = claim.get("epsilon"), claim.get("delta", 0.0)
    return None if epsilon is None else (float(epsilon), float(delta))


def has_scorer(result: Result) -> bool:
    """Whether an attack's classifier told anybody apart; without one an AUC of one half says nothing."""
    if "scorer" in result:
        return bool(result["scorer"] != "constant")
    if "variant" not in result or result.get("auc") != 0.5:
        return True
    return not all(tuple(point) in ((0.0, 0.0), (1.0, 1.0)) for point in result["curve"])


def verdict(result: Result) -> str:
    """What a result says of the run's claim."""
    if result["status"] != "ok":
        return f"not available: {result['reason']}"
    if result.get("exceeds_claim"):
        return "exceeds the claim"
    if not result.get("claim"):
        return "no claim"
    if "untested" in result:
        return f"not tested: {result['untested']}"
    most = detects(result)
    if most is None:
        return "not about the claim"
    if not has_scorer(result):
        return f"cannot say ({NO_SCORER})"
    if not can_fail(result):
        return f"cannot say ({num_trials(result)} trials show at most {most:.2f})"
    return "within the claim"


def short_verdict(result: Result) -> str:
    """`verdict` in a word or two."""
    return verdict(result).split(" (")[0].removesuffix(" the claim")


def num_trials(result: Result) -> int:
    """Coins of a test within one run, or runs of both worlds."""
    if "one_run" in result:
        return int(result["one_run"]["num_canaries"])
    return int(result["num_members"]) + int(result["num_others"])


def _changes(result: Result) -> int:
    """How many changes of the claim's relation part a member from a non-member."""
    claimed, allowed = result.get("claimed_epsilon"), result.get("one_run_allowed_epsilon")
    return 2 if claimed and allowed and allowed > claimed else 1


@lru_cache(maxsize=4096)
def _of_run(num_canaries: int, num_guesses: int, delta: float, level: float) -> float:
    return one_run.lower_bound(num_canaries, num_guesses, num_guesses, delta=delta, level=level)

"""Measures of releases that a fit calls once per hop, with other private steps in between."""

from __future__ import annotations

import math
from dataclasses import replace

from dpgnn.methods.releases import Calls, Measure, Move, allowed_by


def every_call(measure: Measure) -> Measure:
    """The measure of each call, given the calls before it; the worst counts.

    The change is infinite if the number of calls differs from the mechanism's number of steps.
    """

    def worst(seen: Calls) -> Move:
        if not len(seen.first) == len(seen.second) == seen.mechanism.num_steps:
            return Move(moved=math.inf, allowed=allowed_by(seen.mechanism))
        calls = zip(seen.first, seen.second)
        moves = [measure(replace(seen, first=[a], second=[b])) for a, b in calls]
        return max(moves, key=lambda move: move.moved)

    return worst

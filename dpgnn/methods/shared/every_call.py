"""Measures of releases that a fit calls once per hop, with other private steps in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpgnn.accountants.plan import Mechanism
from dpgnn.methods.releases import Arguments, Measure, Move, Release, Where, allowed_by


def every_call(measure: Measure) -> Measure:
    """The measure of each call, given the calls before it; the worst counts.

    The change is infinite if the number of calls differs from the mechanism's number of steps.
    """

    def worst(
        release: Release[..., Any],
        first: Sequence[Arguments],
        second: Sequence[Arguments],
        mechanism: Mechanism,
        where: Where,
    ) -> Move:
        if not len(first) == len(second) == mechanism.num_steps:
            return Move(moved=math.inf, allowed=allowed_by(mechanism))
        moves = [measure(release, [a], [b], mechanism, where) for a, b in zip(first, second)]
        return max(moves, key=lambda move: move.moved)

    return worst

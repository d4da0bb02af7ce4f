"""Measures of releases that a fit calls once a hop, with other private work in between."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dpgnn.accountants.plan import Mechanism
from dpgnn.methods.releases import Arguments, Measure, Move, Release, Where, allowed_by


def every_call(measure: Measure) -> Measure:
    """The measure of one call, taken of each call in turn; the worst counts, given the calls before it.

    A number of calls other than the mechanism's number of steps is an infinite move.
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

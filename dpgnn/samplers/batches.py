"""Batches of roots, named by their distribution, on which accounting depends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpgnn.core.checks import at_least, non_negative, probability, require

# largest number of roots that a release makes room for, relative to the number that its plan counts on
ROOM = 2.0


class Batches(Protocol):
    """A distribution of batches over the positions 0..num_roots-1."""

    @property
    def num_roots(self) -> int:
        """Number of roots to draw from."""

    @property
    def expected_batch_size(self) -> float:
        """Mean number of roots in a batch; public, and the usual divisor of the noisy sum."""

    @property
    def largest_batch(self) -> int:
        """A public size that a batch exceeds with probability at most 2^-200.

        For Poisson batches this holds for all data with at most `ROOM` times the roots of the plan.
        """

    def draw(self, *, rng: np.random.Generator) -> np.ndarray:
        """int64 positions, ascending; secret in a release, and so is their number.

        Guarantee: batches are independent with the distribution of the class; a release shows neither the
        batch nor its size.

        Args:
            rng: the stream `batches` of the step.
        """


@dataclass(frozen=True)
class PoissonBatches:
    """Every root is in the batch independently with probability q: event `PoissonRoots`.

    Guarantee: the coins of different roots are independent and do not depend on the data; with the coins
    secret, theorem 1 of docs/accounting.md applies. A batch may be empty, and the step is still taken. Only
    the number of roots depends on the data, and a release does not show it. With q = 1 every root is in every
    batch, without amplification: event `GaussianRelease` on all roots.

    Attributes:
        num_roots: number of roots present.
        sampling_probability: q in [0, 1]; public.
        planned_size: q times the number of roots that the plan counts on, declared or public; a release makes
            its noise from this alone. None where num_roots itself is public.

    Raises:
        ValueError: q is not in [0, 1], or num_roots or planned_size is negative.

    Source: Abadi et al. (2016), arXiv:1607.00133, Section 3.1.
    """

    num_roots: int
    sampling_probability: float
    planned_size: float | None = None

    def __post_init__(self) -> None:
        at_least("num_roots", self.num_roots, 0)
        probability("sampling_probability", self.sampling_probability)
        if self.planned_size is not None:
            non_negative("planned_size", self.planned_size)

    @property
    def expected_batch_size(self) -> float:
        """q times the number of roots."""
        return self.num_roots * self.sampling_probability

    @property
    def largest_batch(self) -> int:
        """From `planned_size` alone, with room; without it all roots, or fewer by `poisson_tail`."""
        if self.planned_size is not None:
            return room_for(self.planned_size)
        return min(self.num_roots, poisson_tail(self.expected_batch_size))

    def draw(self, *, rng: np.random.Generator) -> np.ndarray:
        """One coin per root.

        Guarantee: each root is in independently, with q rounded down to a multiple of 2^-53; event
        `PoissonRoots`.

        Args:
            rng: the stream `batches` of the step; secret in a release.

        Returns:
            int64, ascending, shape (size,); secret in a release, and so is its length.
        """
        # random() is k 2^-53, k uniform: the rate is a multiple of 2^-53, at most q; q = 1 takes all
        rate = math.floor(self.sampling_probability * 2**53) * 2.0**-53
        return np.flatnonzero(rng.random(self.num_roots) < rate)


@dataclass(frozen=True)
class FixedSizeBatches:
    """A uniform subset of m roots, without replacement, fresh each step: event `FixedSizeRoots`.

    Guarantee: only for relations under which the number of roots is the same in both worlds.

    Attributes:
        num_roots: number of roots N; public.
        batch_size: m, 1 <= m <= N; public.

    Raises:
        ValueError: batch_size is outside 1..num_roots.

    Source: Wang, Balle, Kasiviswanathan (2019), arXiv:1808.00087, for its accounting.
    """

    num_roots: int
    batch_size: int

    def __post_init__(self) -> None:
        at_least("batch_size", self.batch_size, 1)
        rule = f"be <= the number of roots, {self.num_roots}"
        require(self.batch_size <= self.num_roots, "batch_size", rule, self.batch_size)

    @property
    def expected_batch_size(self) -> float:
        """m."""
        return float(self.batch_size)

    @property
    def largest_batch(self) -> int:
        """m."""
        return self.batch_size

    def draw(self, *, rng: np.random.Generator) -> np.ndarray:
        """m different roots.

        Guarantee: each subset of m roots is equally likely, independently of earlier batches; event
        `FixedSizeRoots`.

        Args:
            rng: the stream `batches` of the step; secret in a release.

        Returns:
            int64, ascending, shape (batch_size,); secret in a release.
        """
        chosen = rng.choice(self.num_roots, self.batch_size, replace=False, shuffle=False)
        return np.sort(chosen).astype(np.int64, copy=False)


def room_for(planned_size: float) -> int:
    """A size that a Poisson batch exceeds with probability at most 2^-200, of public numbers alone.

    Guarantee: for every graph with at most `ROOM` times as many roots as the plan counts on. The number of
    roots does not enter, so neighbours have the same size.

    Args:
        planned_size: rate times the number of roots that the plan counts on, >= 0; public.

    Source: docs/accounting.md, theorem 16 (c).
    """
    return poisson_tail(ROOM * planned_size)


def poisson_tail(mean: float) -> int:
    """A size that a Poisson batch of this mean exceeds with probability at most 2^-200.

    Args:
        mean: expected batch size, >= 0.

    Source: Bernstein's inequality, P(X >= mean + t) <= exp(-t^2 / (2 (mean + t / 3))).
    """
    log_tail = 200 * math.log(2)
    return math.ceil(mean + log_tail / 3 + math.sqrt((log_tail / 3) ** 2 + 2 * log_tail * mean))

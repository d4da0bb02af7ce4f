"""HeterPoisson's options."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, one_of, positive, require
from dpgnn.data.rows import RowNorm
from dpgnn.training.options import OptimizerConfig


@dataclass(frozen=True, kw_only=True)
class HeterPoissonConfig:
    """Options of HeterPoisson; every value is public.

    Attributes:
        max_degree: M. Sound mode: how many ids of its own list a node sends its features to at each step.
            Published mode: how many roots a node is read by in expectation.
        batch_size: B, mean number of roots in a batch.
        num_epochs: passes; ceil(n/B) steps each.
        clipping_norm: C. Published mode clips a root's gradient at C/2.
        width: units of the hidden layer.
        row_norm: each record's features divided by their norm (none, l1, l2, centred: less their mean).
        preprocessing: published mode: features less the mean of all entries, over their deviation, as the
            code does; claims then carry the caveat. Without effect in sound mode.
        sampler: published mode: "coins", each root takes a listed node with a probability that counts the
            node's readers, or "own-list", the sampler of sound mode, for a ladder.
        noise: published mode: "laplace", one exponential variable scales Gaussian noise of all coordinates
            (symmetric multivariate Laplace), or "gaussian" of the same deviation, for a ladder. Sound
            mode is Gaussian.
        padding: published mode: examples are padded to the largest of the batch, and padding rows enter the
            last standardisation.
        dedupe: published mode: a neighbour that was a root earlier in the batch is dropped.
        clamped: published mode: entries of the noisy mean are clamped, as the code does.
        optimizer: makes steps of the noisy means.
    """

    max_degree: int = 1
    batch_size: int = 1024
    num_epochs: int = 9
    clipping_norm: float = 1.0
    width: int = 128
    row_norm: RowNorm = "none"
    preprocessing: bool = True
    sampler: Literal["coins", "own-list"] = "coins"
    noise: Literal["laplace", "gaussian"] = "laplace"
    padding: bool = True
    dedupe: bool = True
    clamped: bool = True
    optimizer: OptimizerConfig = OptimizerConfig(lr=0.01)

    def __post_init__(self) -> None:
        for name in ("max_degree", "batch_size", "num_epochs", "width"):
            at_least(name, getattr(self, name), 1)
        positive("clipping_norm", self.clipping_norm)
        one_of("sampler", self.sampler, ("coins", "own-list"))
        one_of("noise", self.noise, ("laplace", "gaussian"))

    def draws_coins(self, mode: str) -> bool:
        """Whether roots take by the number of readers, from whole lists."""
        return mode == "published" and self.sampler == "coins"

    def rate(self, num_train: int) -> float:
        """q, the probability of a root.

        Raises:
            ValueError: there are fewer training nodes than a batch has.
        """
        require(
            self.batch_size <= num_train, "batch_size",
            f"be <= the number of training nodes, {num_train}", self.batch_size, "lower it",
        )  # fmt: skip
        return self.batch_size / num_train

    def steps_run(self, num_train: int) -> int:
        """T, the steps that are taken."""
        return self.num_epochs * math.ceil(num_train / self.batch_size)

    def steps_counted(self, num_train: int) -> int:
        """The steps that the published accounting counts: epochs/q, rounded down."""
        return int(self.num_epochs / self.rate(num_train))

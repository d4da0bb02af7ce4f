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
        max_degree: M. Sound mode: number of ids of its own list to which a node sends its features at each
            step. Published mode: expected number of roots that read a node.
        batch_size: B, mean number of roots in a batch.
        num_epochs: passes; ceil(n/B) steps each.
        clipping_norm: C. Published mode clips a root's gradient at C/2.
        width: units of the hidden layer.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        preprocessing: published mode: standardise features by mean and deviation of all entries, as in the
            code; claims then carry the caveat. No effect in sound mode.
        sampler: published mode: "coins", where each root takes a listed node with a probability that depends
            on the node's number of readers, or "own-list", the sampler of sound mode, for ladders.
        noise: published mode: "laplace", one exponential variable scales Gaussian noise of all coordinates
            (symmetric multivariate Laplace), or "gaussian" of the same deviation, for a ladder. Sound
            mode is Gaussian.
        padding: published mode: examples are padded to the largest of the batch, and padding rows enter the
            last standardisation.
        dedupe: published mode: drop a neighbour that was a root earlier in the batch.
        clamped: published mode: clamp entries of the noisy mean, as in the code.
        optimizer: turns noisy means into steps.
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
        """Whether roots draw neighbours by coins that depend on numbers of readers."""
        return mode == "published" and self.sampler == "coins"

    def rate(self, num_train: int) -> float:
        """q, the probability of a root.

        Raises:
            ValueError: there are fewer training nodes than the batch size.
        """
        require(
            self.batch_size <= num_train, "batch_size",
            f"be <= the number of training nodes, {num_train}", self.batch_size, "lower it",
        )  # fmt: skip
        return self.batch_size / num_train

    def steps_run(self, num_train: int) -> int:
        """T, the steps that are run."""
        return self.num_epochs * math.ceil(num_train / self.batch_size)

    def steps_counted(self, num_train: int) -> int:
        """The steps that the published accounting counts: epochs/q, rounded down."""
        return int(self.num_epochs / self.rate(num_train))

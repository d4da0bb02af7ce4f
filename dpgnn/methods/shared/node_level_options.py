"""Options of node-level privacy for methods that aggregate: degrees, stages, shares of the budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, one_of, positive, require
from dpgnn.training.options import OptimizerConfig

Rule = Literal["mu2-ratio", "shared-multiplier", "epsilon-ratio"]


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """One stage of DP-SGD, in the epochs that publications state.

    Attributes:
        batch_size: roots in a batch; expected in sound mode, fixed in published replace-one mode.
        num_epochs: passes; the number of steps follows from the public number of training nodes.
        clipping_norm: C.
        optimizer: turns noisy means into steps.
    """

    batch_size: int = 256
    num_epochs: int = 100
    clipping_norm: float = 1.0
    optimizer: OptimizerConfig = OptimizerConfig(lr=1e-3)

    def __post_init__(self) -> None:
        at_least("batch_size", self.batch_size, 1)
        at_least("num_epochs", self.num_epochs, 1)
        positive("clipping_norm", self.clipping_norm)

    def num_steps(self, num_train: int, *, drop_last: bool) -> int:
        """T; with `drop_last`, a batch larger than the training set is an error, because no step is left."""
        if drop_last:
            steps = self.num_epochs * (num_train // self.batch_size)
            return at_least(
                "num_steps", steps, 1,
                f"batch_size {self.batch_size} exceeds the {num_train} training nodes and incomplete "
                "batches are dropped, so nothing would be trained; lower batch_size",
            )  # fmt: skip
        return self.num_epochs * num_train // min(self.batch_size, num_train)


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Node-level privacy: degrees, stages, and the split of the budget.

    Attributes:
        max_degree: D, the declared degree bound (unit node-bounded), or K, the slots of a node's own list
            (unit node-record).
        bounding: "declared" refuses a graph that exceeds the bound (unit node-record: own lists instead);
            "sampled" (published mode) thins edges at random first, which invalidates the guarantee.
        drop_last_node: published mode: omit the last node's edges, as in the re-implementation.
        encoder: DP-SGD of the encoder.
        head: DP-SGD of the head.
        rule: how sound mode splits the budget; published mode uses one multiplier for all.
        shares: weights of encoder, aggregation and head under the two ratio rules.
    """

    max_degree: int = 20
    bounding: Literal["declared", "sampled"] = "declared"
    drop_last_node: bool = False
    encoder: StageConfig = StageConfig()
    head: StageConfig = StageConfig()
    rule: Rule = "mu2-ratio"
    shares: tuple[float, float, float] = (1.0, 1.0, 1.0)

    def __post_init__(self) -> None:
        at_least("max_degree", self.max_degree, 1)
        one_of("bounding", self.bounding, ("declared", "sampled"))
        one_of("rule", self.rule, ("mu2-ratio", "shared-multiplier", "epsilon-ratio"))
        require(len(self.shares) == 3, "shares", "have three weights", self.shares)
        for share in self.shares:
            positive("shares", share)

"""Options of votes; every value is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, non_negative, one_of, positive, require
from dpgnn.core.config import later
from dpgnn.methods.dp_mlp import DPMLPConfig
from dpgnn.methods.shared.planning import LINEAR, DPSGDConfig
from dpgnn.methods.votes.edge_options import EdgeConfig


@dataclass(frozen=True, kw_only=True)
class VotesConfig:
    """Options of votes.

    Attributes:
        mean_degree: declared mean length of a node's list, a public fact; never measured on the graph.
        agreement: assumed fraction of neighbours of the same class, only for the budget rule.
        least_signal: below this signal-to-noise ratio of the board (`plan.signal_of`) the run is DP-MLP; None
            takes the limit fitted on synthetic graphs (`plan.least_of`).
        share: of the squared budget for the board; training gets the rest.
        clip: clipping norm of the inputs from the board, in norms of the board's noise.
        bias: the constant input of the linear model.
        training: noisy gradient descent of the linear model.
        mlp: DP-MLP, used if the board has too little signal.
        rounds: 2 adds a second board, to which nodes outside the training set push their predicted class.
        reads: rows of a board that a node reads: those of its own list, its own row, or both.
        subtract: whether a node subtracts its own push from what it reads.
        max_pushes: largest number of ids of its list that a node pushes to, with weight 1/sqrt of their
            number; None pushes to all.
        edge: options of the edge level, which does not read the others.
    """

    mean_degree: float = 5.0
    agreement: float = 0.8
    least_signal: float | None = None
    share: float = 0.4
    clip: float = 4.0
    bias: float = 0.3
    training: DPSGDConfig = LINEAR
    mlp: DPMLPConfig = DPMLPConfig()
    rounds: Literal[1, 2] = later(1)
    reads: Literal["both", "list", "row"] = later("both")
    subtract: bool = later(True)
    max_pushes: int | None = later(None)
    edge: EdgeConfig = later(EdgeConfig())

    def __post_init__(self) -> None:
        for name in ("mean_degree", "agreement", "clip", "bias"):
            positive(name, getattr(self, name))
        require(self.agreement <= 1, "agreement", "be <= 1", self.agreement)
        if self.least_signal is not None:
            non_negative("least_signal", self.least_signal)
        require(0 < self.share < 1, "share", "be in (0, 1)", self.share)
        one_of("rounds", self.rounds, (1, 2))
        one_of("reads", self.reads, ("both", "list", "row"))
        if self.max_pushes is not None:
            at_least("max_pushes", self.max_pushes, 1)

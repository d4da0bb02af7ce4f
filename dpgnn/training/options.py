"""Options of training loops, free of torch so that studies are read quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.checks import at_least, non_negative, positive

Selection = Literal["best_validation", "last"]


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """Full-batch Adam.

    Attributes:
        lr: step size.
        weight_decay: L2 penalty added to the gradient of the weights.
        num_epochs: full-batch steps at most.
        patience: epochs without a better validation accuracy before stopping; 0 never stops early.
        selection: "best_validation" keeps the weights with the best validation accuracy (then loss),
            "last" the final ones.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    num_epochs: int = 200
    patience: int = 0
    selection: Selection = "best_validation"

    def __post_init__(self) -> None:
        positive("lr", self.lr)
        non_negative("weight_decay", self.weight_decay)
        at_least("num_epochs", self.num_epochs, 1)
        at_least("patience", self.patience, 0)

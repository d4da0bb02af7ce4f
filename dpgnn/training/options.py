"""Options of training loops, without torch so that studies are read quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, non_negative, one_of, positive, probability, require

Selection = Literal["best_validation", "last"]


def check_dropout(dropout: float) -> None:
    """Check the option `dropout`, a rate in [0, 1).

    Raises:
        ValueError: names the option.
    """
    probability("dropout", dropout)
    require(dropout < 1, "dropout", "be < 1", dropout)


def check_layers(hidden: tuple[int, ...], dropout: float) -> None:
    """Check the options `hidden`, widths of hidden layers, and `dropout`, a rate in [0, 1).

    Raises:
        ValueError: names the option.
    """
    check_dropout(dropout)
    for width in hidden:
        at_least("hidden", width, 1)


@dataclass(frozen=True, kw_only=True)
class AdamConfig:
    """Full-batch Adam.

    Attributes:
        lr: step size.
        weight_decay: L2 penalty added to the gradient of the weights.
        num_epochs: largest number of full-batch steps.
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


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The step from a noisy mean gradient, which is post-processing of a private release.

    Attributes:
        name: "sgd" or "adam".
        lr: step size.
        momentum: of SGD, in [0, 1).
        beta1, beta2, epsilon: of Adam; epsilon is added to the root of the second moment.
        weight_decay: L2 penalty added to the gradient (reads the weights only).
        average_last: fraction of last steps whose iterates are averaged, in [0, 1]; 0 releases the last
            iterate, otherwise the average is released and evaluated.
    """

    name: Literal["sgd", "adam"] = "adam"
    lr: float = 1e-3
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0
    average_last: float = 0.0

    def __post_init__(self) -> None:
        one_of("optimizer", self.name, ("sgd", "adam"))
        positive("lr", self.lr)
        positive("optimizer epsilon", self.epsilon)
        non_negative("weight_decay", self.weight_decay)
        probability("average_last", self.average_last)
        for name in ("momentum", "beta1", "beta2"):
            value = getattr(self, name)
            require(0 <= value < 1, name, "be in [0, 1)", value)

"""LPGNet's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, layers, non_negative, one_of, positive
from dpgnn.training.options import check_dropout


@dataclass(frozen=True, kw_only=True)
class PerceptronTraining:
    """Full-batch Adam whose step size falls linearly to 0.

    Attributes:
        lr: initial step size.
        weight_decay: L2 penalty added to the gradient of the weights.
        num_epochs: full-batch steps.
        selection: "validation_loss" keeps the weights of the smallest loss on validation nodes, which are
            public at edge level; "last" the final ones.
    """

    lr: float = 0.01
    weight_decay: float = 5e-4
    num_epochs: int = 500
    selection: Literal["validation_loss", "last"] = "validation_loss"

    def __post_init__(self) -> None:
        positive("lr", self.lr)
        non_negative("weight_decay", self.weight_decay)
        at_least("num_epochs", self.num_epochs, 1)
        one_of("selection", self.selection, ("validation_loss", "last"))


@dataclass(frozen=True, kw_only=True)
class LPGNetConfig:
    """Options of LPGNet; every value is public.

    Attributes:
        num_hops: K, number of releases of noisy degrees, each followed by one more perceptron.
        hidden: width of the hidden layers.
        num_layers: linear layers of each perceptron, without biases.
        dropout: rate between layers.
        training: of every perceptron.
        shared_generator: published mode: each of `num_workers` slices of the rows draws its noise from the
            same state of one generator, and so does each hop, as in the released code; no effect in sound
            mode.
        num_workers: slices of the rows under `shared_generator`.
        directed: published mode: noise for one stored direction (sensitivity 1), as in ProGAP's copy of
            LPGNet; False counts the undirected edge (2).
        tuned_on_edges: published mode: the options were chosen by runs on the exact edges, as by the authors;
            the claims say so.
    """

    num_hops: int = 2
    hidden: int = 16
    num_layers: int = 2
    dropout: float = 0.5
    training: PerceptronTraining = PerceptronTraining()
    shared_generator: bool = True
    num_workers: int = 5
    directed: bool = False
    tuned_on_edges: bool = True

    def __post_init__(self) -> None:
        at_least("num_hops", self.num_hops, 1)
        at_least("hidden", self.hidden, 1)
        layers("num_layers", self.num_layers, 1)
        check_dropout(self.dropout)
        at_least("num_workers", self.num_workers, 1)

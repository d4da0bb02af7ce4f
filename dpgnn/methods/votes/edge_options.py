"""Options of votes at edge level; every value is public."""

from __future__ import annotations

from dataclasses import dataclass

from dpgnn.core.checks import at_least, non_negative, positive, probability, require
from dpgnn.data.rows import RowNorm
from dpgnn.training.options import AdamConfig, check_layers


def _keeps_last(training: AdamConfig) -> None:
    require(training.selection == "last", "selection", "be last at edge level", training.selection,
            "validation labels are not used")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class BaseConfig:
    """One classifier on features only.

    Attributes:
        hidden: widths of the hidden layers; () is a linear model.
        dropout: rate before each layer.
        row_norm: norm that divides each record's features: none, l1, l2, centred (after subtracting their
            mean).
        training: optimiser; the last weights are kept, so that no validation label is used.
    """

    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.5
    row_norm: RowNorm = "l2"
    training: AdamConfig = AdamConfig(weight_decay=1e-4, num_epochs=80, selection="last")

    def __post_init__(self) -> None:
        check_layers(self.hidden, self.dropout)
        _keeps_last(self.training)


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """The model that reads base scores and noisy sums; one is trained after each round.

    Attributes:
        hidden: width of its hidden layer.
        input_dropout, dropout: rates before the first and the second layer.
        decay: the penalty on weights is this divided by the number of training nodes.
        rows_a_step: largest number of training nodes in a step, in turn.
        training: optimiser; the last weights are kept, and its weight decay is not used.
    """

    hidden: int = 32
    input_dropout: float = 0.1
    dropout: float = 0.5
    decay: float = 50.0
    rows_a_step: int = 512
    training: AdamConfig = AdamConfig(weight_decay=0.0, num_epochs=120, selection="last")

    def __post_init__(self) -> None:
        at_least("hidden", self.hidden, 1)
        at_least("rows_a_step", self.rows_a_step, 1)
        non_negative("decay", self.decay)
        for name in ("input_dropout", "dropout"):
            probability(name, getattr(self, name))
            require(getattr(self, name) < 1, name, "be < 1", getattr(self, name))
        _keeps_last(self.training)
        require(self.training.weight_decay == 0, "weight_decay", "be 0", self.training.weight_decay,
                "set decay")  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class EdgeConfig:
    """Edge level: base scores without edges, then two rounds of votes.

    Attributes:
        num_folds: number of folds; a training node's score comes from models that did not train on it.
        rows_a_step: largest number of training nodes in a classifier's step, in turn.
        scaled, raw, linear: the three classifiers whose log-scores are added with learned weights.
        head: the model after each round.
        smallest_scale: sums are divided by the larger of the noise's deviation and this.
        lowest_score: log-scores below it are raised to it.
    """

    num_folds: int = 4
    rows_a_step: int = 256
    scaled: BaseConfig = BaseConfig()
    raw: BaseConfig = BaseConfig(
        dropout=0.7,
        row_norm="none",
        training=AdamConfig(lr=0.005, weight_decay=1e-3, num_epochs=60, selection="last"),
    )
    linear: BaseConfig = BaseConfig(
        hidden=(),
        dropout=0.0,
        training=AdamConfig(lr=0.1, weight_decay=0.0, num_epochs=150, selection="last"),
    )
    head: HeadConfig = HeadConfig()
    smallest_scale: float = 0.5
    lowest_score: float = -8.0

    def __post_init__(self) -> None:
        at_least("num_folds", self.num_folds, 2)
        at_least("rows_a_step", self.rows_a_step, 1)
        positive("smallest_scale", self.smallest_scale)
        require(self.lowest_score < 0, "lowest_score", "be < 0", self.lowest_score)

    @property
    def bases(self) -> tuple[BaseConfig, ...]:
        """The classifiers, in the order of their weights."""
        return self.scaled, self.raw, self.linear

"""Options of encoders and heads, free of torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpgnn.core.checks import at_least, layers, require
from dpgnn.training.options import AdamConfig, check_dropout

if TYPE_CHECKING:
    from dpgnn.methods.base import Entry

DEFAULT_TRAINING = AdamConfig(lr=1e-3, weight_decay=0.0, num_epochs=100)

# flags of `dpgnn account` and smallest options of methods with `head` and `node`
FLAGS = {
    "max-degree": "node.max_degree",
    "encoder-batch-size": "node.encoder.batch_size",
    "encoder-epochs": "node.encoder.num_epochs",
    "head-batch-size": "node.head.batch_size",
    "head-epochs": "node.head.num_epochs",
}
EXAMPLE = {
    "head": {"hidden": 8, "encoder_training": {"num_epochs": 5}, "training": {"num_epochs": 5}},
    "node": {
        "max_degree": 30,
        "encoder": {"batch_size": 10, "num_epochs": 3},
        "head": {"batch_size": 10, "num_epochs": 3},
    },
}
# options that training by DP-SGD at node level does not read
EDGE_LEVEL_ONLY = ("head_layers", "dropout", "batch_norm", "encoder_training", "training")


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """Encoder and classification head trained without noise (edge level, where x and y are public).

    Attributes:
        hidden: width of the embedding and of each base stack.
        encoder_layers: linear layers of the encoder; 0 uses row-normalised features directly.
        base_layers: linear layers on each channel.
        head_layers: linear layers after the channels are joined.
        dropout: rate.
        batch_norm: batch normalisation between layers.
        encoder_training: optimiser and selection of the encoder.
        training: optimiser and selection of the head.
    """

    hidden: int = 64
    encoder_layers: int = 2
    base_layers: int = 1
    head_layers: int = 1
    dropout: float = 0.5
    batch_norm: bool = True
    encoder_training: AdamConfig = DEFAULT_TRAINING
    training: AdamConfig = DEFAULT_TRAINING

    def __post_init__(self) -> None:
        at_least("hidden", self.hidden, 1)
        for name, least in (("encoder_layers", 0), ("base_layers", 1), ("head_layers", 1)):
            layers(name, getattr(self, name), least)
        check_dropout(self.dropout)


def check_node_level(entry: Entry, path: str) -> None:
    """Refuse options of the head that have no effect in training by DP-SGD.

    Raises:
        ValueError: one differs from the method's default at node level. Allowed for CARIBOU as released,
            which trains its head without noise.
    """
    private = entry.mode != "nonprivate" and entry.privacy_unit != "edge"
    if not private or getattr(entry.options, "variant", "") == "as-released":
        return
    default = type(entry.options)().head
    for name in EDGE_LEVEL_ONLY:
        value = getattr(entry.options.head, name)
        require(
            value == getattr(default, name),
            f"{path}.options.head.{name}",
            "stay at its default at node level, where it has no effect",
            value,
            "set node.encoder and node.head instead",
        )

"""Options of CARIBOU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dpgnn.core.checks import at_least, non_negative, one_of, open_probability, probability, require
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.node_level_options import NodeConfig
from dpgnn.training.options import AdamConfig

if TYPE_CHECKING:
    from dpgnn.methods.entry import Entry

Variant = Literal["paper", "as-released"]
VARIANTS = ("paper", "as-released")
# the scripts' settings: weight decay for CARIBOU, none for the other methods
HEAD = HeadConfig(training=AdamConfig(lr=1e-3, weight_decay=0.01, num_epochs=100))


@dataclass(frozen=True, kw_only=True)
class CaribouConfig:
    """Options of CARIBOU; every value is public.

    Attributes:
        num_hops: K, layers of message passing.
        contraction: c in (0, 1), the layer's Lipschitz constant.
        alpha1: weight of the neighbours' part; 1 - alpha1 goes to the mean over all nodes.
        beta: weight of the residual X0.
        variant: published mode only: "paper" (Algorithm 1), or "as-released" (what the released code
            computes: an operator without self-loops, raw features, a noise-free layer after every hop).
        noise_free_layer: as-released only: False omits that layer.
        minimum_degree: promised lower bound on every degree in both neighbouring graphs. None assumes nothing
            in sound mode; in published mode it is measured on the private graph, as published.
        padding: sound mode, edge level: self-loops pad degrees up to this public M >= 2 (less noise, less
            mixing); None gives each node one self-loop.
        release: node level: "weights" keeps all rows of X_K inside the run (a node's own row then costs
            nothing), "noisy-state" also releases X_K (sound mode, relation null-one or replace-one).
        head: encoder and head.
        node: node-level options.
    """

    num_hops: int = 2
    contraction: float = 0.9
    alpha1: float = 1.0
    beta: float = 0.5
    variant: Variant = "paper"
    noise_free_layer: bool = True
    minimum_degree: int | None = None
    padding: int | None = None
    release: Literal["weights", "noisy-state"] = "weights"
    head: HeadConfig = HEAD
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        at_least("num_hops", self.num_hops, 1)
        open_probability("contraction", self.contraction)
        probability("alpha1", self.alpha1)
        non_negative("beta", self.beta)
        one_of("variant", self.variant, VARIANTS)
        one_of("release", self.release, ("weights", "noisy-state"))
        if self.minimum_degree is not None:
            at_least("minimum_degree", self.minimum_degree, 0)
        if self.padding is not None:
            at_least("padding", self.padding, 2)
            promised = self.minimum_degree is not None
            require(not promised, "padding", "stand without minimum_degree", self.padding)


def is_released_code(entry: Entry) -> bool:
    """Whether the entry runs the released code's variant."""
    return bool(entry.mode != "sound" and entry.options.variant == "as-released")

"""ProGAP's options."""

from __future__ import annotations

from dataclasses import dataclass

from dpgnn.core.checks import at_least, layers, one_of, positive
from dpgnn.methods.shared.node_level_options import NodeConfig, Rule, StageConfig
from dpgnn.training.options import AdamConfig, OptimizerConfig, check_dropout

TEN_EPOCHS = StageConfig(num_epochs=10, optimizer=OptimizerConfig(lr=0.01))


@dataclass(frozen=True, kw_only=True)
class StagesConfig:
    """Node-level privacy: degrees, training of the K + 1 stages, and how they share the budget.

    Attributes:
        max_degree, bounding, drop_last_node: as for GAP (`NodeConfig`).
        stage: DP-SGD of every stage.
        rule: how sound mode splits the budget; published mode uses one multiplier for all.
        shares: weights of all stages together and of the aggregates, under the two ratio rules.
    """

    max_degree: int = 20
    bounding: str = "declared"
    drop_last_node: bool = False
    stage: StageConfig = TEN_EPOCHS
    rule: Rule = "shared-multiplier"
    shares: tuple[float, float] = (1.0, 1.0)

    def __post_init__(self) -> None:
        at_least("max_degree", self.max_degree, 1)
        one_of("bounding", self.bounding, ("declared", "sampled"))
        one_of("rule", self.rule, ("mu2-ratio", "shared-multiplier", "epsilon-ratio"))
        for share in self.shares:
            positive("shares", share)

    @property
    def degrees(self) -> NodeConfig:
        """The degree bound in the form of other methods."""
        return NodeConfig(
            max_degree=self.max_degree,
            bounding=self.bounding,  # type: ignore[arg-type]
            drop_last_node=self.drop_last_node,
        )


@dataclass(frozen=True, kw_only=True)
class ProgapConfig:
    """Options of ProGAP; every value is public.

    Attributes:
        num_hops: K; K + 1 stages are trained.
        hidden: width of each base module's output.
        base_layers: linear layers of a base module.
        head_layers: linear layers of a head.
        dropout: rate after each base layer; edge level only.
        batch_norm: batch normalisation after each activation; edge level only. (At node level each row is
            normalised by itself.)
        layerwise: base modules of earlier stages are frozen; False continues their training.
        training: of each stage, edge level.
        directed: published mode, edge level: count one stored direction (sensitivity 1), as published, and
            aggregate over stored edges; False counts the undirected edge (sqrt 2).
        node: node-level options.
    """

    num_hops: int = 2
    hidden: int = 16
    base_layers: int = 1
    head_layers: int = 1
    dropout: float = 0.0
    batch_norm: bool = True
    layerwise: bool = False
    training: AdamConfig = AdamConfig(lr=0.01, weight_decay=0.0, num_epochs=100)
    directed: bool = True
    node: StagesConfig = StagesConfig()

    def __post_init__(self) -> None:
        for name in ("num_hops", "hidden"):
            at_least(name, getattr(self, name), 1)
        for name in ("base_layers", "head_layers"):
            layers(name, getattr(self, name), 1)
        check_dropout(self.dropout)

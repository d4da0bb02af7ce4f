"""DPDGC's options."""

from __future__ import annotations

from dataclasses import dataclass

from dpgnn.core.checks import positive
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.node_level_options import NodeConfig


@dataclass(frozen=True, kw_only=True)
class DPDGCConfig:
    """Options of DPDGC; every value is public.

    Attributes:
        norm_scale: s, the norm of each neighbour's embedding in the forward pass, in training and release;
            the noise is relative to it. Should be of order one, because it is also the scale in training.
        normalized: False omits the normalisation, as in the released code; published mode only.
        head: stacks on features and embedding, and their training at edge level.
        node: `encoder` trains the embedding (at edge level too), the rest is for node level.
    """

    norm_scale: float = 1.0
    normalized: bool = True
    head: HeadConfig = HeadConfig(base_layers=2, head_layers=2)
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        positive("norm_scale", self.norm_scale)

"""GAP's options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpgnn.core.checks import at_least, one_of
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.node_level_options import NodeConfig


@dataclass(frozen=True, kw_only=True)
class GapConfig:
    """Options of GAP; every value is public.

    Attributes:
        num_hops: K.
        normalization: "l2" (GAP's own), or "columns-l1" (the re-implementation in CARIBOU's code).
        directed: published mode, edge level: count one stored direction (sensitivity 1), as published, and
            aggregate over stored edges, self-loops too; False counts the undirected edge (sqrt 2). Without
            privacy: aggregate over stored edges of a directed graph, or over undirected ones.
        head: encoder and head.
        node: node-level options.
    """

    num_hops: int = 2
    normalization: Literal["l2", "columns-l1"] = "l2"
    directed: bool = True
    head: HeadConfig = HeadConfig()
    node: NodeConfig = NodeConfig()

    def __post_init__(self) -> None:
        at_least("num_hops", self.num_hops, 1)
        one_of("normalization", self.normalization, ("l2", "columns-l1"))

"""DPDGC's plans at node level, and the choice of the plan."""

from __future__ import annotations

import math
from typing import Any

from dpgnn.accountants.events import Event, GaussianRelease
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import require
from dpgnn.methods.base import Entry, Facts, nonprivate_plan
from dpgnn.methods.dpdgc import plan as dpdgc_plan
from dpgnn.methods.dpdgc.options import DPDGCConfig
from dpgnn.methods.gap.plan import node_sensitivity
from dpgnn.methods.shared.node_level import Aggregation, published_plan, sound_plan


def changed_rows(max_degree: int, relation: str) -> tuple[int, int]:
    """Adjacency rows (roots of the embedding's training) that one node changes: its own and D others.

    At most D rows read the node (declared bound, or slots of its own list); a replaced node is read by D rows
    in each world. Returns (d_plus, d_minus).
    """
    if relation == "add-remove":
        return max_degree + 1, max_degree
    if relation == "null-one":
        return max_degree + 1, max_degree + 1
    return 2 * max_degree + 1, 2 * max_degree + 1


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """One budget over the embedding's training, the release and, at node level, the head.

    Guarantee (sound, edge): `plan.edge_plan`. Guarantee (sound, node): `node_level.sound_plan`
    with `changed_rows` roots of the embedding and release sensitivity s sqrt(D): a node stands in at most
    D other rows, each term of norm s. Published mode counts one changed gradient of norm 2 C sqrt(D + 1);
    its second claim composes what is run.

    Source: Chien et al. (2023), arXiv:2309.06645.
    """
    config: DPDGCConfig = entry.options
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    if entry.mode == "sound":
        require(config.normalized, "normalized", "be true in sound mode", config.normalized)
        bounding = config.node.bounding
        require(bounding == "declared", "node.bounding", "be declared in sound mode", bounding)
    made = dpdgc_plan.edge_plan if entry.privacy_unit == "edge" else _node_plan
    return made(entry, facts, budget)


def _node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: DPDGCConfig = entry.options
    assert entry.relation is not None
    relation: Any = entry.relation

    def build(noise_stddev: float, sensitivity: float) -> Event[Any]:
        return GaussianRelease(
            relation=relation, noise_stddev=noise_stddev, sensitivity=sensitivity
        )

    l2_sensitivity = config.norm_scale * node_sensitivity(config.node.max_degree, entry.relation)
    stated = l2_sensitivity
    if entry.mode == "published" and entry.relation == "replace-one":
        stated = config.norm_scale * math.sqrt(2 * config.node.max_degree)  # as the released code
    rows = changed_rows(config.node.max_degree, entry.relation)
    stable = config.node.bounding == "declared" and config.normalized
    aggregation = Aggregation(
        build=build,
        sensitivity=stated,
        proved=l2_sensitivity if stable else None,
        num_hops=1,
        details={"norm_scale": config.norm_scale},
    )
    if entry.mode == "sound":
        return sound_plan(entry, facts, budget, config.node, aggregation, encoder_changes=rows)
    caveats = ["batch-sensitivity", "own-row-uncounted"]
    if config.node.bounding == "sampled":
        caveats.append("degree-bound-unstable")
    if not config.normalized:
        caveats.append("normalization-not-applied")
    return published_plan(
        entry, facts, budget, config.node, aggregation, caveats=tuple(caveats),
        encoder_factor=math.sqrt(config.node.max_degree + 1), encoder_changed=max(rows),
        stated_release="weights+predictions",
    )  # fmt: skip

"""GAP's sensitivities and plans."""

from __future__ import annotations

import math
from typing import Any

from dpgnn.accountants.events import Event, GaussianRelease, compose
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import at_least, require
from dpgnn.methods.base import Entry, Facts, nonprivate_plan
from dpgnn.methods.gap.options import GapConfig
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim
from dpgnn.methods.shared.node_level import AGGREGATE, Aggregation, published_plan, sound_plan

SQRT2 = math.sqrt(2)


def edge_sensitivity(*, directed: bool) -> float:
    """L2 change of the sums A X, rows of X in the unit ball: 1 for one stored direction, sqrt 2 undirected.

    Proof. One entry of A adds one row of norm at most 1 to one row of A X; an undirected edge adds two
    entries in two rows, and rows are orthogonal blocks. []
    """
    return 1.0 if directed else SQRT2


def node_sensitivity(max_degree: int, relation: str) -> float:
    """L2 change of all rows of A X except the changed node's own, rows of X in the unit ball.

    At most D rows read the node (declared degree bound, or D slots in its own list): sqrt(D) if it is removed
    or emptied, and 2 sqrt(D) if it is replaced, attained if the same D rows read x and -x.
    """
    at_least("max_degree", max_degree, 1)
    root = math.sqrt(max_degree)
    return 2 * root if relation == "replace-one" else root


def own_row_sensitivity(max_degree: int) -> float:
    """The same with the node's own row also released, for an emptied node: sqrt(D + D^2)."""
    return math.sqrt(max_degree + max_degree**2)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Noise from the budget.

    Guarantee (sound, edge): K adaptive Gaussian releases, exactly mu-GDP with mu = sqrt(2 K)/noise_stddev.
    Guarantee (sound, node): `node_level.sound_plan`. Published mode states one direction, or the noise
    multiplier shared by encoder, hops and head; its second claim is what is proved for the same noise.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, the privacy of PMA at edge and at node level.
    """
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    made = _edge_plan if entry.privacy_unit == "edge" else _node_plan
    return made(entry, facts, budget)


def _node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: GapConfig = entry.options
    assert entry.relation is not None
    relation: Any = entry.relation
    l2_sensitivity = node_sensitivity(config.node.max_degree, entry.relation)
    sound = entry.mode == "sound"
    _check_sound(entry, config)
    bounded = sound or config.node.bounding == "declared"
    # columns are divided by norms over all rows, the changed node's own among them: every row moves
    stable = bounded and config.normalization == "l2"

    def build(noise_stddev: float, sensitivity: float) -> Event[Any]:
        hop: GaussianRelease[Any] = GaussianRelease(
            relation=relation, noise_stddev=noise_stddev, sensitivity=sensitivity
        )
        return compose(hop, config.num_hops)

    aggregation = Aggregation(
        build=build,
        sensitivity=l2_sensitivity,
        proved=l2_sensitivity if stable else None,
        num_hops=config.num_hops,
        details={"max_degree": config.node.max_degree},
    )
    with_encoder = config.head.encoder_layers > 0
    if sound:
        return sound_plan(entry, facts, budget, config.node, aggregation, with_encoder=with_encoder)
    # the publication answers for every node from the noisy rows, the changed node's own row among them
    caveats = ("own-row-uncounted",) if bounded else ("own-row-uncounted", "degree-bound-unstable")
    return published_plan(
        entry, facts, budget, config.node, aggregation, caveats=caveats, with_encoder=with_encoder,
        stated_release="weights+predictions",
    )  # fmt: skip


def _edge_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    config: GapConfig = entry.options
    directed = entry.mode == "published" and config.directed
    l2_sensitivity = edge_sensitivity(directed=directed)

    def event(noise_stddev: float, sensitivity: float = l2_sensitivity) -> Event[Any]:
        hop: GaussianRelease[Any] = GaussianRelease(
            relation="add-remove", noise_stddev=noise_stddev, sensitivity=sensitivity
        )
        return compose(hop, config.num_hops)

    mechanism = gaussian_mechanism(
        AGGREGATE, event, budget, sensitivity=l2_sensitivity, num_hops=config.num_hops, details={}
    )
    caveats = ("directed-sensitivity",) if directed else ()
    claims = [gdp_claim(entry, budget, mechanism.event, caveats=caveats)]
    if entry.mode == "published":
        actual = event(mechanism.noise_stddev, SQRT2)
        claims.append(gdp_claim(entry, budget, actual, status="proved"))
    return Plan(
        mechanisms=(mechanism,),
        claims=tuple(claims),
        num_steps=config.num_hops,
        facts=facts.recorded(),
    )


def _check_sound(entry: Entry, config: GapConfig) -> None:
    """Refuse options that only published mode has, and units that only sound mode has."""
    if entry.mode == "sound":
        for name, wanted, value in (
            ("normalization", "l2", config.normalization),
            ("node.bounding", "declared", config.node.bounding),
            ("node.drop_last_node", False, config.node.drop_last_node),
        ):
            require(value == wanted, name, f"be {wanted} in sound mode", value)

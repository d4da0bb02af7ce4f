"""LPGNet's noise and claims."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from dpgnn.accountants.events import LaplaceRelease, compose
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.core.checks import require
from dpgnn.methods.base import Entry, Facts, nonprivate_plan
from dpgnn.methods.lpgnet.degrees import DEGREES, degree_sensitivity
from dpgnn.methods.lpgnet.options import LPGNetConfig
from dpgnn.methods.shared.edge_level import no_guarantee
from dpgnn.methods.shared.noisy_graph_plan import pure_claim


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """K Laplace releases, each with epsilon / K.

    Guarantee (sound): unit edge, add-remove, pure epsilon. The clusters of hop t are a function of public
    features and labels and of the released degrees of hops before t, so they are the same in both worlds; an
    edge moves two entries of the degree vectors by 1, and scale 2K/epsilon spends epsilon/K. Everything else
    is post-processing. Public: node ids, features, labels, split, options (docs/accounting.md, theorem 17).

    Published: the same count. With `shared_generator` one noisy row gives the noise of others, so nothing
    finite is proved; with `directed` half the noise is added.

    Raises:
        ValueError: multilabel data, more clusters than nodes, or no finite budget.

    Source: Kolluri et al. (2022), arXiv:2205.03105.
    """
    config: LPGNetConfig = entry.options
    require(facts.task == "multiclass", "lpgnet: task", "be multiclass", facts.task,
            "a cluster is the one class predicted for a node")  # fmt: skip
    require(
        facts.num_classes <= facts.num_nodes, "lpgnet: number of clusters (classes)",
        f"be <= the number of nodes, {facts.num_nodes}", facts.num_classes,
        "an empty cluster has only noise; join classes",
    )  # fmt: skip
    if entry.mode == "nonprivate":
        return nonprivate_plan(entry, facts, budget)
    require(
        budget.is_private, "lpgnet: epsilon", "be finite", budget.epsilon, "use mode nonprivate"
    )
    published = entry.mode == "published"
    sensitivity = degree_sensitivity(directed=published and config.directed)
    mechanism, stated = _mechanism(config.num_hops, sensitivity, budget)
    found = _claims(entry, config, budget, stated) if published else (
        pure_claim(entry, epsilon=stated),
    )  # fmt: skip
    return Plan(
        mechanisms=(mechanism,), claims=found, num_steps=config.num_hops, facts=facts.recorded()
    )


def _mechanism(num_hops: int, sensitivity: float, budget: Budget) -> tuple[Mechanism, float]:
    """The releases and their epsilon at that sensitivity."""
    if budget.noise_multiplier is not None:
        scale = budget.noise_multiplier * sensitivity
        stated = num_hops / budget.noise_multiplier
    else:
        scale, stated = num_hops * sensitivity / budget.epsilon, budget.epsilon
    one: LaplaceRelease[Any] = LaplaceRelease(
        relation="add-remove", scale=scale, sensitivity=degree_sensitivity(directed=False)
    )
    mechanism = Mechanism(
        name=DEGREES,
        event=compose(one, num_hops),
        noise_stddev=scale * 2**0.5,
        sensitivity=sensitivity,
        num_steps=num_hops,
        details={
            "scale": scale,
            "noise_multiplier": scale / sensitivity,
            "num_hops": num_hops,
        },
    )
    return mechanism, stated


def _claims(entry: Entry, config: LPGNetConfig, budget: Budget, stated: float) -> tuple[Any, ...]:
    """The stated claim, and the proved one for the same noise."""
    tuned = ("options-tuned-on-edges",) if config.tuned_on_edges else ()
    reused = ("noise-reused",) if config.shared_generator else ()
    halved = ("directed-sensitivity",) if config.directed else ()
    first = pure_claim(entry, epsilon=stated, caveats=(*tuned, *reused, *halved))
    if config.shared_generator:
        proved = replace(no_guarantee(entry, budget), delta=0.0)
    else:
        spent = stated * (2.0 if config.directed else 1.0)
        proved = pure_claim(entry, epsilon=spent, status="proved", caveats=tuned)
    return first, proved

"""LPGNet: edges enter only through noisy numbers of neighbours in each predicted class; pure epsilon.

Edge level. A perceptron reads the features; each further one reads the answers so far and the noisy degree
vectors over the classes last predicted. See docs/methods/lpgnet.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.methods.base import Asked, Fitted, Method, PlannedRun, Support
from dpgnn.methods.lpgnet.options import LPGNetConfig
from dpgnn.methods.lpgnet.plan import plan
from dpgnn.methods.lpgnet.queries import LEAKS, QUERIES
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared.aggregate_answers import answer, for_this_graph
from dpgnn.methods.tensors import Shapes, Tensors, Trained, of_module

if TYPE_CHECKING:
    from dpgnn.methods.releases import Release


def fit(run: PlannedRun) -> Fitted:
    """Train the perceptrons in turn.

    Guarantee: edges enter only through the planned mechanism.
    """
    from dpgnn.methods.lpgnet import fit as lpgnet_fit

    return for_this_graph(lpgnet_fit.fit(run), run.graph)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy degrees of a hop, and the released code's version."""
    from dpgnn.methods.lpgnet.degrees import degrees_with_reused_noise, noisy_degrees

    return (noisy_degrees, degrees_with_reused_noise)


def tensors(trained: Trained) -> Tensors:
    """A perceptron for each hop, on all logits and noisy degrees before it; the degrees and the answers."""
    from dpgnn.methods.lpgnet.fit import model_of

    config, facts, state = trained.entry.options, trained.facts, Shapes()
    for hop in range(config.num_hops + 1):
        width = 2 * hop * facts.num_classes if hop else facts.num_features
        state |= of_module(model_of(width, trained.sizes, config), f"mlp.{hop}.")
        if hop:
            state[f"noisy_state.{hop}"] = (facts.num_nodes, facts.num_classes)
    return Tensors(state=state | trained.released_answers)


METHOD = Method(
    name="lpgnet",
    title="LPGNet",
    config=LPGNetConfig,
    source="Kolluri et al. (2022), arXiv:2205.03105",
    modes=("nonprivate", "published", "sound"),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    plan=plan,
    fit=fit,
    asked=Asked(steps="num_hops", counted="hops"),
    predict=answer,
    score=by_unit,
    tensors=tensors,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    example={"num_hops": 2, "hidden": 8, "training": {"num_epochs": 5}},
    citation="kolluri2022lpgnet",
)

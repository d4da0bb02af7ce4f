"""ProGAP: stages of training with a noisy sum between them, each stage on one more sum.

Edge level: one Gaussian release between two stages, sensitivity sqrt 2 for an undirected edge. Node level:
sensitivity sqrt(D), and each stage by DP-SGD. See docs/methods/progap.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import require
from dpgnn.methods.base import Asked, Entry, Fitted, Method, PlannedRun, SamplerSpec
from dpgnn.methods.progap.options import ProgapConfig
from dpgnn.methods.progap.plan import plan
from dpgnn.methods.progap.queries import LEAKS, QUERIES
from dpgnn.methods.progap.tensors import tensors
from dpgnn.methods.queries import at_node_level
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared import aggregate_bounds
from dpgnn.methods.shared.aggregate_answers import answer, for_this_graph

if TYPE_CHECKING:
    from dpgnn.methods.releases import Release

# options that training by DP-SGD does not read
EDGE_LEVEL_ONLY = ("dropout", "batch_norm", "training")


def sampler(entry: Entry) -> SamplerSpec | None:
    """Degree-bounded edges at node level; nothing at edge level."""
    return aggregate_bounds.sampler(entry, entry.options.node.degrees)


def check(entry: Entry, path: str) -> None:
    """Refuse options without effect at node level, and units that the publication does not cover.

    Raises:
        ValueError: names the option, or the unit and relation.
    """
    if entry.mode == "nonprivate" or entry.privacy_unit == "edge":
        return
    default = ProgapConfig()
    for name in EDGE_LEVEL_ONLY:
        value = getattr(entry.options, name)
        require(
            value == getattr(default, name), f"{path}.options.{name}",
            "stay at its default at node level, where it has no effect", value,
            "set node.stage instead",
        )  # fmt: skip
    if entry.mode == "published":
        asked = f"{entry.privacy_unit} / {entry.relation}"
        require(
            asked == "node-bounded / add-remove", f"{path}: privacy_unit / relation",
            "be node-bounded / add-remove or edge / add-remove in published mode", asked,
            "use mode sound",
        )  # fmt: skip


def fit(run: PlannedRun) -> Fitted:
    """Train the stages, with a noisy sum between two.

    Guarantee: edges (and at node level features and labels) enter only through planned mechanisms.
    """
    from dpgnn.methods.progap import fit as progap_fit

    if at_node_level(run.entry):
        return progap_fit.fit_node(run)
    return for_this_graph(progap_fit.fit_edge(run), run.graph)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy sum between two stages."""
    from dpgnn.methods.progap.aggregate import noisy_sum

    return (noisy_sum,)


METHOD = Method(
    name="progap",
    title="ProGAP",
    config=ProgapConfig,
    source="Sajadmanesh and Gatica-Perez (2024), arXiv:2304.08928",
    modes=("nonprivate", "published", "sound"),
    supports=aggregate_bounds.SUPPORTS,
    sampler=sampler,
    prepare=aggregate_bounds.prepare,
    check=check,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="num_hops",
        counted="hops",
        flags={
            "max-degree": "node.max_degree",
            "stage-batch-size": "node.stage.batch_size",
            "stage-epochs": "node.stage.num_epochs",
        },
    ),
    predict=answer,
    score=by_unit,
    tensors=tensors,
    queries=QUERIES,
    leaks=LEAKS,
    releases=releases,
    degrees=aggregate_bounds.degrees,
    example={
        "num_hops": 2,
        "hidden": 8,
        "node": {"max_degree": 30, "stage": {"batch_size": 10, "num_epochs": 3}},
    },
    citation="sajadmanesh2024progap",
)

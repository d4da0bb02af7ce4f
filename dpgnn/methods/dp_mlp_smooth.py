"""DP-MLP whose answers are averaged over the neighbourhood at inference: the control for message passing.

Training reads no edge, so the weights have DP-MLP's guarantee for the unit `node` without a sampler or a
factor N(K, r). At inference it reads the same raw data as a graph network with as many hops: features and
edges around the asked node. The gain of a private graph network over it is the value of training on
subgraphs. Averaging the last hidden state instead of the logits is equivalent, because the last layer is
affine and the averaging weights sum to one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core.checks import at_least, one_of
from dpgnn.data.graph import arcs_of
from dpgnn.methods import dp_mlp
from dpgnn.methods.base import Asked, Entry, Facts, Fitted, Method, PlannedRun, Prediction
from dpgnn.methods.dp_gnn.sample import mean_over_lists
from dpgnn.methods.dp_mlp import DPMLPConfig
from dpgnn.methods.queries import Queries
from dpgnn.methods.scores import Score

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph


@dataclass(frozen=True, kw_only=True)
class DPMLPSmoothConfig:
    """Options of DP-MLP with averaged answers; every value is public.

    Attributes:
        mlp: options of DP-MLP, whose training is unchanged.
        num_averages: number of times answers are averaged over a node and its neighbours at inference; 0 is
            DP-MLP.
        average: what is averaged: logits or probabilities.
        symmetrize: add the reverse of each edge of a directed graph.
    """

    mlp: DPMLPConfig = DPMLPConfig()
    num_averages: int = 1
    average: Literal["logits", "probabilities"] = "logits"
    symmetrize: bool = True

    def __post_init__(self) -> None:
        at_least("num_averages", self.num_averages, 0)
        one_of("average", self.average, ("logits", "probabilities"))


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """DP-MLP's plan; its claims are about the weights, and state that answers read the private graph.

    Guarantee: as `dp_mlp.plan`, for the released weights.
    """
    made = dp_mlp.plan(_trained(entry), facts, budget)
    if entry.options.num_averages == 0:
        return made
    claims = tuple(
        replace(claim, caveats=(*claim.caveats, "inference-reads-private-graph"))
        for claim in made.claims
    )
    return replace(made, claims=claims)


def fit(run: PlannedRun) -> Fitted:
    """DP-MLP's training.

    Guarantee: as `dp_mlp.fit`.
    """
    return dp_mlp.fit(replace(run, entry=_trained(run.entry)))


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Averaged answers for the nodes asked for.

    No claim holds for the answers: an answer reads the features and edges around the asked node.

    Guarantee: without averaging as DP-MLP; with it none for the answers, which read other nodes' records of
    the evaluation graph afresh.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, "Answers, and who may see them".
    """
    import torch

    config: DPMLPSmoothConfig = entry.options
    everyone = np.arange(graph.num_nodes)
    answer = dp_mlp.predict(_trained(entry), fitted, graph, everyone)
    if config.num_averages == 0:
        return replace(answer, logits=answer.logits[torch.from_numpy(node_idx.copy())])
    values = answer.logits
    if config.average == "probabilities":
        values = values.sigmoid() if graph.task == "multilabel" else values.softmax(dim=1)
    arcs = arcs_of(graph, symmetrize=config.symmetrize)
    mixed = mean_over_lists(values.numpy(), arcs, config.num_averages)[node_idx]
    logits = torch.from_numpy(mixed)
    if config.average == "probabilities":
        logits = logits.logit() if graph.task == "multilabel" else logits.log()
    note = f"an answer reads features and edges within {config.num_averages} hops of the asked node"
    return Prediction(logits=logits, answers="none", note=note)


def _trained(entry: Entry) -> Entry:
    """The DP-MLP inside."""
    return replace(entry, method="dp_mlp", options=entry.options.mlp)


METHOD = Method(
    name="dp_mlp_smooth",
    title="DP-MLP, answers averaged",
    config=DPMLPSmoothConfig,
    source="control of this project; training as Abadi et al. (2016), arXiv:1607.00133",
    modes=dp_mlp.METHOD.modes,
    supports=dp_mlp.METHOD.supports,
    plan=plan,
    fit=fit,
    asked=Asked(
        steps="mlp.training.num_steps",
        counted="steps",
        flags={"batch-size": "mlp.training.expected_batch_size"},
    ),
    predict=predict,
    # before they are averaged, answers are DP-MLP's
    score=lambda entry: Score(
        sensitivity=1.0, without_edges=entry.options.num_averages > 0, of_training=("train",)
    ),
    tensors=lambda trained: dp_mlp.tensors(replace(trained, entry=_trained(trained.entry))),
    queries=Queries(disjoint=True),
    example={"mlp": dp_mlp.METHOD.example},
)

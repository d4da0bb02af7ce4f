"""A complete method to copy: one noisy sum over neighbours, and a model that reads nothing else of the edges.

Edge level. Its one new release is declared where it is made; audits and contract tests find it by the
`Method` at the end. See docs/add_a_method.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.accountants.events import Event, GaussianRelease
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.methods.base import Entry, Facts, Fitted, Method, PlannedRun, Support
from dpgnn.methods.releases import Draw, as_called, gaussian, noised, release
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.aggregate_answers import answer, for_this_graph
from dpgnn.methods.shared.edge_level import gaussian_mechanism, gdp_claim, normal_draw
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.head_tensors import on_channels
from dpgnn.methods.shared.undirected import adjacency_of
from dpgnn.methods.tensors import Tensors, Trained

SUMS = "sums"
# an undirected edge adds one row of norm at most 1 to two rows of the sums
SENSITIVITY = math.sqrt(2)


@dataclass(frozen=True, kw_only=True)
class NoisySumsConfig:
    """Options; every value is public.

    Attributes:
        head: the model, trained on features and noisy sums.
    """

    head: HeadConfig = HeadConfig(encoder_layers=0)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """One Gaussian release of the sums.

    Guarantee: unit edge, add-remove; mu-GDP with mu = sqrt(2)/noise_stddev. Public: all but the edges.
    """

    def event(noise_stddev: float) -> Event[Any]:
        return GaussianRelease(
            relation="add-remove", noise_stddev=noise_stddev, sensitivity=SENSITIVITY
        )

    mechanism = gaussian_mechanism(
        SUMS, event, budget, sensitivity=SENSITIVITY, num_hops=1, details={}
    )
    claim = gdp_claim(entry, budget, mechanism.event)
    return Plan(mechanisms=(mechanism,), claims=(claim,), facts=facts.recorded())


@release({SUMS: gaussian(as_called)})
def noisy_sums(
    adjacency: sp.csr_array, rows: np.ndarray, noise_stddev: float, draw: Draw
) -> np.ndarray:
    """Sums of unit rows over neighbours, with noise."""
    return noised(adjacency @ unit_rows(rows), noise_stddev, draw)


def fit(run: PlannedRun) -> Fitted:
    """Noise once, then train on what came out."""
    from dpgnn.methods.shared.head_training import train_head

    rows = run.graph.dense_x().astype(np.float64)
    noise = run.context.ledger.enter(SUMS).noise_stddev
    sums = noisy_sums(adjacency_of(run.graph), rows, noise, normal_draw(run.context, SUMS))
    state, history = train_head(run, [rows, sums])
    return for_this_graph(Fitted(state=state, history=tuple(history)), run.graph)


def tensors(trained: Trained) -> Tensors:
    """The head on features and sums, and its answers."""
    width = trained.facts.num_features
    return on_channels(trained, [width, width], {})


METHOD = Method(
    name="template_method",
    title="Noisy sums",
    config=NoisySumsConfig,
    source="docs/add_a_method.md",
    modes=("sound",),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    plan=plan,
    fit=fit,
    predict=answer,
    tensors=tensors,
    releases=lambda: (noisy_sums,),
    example={"head": {"hidden": 8, "encoder_layers": 0, "training": {"num_epochs": 5}}},
)

"""DPDGC's runs: embedding of adjacency rows, noisy release, head."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.releases import (
    Arguments,
    Draw,
    RoundedDraw,
    Where,
    gaussian,
    noised,
    release,
    rows_with_room,
    summable,
)
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.aggregate_answers import for_this_graph
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import entered_noise
from dpgnn.methods.shared.head_private import private_head
from dpgnn.methods.shared.head_training import train_head
from dpgnn.methods.shared.node_level import AGGREGATE, ENCODER
from dpgnn.methods.shared.private_training import run_dp_sgd
from dpgnn.methods.shared.undirected import adjacency_of
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.training.nonprivate import train_on_rows

if TYPE_CHECKING:
    from dpgnn.methods.dpdgc.options import DPDGCConfig


def fit_private(run: PlannedRun) -> Fitted:
    """Embedding by DP-SGD, one noisy release, and a head that is private at node level only.

    Guarantee: see `dpdgc.plan`. The forward pass of the training and the release read the same rows of norm
    s, a function of the released weights, so the release has exactly the sensitivity of its plan.
    """
    config: DPDGCConfig = run.entry.options
    if run.prepared is None:
        adjacency = adjacency_of(run.graph)
    else:
        adjacency = reading_matrix(run.prepared, run.graph.num_nodes)
    weights = _embedding(run, adjacency)
    released = released_sums(config, adjacency, weights, *entered_noise(run))
    state = {f"{ENCODER}.weight": weights}
    if run.entry.privacy_unit == "edge":
        state["noisy_state"] = torch.from_numpy(released.astype(np.float32))
        head, history = train_head(run, [run.graph.x, released])
        return for_this_graph(Fitted(state=state | head, history=tuple(history)), run.graph)
    x = normalize_rows(run.graph.x, "l2")
    # as unit rows: large sums and noise would dominate the features in one clipped gradient
    channels = [x.toarray() if sp.issparse(x) else x, unit_rows(released)]
    head, logits, rows = private_head(run, channels)
    return Fitted(state=state | head, history=tuple(rows), kept={"logits": logits})


def fit_plain(run: PlannedRun) -> Fitted:
    """The same model without privacy: full-batch training of the embedding, no noise."""
    from dpgnn.methods.dpdgc.embedding import PlainEmbedding
    from dpgnn.models.inputs import as_input

    config: DPDGCConfig = run.entry.options
    adjacency = sp.csr_array(adjacency_of(run.graph).astype(np.float32))
    model = PlainEmbedding(
        run.graph.num_nodes,
        config.head.hidden,
        run.graph.num_classes,
        norm_scale=config.norm_scale if config.normalized else None,
        generator=run.context.streams.torch("weights", stage=ENCODER),
    )
    train, val = (
        (as_input(sp.csr_array(adjacency[rows])), torch.from_numpy(run.graph.y[rows]))
        for rows in (run.split.train_idx, run.split.val_idx)
    )
    state, _ = train_on_rows(
        model,
        model,
        [train],
        val,
        config.head.encoder_training,
        task=run.graph.task,
        generator=run.context.streams.torch("dropout", stage=ENCODER),
        progress=run.context.progress(config.head.encoder_training.num_epochs, ENCODER),
    )
    sums = embedding_sums(config, adjacency, state["embedding.weight"].T)
    if config.normalized:
        sums /= config.norm_scale
    head, history = train_head(run, [run.graph.x, sums])
    return for_this_graph(Fitted(state=head, history=tuple(history)), run.graph)


def _embedding(run: PlannedRun, adjacency: sp.csr_array) -> Tensor:
    """Weights (num_nodes, hidden) of the linear embedding, a release of the mechanism `encoder`."""
    from dpgnn.methods.dpdgc.embedding import train_embedding

    config: DPDGCConfig = run.entry.options
    delta = run.plan.claims[0].delta
    network = Network(
        NetworkConfig(
            num_features=run.graph.num_nodes,
            num_outputs=run.graph.num_classes,
            width=config.head.hidden,
            encoder_layers=1,
            num_hops=0,
            decoder_layers=1,
            activation="selu",
            task=run.graph.task,
        )
    )
    train = run.split.train_idx
    rows = sp.csr_array(adjacency[train].astype(np.float32))
    roots = lone_roots(np.arange(len(train)), run.graph.y[train])
    optimizer = config.node.encoder.optimizer
    if config.normalized:
        return train_embedding(
            network, rows, roots, optimizer, run.context,
            norm_scale=config.norm_scale, delta=delta, mechanism_name=ENCODER,
        )  # fmt: skip
    named, _ = run_dp_sgd(
        network, rows, roots, optimizer, run.context, delta=delta, mechanism_name=ENCODER
    )
    return named["encoder.0.weight"]


def _weights(
    first: Arguments, second: Arguments, where: Where
) -> Iterable[tuple[Arguments, Arguments]]:
    """The weights released in G, for both worlds, and equal embeddings, whose sums are longest."""
    for weights in (first["weights"], torch.ones_like(first["weights"])):
        yield {**first, "weights": weights}, {**second, "weights": weights}


@release({AGGREGATE: gaussian(_weights)})
def released_sums(
    config: DPDGCConfig, adjacency: sp.csr_array, weights: Tensor, noise_stddev: float, draw: Draw
) -> np.ndarray:
    """Noisy sums over neighbours of embeddings, divided by s if embeddings are scaled to norm s.

    Guarantee: one Gaussian release given the released weights; embeddings have norm s, so one undirected edge
    moves the sums by sqrt(2) s.

    Args:
        config: options.
        adjacency: entry [v, u] is 1 where v reads u; float64 CSR, shape (num_nodes, num_nodes).
        weights: float32, shape (num_nodes, hidden): one embedding for each node.
        noise_stddev: absolute, on the sums.
        draw: standard normal noise of a step.

    Returns:
        float64, shape (num_nodes, hidden).
    """
    sums = embedding_sums(config, adjacency, weights, exact=isinstance(draw, RoundedDraw))
    released = noised(sums, noise_stddev, draw)
    return released / config.norm_scale if config.normalized else released


def embedding_sums(
    config: DPDGCConfig, adjacency: sp.csr_array, weights: Tensor, *, exact: bool = False
) -> np.ndarray:
    """Sums over neighbours of embeddings of norm s (of any norm without scaling).

    Args:
        exact: round scaled embeddings so that sums are exact, see `releases.summable`; for releases.
    """
    embeddings = weights.detach().numpy().astype(np.float64)
    if config.normalized:
        embeddings = config.norm_scale * unit_rows(embeddings)
        if exact:
            embeddings = summable(embeddings, rows_with_room(len(embeddings)), config.norm_scale)
    return np.asarray(adjacency @ embeddings)

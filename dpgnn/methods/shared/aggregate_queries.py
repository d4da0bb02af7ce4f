"""Asking an edge-level model about other features on the same graph, as a link-inference attack does.

A query runs the noisy aggregation again: with fresh noise it is a new release, to be composed with the first;
with the noise of the run (`draw` of its streams) it shows what the released mechanism does at a fixed draw.
Auditors say which of the two they use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpgnn.core.checks import one_of
from dpgnn.methods.shared.aggregate import Draw, unit_rows
from dpgnn.methods.shared.head_training import apply_head, embed
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry


def query_logits(
    entry: Entry,
    state: Mapping[str, Tensor],
    graph: Graph,
    *,
    noise_stddev: float,
    draw: Draw,
) -> Tensor:
    """Logits of all nodes of `graph`, whose features may differ from those of the fit.

    Guarantee: with fresh noise of the planned deviation a query costs what the run's mechanism cost; with a
    frozen draw it has no guarantee of its own.

    Args:
        entry: a `caribou` or `gap` entry at edge level or without privacy.
        state: of the fit: names starting with "encoder." and "head.".
        graph: edges and features to ask about.
        noise_stddev: of the plan's mechanism `aggregate`; 0 without privacy.
        draw: (hop, shape) -> standard normal noise.

    Returns:
        float32, shape (num_nodes, num_classes).

    Raises:
        ValueError: another method.
    """
    from dpgnn.methods.caribou import fit as caribou_fit
    from dpgnn.methods.gap import fit as gap_fit

    one_of("method to query", entry.method, ("caribou", "gap"))
    config = entry.options
    encoder = _part(state, "encoder.")
    if encoder:
        x0 = embed(config.head, encoder, graph)
    else:
        x0 = unit_rows(graph.dense_x().astype("float64"))
    if entry.method == "caribou":
        channels = caribou_fit.edge_channels(
            entry, graph, x0, adjacency_of(graph), noise_stddev, draw
        )
    else:
        adjacency = gap_fit.edge_adjacency(entry, graph)
        channels = gap_fit.channels_of(config, adjacency, x0, noise_stddev, draw)
    with torch.no_grad():
        return apply_head(config.head, _part(state, "head."), channels, graph.num_classes)


def _part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}

"""Queries of a model with noisy aggregation between an encoder and a head, for link-inference attacks.

A query repeats the noisy aggregation: with fresh noise it is a new release, to be composed with the first;
with the noise of the run it shows the released mechanism at a fixed draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import fail
from dpgnn.methods.base import Context
from dpgnn.methods.queries import AGGREGATE, FittedRun, NoiseIn, at_node_level
from dpgnn.methods.releases import RoundedDraw
from dpgnn.methods.shared.aggregate import Draw, unit_rows
from dpgnn.methods.shared.aggregate_bounds import reading_matrix
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.layers import Features, Joined, RowMap, RowWise, Step
from dpgnn.methods.shared.undirected import adjacency_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import scipy.sparse as sp
    from torch import Tensor

    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry, Prepared


def noise_in_answers(entry: Entry) -> NoiseIn:
    """Every private answer runs the noisy mechanism."""
    return "none" if entry.mode == "nonprivate" else "answers"


def noise_of(run: FittedRun, streams: Streams) -> tuple[float, Draw]:
    """The planned deviation of the aggregation (0 without privacy), and its draws."""
    context = Context.of_streams(run.plan, streams)
    return run.noise_stddev, normal_draw(context, AGGREGATE)


def run_noise(run: FittedRun, hop: int, shape: tuple[int, int]) -> np.ndarray | None:
    """The scaled noise of a hop of the run; None without privacy."""
    stddev, draw = noise_of(run, run.streams)
    if isinstance(draw, RoundedDraw):
        fail("noise of a run", "be of a study to be drawn again", "that of a release")
    return stddev * draw(hop, shape) if stddev > 0 else None


def read_edges(run: FittedRun, graph: Graph, prepared: Prepared | None) -> sp.csr_array:
    """The edges of the aggregation: all undirected ones, or the prepared ones at node level."""
    if at_node_level(run.entry):
        return reading_matrix(prepared, graph.num_nodes)
    return adjacency_of(graph)


def raw_features(graph: Graph) -> Features:
    """Features without normalisation: float64, dense."""
    return Features(rows=graph.dense_x().astype(np.float64), encode=lambda node, rows: rows)


def encoded_features(run: FittedRun, graph: Graph) -> Features:
    """X0 in float64: unit rows of the trained encoder, or of the features without an encoder."""
    encode = _encoder(run, graph)
    everyone = np.arange(graph.num_nodes)
    return Features(rows=encode(everyone, raw_features(graph).rows), encode=encode)


def first_rows(run: FittedRun, graph: Graph) -> np.ndarray:
    """X0 of a query: as in `fit` at edge level; in float64 at node level."""
    from dpgnn.methods.shared.head_training import embed

    encoder = run.part("encoder.")
    if at_node_level(run.entry) or not encoder:
        rows: np.ndarray = encoded_features(run, graph).rows
        return rows
    return embed(run.entry.options.head, encoder, graph)


def head_logits(
    run: FittedRun, graph: Graph, channels: Sequence[Any], *, private_head: bool
) -> Tensor:
    """Logits of a query from its channels: as in `fit` at edge level; in float64 at node level."""
    import torch

    from dpgnn.methods.shared.head_training import apply_head

    if not at_node_level(run.entry):
        return apply_head(run.entry.options.head, run.part("head."), channels, graph.num_classes)
    widths = [channel.shape[1] for channel in channels]
    head = head_layer(run, graph, widths, private_head=private_head)
    return torch.from_numpy(head(np.arange(graph.num_nodes), np.concatenate(channels, axis=1)))


def head_on(
    run: FittedRun, graph: Graph, channels: tuple[Step, ...], width: int, *, private_head: bool
) -> RowWise:
    """The head in float64 on channels of one width."""
    head = head_layer(run, graph, [width] * len(channels), private_head=private_head)
    return RowWise(source=Joined(sources=channels), layer=head)


def _encoder(run: FittedRun, graph: Graph) -> RowMap:
    import torch

    from dpgnn.methods.shared.head_private import embed_rows, perceptron
    from dpgnn.methods.shared.head_training import at_inference, encoder_of

    config, state = run.entry.options.head, run.part("encoder.")
    if not state:
        return lambda node, rows: unit_rows(rows)
    if at_node_level(run.entry):
        network = perceptron(config, graph, graph.num_features, config.encoder_layers)
        weights = {name: value.double() for name, value in state.items()}
        return lambda node, rows: embed_rows(
            network, weights, config.encoder_layers, unit_rows(rows)
        )
    model = at_inference(encoder_of(config, graph), state).double()

    def encode(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            return unit_rows(model.embed(torch.from_numpy(rows)).numpy())

    return encode


def head_layer(
    run: FittedRun, graph: Graph, widths: Sequence[int], *, private_head: bool
) -> RowMap:
    """Joined channels of these widths -> logits, row by row, in float64.

    Args:
        run, graph: weights and sizes.
        widths: of the channels.
        private_head: whether the head was trained by `private_head`.
    """
    import torch

    from dpgnn.methods.shared.head_private import perceptron
    from dpgnn.methods.shared.head_training import at_inference, head_of
    from dpgnn.models.forward import full_graph_logits

    config, state = run.entry.options.head, run.part("head.")
    if private_head:
        network = perceptron(config, graph, sum(widths), config.base_layers)
        weights = {name: value.double() for name, value in state.items()}

        def root_wise(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return np.asarray(full_graph_logits(network, weights, rows, None).numpy())

        return root_wise
    model = at_inference(head_of(config, widths, graph.num_classes), state).double()
    ends = np.cumsum(widths)[:-1]

    def multi_head(node: np.ndarray, rows: np.ndarray) -> np.ndarray:
        parts = np.split(rows, ends, axis=1)
        with torch.no_grad():
            logits = model([torch.from_numpy(np.ascontiguousarray(part)) for part in parts])
        return np.asarray(logits.numpy())

    return multi_head

"""Asking a fitted model: about the graph it was fitted on, about other features, or about another graph.

Where a model's answers pass through noise, a query says whose: `frozen` repeats the draws of the run, as if
one noisy object answered every query (a perturbed graph does; an aggregation with a fixed seed would);
`fresh` draws again, which is a new release and costs what the run's mechanism cost.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from dpgnn import methods
from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.core.checks import fail, require
from dpgnn.core.randomness import FreshSecrets
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Entry, Fitted, Performance, Prepared

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

Noise = Literal["frozen", "fresh"]
NOISES: tuple[Noise, ...] = ("frozen", "fresh")
# methods whose answers are made with noise inside the query; all others answer through `predict`
AGGREGATING = ("caribou", "gap")
PERTURBED_GRAPH = ("edgerand", "lapgraph", "pertgraph")
AGGREGATE = "aggregate"


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """A fitted model under attack, with what the auditor (not the attacker) needs to ask it.

    Attributes:
        entry: what was fitted.
        state: its tensors, as `model.safetensors` holds them.
        graph: the graph of the fit, edges of the setting.
        split: of the fit.
        prepared: its prepared sample, or None.
        plan: of the run.
        streams: of the run; frozen queries repeat its draws.
    """

    entry: Entry
    state: Mapping[str, Tensor]
    graph: Graph
    split: Split
    prepared: Prepared | None
    plan: Plan
    streams: Streams

    @property
    def has_noise(self) -> bool:
        """Whether answers pass through noise that a query could draw again."""
        noisy = self.entry.method in (*AGGREGATING, *PERTURBED_GRAPH)
        return noisy and self.entry.mode != "nonprivate"

    @property
    def noise_stddev(self) -> float:
        """Of the planned mechanism `aggregate`; 0 without privacy."""
        return self.plan.mechanism(AGGREGATE).noise_stddev if self.plan.mechanisms else 0.0

    @property
    def at_node_level(self) -> bool:
        """Whether encoder and head are private, so that rows stay in the run."""
        return self.entry.mode != "nonprivate" and self.entry.privacy_unit != "edge"

    @property
    def is_released_code(self) -> bool:
        """CARIBOU as released."""
        options = self.entry.options
        as_released = getattr(options, "variant", "") == "as-released"
        return self.entry.method == "caribou" and self.entry.mode != "sound" and as_released

    @cached_property
    def frozen_pairs(self) -> Any:
        """The perturbed graph of the run: symmetric 0/1 CSR (PertGraph as published: not symmetric)."""
        return noisy_graph(self, self.graph, self.streams)

    def context(self, streams: Streams) -> Context:
        """A context that only hands out streams."""
        return Context(
            ledger=Ledger(self.plan), streams=streams, store=Store(None), performance=Performance()
        )

    def fresh(self, number: int) -> Streams:
        """Streams of query `number`: its own noise, everything else as in the run."""
        return FreshSecrets(
            root_seed=self.streams.root_seed, axes=self.streams.axes, secret_seed=number
        )


def can_ask(target: Target) -> str:
    """Why the model cannot be asked about other features; "" when it can."""
    if target.entry.method == "dpdgc":
        if target.entry.mode == "nonprivate" or target.at_node_level:
            return "the sums over neighbours, which read no feature, are not part of the release"
        return ""
    if target.streams.randomness != "study" and target.has_noise:
        return "a release keeps no seed of its noise, so its draws cannot be repeated"
    return ""


def can_move(target: Target) -> str:
    """Why the model cannot be asked about a graph with other nodes; "" when it can."""
    if target.entry.method == "dpdgc":
        return "the model has one weight vector per node of the graph it was fitted on"
    return ""


def ask(
    target: Target,
    graph: Graph,
    *,
    noise: Noise = "frozen",
    number: int = 0,
    prepared: Prepared | None = None,
) -> np.ndarray:
    """Logits of every node of `graph`: float64, shape (num_nodes, num_classes).

    Args:
        target: the model.
        graph: features and edges to answer from.
        noise: whose draws; of another number of nodes, only fresh ones make sense.
        number: names the fresh draws.
        prepared: at node level, the degree-bounded edges of `graph`; None takes those of the fit.

    Raises:
        ValueError: the model cannot be asked (`can_ask`), or frozen noise is asked of another graph.
    """
    reason = can_ask(target)
    require(not reason, f"{target.entry.name}: queries", "be answerable", reason)
    if noise == "frozen" and target.has_noise and graph.num_nodes != target.graph.num_nodes:
        fail("noise", "be fresh on a graph of other nodes", noise)
    streams = target.streams if noise == "frozen" else target.fresh(number)
    if target.entry.method in AGGREGATING:
        answer = _aggregating(target, graph, streams, prepared or target.prepared)
    elif target.entry.method in PERTURBED_GRAPH:
        if noise == "frozen":
            pairs = target.frozen_pairs
        else:
            pairs = noisy_graph(target, graph, streams)
        answer = _on_pairs(target, graph, pairs)
    elif target.entry.method == "dpdgc":
        answer = _with_embedding(target, graph, streams, noise)
    else:
        fitted = Fitted(state=dict(target.state))
        everyone = np.arange(graph.num_nodes)
        method = methods.get(target.entry.method)
        prediction = method.predict(target.entry, fitted, method.sees(graph), everyone)
        answer = prediction.logits
    return np.asarray(answer.detach().cpu().double().numpy())


def noisy_graph(target: Target, graph: Graph, streams: Streams) -> sp.csr_array:
    """The perturbed adjacency that EdgeRand, LapGraph or PertGraph makes of a graph on given streams."""
    from dpgnn.methods.pertgraph.method import DENSITY, EDGES, directed_answers, undirected_answers
    from dpgnn.methods.shared.noisy_graph import laplace_top_cells, randomized_response
    from dpgnn.methods.shared.undirected import symmetric_adjacency, undirected_pairs

    method, plan = target.entry.method, target.plan
    if method == "pertgraph":
        make = undirected_answers if target.entry.mode == "sound" else directed_answers
        return make(
            graph,
            plan.mechanism(DENSITY).details["scale"],
            plan.mechanism(EDGES).event.one_if_one,  # type: ignore[attr-defined]
            block_rows=target.entry.options.block_rows,
            context=target.context(streams),
        )
    pairs = undirected_pairs(graph.edge_index, graph.num_nodes)
    if method == "edgerand":
        event = plan.mechanism("edges").event
        noisy = randomized_response(
            pairs,
            graph.num_nodes,
            one_if_one=event.one_if_one,  # type: ignore[attr-defined]
            one_if_zero=event.one_if_zero,  # type: ignore[attr-defined]
            rng=streams.numpy("response"),
        )
    else:
        noisy = laplace_top_cells(
            pairs,
            graph.num_nodes,
            epsilon_count=1 / plan.mechanism("count").details["scale"],
            epsilon_cells=1 / plan.mechanism("cells").details["scale"],
            rng=streams.numpy("laplace"),
        )
    return symmetric_adjacency(noisy, graph.num_nodes)


def part(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with `prefix`, under the rest of their names."""
    return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}


def _aggregating(
    target: Target, graph: Graph, streams: Streams, prepared: Prepared | None
) -> Tensor:
    from dpgnn.attacks.aggregates import node_logits
    from dpgnn.methods.shared.aggregate_queries import query_logits
    from dpgnn.methods.shared.edge_level import normal_draw

    draw = normal_draw(target.context(streams), AGGREGATE)
    if target.at_node_level:
        assert prepared is not None
        return node_logits(target, graph, prepared, draw)
    return query_logits(
        target.entry, target.state, graph, noise_stddev=target.noise_stddev, draw=draw
    )


def _on_pairs(target: Target, graph: Graph, adjacency: sp.csr_array) -> Tensor:
    """The trained network on a perturbed graph."""
    import torch

    from dpgnn.data.rows import normalize_rows
    from dpgnn.methods.shared.aggregate import symmetric_operator
    from dpgnn.methods.shared.graph_training import as_operator
    from dpgnn.models.gcn import GCN
    from dpgnn.models.inputs import as_input

    state = {name: value for name, value in target.state.items() if name != "logits"}
    generator = torch.Generator()
    model: Any
    if target.entry.method == "pertgraph":
        model = sum_sage(target, graph.num_features, graph.num_classes)
        x, operator = as_input(graph.x), as_operator(adjacency)
    else:
        config = target.entry.options.gcn
        model = GCN(
            graph.num_features, config.hidden, graph.num_classes, dropout=0.0, generator=generator
        )
        x = as_input(normalize_rows(graph.x, config.row_norm))
        operator = as_operator(symmetric_operator(adjacency))
    model.load_state_dict(state)
    model.eval()
    with torch.no_grad():
        logits: Tensor = model(x, operator)
    return logits


def sum_sage(target: Target, num_features: int, num_classes: int) -> Any:
    """PertGraph's network of the entry's sizes, at inference, with no weights yet."""
    import torch

    from dpgnn.methods.pertgraph.network import SumSage

    config = target.entry.options
    return SumSage(
        num_features,
        config.head.hidden,
        base_layers=config.head.encoder_layers,
        num_hops=config.num_hops,
        head_layers=config.head.head_layers,
        num_classes=num_classes,
        batch_norm=config.head.batch_norm,
        dropout=0.0,
        generator=torch.Generator(),
    )


def _with_embedding(target: Target, graph: Graph, streams: Streams, noise: Noise) -> Tensor:
    """DPDGC at edge level: features beside the noisy sums, which read no feature."""
    from dpgnn.methods.dpdgc.fit import _sums
    from dpgnn.methods.shared.edge_level import normal_draw
    from dpgnn.methods.shared.head_training import apply_head
    from dpgnn.methods.shared.undirected import adjacency_of

    config = target.entry.options
    if noise == "frozen":
        released = target.state["noisy_state"].double().numpy()
    else:
        released = _sums(config, adjacency_of(graph), target.state["encoder.weight"])
        draw = normal_draw(target.context(streams), AGGREGATE)
        released = released + target.noise_stddev * draw(1, released.shape)
        if config.normalized:
            released /= config.norm_scale
    head = part(target.state, "head.")
    return apply_head(config.head, head, [graph.x, released], graph.num_classes)


def with_features(graph: Graph, rows: np.ndarray, values: Any) -> Graph:
    """The graph with other features at some nodes; CSR stays CSR."""
    if sp.issparse(graph.x):
        place = np.arange(graph.num_nodes)
        place[rows] = graph.num_nodes + np.arange(len(rows))
        both = sp.vstack([graph.x, sp.csr_array(values)], format="csr")
        return dataclasses.replace(graph, x=sp.csr_array(both[place]).astype(np.float32))
    dense = np.array(graph.x)
    dense[rows] = values.toarray() if sp.issparse(values) else values
    return dataclasses.replace(graph, x=dense)

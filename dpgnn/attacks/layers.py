"""Models as sparse products and row-wise layers, so that `differences` can follow a query through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks import aggregates, tapes
from dpgnn.attacks.differences import Differences, RowMap, at_nodes
from dpgnn.attacks.stacks import Stack, normalize_all, row_norm, start
from dpgnn.methods.shared.aggregate import empty_rows, symmetric_operator

if TYPE_CHECKING:
    from dpgnn.attacks.queries import Target


def has_layers(target: Target) -> bool:
    """Whether the model is one that `stack_of` knows."""
    options, method = target.entry.options, target.entry.method
    if method in ("mlp", "gcn", "edgerand", "lapgraph", "pertgraph"):
        return True
    if method == "caribou":
        # the mean over all nodes changes every row
        return bool(options.alpha1 == 1.0)
    if method == "gap":
        return bool(options.normalization == "l2")
    if method == "dpdgc":
        return target.entry.mode != "nonprivate" and not target.at_node_level
    return tapes.has_tape(target)


def stack_of(target: Target) -> Stack:
    """The model's layers with everything unperturbed computed once."""
    method = target.entry.method
    if method in ("caribou", "gap"):
        return _aggregation(target)
    if method == "pertgraph":
        return _sage(target)
    if method == "dpdgc":
        return _embedded(target)
    return tapes.tape_stack(target) if tapes.has_tape(target) else _gcn(target)


def _gcn(target: Target) -> Stack:
    """GCN with ReLU between its layers, on the graph or on the perturbed graph of the run; MLP on no edge."""
    graph, entry = target.graph, target.entry
    if entry.method == "mlp":
        config, operator = entry.options, sp.eye_array(graph.num_nodes, format="csr")
    elif entry.method == "gcn":
        config, operator = entry.options, _gcn_operator(target)
    else:
        config, operator = entry.options.gcn, symmetric_operator(target.frozen_pairs)
    weights: list[np.ndarray] = []
    biases: list[np.ndarray] = []
    while f"layers.{len(weights)}.weight" in target.state:
        name = f"layers.{len(weights)}"
        weights.append(target.state[f"{name}.weight"].double().numpy().T)
        biases.append(target.state[f"{name}.bias"].double().numpy())
    normalize = row_norm(config.row_norm)
    x = normalize_all(graph.x, config.row_norm)
    columns = sp.csc_array(operator)
    bases, hidden = [], x
    for weight, bias in zip(weights[:-1], biases[:-1]):
        bases.append(operator @ (hidden @ weight) + bias)
        hidden = np.maximum(bases[-1], 0.0)

    def run(
        nodes: np.ndarray, before: np.ndarray, after: np.ndarray, wanted: list[np.ndarray]
    ) -> Differences:
        changed = start(nodes, normalize(before), normalize(after), graph.num_nodes)
        for base, weight, keep in zip(bases, weights, wanted):
            changed = changed.times(weight).spread(columns, keep=keep)
            changed = changed.through(base, lambda node, rows: np.maximum(rows, 0.0))
        return changed.times(weights[-1]).spread(columns, keep=wanted[-1])

    width = max(w.shape[1] for w in weights)
    return Stack(run=run, columns=columns, num_spreads=len(weights), width=width)


def _gcn_operator(target: Target) -> sp.csr_array:
    """The operator of `methods.gcn`, in float64."""
    graph, config = target.graph, target.entry.options
    edges = graph.edge_index[:, graph.edge_index[0] != graph.edge_index[1]]
    if graph.directed and config.symmetrize:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    loops = np.arange(graph.num_nodes)
    source, reader = np.concatenate([edges, np.stack([loops, loops])], axis=1)
    scale = 1.0 / np.sqrt(np.bincount(reader, minlength=graph.num_nodes))
    values = scale[source] * scale[reader]
    return sp.csr_array((values, (reader, source)), shape=(graph.num_nodes,) * 2)


def _aggregation(target: Target) -> Stack:
    """CARIBOU (without the mean over all nodes) and GAP, noise as in the run."""
    from dpgnn.methods.shared.edge_level import normal_draw

    graph, config = target.graph, target.entry.options
    encode = aggregates.start_map(target, graph)
    everyone, raw = np.arange(graph.num_nodes), graph.dense_x().astype(np.float64)
    x0 = encode(everyone, raw)
    matrix = aggregates.adjacency(target, graph, target.prepared)
    operator = aggregates.reading_operator(target, matrix)
    columns = sp.csc_array(operator)
    own = target.entry.method == "caribou"
    factor = config.contraction * config.alpha1 if own else 1.0
    beta = config.beta if own else 0.0
    residual = raw if target.is_released_code else x0
    emptied = None
    if target.at_node_level and own and not target.is_released_code:
        emptied = empty_rows(x0)
    draw = normal_draw(target.context(target.streams), "aggregate")
    between = target.is_released_code and config.noise_free_layer
    bases: list[np.ndarray] = []
    maps: list[RowMap] = []
    ends: list[np.ndarray] = []
    states = [x0]
    for hop in range(1, config.num_hops + 1):
        noise = np.zeros(x0.shape)
        if target.noise_stddev > 0:
            noise = target.noise_stddev * draw(hop, x0.shape)
        bases.append(factor * (operator @ states[-1]) + beta * residual)
        maps.append(aggregates.after_noise(target, hop, noise, emptied))
        state = maps[-1](everyone, bases[-1])
        ends.append(state)
        if between:
            state = factor * (operator @ state) + beta * residual
        states.append(state)
    if target.is_released_code:
        channels = [states[-1]]
    elif own:
        channels = [x0, states[-1]]
    else:
        channels = states
    base = np.concatenate(channels, axis=1)
    head = aggregates.head_map(target, graph, [channel.shape[1] for channel in channels])

    def run(
        nodes: np.ndarray, before: np.ndarray, after: np.ndarray, wanted: list[np.ndarray]
    ) -> Differences:
        first = start(nodes, encode(nodes, before), encode(nodes, after), graph.num_nodes)
        rest = start(nodes, before, after, graph.num_nodes) if target.is_released_code else first
        changed, all_changed = first, [first]
        keep = iter(wanted)
        for hop in range(config.num_hops):
            changed = changed.spread(columns, keep=next(keep)).scaled(factor)
            if beta:
                changed = changed.plus(rest.scaled(beta))
            changed = changed.through(bases[hop], maps[hop], ends[hop])
            if between:
                changed = changed.spread(columns, keep=next(keep)).scaled(factor)
                if beta:
                    changed = changed.plus(rest.scaled(beta))
            all_changed.append(changed)
        if target.is_released_code:
            parts = all_changed[-1:]
        else:
            parts = [first, changed] if own else all_changed
        return joined(parts, wanted[-1]).through(base, head)

    hops = config.num_hops * (2 if between else 1)
    return Stack(run=run, columns=columns, num_spreads=hops, width=base.shape[1])


def joined(parts: list[Differences], keep: np.ndarray) -> Differences:
    """Channels side by side at the rows that are read: bool, shape (num_queries, num_nodes)."""
    masks = [keep[part.query, part.node] for part in parts]
    keys = [part.key[mask] for part, mask in zip(parts, masks)]
    key = np.unique(np.concatenate(keys))
    columns = []
    for part, mask, own in zip(parts, masks, keys):
        value = np.zeros((len(key), part.value.shape[1]))
        value[np.searchsorted(key, own)] = part.value[mask]
        columns.append(value)
    value = np.concatenate(columns, axis=1)
    return Differences(num_nodes=parts[0].num_nodes, key=key, value=value)


def _sage(target: Target) -> Stack:
    """PertGraph: sums over the perturbed graph beside the own row, normalised."""
    import torch

    from dpgnn.attacks.queries import sum_sage

    graph = target.graph
    model: Any = sum_sage(target, graph.num_features, graph.num_classes)
    model.load_state_dict({k: v for k, v in target.state.items() if k != "logits"})
    model = model.double().eval()
    operator = sp.csr_array(target.frozen_pairs)
    columns = sp.csc_array(operator)

    def mapped(layer: Callable[[Any], Any]) -> RowMap:
        def run(node: Any, rows: np.ndarray) -> np.ndarray:
            with torch.no_grad():
                return np.asarray(layer(torch.from_numpy(np.ascontiguousarray(rows))).numpy())

        return run

    encode = mapped(lambda rows: model._between(0, model.base(rows), None))
    normalize = torch.nn.functional.normalize

    def finisher(hop: int) -> RowMap:
        return mapped(lambda rows: model._between(hop, normalize(rows, dim=1), None))

    finish = [finisher(hop) for hop in range(1, len(model.own) + 1)]
    head = mapped(lambda rows: model.head(rows))
    everyone = np.arange(graph.num_nodes)
    h = encode(everyone, graph.dense_x().astype(np.float64))
    bases = []
    weights = [
        (own.weight.detach().numpy().T, near.weight.detach().numpy().T)
        for own, near in zip(model.own, model.neighbours)
    ]
    for hop, (own, near) in enumerate(zip(model.own, model.neighbours)):
        bias = own.bias.detach().numpy() + near.bias.detach().numpy()
        bases.append(h @ weights[hop][0] + (operator @ h) @ weights[hop][1] + bias)
        h = finish[hop](everyone, bases[-1])

    def run(
        nodes: np.ndarray, before: np.ndarray, after: np.ndarray, wanted: list[np.ndarray]
    ) -> Differences:
        changed = start(nodes, encode(nodes, before), encode(nodes, after), graph.num_nodes)
        for hop, (own, near) in enumerate(weights):
            moved = changed.spread(columns, keep=wanted[hop]).times(near)
            changed = moved.plus(changed.times(own)).through(bases[hop], finish[hop])
        return joined([changed], wanted[-1]).through(h, head)

    return Stack(run=run, columns=columns, num_spreads=len(weights), width=h.shape[1])


def _embedded(target: Target) -> Stack:
    """DPDGC at edge level: the released sums read no feature, so a query changes its own answer only."""
    graph = target.graph
    released = target.state["noisy_state"].double().numpy()
    raw = graph.dense_x().astype(np.float64)
    base = np.concatenate([raw, released], axis=1)
    head = aggregates.head_map(target, graph, [raw.shape[1], released.shape[1]])

    def run(
        nodes: np.ndarray, before: np.ndarray, after: np.ndarray, wanted: list[np.ndarray]
    ) -> Differences:
        wide = np.concatenate([after - before, np.zeros((len(nodes), released.shape[1]))], axis=1)
        return joined([at_nodes(nodes, wide, graph.num_nodes)], wanted[-1]).through(base, head)

    return Stack(run=run, columns=None, num_spreads=0, width=base.shape[1])

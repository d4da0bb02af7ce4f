"""LPGNet's runs: a perceptron on features, then one more for each hop of noisy degrees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.base import Fitted, PlannedRun
from dpgnn.methods.lpgnet.degrees import DEGREES, degrees_with_reused_noise, noisy_degrees
from dpgnn.methods.lpgnet.network import Perceptron, train
from dpgnn.methods.shared.undirected import adjacency_of
from dpgnn.models.inputs import as_input

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry
    from dpgnn.methods.lpgnet.options import LPGNetConfig

# (hop, clusters) -> noisy degrees
Degrees = Callable[[int, np.ndarray], np.ndarray]
# (hop, rows of all nodes) -> the hop's perceptron
Models = Callable[[int, Any], Perceptron]


def fit(run: PlannedRun) -> Fitted:
    """Train K + 1 perceptrons, with noisy degrees released before each except the first.

    Guarantee: edges enter only through the planned mechanism.
    """
    config: LPGNetConfig = run.entry.options
    if run.plan.mechanisms:
        run.context.ledger.enter(DEGREES)
    state: dict[str, Tensor] = {}
    history: list[Mapping[str, Any]] = []

    def trained(hop: int, rows: Any) -> Perceptron:
        model, kept, curve = _trained(hop, rows, run.graph, run.split, config, run.context)
        state.update({f"mlp.{hop}.{name}": value for name, value in kept.items()})
        history.extend({**row, "hop": hop} for row in curve)
        return model

    logits, degrees = hops(
        config, run.graph, degrees_of(run.entry, run.graph, run.plan, run.context.streams), trained
    )
    state |= {
        f"noisy_state.{hop}": torch.from_numpy(rows.astype(np.float32))
        for hop, rows in enumerate(degrees, start=1)
    }
    study = run.context.streams.randomness == "study"
    return Fitted(
        state=state | {"logits": logits}, history=tuple(history) if study else ()
    )  # fmt: skip


def hops(
    config: LPGNetConfig, graph: Graph, degrees: Degrees, model_of: Models
) -> tuple[Tensor, list[np.ndarray]]:
    """Hop by hop: clusters of the last answers, their noisy degrees, the next answers.

    Returns:
        logits of all nodes, float32, shape (num_nodes, num_classes); the K noisy degrees.
    """
    rows = as_input(normalize_rows(graph.x, "l1"))
    model = model_of(0, rows)
    with torch.no_grad():
        logits: Tensor = model(rows)
    inputs, noisy = [logits], []
    for hop in range(1, config.num_hops + 1):
        noisy.append(degrees(hop, logits.argmax(dim=1).numpy()))
        inputs.append(torch.from_numpy(noisy[-1].astype(np.float32)))
        joined = torch.cat(inputs, dim=1)
        model = model_of(hop, joined)
        with torch.no_grad():
            logits = model(joined)
        inputs.append(logits)
    return logits, noisy


def degrees_of(entry: Entry, graph: Graph, plan: Plan, streams: Streams) -> Degrees:
    """The degrees of a hop: exact without privacy, otherwise with the planned noise."""
    config: LPGNetConfig = entry.options
    adjacency = adjacency_of(graph)
    scale = plan.mechanism(DEGREES).details["scale"] if plan.mechanisms else 0.0

    exactly = streams.is_secret("laplace")
    seed = int(streams.numpy("laplace").integers(2**63))  # one state for all slices and hops

    def answer(hop: int, clusters: np.ndarray) -> np.ndarray:
        if entry.mode == "published" and config.shared_generator:
            return degrees_with_reused_noise(
                adjacency, clusters, graph.num_classes, scale=scale, seed=seed,
                num_workers=config.num_workers, exactly=exactly,
            )  # fmt: skip
        return noisy_degrees(
            adjacency, clusters, graph.num_classes, scale=scale,
            rng=streams.numpy("laplace", step=hop), filler=streams.numpy("random-rows", step=hop),
            exactly=exactly,
        )  # fmt: skip

    return answer


def model_of(num_inputs: int, graph: Graph, config: LPGNetConfig, **generator: Any) -> Perceptron:
    """A perceptron of these sizes; without a generator if its weights are loaded."""
    start = generator.get("generator", torch.Generator())
    return Perceptron(num_inputs, graph.num_classes, config, start)


def _trained(
    hop: int, rows: Any, graph: Graph, split: Split, config: LPGNetConfig, context: Context
) -> tuple[Perceptron, dict[str, Tensor], list[Mapping[str, float]]]:
    stage = f"mlp.{hop}"
    generator = context.streams.torch("weights", stage=stage)
    model = model_of(rows.shape[1], graph, config, generator=generator)
    x = normalize_rows(graph.x, "l1") if hop == 0 else rows
    train_rows, val_rows = (
        (
            as_input(x[nodes]) if hop == 0 else x[torch.from_numpy(np.array(nodes))],
            torch.from_numpy(graph.y[nodes]),
        )
        for nodes in (split.train_idx, split.val_idx)
    )
    kept, history = train(
        model, train_rows, val_rows, config,
        generator=context.streams.torch("dropout", stage=stage),
        progress=context.progress(config.training.num_epochs, stage),
    )  # fmt: skip
    model.load_state_dict(kept)
    return model, kept, history

"""Tensors of a ProGAP fit: base modules after their own stage and after the last one, and the last head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpgnn.methods.tensors import Shapes, Tensors, Trained, of_module


def tensors(trained: Trained) -> Tensors:
    """What the stages leave; at edge level also the noisy sums between them and the answers."""
    from dpgnn.methods.progap.node_model import stage_network

    config, sizes = trained.entry.options, trained.sizes
    widths = [sizes.num_features, *[config.hidden] * config.num_hops]
    if trained.is_edge:
        return _at_edge_level(trained, widths)
    shapes = stage_network(config, widths, sizes).shapes
    state = {f"last.{name}": shape for name, shape in shapes.items()}
    for stage in range(config.num_hops):
        own = {name: s for name, s in shapes.items() if name.startswith(f"base.{stage}.")}
        state |= {f"sent.{stage}.{name}": shape for name, shape in own.items()}
    return Tensors(state=state, kept=trained.answers)


def _at_edge_level(trained: Trained, widths: Sequence[int]) -> Tensors:
    import torch

    from dpgnn.methods.progap.stage_model import Base
    from dpgnn.methods.shared.head_model import Stack

    config, facts, state = trained.entry.options, trained.facts, Shapes()
    plain: Any = {"batch_norm": config.batch_norm, "dropout": 0.0, "generator": torch.Generator()}
    for stage, width in enumerate(widths):
        base = Base(width, config.hidden, config.base_layers, **plain)
        state |= of_module(base, f"last.base.{stage}.")
        if stage < config.num_hops:
            state |= of_module(base, f"sent.{stage}.")
            state[f"noisy_state.{stage + 1}"] = (facts.num_nodes, config.hidden)
    joined = config.hidden * len(widths)
    head = Stack([joined, *[config.hidden] * (config.head_layers - 1), facts.num_classes], **plain)
    return Tensors(state=state | of_module(head, "last.head.") | trained.released_answers)

"""Tensors of a CARIBOU fit."""

from __future__ import annotations

from dataclasses import replace

from dpgnn.methods.caribou.options import is_released_code
from dpgnn.methods.shared.head_tensors import encoded, on_channels, plain_head
from dpgnn.methods.tensors import Tensors, Trained


def tensors(trained: Trained) -> Tensors:
    """Encoder and head, and the noisy state where it is released."""
    config, facts = trained.entry.options, trained.facts
    if is_released_code(trained.entry):
        return _as_released(trained)
    width = encoded(trained)
    found = on_channels(trained, [width, width], {"noisy_state": width})
    if not trained.is_edge and config.release == "noisy-state":
        return replace(found, state=found.state | {"noisy_state": (facts.num_nodes, width)})
    return found


def _as_released(trained: Trained) -> Tensors:
    """A head alone, trained without noise; at node level its statistics of rows stay with the owner."""
    facts = trained.facts
    head = plain_head(trained.entry.options.head, [facts.num_features], facts)
    if trained.is_edge:
        return Tensors(state=head | trained.released_answers)
    released = {name: s for name, s in head.items() if name.endswith((".weight", ".bias"))}
    rest = {name: shape for name, shape in head.items() if name not in released}
    return Tensors(state=released, kept=rest | trained.answers)

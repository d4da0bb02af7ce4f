"""Tensors of methods with an encoder, noisy sums and a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dpgnn.methods.tensors import Shapes, Tensors, Trained, named, of_module

if TYPE_CHECKING:
    from dpgnn.methods.entry import Facts
    from dpgnn.methods.shared.head_options import HeadConfig


def on_channels(trained: Trained, channels: Sequence[int], states: Mapping[str, int]) -> Tensors:
    """Encoder and head on channels of these widths, and at edge level the noisy states and the answers.

    Args:
        trained: of a method with the option `head`.
        channels: columns of each input of the head.
        states: name of a noisy state -> its columns.
    """
    from dpgnn.methods.shared.head_private import perceptron
    from dpgnn.methods.shared.head_training import encoder_of

    config, facts = trained.entry.options.head, trained.facts
    layers, encoder = config.encoder_layers, Shapes()
    if trained.is_edge:
        if layers:
            encoder = of_module(encoder_of(config, trained.sizes), "encoder.")
        noisy = {name: (facts.num_nodes, width) for name, width in states.items()}
        head = plain_head(config, channels, facts)
        return Tensors(state=encoder | noisy | head | trained.released_answers)
    if layers:
        encoder = named(perceptron(config, trained.sizes, facts.num_features, layers), "encoder")
    head = private_head(trained, sum(channels))
    return Tensors(state=encoder | head, kept=trained.answers)


def encoded(trained: Trained) -> int:
    """Columns of the encoder's rows."""
    config: HeadConfig = trained.entry.options.head
    return config.hidden if config.encoder_layers else trained.facts.num_features


def plain_head(config: HeadConfig, channels: Sequence[int], facts: Facts) -> Shapes:
    """The head that is trained without noise."""
    from dpgnn.methods.shared.head_training import head_of

    return of_module(head_of(config, channels, facts.num_classes), "head.")


def private_head(trained: Trained, width: int) -> Shapes:
    """The head that is trained by DP-SGD, on rows of this width."""
    from dpgnn.methods.shared.head_private import perceptron

    config: HeadConfig = trained.entry.options.head
    return named(perceptron(config, trained.sizes, width, config.base_layers), "head")

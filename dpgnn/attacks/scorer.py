"""The classifier of membership attacks: class probabilities of a node -> log odds of "member"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

HELD_BACK = 50  # samples, as published
BIAS = 0.01  # initial value of all biases, as published
ATTEMPTS = 3  # largest number of trainings, if one says nothing
GUESSED = 1 / 8  # of the nodes: a quarter of the pairs


@dataclass(frozen=True, kw_only=True)
class AttackModel:
    """Options of the attack's classifier, as published.

    Attributes:
        hidden: widths.
        lr, num_epochs, batch_size: of Adam.
    """

    hidden: tuple[int, ...] = (100, 50)
    lr: float = 0.01
    num_epochs: int = 100
    batch_size: int = 32


def train_scorer(
    x: np.ndarray, member: np.ndarray, model: AttackModel, *, rng: np.random.Generator
) -> Callable[[np.ndarray], np.ndarray]:
    """Train the attack's classifier; returns the log odds of "member", one per row.

    As published: Xavier weights, biases 0.01, 50 samples held back (stratified by membership), and
    cross-entropy of the softmax's output, which applies the softmax twice.

    Args:
        x: float64, shape (num_samples, num_classes): class probabilities.
        member: bool, shape (num_samples,).
        model: widths and options.
        rng: of weights, batches and samples held back.

    Source: the published script of arXiv:2101.06570.
    """
    import torch
    from torch.nn import functional

    network = _network([x.shape[1], *model.hidden, 2], int(rng.integers(2**62)))
    kept = _kept(member, rng)
    inputs = torch.from_numpy(np.asarray(x[kept], dtype=np.float32))
    labels = torch.from_numpy(member[kept].astype(np.int64))
    optimizer = torch.optim.Adam(network.parameters(), lr=model.lr, fused=True)
    for _ in range(model.num_epochs):
        shuffled = torch.from_numpy(rng.permutation(len(kept)))
        for batch in shuffled.split(model.batch_size):
            optimizer.zero_grad()
            output = torch.softmax(network(inputs[batch]), dim=1)
            functional.cross_entropy(output, labels[batch]).backward()
            optimizer.step()

    def score(rows: np.ndarray) -> np.ndarray:
        with torch.no_grad():
            logits = network(torch.from_numpy(np.asarray(rows, dtype=np.float32))).double().numpy()
        return np.asarray(logits[:, 1] - logits[:, 0])

    return score


def _network(widths: list[int], seed: int) -> Any:
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layer = nn.Linear(before, after)
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.constant_(layer.bias, BIAS)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def says_nothing(scores: np.ndarray) -> bool:
    """Whether a classifier gives all nodes but a few the same score up to float32 rounding.

    With this learning rate all ReLUs of the network may die; then an AUC of one half says nothing about the
    attacked model. Few: less than the share of nodes about which the claim's test makes a guess.
    """
    size = float(np.abs(scores).max(initial=1.0))
    if np.ptp(scores) <= 1e-6 * size:
        return True
    _, counts = np.unique(np.round(scores / (1e-6 * size)), return_counts=True)
    return bool(len(scores) - counts.max() < GUESSED * len(scores))


def _kept(member: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions to train on: all except 50 (a quarter of a small set), stratified by membership."""
    out = min(HELD_BACK, len(member) // 4)
    members, others = (rng.permutation(np.flatnonzero(member == kind)) for kind in (True, False))
    first = round(out * len(members) / len(member))
    return np.concatenate([members[first:], others[out - first :]])

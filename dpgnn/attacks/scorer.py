"""The classifier of membership attacks: class probabilities of a node -> log odds of "member"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

HELD_BACK = 50  # samples, as published


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

    50 samples are held back, as published; cross-entropy is taken of the softmax's output, which takes the
    softmax twice.

    Source: the published script of arXiv:2101.06570.
    """
    import torch
    from torch import nn
    from torch.nn import functional

    generator = torch.Generator().manual_seed(int(rng.integers(2**62)))
    widths = [x.shape[1], *model.hidden, 2]
    layers: list[nn.Module] = []
    for before, after in zip(widths, widths[1:]):
        layer = nn.Linear(before, after)
        nn.init.xavier_uniform_(layer.weight, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.ReLU()]
    network = nn.Sequential(*layers[:-1])
    order = rng.permutation(len(x))
    kept = order[: len(x) - min(HELD_BACK, len(x) // 4)]
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

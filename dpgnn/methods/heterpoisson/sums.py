"""Clipped sums of roots whose trees are drawn anew at every step."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.methods.heterpoisson import sample
from dpgnn.methods.heterpoisson.network import padded_logits
from dpgnn.models.forward import per_root_loss
from dpgnn.training.clipping import Clipping
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise, add_rounded_noise

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Context
    from dpgnn.methods.heterpoisson.options import HeterPoissonConfig
    from dpgnn.models.network import Network
    from dpgnn.models.trees import Trees

# padded examples at once
CHUNK = 256


class DrawnSums:
    """Sums on the trees of a step; what training loops read of `RootGradients`.

    Args:
        config, graph, x: options, lists and labels, features as the network reads them.
        train_idx: roots.
        arcs: half-edges into training nodes, from `prepare`; not read as published.
        clipping: None sums plain gradients.
        context: streams (`sampler`, a key for each step) and speed.
    """

    def __init__(
        self,
        config: HeterPoissonConfig,
        network: Network,
        graph: Graph,
        x: Any,
        train_idx: np.ndarray,
        arcs: np.ndarray,
        clipping: Clipping | None,
        context: Context,
    ) -> None:
        self.config, self.network, self.graph, self.x = config, network, graph, x
        self.roots, self.clipping, self.context = np.sort(train_idx), clipping, context
        self.track_loss, self._release = False, False
        self._arcs = arcs
        self._execution = Execution(
            device=context.performance.device, chunk_rows=context.performance.chunk_size
        )
        self.current: RootGradients
        self._step = 0
        self.before_step(1)

    def before_step(self, step: int) -> None:
        """The step's lists and their trees."""
        if step == self._step:
            return
        self._step = step
        self.current = RootGradients(
            self.network, self.x, self._trees(step), clipping=self.clipping,
            execution=self._execution,
        )  # fmt: skip
        if self._release:
            self.current.sum_for_release()

    def _trees(self, step: int) -> Trees:
        raise NotImplementedError

    def sum_for_release(self) -> None:
        """As `RootGradients.sum_for_release`, at every step."""
        self._release = True
        self.current.sum_for_release()

    @property
    def trees(self) -> Trees:
        """Of this step."""
        return self.current.trees

    @property
    def device(self) -> Any:
        """Device of the sums."""
        return self.current.device

    @property
    def execution(self) -> Execution:
        """Speed settings of the sums."""
        return self.current.execution

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The clipped sum over a batch of roots."""
        self.current.track_loss = self.track_loss
        return self.current(parameters, roots)


class FreshSums(DrawnSums):
    """Clipped sums over roots with what sends to them under the step's key.

    Guarantee: given the public keys, a root's term at a step is a function of its own record and of the
    records that send to it; one record is in its own root and at most M others.
    """

    def _trees(self, step: int) -> Trees:
        pointer, sources = sample.fresh_lists(
            self._arcs, self.graph.num_nodes, self.config.max_degree,
            self.context.streams.numpy("sampler", step=step),
        )  # fmt: skip
        return sample.star_trees(self.roots, pointer, sources, self.graph.y)

    @property
    def mean_loss(self) -> float:
        """Mean loss over the last batch, in nats; sensitive."""
        return self.current.mean_loss


class PublishedSums(DrawnSums):
    """The noisy mean of the released code, times the public batch size that training divides by.

    Guarantee: none; see the caveats of the plan. `current` holds trees without padding, for audits.
    """

    def __init__(self, *arguments: Any, noise_stddev: float, divisor: float, **named: Any) -> None:
        self.noise_stddev, self.divisor = noise_stddev, divisor
        self._lists: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        super().__init__(*arguments, **named)

    def _trees(self, step: int) -> Trees:
        if self._lists is None:
            self._lists = sample.readers_and_lists(self.graph)
        rng = self._streams.numpy("sampler", step=step)
        read = sample.published_lists(*self._lists, self.roots, self.config.max_degree, rng)
        sizes = np.zeros(self.graph.num_nodes, dtype=np.int64)
        sizes[self.roots] = [len(ids) for ids in read]
        pointer = np.concatenate([[0], np.cumsum(sizes)])
        sources = np.concatenate([*read, np.zeros(0, np.int64)])
        self._read = read
        return sample.star_trees(self.roots, pointer, sources, self.graph.y)

    @property
    def _streams(self) -> Streams:
        return self.context.streams

    @torch.no_grad()
    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """divisor times the clamped noisy mean over the realised batch."""
        config = self.config
        if len(roots) == 0:
            return torch.zeros_like(parameters)
        rng = self._streams.numpy("noise", step=self._step)
        ids, read = self.roots[roots], [self._read[root] for root in roots]
        if config.dedupe:
            order = self._streams.numpy("sampler", step=self._step, part="order")
            read = sample.without_earlier_roots(ids, read, order)
        total = torch.zeros_like(parameters)
        largest = 1 + max(len(listed) for listed in read)
        for first in range(0, len(ids), CHUNK):
            part = slice(first, first + CHUNK)
            total += self._clipped_sum(parameters, ids[part], read[part], largest)
        # the root of an exponential variable of mean 1, for all coordinates
        scale = np.sqrt(-np.log1p(-rng.random())) if config.noise == "laplace" else 1.0
        add = add_rounded_noise if self._streams.is_secret("noise") else add_noise
        noisy = add(total, float(scale) * self.noise_stddev, rng=rng) / len(ids)
        if config.clamped:
            bound = self.noise_stddev / (100 * len(ids))
            noisy = noisy.clamp(-bound, bound)
        return noisy * self.divisor

    def _clipped_sum(
        self, parameters: Tensor, ids: np.ndarray, read: list[np.ndarray], size: int
    ) -> Tensor:
        """Sum of gradients of padded examples, each of norm at most C/2."""
        node = np.zeros((len(ids), size), dtype=np.int64)
        there = np.zeros((len(ids), size), dtype=np.float32)
        for place, (root, listed) in enumerate(zip(ids, read)):
            node[place, : len(listed) + 1] = [root, *listed]
            there[place, : len(listed) + 1] = 1.0
        rows = self.x[node.ravel()]
        rows = np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())
        x = torch.from_numpy(rows.reshape(*node.shape, -1).astype(np.float32) * there[:, :, None])
        gradients = per_example_gradients(
            self.config, self.network, parameters, x, torch.from_numpy(there),
            torch.from_numpy(self.graph.y[ids]),
        )  # fmt: skip
        factors = torch.clamp(
            self.config.clipping_norm / (2 * gradients.norm(dim=1) + 1e-6), max=1.0
        )
        return factors @ gradients


def per_example_gradients(
    config: HeterPoissonConfig, network: Network, flat: Tensor, x: Tensor, there: Tensor, y: Tensor
) -> Tensor:
    """Gradients of padded examples, shape (num_examples, num_parameters); sensitive."""
    from torch.func import grad, vmap

    def loss(named: dict[str, Tensor], rows: Tensor, present: Tensor, label: Tensor) -> Tensor:
        logits = padded_logits(config, named, rows, present)
        return per_root_loss(network, logits[None], label[None]).sum()

    named = {name: view.clone() for name, view in network.views(flat).items()}
    with torch.enable_grad():
        each: Callable[..., dict[str, Tensor]] = vmap(grad(loss), in_dims=(None, 0, 0, 0))
        found = each(named, x, there, y)
    return torch.cat([found[name].flatten(1) for name in network.shapes], dim=1)

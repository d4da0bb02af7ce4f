"""Clipped sums of roots whose trees are redrawn at every step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.methods.heterpoisson import sample
from dpgnn.methods.heterpoisson.network import padded_logits
from dpgnn.models.forward import per_root_loss, plain_linear
from dpgnn.models.network import Linear
from dpgnn.training.clipping import Clipping
from dpgnn.training.ghost import norm_array
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise, add_rounded_noise
from dpgnn.training.step_gradients import LossOfStep, StepGradients

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Context
    from dpgnn.methods.heterpoisson.options import HeterPoissonConfig
    from dpgnn.models.network import Network
    from dpgnn.models.trees import Trees

# padded examples processed at once
CHUNK = 1024


class DrawnSums(StepGradients):
    """Sums on the trees of a step.

    Args:
        config, graph, x: options; lists and labels; features as the network reads them.
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
        self._arcs, self._release = arcs, False
        self._execution = Execution(
            device=context.performance.device, chunk_rows=context.performance.chunk_size
        )
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


class FreshSums(DrawnSums, LossOfStep):
    """Clipped sums over roots and the nodes that send to them under the step's key.

    Guarantee: given the public keys, a root's term at a step depends only on its own record and the records
    that send to it; one record is in its own root and at most M others.
    """

    def _trees(self, step: int) -> Trees:
        pointer, sources = sample.fresh_lists(
            self._arcs, self.graph.num_nodes, self.config.max_degree,
            self.context.streams.numpy("sampler", step=step),
        )  # fmt: skip
        return sample.star_trees(self.roots, pointer, sources, self.graph.y)


class PublishedSums(DrawnSums):
    """The noisy mean of the released code, times the public batch size by which training divides.

    Guarantee: none; see the caveats of the plan. `current` holds trees without padding, for audits.
    """

    def __init__(self, *arguments: Any, noise_stddev: float, divisor: float, **named: Any) -> None:
        self.noise_stddev, self.divisor = noise_stddev, divisor
        self._lists: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        super().__init__(*arguments, **named)

    def _trees(self, step: int) -> Trees:
        rng, degree = self._streams.numpy("sampler", step=step), self.config.max_degree
        if self.config.sampler == "own-list":
            pointer, sources = sample.fresh_lists(self._arcs, self.graph.num_nodes, degree, rng)
            self._read = [sources[pointer[root] : pointer[root + 1]] for root in self.roots]
            return sample.star_trees(self.roots, pointer, sources, self.graph.y)
        if self._lists is None:
            self._lists = sample.readers_and_lists(self.graph)
        read = sample.published_lists(*self._lists, self.roots, degree, rng)
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
        """divisor times the clamped noisy mean over the realised batch; computed on the host."""
        config, device = self.config, parameters.device
        if len(roots) == 0:
            return torch.zeros_like(parameters)
        parameters = parameters.cpu()
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
        return (noisy * self.divisor).to(device)

    def _clipped_sum(
        self, parameters: Tensor, ids: np.ndarray, read: list[np.ndarray], size: int
    ) -> Tensor:
        """Sum of gradients of padded examples, each of norm at most C/2."""
        counts = np.array([len(listed) for listed in read]) + 2
        ptr = np.concatenate([[0], np.cumsum(counts)])
        node = np.concatenate([[root, *listed, 0] for root, listed in zip(ids, read)])
        rows = self.x[node.astype(np.int64)]
        rows = np.array(rows if isinstance(rows, np.ndarray) else rows.toarray(), np.float32)
        rows[ptr[1:] - 1] = 0.0
        records = padded_layers(
            self.config, self.network, parameters, torch.from_numpy(rows), torch.from_numpy(counts),
            torch.from_numpy(size + 1 - counts), torch.from_numpy(self.graph.y[ids]),
        )  # fmt: skip
        squared = np.zeros(len(ids))
        pointers = [ptr if len(a) == ptr[-1] else np.arange(len(ids) + 1) for _, a, _ in records]
        for (_, a, g), rows_of in zip(records, pointers):
            weight, _, bias, _ = norm_array(a, g, rows_of)
            squared += weight + bias
        factors = np.minimum(1.0, self.config.clipping_norm / (2 * np.sqrt(squared) + 1e-6))
        total = torch.zeros_like(parameters)
        sums = self.network.views(total)
        for (op, a, g), rows_of in zip(records, pointers):
            scaled = g * torch.from_numpy(np.repeat(factors, np.diff(rows_of))).to(g.dtype)[:, None]
            sums[f"{op.name}.weight"].addmm_(a.T, scaled)
            sums[f"{op.name}.bias"].add_(scaled.sum(dim=0))
        return total


def padded_layers(
    config: HeterPoissonConfig,
    network: Network,
    flat: Tensor,
    rows: Tensor,
    counts: Tensor,
    missing: Tensor,
    y: Tensor,
) -> list[tuple[Linear, Tensor, Tensor]]:
    """Of each layer: its inputs a and the gradients g of its outputs; sensitive.

    An example's gradient by a layer's weights is sum_t a_t^T g_t over its own rows.

    Args:
        rows, counts, missing: as in `padded_logits`.
        y: labels of the roots.
    """
    named, outputs = network.views(flat), []

    def linear(op: Linear, a: Tensor) -> Tensor:
        z = plain_linear(named, op, a)
        if not z.requires_grad:
            z.requires_grad_()
        outputs.append((op, a.detach(), z))
        return z

    with torch.enable_grad():
        logits = padded_logits(config, network, linear, rows, counts, missing)
        loss = per_root_loss(network, logits, y).sum()
    grads = torch.autograd.grad(loss, [z for _, _, z in outputs])
    return [(op, a, g) for (op, a, _), g in zip(outputs, grads)]

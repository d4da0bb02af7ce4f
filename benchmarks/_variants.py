"""The ways to make one optimiser step that are compared: each is a function without arguments."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks._workloads import Workload
from benchmarks.padded import level_sizes, pad, padded_logits, vmap_sum
from dpgnn.models.forward import activation, per_root_loss
from dpgnn.models.network import Activate, Add, Aggregate, Attend, Keep, Linear
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig

Step = Callable[[], object]


def engine(work: Workload, path: str, *, private: bool, batch_size: int | None = None) -> Step:
    """Ours: clipped sum, noise, Adam; the non-private twin leaves out norms, factors and noise."""
    roots = work.batch(batch_size)
    gradients = RootGradients(
        work.network, work.x, work.trees, clipping=work.clipping if private else None,
        execution=Execution(path=path),  # type: ignore[arg-type]
    )  # fmt: skip
    optimizer, rng = _optimizer(work), np.random.default_rng(0)

    def step() -> None:
        total = gradients(optimizer.parameters, roots)
        noisy = add_noise(total, 1.0, rng=rng) if private else total
        optimizer.step(noisy / len(roots))

    return step


class Padded:
    """A batch padded once, outside the timed step; features are gathered inside it."""

    def __init__(self, work: Workload, batch_size: int | None = None) -> None:
        self.work, roots = work, work.batch(batch_size)
        node, self.adjacency = pad(work.trees, roots, work.pad_to)
        self.node, self.y = torch.from_numpy(node), torch.from_numpy(work.trees.y[roots])
        self.sizes = (work.pad_to, *level_sizes(work.trees, roots)[1:])
        dense = work.x if isinstance(work.x, np.ndarray) else work.x.toarray()
        self.x = torch.from_numpy(dense)

    def __len__(self) -> int:
        return len(self.y)


def padded(work: Workload, chunk: int | None = None) -> Step:
    """Ordinary non-private autograd on padded trees, whole or in chunks of examples, with Adam."""
    batch, optimizer = Padded(work), _optimizer(work)
    size = chunk or len(batch)

    def step() -> None:
        total = torch.zeros_like(optimizer.parameters)
        for start in range(0, len(batch), size):
            part = slice(start, start + size)
            views = work.network.views(optimizer.parameters)
            leaves = {name: view.clone().requires_grad_() for name, view in views.items()}
            rows, edges = batch.x[batch.node[part]], batch.adjacency[part]
            logits = padded_logits(work.network, leaves, rows, edges, batch.sizes)
            loss = per_root_loss(work.network, logits, batch.y[part]).sum()
            grads = torch.autograd.grad(loss, list(leaves.values()))
            total += torch.cat([gradient.reshape(-1) for gradient in grads])
        optimizer.step(total / len(batch))

    return step


def vmap_grad(work: Workload, chunk: int, batch_size: int) -> Step:
    """torch.func: vmap(grad) in chunks of examples, clipped and added; noise and Adam."""
    batch, optimizer = Padded(work, batch_size), _optimizer(work)
    rng = np.random.default_rng(0)

    def step() -> None:
        total = torch.zeros_like(optimizer.parameters)
        for start in range(0, len(batch), chunk):
            part = slice(start, start + chunk)
            total += vmap_sum(
                work.network, optimizer.parameters, batch.x[batch.node[part]],
                batch.adjacency[part], batch.y[part], work.clipping, batch.sizes,
            )  # fmt: skip
        optimizer.step(add_noise(total, 1.0, rng=rng) / len(batch))

    return step


class PaddedModule(nn.Module):
    """The padded network as a module with nn.Linear layers, as Opacus wants it."""

    def __init__(self, work: Workload, sizes: tuple[int, ...]) -> None:
        super().__init__()
        self.network, self.sizes = work.network, sizes
        self.layers = nn.ModuleDict(
            {
                op.name.replace(".", "-"): nn.Linear(op.num_in, op.num_out, bias=op.bias)
                for op in work.network.linears
            }
        )

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """Logits of padded trees."""
        values = [x]
        for op in self.network.operations:
            match op:
                case Linear():
                    value = self.layers[op.name.replace(".", "-")](values[op.source])
                case Activate():
                    value = activation(self.network.config.activation, values[op.source])
                case Aggregate():
                    rows, columns = self.sizes[op.hop], self.sizes[op.hop - 1]
                    value = adjacency[:, :rows, :columns] @ values[op.source]
                case Keep():
                    value = values[op.source][:, : self.sizes[op.hop]]
                case Add():
                    value = values[op.left] + values[op.right]
                case Attend():
                    raise ValueError("Opacus has no padded attention here")
            values.append(value)
        return values[-1][:, 0]


def opacus(work: Workload, chunk: int, batch_size: int) -> Step:
    """Opacus' GradSampleModule in chunks of examples, clipped by our groups and added; noise and Adam."""
    from opacus import GradSampleModule

    # the features need no gradient, which Opacus' hooks remark on at every step
    warnings.filterwarnings("ignore", message="Full backward hook is firing")
    batch, rng = Padded(work, batch_size), np.random.default_rng(0)
    module = GradSampleModule(PaddedModule(work, batch.sizes), loss_reduction="sum")
    tensors = [p for _, p in module.named_parameters()]
    part_of, bounds = work.clipping.parts(work.network)
    optimizer = Optimizer(OptimizerConfig(), torch.zeros(sum(p.numel() for p in tensors)), 10**6)

    def step() -> None:
        total = torch.zeros_like(optimizer.parameters)
        for start in range(0, len(batch), chunk):
            part = slice(start, start + chunk)
            logits = module(batch.x[batch.node[part]], batch.adjacency[part])
            per_root_loss(work.network, logits, batch.y[part]).sum().backward()
            samples = [p.grad_sample.flatten(1) for p in tensors]
            squared = torch.stack([s.square().sum(dim=1) for s in samples])
            norms = torch.zeros(len(bounds), squared.shape[1])
            norms = norms.index_add(0, torch.from_numpy(part_of), squared).sqrt()
            factors = torch.clamp(torch.from_numpy(bounds).float()[:, None] / norms, max=1.0)
            sums = [factors[owner] @ s for owner, s in zip(part_of, samples)]
            total += torch.cat(sums)
            module.zero_grad(set_to_none=True)
        optimizer.step(add_noise(total, 1.0, rng=rng) / len(batch))

    return step


def floor(work: Workload, rows_at_once: int = 4096) -> Step:
    """The step's matrix products only, into outputs that exist already."""
    roots = work.batch()
    level_rows = work.trees.level_rows[roots].sum(axis=0)
    products = []
    seen = {0: False}
    for index, op in enumerate(work.network.operations, start=1):
        if isinstance(op, Linear):
            total = int(level_rows[work.network.levels[index]])
            shape = (min(total, rows_at_once), total, op, seen[op.source])
            products.append((*_buffers(shape[0], op), total, shape[3]))
            seen[index] = True
        else:
            sources = [
                getattr(op, f) for f in ("source", "left", "right", "value") if hasattr(op, f)
            ]
            seen[index] = any(seen[source] for source in sources)

    def step() -> None:
        for a, w, z, back, grad_w, total, behind in products:
            for start in range(0, total, rows_at_once):
                n = min(rows_at_once, total - start)
                torch.mm(a[:n], w, out=z[:n])
                if behind:
                    torch.mm(z[:n], w.T, out=back[:n])
                torch.mm(a[:n].T, z[:n], out=grad_w)

    return step


def _buffers(rows: int, op: Linear) -> tuple[Tensor, ...]:
    a, w = torch.randn(rows, op.num_in), torch.randn(op.num_in, op.num_out) / op.num_in
    return a, w, torch.empty(rows, op.num_out), torch.empty(rows, op.num_in), torch.empty_like(w)


def _optimizer(work: Workload) -> Optimizer:
    parameters = work.network.initial(rng=np.random.default_rng(0))
    return Optimizer(OptimizerConfig(lr=1e-4), parameters, 10**6)

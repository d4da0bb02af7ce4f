"""The plain way, for tests and benchmarks: one root at a time, its gradient by autograd, clipped, added.

Slow and obvious; tests hold the fast paths against it. `padded.vmap_sum` is a second, independent route.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.forward import evaluate, per_root_loss
from dpgnn.models.network import Network
from dpgnn.models.trees import Trees
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import Clipping


def root_gradient(
    network: Network, parameters: Tensor, x: np.ndarray, trees: Trees, root: int
) -> Tensor:
    """The flat gradient of one root's loss, in the dtype of `parameters`; sensitive.

    Guarantee: none; for tests.

    Args:
        network: its operations.
        parameters: flat, shape (num_parameters,).
        x: float32, shape (num_nodes, num_features).
        trees: of all roots.
        root: position among them.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1, step by step.
    """
    flat = parameters.detach().clone().requires_grad_()
    layout = chunk_layout(trees, np.array([root]))
    rows = torch.from_numpy(x[layout.node.numpy()]).to(flat.dtype)
    y = torch.from_numpy(trees.y[[root]])
    logits = evaluate(network, network.views(flat), layout, rows)
    (gradient,) = torch.autograd.grad(per_root_loss(network, logits, y).sum(), flat)
    return gradient


def clip(network: Network, gradient: Tensor, clipping: Clipping) -> Tensor:
    """Scale each part of one root's flat gradient to its bound; zero if anything is not finite.

    Guarantee: the norm of each part is at most its bound, up to rounding.

    Args:
        network: says which parts tensors belong to.
        gradient: flat, shape (num_parameters,), of one root.
        clipping: bounds of the parts.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
    """
    if not torch.isfinite(gradient).all():
        return torch.zeros_like(gradient)
    part_of, bounds = clipping.parts(network)
    clipped = gradient.clone()
    tensors = list(network.views(clipped).values())
    for part, bound in enumerate(bounds):
        chosen = [tensor for tensor, owner in zip(tensors, part_of) if owner == part]
        norm = float(torch.linalg.vector_norm(torch.cat([t.double().reshape(-1) for t in chosen])))
        for tensor in chosen:
            tensor.mul_(min(1.0, float(bound) / norm) if norm > 0 else 1.0)
    return clipped


def plain_sum(
    network: Network,
    parameters: Tensor,
    x: np.ndarray,
    trees: Trees,
    roots: np.ndarray,
    clipping: Clipping | None,
) -> Tensor:
    """The clipped sum, one root after the other; flat, in the dtype of `parameters`; sensitive.

    Guarantee: each root adds one term of norm at most `total_norm`; no noise is added.

    Args:
        network: its operations.
        parameters: flat, shape (num_parameters,).
        x: float32, shape (num_nodes, num_features).
        trees: of all roots.
        roots: positions among them; each stands for one term.
        clipping: None adds plain gradients.
    """
    total = torch.zeros_like(parameters)
    for root in roots:
        gradient = root_gradient(network, parameters, x, trees, int(root))
        total += gradient if clipping is None else clip(network, gradient, clipping)
    return total

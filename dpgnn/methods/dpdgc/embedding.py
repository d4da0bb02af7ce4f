"""DPDGC's embedding, trained through the normalisation of its release.

The forward pass is h_i = sum over the neighbours j of s w_j/||w_j||, so training sees the rows that are
released later, at the scale s of the noise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numba import njit
from torch import Tensor, nn

from dpgnn.methods.shared.head_model import Rows, uniform_linear
from dpgnn.methods.shared.private_training import run_dp_sgd
from dpgnn.models.inputs import input_linear
from dpgnn.models.masks import Masks
from dpgnn.models.trees import Trees
from dpgnn.training.products import FAST
from dpgnn.training.step_gradients import StepGradients

if TYPE_CHECKING:
    from dpgnn.methods.base import Context
    from dpgnn.models.network import Network
    from dpgnn.training.gradients import RootGradients
    from dpgnn.training.options import OptimizerConfig

WEIGHT = "encoder.0.weight"


def scaled_rows(weight: Tensor, norm_scale: float) -> Tensor:
    """Each row divided by its norm and times s; zero rows stay zero. Shape (num_nodes, hidden)."""
    return norm_scale * F.normalize(weight, dim=1, eps=1e-30)


class NormalizedGradients(StepGradients):
    """Clipped sums of per-root gradients of a network whose first layer is read as s w_j/||w_j||.

    With V the normalised rows, the gradient g of one root by V (and by all other parameters) is clipped to
    norm C, and each row j of g becomes (I - v_j v_j^T) g_j, v_j the unit row. Up to the public factor
    ||w_j||/s, this is the chain rule through the normalisation; without that factor, each row has its own
    step size.

    Guarantee: a term of the sum has norm at most C. Proof. The map is linear in g, the same for all roots,
    and depends on the current weights only, which are public once released; it is the identity on other
    parameters and an orthogonal projection on each row, so it increases no norm. [] So the d changed roots of
    the plan change the sum by at most C d, as without the normalisation. In float64 the projection rounds by
    less than one more term of each root.

    Args:
        current: gradients by the first layer's weight as used, and by all else.
        norm_scale: s > 0.
    """

    def __init__(self, current: RootGradients, norm_scale: float) -> None:
        self.current, self.clipping, self.norm_scale = current, current.clipping, norm_scale

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The sum over `roots`, flat; overwritten by the next call; sensitive until noise is added."""
        network = self.current.network
        weight = network.views(parameters)[WEIGHT]
        forward = parameters.detach().clone()
        rows = network.views(forward)[WEIGHT]
        if weight.device.type == "cpu":
            unit = torch.empty_like(weight)
            _scale_rows(weight.numpy(), self.norm_scale, unit.numpy(), rows.numpy())
            total = super().__call__(forward, roots)
            _project_rows(network.views(total)[WEIGHT].numpy(), unit.numpy())
            return total
        unit = scaled_rows(weight, 1.0)
        rows.copy_(self.norm_scale * unit)
        total = super().__call__(forward, roots)
        rows = network.views(total)[WEIGHT]
        rows.sub_((rows * unit).sum(dim=1, keepdim=True) * unit)
        return total


@njit(cache=True, nogil=True, fastmath=FAST)
def _scale_rows(weight, norm_scale, unit, scaled):  # type: ignore[no-untyped-def]
    """unit: rows divided by their norms, zero rows stay zero; scaled: norm_scale times that."""
    for row in range(len(weight)):
        squared = 0.0
        for place in range(weight.shape[1]):
            squared += np.float64(weight[row, place]) * np.float64(weight[row, place])
        inverse = 1.0 / max(np.sqrt(squared), 1e-30)
        for place in range(weight.shape[1]):
            unit[row, place] = weight[row, place] * inverse
            scaled[row, place] = norm_scale * unit[row, place]


@njit(cache=True, nogil=True, fastmath=FAST)
def _project_rows(rows, unit):  # type: ignore[no-untyped-def]
    """Each row becomes (I - u u^T) row, u the unit row, in place."""
    for row in range(len(rows)):
        along = 0.0
        for place in range(rows.shape[1]):
            along += np.float64(rows[row, place]) * np.float64(unit[row, place])
        for place in range(rows.shape[1]):
            rows[row, place] -= along * unit[row, place]


def train_embedding(
    network: Network,
    x: Any,
    trees: Trees,
    optimizer: OptimizerConfig,
    context: Context,
    *,
    norm_scale: float,
    delta: float,
    mechanism_name: str,
) -> Tensor:
    """Train the embedding by the planned mechanism; weights of shape (num_nodes, hidden).

    Guarantee: the weights are post-processing of the releases in the plan's event (`NormalizedGradients`
    bounds each root's term by the clipping norm); batches, clipping and noise are checked against the event.

    Args:
        network, x, trees, optimizer, context, delta, mechanism_name: as for `run_dp_sgd`.
        norm_scale: s; rows start at this norm.
    """

    def to_sphere(parameters: Tensor) -> None:
        start = network.views(parameters)[WEIGHT]
        start.copy_(scaled_rows(start, norm_scale))

    named, _ = run_dp_sgd(
        network, x, trees, optimizer, context,
        delta=delta,
        mechanism_name=mechanism_name,
        prepare=to_sphere,
        wrap=lambda inner: NormalizedGradients(inner, norm_scale),
    )  # fmt: skip
    return named[WEIGHT]


class PlainEmbedding(nn.Module):
    """The same network without privacy: normalised embedding, SELU, a linear layer.

    Args:
        num_nodes, hidden, num_classes: sizes.
        norm_scale: s; None omits the normalisation.
        generator: the weights' stream.
    """

    def __init__(
        self,
        num_nodes: int,
        hidden: int,
        num_classes: int,
        *,
        norm_scale: float | None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.embedding = uniform_linear(num_nodes, hidden, generator)
        self.out = uniform_linear(hidden, num_classes, generator)
        self.norm_scale = norm_scale

    def forward(self, x: Rows, masks: Masks | None = None) -> Tensor:
        """Logits, shape (num_rows, num_classes)."""
        weight = self.embedding.weight
        if self.norm_scale is not None:
            weight = scaled_rows(weight.T, self.norm_scale).T
        return self.out(F.selu(input_linear(x, weight, self.embedding.bias)))

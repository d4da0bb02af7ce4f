"""Clipped sums that wrap a `RootGradients`, with the same interface for training."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import Tensor

    from dpgnn.training.clipping import Clipping
    from dpgnn.training.gradients import Execution, RootGradients


class StepGradients:
    """The clipped sums of a step, from the `RootGradients` of that step.

    Attributes:
        current: the gradients of this step.
        clipping: bounds of one root's gradient; None sums plain gradients.
        track_loss: keep the loss of the last batch.
    """

    current: RootGradients
    clipping: Clipping | None
    track_loss = False

    @property
    def num_roots(self) -> int:
        """Number of roots from which a batch of this step is drawn."""
        return self.current.trees.num_roots

    @property
    def device(self) -> torch.device:
        """Device of the sums."""
        return self.current.device

    @property
    def execution(self) -> Execution:
        """Speed settings of the sums."""
        return self.current.execution

    def sum_for_release(self) -> None:
        """Sum in float64 from now on; see `RootGradients.sum_for_release`."""
        self.current.sum_for_release()

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The sum over `roots`, flat; overwritten by the next call; sensitive until noise is added."""
        self.current.track_loss = self.track_loss
        return self.current(parameters, roots)


class LossOfStep(StepGradients):
    """A `StepGradients` that knows the loss of its last batch."""

    @property
    def mean_loss(self) -> float:
        """Mean loss over the last batch, in nats; sensitive."""
        return self.current.mean_loss

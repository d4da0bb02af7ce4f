"""SGD, Adam and averaging of iterates on a flat vector; the state is named arrays."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import at_least
from dpgnn.training._adam import moments, move
from dpgnn.training.options import OptimizerConfig


class Optimizer:
    """Updates a flat parameter vector in place.

    Guarantee: reads only the parameters, its own state and the given gradient; with a private gradient this
    is post-processing.

    Args:
        config: the update rule.
        parameters: float32 or float64, shape (num_parameters,); changed in place by `step`.
        num_steps: planned steps, which decide where averaging starts.

    Attributes:
        extra: further tensors for the checkpoint (a selected model).
    """

    def __init__(self, config: OptimizerConfig, parameters: Tensor, num_steps: int) -> None:
        self.config, self.parameters = config, parameters
        self.num_steps = at_least("num_steps", num_steps, 1)
        self.count = 0
        self.extra: dict[str, Tensor] = {}
        names = []
        if config.name == "adam":
            names += ["first", "second"]
        elif config.momentum:
            names += ["velocity"]
        if config.average_last:
            names += ["average"]
        self._state = {name: torch.zeros_like(parameters) for name in names}
        compiled = config.name == "adam" and parameters.device.type == "cpu"
        self._root = torch.empty_like(parameters) if compiled else None

    def step(self, gradient: Tensor) -> None:
        """One update with the (noisy) mean gradient, which is not changed."""
        config = self.config
        self.count += 1
        if config.weight_decay:
            gradient = gradient.add(self.parameters, alpha=config.weight_decay)
        if config.name == "adam":
            self._adam(gradient)
        elif config.momentum:
            velocity = self._state["velocity"].mul_(config.momentum).add_(gradient)
            self.parameters.add_(velocity, alpha=-config.lr)
        else:
            self.parameters.add_(gradient, alpha=-config.lr)
        self._average()

    def skip(self) -> None:
        """A step without a gradient: the parameters stay and are the step's iterate."""
        self.count += 1
        self._average()

    def _adam(self, gradient: Tensor) -> None:
        """Kingma and Ba (2015), arXiv:1412.6980, algorithm 1."""
        config, first, second = self.config, self._state["first"], self._state["second"]
        keep1, keep2 = config.beta1, config.beta2
        scale, correction = -config.lr / (1 - keep1**self.count), 1 - keep2**self.count
        if self._root is None:
            first.lerp_(gradient, 1 - keep1)
            second.mul_(keep2).addcmul_(gradient, gradient, value=1 - keep2)
            root = (second / correction).sqrt_().add_(config.epsilon)
            self.parameters.addcdiv_(first, root, value=scale)
            return
        g, m, v, r = (t.detach().numpy() for t in (gradient, first, second, self._root))
        moments(g, m, v, r, 1 - keep1, keep2, 1 - keep2, correction)
        self._root.sqrt_()
        move(self.parameters.detach().numpy(), m, r, config.epsilon, scale)

    @property
    def _averaged(self) -> int:
        """Number of iterates in the average so far."""
        return self.count - (self.num_steps - round(self.config.average_last * self.num_steps))

    def _average(self) -> None:
        if self._averaged > 0 and self.config.average_last:
            self._state["average"].lerp_(self.parameters, 1 / self._averaged)

    def result(self) -> Tensor:
        """A copy of the parameters to release: the average if it has begun, otherwise the iterate."""
        begun = self.config.average_last > 0 and self._averaged > 0
        return (self._state["average"] if begun else self.parameters).clone()

    def arrays(self) -> dict[str, np.ndarray]:
        """Parameters and state for a checkpoint."""
        named = {"parameters": self.parameters, **self._state, **self.extra}
        return {name: tensor.detach().cpu().numpy() for name, tensor in named.items()}

    def restore(self, arrays: Mapping[str, np.ndarray], count: int) -> None:
        """Restore a checkpoint that `arrays` gave after `count` steps."""
        self.count = count
        self.parameters.copy_(torch.from_numpy(arrays["parameters"]))
        for name, tensor in (self._state | self.extra).items():
            tensor.copy_(torch.from_numpy(arrays[name]))

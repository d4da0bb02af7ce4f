"""Executes a planned DP-SGD mechanism for a method's `fit`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import compose, parts

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism
    from dpgnn.methods.base import Context
    from dpgnn.models.network import Network
    from dpgnn.models.trees import Trees
    from dpgnn.training.clipping import Clipping
    from dpgnn.training.gradients import RootGradients
    from dpgnn.training.noise import Noise
    from dpgnn.training.options import OptimizerConfig

# rows of the history; epsilon is computed for each
HISTORY_ROWS = 10


def run_dp_sgd(
    network: Network,
    x: Any,
    trees: Trees,
    optimizer: OptimizerConfig,
    context: Context,
    *,
    delta: float,
    mechanism_name: str = "train",
    clipping: Clipping | None = None,
    noise: Noise | None = None,
    evaluate: Callable[[Mapping[str, Tensor]], Mapping[str, float]] | None = None,
    prepare: Callable[[Tensor], None] | None = None,
    wrap: Callable[[RootGradients], Any] | None = None,
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Enter the mechanism in the ledger and run its steps; see `training.dp_sgd.train`.

    Guarantee: the result is post-processing of the plan's mechanism; batches, clipping and noise are checked
    against its event before the first step.

    Args:
        network: the network; its initial weights come from the stream `weights`.
        x: features of the nodes that trees name, dense float32 or CSR.
        trees: one tree per root; their number is the public number of roots.
        optimizer: post-processing.
        context: ledger, streams, checkpoints, speed settings.
        delta: for the epsilon in the history.
        mechanism_name: its name in the plan, also the name of the checkpoint and the streams' axis.
        clipping: None clips globally at the mechanism's norm.
        noise: None adds the mechanism's noise jointly.
        evaluate: named parameters -> metrics of the history, in study mode only; never fed back.
        prepare: changes the flat initial weights in place, before the first step.
        wrap: applied to the clipped sums before noise; must not increase the norm of any root's term.

    Returns:
        named parameters and the history.
    """
    from dpgnn.training.dp_sgd import from_mechanism, train
    from dpgnn.training.gradients import Execution
    from dpgnn.training.shared import root_gradients

    mechanism = context.ledger.enter(mechanism_name)
    spec = from_mechanism(mechanism, num_roots=trees.num_roots, clipping=clipping, noise=noise)
    speed = context.performance
    initial = network.initial(rng=context.streams.numpy("weights", stage=mechanism_name))
    if prepare is not None:
        prepare(initial)
    with root_gradients(
        network, x, trees, clipping=spec.clipping, num_processes=speed.num_processes,
        execution=Execution(device=speed.device, chunk_rows=speed.chunk_size),
    ) as gradients:  # fmt: skip
        return train(
            spec, network, gradients if wrap is None else wrap(gradients), initial, optimizer,
            streams=context.streams, store=context.store, stage=mechanism_name,
            progress=context.progress(mechanism.num_steps, mechanism_name),
            epsilon_spent=epsilon_after(mechanism, delta), evaluate=evaluate, num_rows=HISTORY_ROWS,
        )  # fmt: skip


def epsilon_after(mechanism: Mechanism, delta: float) -> Callable[[int], float]:
    """Steps -> epsilon of that many steps of the mechanism, for the history (inf without noise)."""
    from dpgnn.accountants.calibration import epsilon

    (event, _), *_ = parts(mechanism.event)

    def spent(num_steps: int) -> float:
        if mechanism.noise_stddev == 0:
            return math.inf
        return epsilon(compose(event, num_steps), delta=delta, relation=event.relation)

    return spent


def scorer(
    predict: Callable[[Mapping[str, Tensor]], Tensor], y: np.ndarray, task: str
) -> Callable[[Mapping[str, Tensor]], Mapping[str, float]]:
    """Named parameters -> {"val_accuracy": ...} of the logits that `predict` gives for labels `y`."""
    import torch

    from dpgnn.training.nonprivate import task_accuracy

    truth = torch.from_numpy(y.copy())

    def score(parameters: Mapping[str, Tensor]) -> Mapping[str, float]:
        if len(truth) == 0:
            return {}
        return {"val_accuracy": task_accuracy(predict(parameters), truth, task)}

    return score

"""Minibatch training over trees without privacy: the counterpart of `dp_sgd`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from dpgnn.core.checks import at_least, one_of, require
from dpgnn.models.network import Network
from dpgnn.samplers.batches import Batches
from dpgnn.training.gradients import RootGradients
from dpgnn.training.loop import ProgressLine, Row, run_steps, shown_loss
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig, Selection

if TYPE_CHECKING:
    from dpgnn.core.randomness import Streams
    from dpgnn.core.storage import Store

Evaluate = Callable[[Mapping[str, Tensor]], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class PlainRun:
    """Steps, batches and selection of a run without privacy.

    Attributes:
        num_steps: optimiser steps.
        batches: how batches are sampled; the mean gradient of the realised batch is used.
        selection: "last", or "best_validation" over the rows of the history.
        num_rows: rows of the history, at which the validation metric is computed.
    """

    num_steps: int
    batches: Batches
    selection: Selection = "last"
    num_rows: int = 20

    def __post_init__(self) -> None:
        at_least("num_steps", self.num_steps, 1)
        at_least("num_rows", self.num_rows, 1)
        one_of("selection", self.selection, ("best_validation", "last"))


def train(
    run: PlainRun,
    network: Network,
    gradients: RootGradients,
    initial: Tensor,
    optimizer: OptimizerConfig,
    *,
    streams: Streams,
    store: Store,
    progress: ProgressLine,
    stage: str = "train",
    evaluate: Evaluate | None = None,
    metric: str = "val_accuracy",
    before_step: Callable[[int], None] | None = None,
) -> tuple[dict[str, Tensor], list[Row]]:
    """Train without noise or clipping.

    Args:
        run: steps, batches, selection.
        gradients: made with `clipping=None`.
        initial: flat parameters.
        evaluate: named parameters -> metrics for the history.
        metric: the key that "best_validation" maximises; if `evaluate` does not give it (no validation
            nodes), the last weights are kept.
        before_step: as in `dp_sgd.train`.

    Returns:
        named parameters, selected or last, and the history. No guarantee.

    Raises:
        ValueError: `gradients` clips, `evaluate` is missing for the selection, or training diverged.
    """
    require(gradients.clipping is None, "gradients", "not clip without privacy", gradients.clipping)
    if run.selection == "best_validation":
        require(evaluate is not None, "evaluate", "be given for best_validation", None)
    device, dtype = gradients.device, gradients.execution.torch_dtype
    parameters = initial.detach().clone().to(device=device, dtype=dtype)
    state = Optimizer(optimizer, parameters, run.num_steps)
    if run.selection == "best_validation":
        state.extra = {"best": parameters.clone(), "best_score": parameters.new_full((1,), -1.0)}

    def take_step(step: int) -> None:
        if before_step is not None:
            before_step(step)
        roots = run.batches.draw(rng=streams.numpy("batches", stage=stage, step=step))
        if len(roots):
            state.step(gradients(parameters, roots) / len(roots))
        else:
            state.skip()

    def row(step: int) -> Row:
        if not torch.isfinite(parameters).all():
            raise ValueError(f"weights must be finite, got NaN at step {step}; lower lr")
        weights = state.result()
        values: Row = dict(evaluate(network.named(weights))) if evaluate is not None else {}
        if run.selection == "best_validation":
            _select(state, weights, values.get(metric))
        return values

    loss = shown_loss(gradients, study=streams.randomness == "study")
    with torch.no_grad():
        history = run_steps(
            take_step, state, run.num_steps, name=stage, store=store, progress=progress, row=row,
            shown=lambda step: loss(), num_rows=run.num_rows,
        )  # fmt: skip
    return network.named(state.extra.get("best", state.result())), history


def _select(state: Optimizer, weights: Tensor, score: float | None) -> None:
    """Keep the weights with the best score; without validation nodes, the last."""
    if score is None:
        state.extra["best"].copy_(weights)
    elif score > state.extra["best_score"]:
        state.extra["best"].copy_(weights)
        state.extra["best_score"].fill_(score)

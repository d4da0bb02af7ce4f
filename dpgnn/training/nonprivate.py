"""Full-batch Adam without privacy: the loop of the non-private baselines.

It imports nothing from the private engine, so that changes there do not rerun baselines.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dpgnn.core.doors import Door
from dpgnn.models.masks import Masks
from dpgnn.training.options import AdamConfig

State = dict[str, Tensor]
History = list[Mapping[str, float]]


def task_loss(logits: Tensor, y: Tensor, task: str) -> Tensor:
    """Mean cross-entropy, or mean binary cross-entropy for the multilabel task."""
    if task == "multilabel":
        return F.binary_cross_entropy_with_logits(logits, y.float())
    return F.cross_entropy(logits, y)


def task_accuracy(logits: Tensor, y: Tensor, task: str) -> float:
    """Fraction of correct classes (multiclass) or of correct labels (multilabel), in [0, 1]."""
    if len(y) == 0:
        return float("nan")
    if task == "multilabel":
        return float(((logits > 0) == y.bool()).float().mean())
    return float((logits.argmax(1) == y).float().mean())


@Door
def train_full_batch(
    model: nn.Module,
    forward: Callable[[Masks | None], Tensor],
    y: Tensor,
    train_idx: Tensor,
    val_idx: Tensor,
    config: AdamConfig,
    *,
    task: str,
    generator: torch.Generator,
    progress: Any,
) -> tuple[State, History]:
    """Train a model in which rows read other rows, and select on validation nodes.

    Args:
        model: its parameters are trained in place.
        forward: dropout masks (None at inference) -> logits of all nodes.
        y: labels of all nodes.
        train_idx, val_idx: int64 node positions.
        config: optimiser and selection.
        task: "multiclass" or "multilabel".
        generator: the dropout stream.
        progress: has update(step, **shown).

    Returns:
        state: the selected weights by parameter name.
        history: one row per tenth epoch: step, train_loss, train_accuracy, val_accuracy.

    Raises:
        ValueError: the loss is not finite.
    """

    def evaluate() -> tuple[Tensor, Callable[[], tuple[Tensor, Tensor]]]:
        logits = forward(None)
        return logits[val_idx], lambda: (logits[train_idx], y[train_idx])

    return _train(
        model, lambda masks: (forward(masks)[train_idx], y[train_idx]), evaluate, y[val_idx], config,
        task=task, masks=Masks(generator), progress=progress,
    )  # fmt: skip


@Door
def train_on_rows(
    model: nn.Module,
    forward: Callable[[Any, Masks | None], Tensor],
    train: Sequence[tuple[Any, Tensor]],
    val: tuple[Any, Tensor],
    config: AdamConfig,
    *,
    task: str,
    generator: torch.Generator,
    progress: Any,
) -> tuple[State, History]:
    """Train a model that reads only each node's own row, and select on validation nodes.

    Args:
        forward: rows and dropout masks (None at inference) -> the rows' logits; reads no edges.
        train: rows and labels of training nodes, in one or several parts; epochs use the parts in turn, and
            the history has the accuracy on the first.
        val: rows and labels of validation nodes.
        model, config, task, generator, progress: as for `train_full_batch`.

    Returns, Raises:
        as `train_full_batch`.
    """

    parts = itertools.cycle(train)

    def step(masks: Masks) -> tuple[Tensor, Tensor]:
        rows, y = next(parts)
        return forward(rows, masks), y

    def evaluate() -> tuple[Tensor, Callable[[], tuple[Tensor, Tensor]]]:
        return forward(val[0], None), lambda: (forward(train[0][0], None), train[0][1])

    return _train(
        model, step, evaluate, val[1], config,
        task=task, masks=Masks(generator), progress=progress,
    )  # fmt: skip


def _train(
    model: nn.Module,
    step: Callable[[Masks], tuple[Tensor, Tensor]],
    evaluate: Callable[[], tuple[Tensor, Callable[[], tuple[Tensor, Tensor]]]],
    y_val: Tensor,
    config: AdamConfig,
    *,
    task: str,
    masks: Masks,
    progress: Any,
) -> tuple[State, History]:
    """The loop; `evaluate` gives logits of validation nodes and a function for those of training nodes."""
    _without_compiler()
    optimizer = torch.optim.Adam(model.parameters(), lr=config.lr, weight_decay=config.weight_decay)
    best, best_state, since = (-1.0, 0.0), {}, 0
    history: History = []
    for epoch in range(1, config.num_epochs + 1):
        model.train()
        loss = task_loss(*step(masks), task)
        _check_finite(loss, epoch)
        _descend(optimizer, loss)
        model.eval()
        with torch.no_grad():
            on_val, on_train = evaluate()
        val = task_accuracy(on_val, y_val, task)
        selects = config.selection != "last" and len(y_val) > 0
        # without validation nodes, the last weights
        score = (val, -float(task_loss(on_val, y_val, task))) if selects else (float(epoch), 0.0)
        since += 1
        if score > best:
            best, since = score, 0
            best_state = {key: value.clone() for key, value in model.state_dict().items()}
        if epoch % 10 == 0 or epoch == config.num_epochs:
            with torch.no_grad():
                history.append(_row(epoch, loss, *on_train(), task) | {"val_accuracy": val})
        progress.update(epoch, val_accuracy=f"{val:.3f}")
        if config.patience and since >= config.patience:
            break
    return best_state, history


def _check_finite(loss: Tensor, epoch: int) -> None:
    if not torch.isfinite(loss):
        rule = f"training loss must be finite, got {loss.item()} at epoch {epoch}; lower lr"
        raise ValueError(rule)


def _without_compiler() -> None:
    """Prevent torch's optimisers from importing torch's compiler, which takes longer than a small run.

    At the first call, their methods ask the compiler for a version of themselves that is not compiled.
    Nothing here is compiled, so the methods are that version already. If torch has no such attribute, nothing
    is changed.
    """
    for name in ("add_param_group", "zero_grad"):
        plain = getattr(getattr(torch.optim.Optimizer, name, None), "__wrapped__", None)
        if plain is not None and not hasattr(plain, "__dynamo_disable"):
            plain.__dynamo_disable = plain


def _descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """A step on the loss: `optimizer.step()` without its wrappers for profiler and compiler."""
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        inspect.unwrap(type(optimizer).step)(optimizer)


def _row(epoch: int, loss: Tensor, logits: Tensor, y: Tensor, task: str) -> dict[str, float]:
    accuracy = task_accuracy(logits, y, task)
    return {"step": epoch, "train_loss": float(loss.detach()), "train_accuracy": accuracy}

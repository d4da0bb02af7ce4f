"""Base scores: class log-probabilities of every node from public features and labels, without an edge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgnn.data.rows import normalize_rows
from dpgnn.models.inputs import as_input
from dpgnn.models.mlp import MLP
from dpgnn.training.nonprivate import train_on_rows

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context
    from dpgnn.methods.votes.edge_options import BaseConfig, EdgeConfig

State = dict[str, Tensor]
# a product with denser rows is faster when all entries are stored
DENSE_FROM = 0.1


def fit_bases(config: EdgeConfig, graph: Graph, split: Split, context: Context) -> State:
    """Train each classifier once without each fold of the training nodes, then weigh the classifiers.

    Guarantee: reads features, labels of training nodes and the split; no edge.

    Returns:
        weights named base.B.F.*, and stack.weight: float64, shape (num_bases,), >= 0.
    """
    state: State = {}
    train, none = split.train_idx, np.arange(0)
    for number, base in enumerate(config.bases):
        x = _features(base, graph)
        for fold in range(config.num_folds):
            seen = train[np.arange(len(train)) % config.num_folds != fold]
            stage = f"base.{number}.{fold}"
            seen = context.streams.numpy("batches", stage=stage).permutation(seen)
            parts = np.array_split(seen, math.ceil(len(seen) / config.rows_a_step))
            model = _model(base, graph, context.streams.torch("weights", stage=stage))
            found, _ = train_on_rows(
                model, model, [(as_input(x[part]), torch.from_numpy(graph.y[part])) for part in parts],
                (as_input(x[none]), torch.from_numpy(graph.y[none])), base.training, task=graph.task,
                generator=context.streams.torch("dropout", stage=stage),
                progress=context.progress(base.training.num_epochs, stage),
            )  # fmt: skip
            state |= {f"{stage}.{name}": value for name, value in found.items()}
    scores = _scores_of_bases(config, state, graph, split)
    weights = stack_weights(scores[:, train], graph.y[train])
    return state | {"stack.weight": torch.from_numpy(weights)}


def base_scores(
    config: EdgeConfig, state: Mapping[str, Tensor], graph: Graph, split: Split
) -> np.ndarray:
    """Log-probabilities of all nodes: float64, shape (num_nodes, num_classes).

    A training node's come from the models that did not see it, others' are means over the folds.
    """
    scores = _scores_of_bases(config, state, graph, split)
    return log_softmax(np.tensordot(state["stack.weight"].numpy(), scores, axes=1))


def stack_weights(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Non-negative weights of the classifiers' log-scores with the least cross-entropy.

    Args:
        scores: float64, shape (num_bases, num_rows, num_classes).
        y: int64, shape (num_rows,).

    Returns:
        float64, shape (num_bases,).
    """
    from scipy.optimize import minimize

    count, rows = len(scores), np.arange(len(y))

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        logp = log_softmax(np.tensordot(weights, scores, axes=1))
        excess = np.exp(logp)
        excess[rows, y] -= 1.0
        return float(-logp[rows, y].mean()), np.einsum("bnc,nc->b", scores, excess) / len(y)

    start = np.full(count, 1.0 / count)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * count)
    return np.asarray(found.x)


def log_softmax(scores: np.ndarray) -> np.ndarray:
    """Scores less the log of their summed exponentials, over the last axis."""
    scores = scores - scores.max(axis=-1, keepdims=True)
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))


def _scores_of_bases(
    config: EdgeConfig, state: Mapping[str, Tensor], graph: Graph, split: Split
) -> np.ndarray:
    """float64, shape (num_bases, num_nodes, num_classes)."""
    train, place = split.train_idx, np.arange(len(split.train_idx)) % config.num_folds
    found = []
    for number, base in enumerate(config.bases):
        rows = as_input(_features(base, graph))
        folds = np.stack([
            _fold_scores(base, state, f"base.{number}.{fold}.", graph, rows)
            for fold in range(config.num_folds)
        ])  # fmt: skip
        scores = log_softmax(folds.mean(axis=0))
        scores[train] = folds[place, train]
        found.append(scores)
    return np.stack(found)


def _fold_scores(
    base: BaseConfig, state: Mapping[str, Tensor], prefix: str, graph: Graph, rows: Any
) -> np.ndarray:
    model = _model(base, graph, torch.Generator())
    model.load_state_dict(
        {name.removeprefix(prefix): v for name, v in state.items() if name.startswith(prefix)}
    )
    model.eval()
    with torch.no_grad():
        return log_softmax(model(rows).double().numpy())


def _model(base: BaseConfig, graph: Graph, generator: torch.Generator) -> MLP:
    return MLP(
        graph.num_features, base.hidden, graph.num_classes, dropout=base.dropout,
        generator=generator,
    )  # fmt: skip


def _features(base: BaseConfig, graph: Graph) -> Any:
    x = normalize_rows(graph.x, base.row_norm)
    if sp.issparse(x):
        return x.toarray() if x.nnz > DENSE_FROM * x.shape[0] * x.shape[1] else sp.csr_array(x)
    return x

"""Base scores: class log-probabilities of every node from public features and labels, without an edge."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.votes.edge_network import Networks, Rows
from dpgnn.methods.votes.edge_network import train as train_networks
from dpgnn.models.masks import Masks

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import PlannedRun
    from dpgnn.methods.votes.edge_options import BaseConfig, EdgeConfig

State = dict[str, Tensor]
# denser rows are multiplied faster as dense arrays
DENSE_FROM = 0.1


@dataclass(frozen=True, kw_only=True)
class Bases:
    """Classifiers fitted without edges.

    Attributes:
        state: weights named base.B.*, and stack.weight: float64, shape (num_bases,), >= 0.
        scores: as `base_scores`.
    """

    state: State
    scores: np.ndarray


def fit_bases(run: PlannedRun) -> Bases:
    """Train each classifier once without each fold of the training nodes, then weight the classifiers.

    Guarantee: reads features, labels of training nodes and the split; no edge.
    """
    config: EdgeConfig = run.entry.options.edge
    state: State = {}
    train = run.split.train_idx
    fold = fold_of(config, len(train))
    for number, base in enumerate(config.bases):
        x, stage = _features(base, run.graph), f"base.{number}"
        networks = _networks(config, base, run.graph)
        networks.start([
            run.context.streams.torch("weights", stage=f"{stage}.{k}") for k in range(config.num_folds)
        ])  # fmt: skip
        order = run.context.streams.numpy("batches", stage=stage).permutation(len(train))
        train_networks(
            networks,
            [
                _rows(run.graph, x, train[part], fold[part], config.num_folds)
                for part in np.array_split(order, math.ceil(len(train) / config.rows_a_step))
            ],
            base.training,
            masks=Masks(run.context.streams.torch("dropout", stage=stage)),
            progress=run.context.progress(base.training.num_epochs, stage),
        )
        state |= {f"{stage}.{name}": value for name, value in networks.state().items()}
    scores = _scores_of_bases(config, state, run.graph, run.split)
    weights = stack_weights(scores[:, train], run.graph.y[train])
    state |= {"stack.weight": torch.from_numpy(weights)}
    return Bases(state=state, scores=_weighed(weights, scores))


def base_scores(
    config: EdgeConfig, state: Mapping[str, Tensor], graph: Graph, split: Split
) -> np.ndarray:
    """Log-probabilities of all nodes: float64, shape (num_nodes, num_classes).

    Scores of a training node come from models that did not train on it; scores of others are means over the
    folds.
    """
    return _weighed(state["stack.weight"].numpy(), _scores_of_bases(config, state, graph, split))


def fold_of(config: EdgeConfig, num_train: int) -> np.ndarray:
    """For each training node, the model that does not train on it; int64, shape (num_train,)."""
    return np.arange(num_train) % config.num_folds


def _rows(graph: Graph, x: Any, nodes: np.ndarray, fold: np.ndarray, num_folds: int) -> Rows:
    """Rows of training nodes; each is hidden from its fold's network."""
    return Rows(
        x=_input(x[nodes]),
        direct=torch.zeros(0),
        y=torch.from_numpy(graph.y[nodes]),
        seen=torch.from_numpy(fold[:, None] != np.arange(num_folds)).float(),
    )


def _weighed(weights: np.ndarray, scores: np.ndarray) -> np.ndarray:
    return log_softmax(np.tensordot(weights, scores, axes=1))


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
    """Log-softmax of scores over the last axis."""
    # numpy's maximum over a short last axis takes ten times as long
    largest = reduce(np.maximum, np.moveaxis(scores, -1, 0))
    scores = scores - largest[..., None]
    return np.asarray(scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True)))


def _scores_of_bases(
    config: EdgeConfig, state: Mapping[str, Tensor], graph: Graph, split: Split
) -> np.ndarray:
    """float64, shape (num_bases, num_nodes, num_classes)."""
    train = split.train_idx
    fold, found = fold_of(config, len(train)), []
    for number, base in enumerate(config.bases):
        networks, prefix = _networks(config, base, graph), f"base.{number}."
        networks.load({
            name.removeprefix(prefix): v for name, v in state.items() if name.startswith(prefix)
        })  # fmt: skip
        logits = networks.logits(_input(_features(base, graph)))
        folds = log_softmax(logits.double().numpy())
        scores = log_softmax(folds.mean(axis=1))
        scores[train] = folds[train, fold]
        found.append(scores)
    return np.stack(found)


def _networks(config: EdgeConfig, base: BaseConfig, graph: Graph) -> Networks:
    widths = (graph.num_features, *base.hidden, graph.num_classes)
    return Networks(widths, (base.dropout, base.dropout), config.num_folds)


def _input(x: Any) -> Tensor | sp.csr_array:
    """float32 rows: a tensor, or CSR."""
    return torch.from_numpy(np.array(x, dtype=np.float32)) if isinstance(x, np.ndarray) else x


def _features(base: BaseConfig, graph: Graph) -> Any:
    x = normalize_rows(graph.x, base.row_norm)
    if sp.issparse(x):
        return x.toarray() if x.nnz > DENSE_FROM * x.shape[0] * x.shape[1] else sp.csr_array(x)
    return x

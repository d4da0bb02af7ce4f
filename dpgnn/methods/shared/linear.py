"""The linear softmax model on own features and further inputs, trained by noisy gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.shared.aggregate import unit_rows
from dpgnn.methods.shared.centred import CentredGradients, centre_weights, sparse_rows
from dpgnn.methods.shared.private_training import run_dp_sgd, scorer
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.training.products import row_products, sparse_linear

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import PlannedRun

# sparse features with more columns are not centred, because a row's mean is negligible there
CENTRED_COLUMNS = 10_000


def linear_model(num_inputs: int, graph: Graph) -> Network:
    """Logits are inputs times weights; a constant input acts as the bias."""
    return Network(
        NetworkConfig(
            num_features=num_inputs,
            num_outputs=graph.num_classes,
            encoder_layers=0,
            num_hops=0,
            decoder_layers=1,
            bias=False,
            task=graph.task,
        )
    )


def own_rows(graph: Graph, nodes: np.ndarray, further: np.ndarray) -> Any:
    """Centred features of nodes, scaled to norm 1, beside further inputs; float32.

    Args:
        nodes: int64 ids.
        further: shape (len(nodes), any).

    Returns:
        dense; CSR if features are CSR, which are not centred themselves: the weights are centred instead (if
        `is_centred`).
    """
    further = further.astype(np.float32)
    x = graph.x[nodes]
    if isinstance(x, np.ndarray):
        return np.concatenate([normalize_rows(centred(x), "l2"), further], axis=1)
    rows = sparse_rows(x) if is_centred(graph) else normalize_rows(sp.csr_array(x), "l2")
    return sp.csr_array(sp.hstack([rows, further])).astype(np.float32)


def own_features(graph: Graph, rows: np.ndarray) -> np.ndarray:
    """The features of `own_rows` of any rows of the graph's kind, dense, in the dtype of the raw ones."""
    if isinstance(graph.x, np.ndarray):
        return unit_rows(centred(rows))
    if is_centred(graph):
        return np.asarray(sparse_rows(sp.csr_array(rows)).toarray())
    return unit_rows(rows)


def is_centred(graph: Graph) -> bool:
    """Whether each row's features are centred."""
    return isinstance(graph.x, np.ndarray) or graph.num_features <= CENTRED_COLUMNS


def centred(rows: np.ndarray) -> np.ndarray:
    """Dense rows, each minus its own mean."""
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def linear_logits(graph: Graph, rows: Any) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Named weights -> logits of `rows` of `own_rows`.

    Each row is multiplied separately, so that its logits depend only on that row, bit for bit.
    """

    def answer(weights: Mapping[str, Tensor]) -> Tensor:
        (weight,) = read_weights(graph, weights).values()
        found = np.zeros((rows.shape[0], weight.shape[1]), dtype=np.float32)
        if isinstance(rows, np.ndarray):
            row_products(rows, weight.numpy(), found)
        else:
            parts = rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data
            none = np.zeros(weight.shape[1], dtype=np.float32)
            sparse_linear(np.arange(len(found)), *parts, weight.numpy(), none, found)
        return torch.from_numpy(found)

    return answer


def read_weights(graph: Graph, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The linear model's weights for `own_rows`: centred if rows are sparse."""
    read = {name: weights[name].clone() for name in linear_model(1, graph).shapes}
    if sp.issparse(graph.x) and is_centred(graph):
        centre_weights(read, graph.num_features)
    return read


def train_linear(
    run: PlannedRun, rows: tuple[Any, Any]
) -> tuple[dict[str, Tensor], list[dict[str, Any]]]:
    """Weights by noisy gradient descent; see `run_dp_sgd`.

    Guarantee: that of the planned mechanism `train`; rows of training nodes enter only through it, rows of
    validation nodes only the history of a study.

    Args:
        rows: inputs of the training nodes, and of the validation nodes.

    Returns:
        weights and history.
    """
    train, val = run.split.train_idx, run.split.val_idx
    network, columns = linear_model(rows[0].shape[1], run.graph), run.graph.num_features
    sparse = sp.issparse(run.graph.x) and is_centred(run.graph)
    return run_dp_sgd(
        network,
        rows[0],
        lone_roots(np.arange(len(train)), run.graph.y[train]),
        run.entry.options.training.optimizer,
        run.context,
        delta=run.plan.claims[0].delta,
        evaluate=scorer(linear_logits(run.graph, rows[1]), run.graph.y[val], run.graph.task),
        wrap=(lambda inner: CentredGradients(inner, columns)) if sparse else None,
    )

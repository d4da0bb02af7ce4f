"""Predictions of methods that aggregate once: a look-up in the run's results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.methods.base import Entry, Fitted, Prediction
from dpgnn.methods.tensors import ANSWERS_FOR

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.claims import Answers
    from dpgnn.data.graph import Graph

EDGE_NOTE = "computed from the noisy release and public features and labels"
NODE_NOTE = (
    "an answer reads the released weights, the asked node's own features and its own noisy rows; it is "
    "for that node alone"
)


def for_this_graph(fitted: Fitted, graph: Graph) -> Fitted:
    """An edge-level fit, whose answers are released, with the identity of its graph.

    `answers_for` is the hash of the number of nodes and of the features, which are public at edge level:
    uint8, shape (32,). No edge or label enters.
    """
    import torch

    from dpgnn.data.files.content import features_hash

    hashed = torch.tensor(list(bytes.fromhex(features_hash(graph))), dtype=torch.uint8)
    return replace(fitted, state={**fitted.state, ANSWERS_FOR: hashed})


def answer(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the asked nodes; transductive, so only for nodes of the fitted graph.

    At edge level the logits are released; at node level `fitted.kept` has each node's logits, for that node
    only.

    Raises:
        ValueError: at node level, the fit was loaded from released weights, which have no rows; or the graph
            has another number of nodes than the fitted one or, at edge level, other features.
    """
    import torch

    logits: Tensor | None = fitted.state.get("logits", fitted.kept.get("logits"))
    if logits is None:
        fail(
            "predictions", "read the nodes' own rows", "released weights alone",
            "pass `kept` as read from own_rows.safetensors of the release",
        )  # fmt: skip
    _check_same_nodes(fitted.state.get(ANSWERS_FOR), logits, graph)
    answers, note = _who_may_see(entry)
    return Prediction(
        logits=logits[torch.from_numpy(np.array(node_idx))], answers=answers, note=note
    )


def _check_same_nodes(answers_for: Tensor | None, logits: Tensor, graph: Graph) -> None:
    from dpgnn.data.files.content import features_hash

    remedy = (
        "a model that answers by look-up knows the nodes of its own graph alone; fit it to this one"
    )
    name = f"graph {graph.name}: number of nodes"
    require(len(logits) == graph.num_nodes, name, f"be {len(logits)}", graph.num_nodes, remedy)
    if answers_for is not None:
        found, wanted = features_hash(graph), bytes(answers_for.tolist()).hex()
        name = f"graph {graph.name}: hash of the features"
        require(found == wanted, name, f"be {wanted[:12]}", found[:12], remedy)


def _who_may_see(entry: Entry) -> tuple[Answers, str]:
    """Who may see the answers, and why."""
    if entry.mode == "nonprivate":
        return "none", "no privacy"
    if entry.privacy_unit == "edge":
        return "everyone", EDGE_NOTE
    return "own-record", NODE_NOTE

"""Predictions of methods that aggregate once: a look-up in what the run made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail
from dpgnn.methods.base import Entry, Fitted, Prediction

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.data.graph import Graph

EDGE_NOTE = "computed from the noisy release and public features and labels"
NODE_NOTE = (
    "an answer reads the released weights, the asked node's own features and its own noisy rows; it is "
    "for that node alone"
)


def answer(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for; transductive, so of nodes of the graph that was fitted.

    Raises:
        ValueError: node level, and the fit was read back from released weights, which hold no rows.
    """
    import torch

    logits: Tensor | None = fitted.state.get("logits")
    if logits is None:
        logits = getattr(fitted, "kept", {}).get("logits")
    if logits is None:
        fail(
            "predictions", "be asked for inside the run", "released weights",
            "the noisy rows they need are not part of a node-level release",
        )  # fmt: skip
    if entry.mode == "nonprivate":
        covered, note = False, "no privacy"
    elif entry.privacy_unit == "edge":
        covered, note = True, EDGE_NOTE
    else:
        covered, note = False, NODE_NOTE
    return Prediction(
        logits=logits[torch.from_numpy(np.array(node_idx))], covered=covered, note=note
    )

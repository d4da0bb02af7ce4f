"""Predictions of methods that aggregate once: a look-up in what the run made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail
from dpgnn.methods.base import Entry, Fitted, Prediction

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.claims import Answers
    from dpgnn.data.graph import Graph

EDGE_NOTE = "computed from the noisy release and public features and labels"
NODE_NOTE = (
    "an answer reads the released weights, the asked node's own features and its own noisy rows; it is "
    "for that node alone"
)


def answer(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """Logits of the nodes asked for; transductive, so of nodes of the graph that was fitted.

    At edge level the logits are released; at node level each node's stand in `fitted.kept`, for it alone.

    Raises:
        ValueError: node level, and the fit was read back from released weights alone, which hold no rows.
    """
    import torch

    logits: Tensor | None = fitted.state.get("logits", fitted.kept.get("logits"))
    if logits is None:
        fail(
            "predictions", "read the nodes' own rows", "released weights alone",
            "pass `kept` as read from own_rows.safetensors of the release",
        )  # fmt: skip
    answers, note = _who_may_see(entry)
    return Prediction(
        logits=logits[torch.from_numpy(np.array(node_idx))], answers=answers, note=note
    )


def _who_may_see(entry: Entry) -> tuple[Answers, str]:
    """Who may see the answers, and why."""
    if entry.mode == "nonprivate":
        return "none", "no privacy"
    if entry.privacy_unit == "edge":
        return "everyone", EDGE_NOTE
    return "own-record", NODE_NOTE

"""Which entries train and answer on a graph whose features and arcs stay on disk."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dpgnn.methods.base import Entry

if TYPE_CHECKING:
    from dpgnn.methods.dp_gnn.options import DPGNNConfig


def why_not(entry: Entry) -> str:
    """Why an entry needs the whole graph in memory; "" where its batches and answers read what they need.

    Args:
        entry: of a study.
    """
    if entry.method not in FORMS:
        return f"{entry.method} reads all features and edges at once"
    return FORMS[entry.method](entry)


def _of_dp_gnn(entry: Entry) -> str:
    config: DPGNNConfig = entry.options
    if entry.privacy_unit == "node-bounded":
        return "the degree of every node is checked against the declared bound"
    if config.module:
        return "a user's module answers about the whole graph at once"
    if config.aggregate_once or config.projection is not None:
        return "features are averaged or projected all at once"
    if entry.mode != "sound" and config.num_hops > 1:
        return "its evaluation joins sampled lists and complete ones"
    return ""


FORMS: dict[str, Callable[[Entry], str]] = {
    "dp_gnn": _of_dp_gnn,
    "dp_mlp": lambda entry: "",
}

"""Who may see the answers of a model, by its method and options alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.methods.base import Fitted
from dpgnn.methods.tensors import ANSWERS_FOR, Shapes
from dpgnn.release.data import graph_of
from dpgnn.release.expected import expected, trained

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.base import Entry, Facts

NODES = 3


def audience(
    entry: Entry, facts: Facts, released: str, tensors: Mapping[str, Tensor]
) -> dict[str, str] | None:
    """What `predict` says of its answers, for a stand-in of the model that has none of its numbers.

    Guarantee: reads method, options, sizes and what the claim releases, and of the tensors only which
    candidate was chosen: no other tensor, no file of an owner and no code of a user decides who may see an
    answer.

    Args:
        entry: private, of any method.
        facts: public ones.
        released: what the plan's first claim releases.
        tensors: that the model releases.

    Returns:
        answers and note, as in a record; None for a method that does not state its tensors.
    """
    entry = _without_module(trained(entry, tensors)[0])
    small = replace(facts, num_nodes=NODES, declared=True)
    found = expected(entry, small, released, {})
    if found is None:
        return None
    fitted = Fitted(state=_ones(found.state), kept=_ones(found.kept))
    graph = graph_of(
        SimpleNamespace(x=np.zeros((NODES, facts.num_features)), edge_index=np.array([[0, 1], [1, 0]])),
        name="stand-in", num_classes=facts.num_classes, several=facts.task == "multilabel",
    )  # fmt: skip
    method = methods.get(entry.method)
    told = method.predict(entry, fitted, method.sees(graph), np.arange(NODES))
    return {"answers": told.answers, "note": told.note}


def _without_module(entry: Entry) -> Entry:
    """The entry with the built-in network in place of a user's; both read the same hops."""
    if not getattr(entry.options, "module", ""):
        return entry
    options: Any = replace(entry.options, module="", module_options=None, module_given="")
    return replace(entry, options=options)


def _ones(shapes: Shapes) -> dict[str, Tensor]:
    """Tensors of these shapes; nobody voted, and answers are for any graph."""
    import torch

    made = {name: torch.ones(shape) for name, shape in shapes.items() if name != ANSWERS_FOR}
    return made | {n: torch.zeros(s, dtype=torch.bool) for n, s in shapes.items() if n == "voters"}

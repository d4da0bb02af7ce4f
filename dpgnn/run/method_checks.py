"""Checks of a method's plan, fit and answers; errors name the method."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.plan import Plan
from dpgnn.core.checks import fail, require

if TYPE_CHECKING:
    import numpy as np

    from dpgnn.methods.base import Entry

# tensors that a private fit may return, by what its claim releases; a method may list more (`Method.state`)
WEIGHTS = ("*.weight", "*.bias")
STATE: Mapping[str, tuple[str, ...]] = {
    "weights": WEIGHTS,
    "weights+predictions": (*WEIGHTS, "logits"),
    "noisy-state": (*WEIGHTS, "noisy_state", "noisy_state.*"),
}
# made from released values and public features and labels
STATE_AT_EDGE_LEVEL = (
    "logits",
    "answers_for",
    "*.running_mean",
    "*.running_var",
    "*.num_batches_tracked",
)
# columns of a release's training curve; none depends on the graph
RELEASED_COLUMNS = ("step", "epsilon")


def check_plan(entry: Entry, plan: Any, epsilon: float) -> None:
    """Check that a plan is one, and that of a private entry claims its unit and relation, within the budget.

    Raises:
        ValueError: no plan; no claim; a first claim of another unit or relation, or above the budget.
    """
    name = f"{entry.method}: plan of {entry.name}"
    require(
        isinstance(plan, Plan), name, "be a Plan", type(plan).__name__, "return one from `plan`"
    )
    if entry.mode == "nonprivate":
        return
    require(
        bool(plan.claims), name, "have a claim", "none", "a private entry states what it protects"
    )
    first = plan.claims[0]
    asked = f"{entry.privacy_unit}, {entry.relation}"
    found = f"{first.privacy_unit}, {first.relation}"
    require(found == asked, f"{name}: first claim", f"be of {asked}", found)
    # published formulas round
    within = first.epsilon <= epsilon * (1 + 1e-9)
    require(within, f"{name}: first claim's epsilon", f"be <= {epsilon:g}", first.epsilon)


def check_fitted(entry: Entry, plan: Plan, fitted: Any) -> None:
    """Check that a fit returned a history of steps, and only tensors that its claim releases.

    Guarantee: the state of a private run has only the tensors in `STATE` (and `Method.state`) for what the
    first claim releases, so nothing kept for the run's own answers gets into the model file.

    Raises:
        ValueError: something else; names the method and the tensor.
    """
    import torch

    from dpgnn.methods.base import Fitted

    name = f"{entry.method}: what fit gives for {entry.name}"
    require(isinstance(fitted, Fitted), name, "be a Fitted", type(fitted).__name__)
    for key, value in fitted.state.items():
        is_tensor = isinstance(value, torch.Tensor)
        require(is_tensor, f"{name}: state {key}", "be a tensor", type(value).__name__)
    if plan.claims:
        check_state(entry, plan.claims[0].released, fitted.state, name)
    for row in fitted.history:
        require("step" in row, f"{name}: rows of history", "have a step", sorted(row))


def check_state(entry: Entry, released: str, state: Mapping[str, Any], name: str) -> None:
    """Check that a state has only tensors that a claim on `released` covers.

    Raises:
        ValueError: another tensor; names it.
    """
    allowed = (*STATE[released], *methods.get(entry.method).state.get(released, ()))
    if entry.privacy_unit == "edge":
        allowed = (*allowed, *STATE_AT_EDGE_LEVEL)
    for key in state:
        is_allowed = any(fnmatchcase(key, pattern) for pattern in allowed)
        rule = f"hold only what a claim on {released} covers: {', '.join(allowed)}"
        remedy = "keep it in the process, or state it in `Method.state` with a proof"
        require(is_allowed, f"{name}: state", rule, key, remedy)


def check_answer(entry: Entry, answer: Any, num_nodes: int, num_classes: int) -> np.ndarray:
    """The logits of an answer as an array, one row for each node asked about.

    Raises:
        ValueError: not a tensor of shape (num_nodes, num_classes); names the method.
    """
    import torch

    name = f"{entry.method}: logits that predict gives for {entry.name}"
    logits = getattr(answer, "logits", None)
    if not isinstance(logits, torch.Tensor):
        fail(
            name, "be a tensor in a Prediction", type(answer if logits is None else logits).__name__
        )
    rule = f"have shape ({num_nodes}, {num_classes}), a row for each node asked about"
    require(tuple(logits.shape) == (num_nodes, num_classes), name, rule, tuple(logits.shape))
    found: np.ndarray = logits.detach().cpu().numpy()
    return found

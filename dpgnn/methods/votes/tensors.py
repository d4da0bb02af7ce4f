"""Tensors of a fit of votes: boards, and the models that read them."""

from __future__ import annotations

from dataclasses import replace

from dpgnn.methods import dp_mlp
from dpgnn.methods.tensors import Shapes, Tensors, Trained, of_network
from dpgnn.methods.votes.plan import as_dp_mlp


def tensors(trained: Trained) -> Tensors:
    """The linear model and its boards; DP-MLP's network where the claim releases no board."""
    from dpgnn.methods.shared.linear import linear_model

    if trained.is_edge:
        return _at_edge_level(trained)
    if trained.released == "weights":
        return dp_mlp.tensors(replace(trained, entry=as_dp_mlp(trained.entry)))
    facts, sizes = trained.facts, trained.sizes
    nodes, classes = facts.num_nodes, facts.num_classes
    found = of_network(linear_model(facts.num_features + 2 * classes + 1, sizes))
    state = found.state | {"board": (nodes, classes), "voters": (nodes,), "scale": ()}
    if trained.entry.options.rounds == 2:
        state |= {"second": (nodes, classes), "shares": (2,)}
    return Tensors(state=state)


def _at_edge_level(trained: Trained) -> Tensors:
    """Base classifiers and their weights, two heads, two boards, and the answers."""
    from dpgnn.methods.votes.edge_head import DIRECT
    from dpgnn.methods.votes.edge_network import Networks

    config, facts = trained.entry.options.edge, trained.facts
    classes, state = facts.num_classes, Shapes({"stack.weight": (len(config.bases),)})
    for number, base in enumerate(config.bases):
        widths = (facts.num_features, *base.hidden, classes)
        found = Networks(widths, (0.0, 0.0), config.num_folds).shapes
        state |= {f"base.{number}.{name}": shape for name, shape in found.items()}
    # log-scores; norm and direction of one sum, or of two
    for head, columns in (("head1", 3 * classes), ("head2", 5 * classes)):
        found = Networks((columns, config.head.hidden, classes), (0.0, 0.0), 1, DIRECT).shapes
        found = found | {"running_mean": (columns,), "running_var": (columns,)}
        state |= {f"{head}.{name}": shape for name, shape in found.items()}
    boards = {f"noisy_state.{number}": (facts.num_nodes, classes) for number in (1, 2)}
    return Tensors(state=state | boards | trained.answers)

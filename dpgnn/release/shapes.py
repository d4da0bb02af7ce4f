"""Names and shapes of the tensors of each method, from its own networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.shared.head_options import HeadConfig
    from dpgnn.models.network import Network

Shapes = dict[str, tuple[int, ...]]
# hash of the graph that released answers are for, and its bytes
HASHED, HASH = "answers_for", (32,)


@dataclass(frozen=True, kw_only=True)
class Expected:
    """Names and shapes of tensors.

    Attributes:
        state: of those that are released.
        kept: of those that stay with the owner; their sizes follow from the nodes of the fit.
    """

    state: Shapes
    kept: Shapes


@dataclass(frozen=True, kw_only=True)
class Fit:
    """What decides the tensors of a fit.

    Attributes:
        entry: that was trained; of no method that chooses among others.
        facts: public ones; num_nodes is the number of rows of tensors with a row a node.
        released: what the first claim releases.
    """

    entry: Entry
    facts: Facts
    released: str

    @property
    def is_edge(self) -> bool:
        """Whether edges alone are protected."""
        return self.entry.privacy_unit == "edge"

    @property
    def rows(self) -> Shapes:
        """Released answers of all nodes, and the hash of the graph that they are for."""
        return {"logits": (self.facts.num_nodes, self.facts.num_classes), HASHED: HASH}

    @property
    def answers(self) -> Shapes:
        """Answers of all nodes that stay with the owner."""
        return {"logits": self.rows["logits"]}


def _network(network: Network) -> Expected:
    return Expected(state=dict(network.shapes), kept={})


def _named(network: Network, stage: str) -> Shapes:
    return {f"{stage}.{name}": shape for name, shape in network.shapes.items()}


def _module(module: nn.Module, prefix: str) -> Shapes:
    return {f"{prefix}{name}": tuple(value.shape) for name, value in module.state_dict().items()}


def _graph(facts: Facts) -> Any:
    """Facts where the sizes of a graph are read."""
    return facts


def _sizes(facts: Facts) -> dict[str, Any]:
    return {name: getattr(facts, name) for name in ("num_features", "num_classes", "task")}


def _dp_mlp(asked: Fit) -> Expected:
    from dpgnn.methods.dp_mlp import network_of

    config = getattr(asked.entry.options, "mlp", asked.entry.options)
    return _network(network_of(config, **_sizes(asked.facts)))


def _dp_linear(asked: Fit, more: int = 1) -> Expected:
    from dpgnn.methods.shared.linear import linear_model

    facts = _graph(asked.facts)
    return _network(linear_model(facts.num_features + more, facts))


def _dp_gnn(asked: Fit) -> Expected:
    from dpgnn.methods.dp_gnn.options import network_of

    return _network(network_of(asked.entry.options, **_sizes(asked.facts)))


def _drw(asked: Fit) -> Expected:
    from dpgnn.methods.drw.fit import network_of
    from dpgnn.methods.drw.options import resolved

    return _network(network_of(resolved(asked.entry), _graph(asked.facts)))


def _dpar(asked: Fit) -> Expected:
    from dpgnn.methods.dpar.fit import network_of
    from dpgnn.methods.dpar.options import resolved

    return _network(network_of(resolved(asked.entry), _graph(asked.facts), hop=False))


def _heterpoisson(asked: Fit) -> Expected:
    from dpgnn.methods.heterpoisson.network import network_of

    return _network(network_of(asked.entry.options, _graph(asked.facts)))


def _votes(asked: Fit) -> Expected:
    """The model and the boards; DP-MLP's network where the plan has no board and its claim none either."""
    from dpgnn.methods.votes.plan import as_dp_mlp

    if asked.is_edge:
        return _votes_edge(asked)
    if asked.released == "weights":
        return _dp_mlp(replace(asked, entry=as_dp_mlp(asked.entry)))
    nodes, classes = asked.facts.num_nodes, asked.facts.num_classes
    found = _dp_linear(asked, 2 * classes + 1)
    state = found.state | {"board": (nodes, classes), "voters": (nodes,), "scale": ()}
    if asked.entry.options.rounds == 2:
        state |= {"second": (nodes, classes), "shares": (2,)}
    return replace(found, state=state)


def _votes_edge(asked: Fit) -> Expected:
    """Base classifiers and their weights, two heads, two boards, and the answers."""
    from dpgnn.methods.votes.edge_head import DIRECT
    from dpgnn.methods.votes.edge_network import Networks

    config, facts, classes = asked.entry.options.edge, asked.facts, asked.facts.num_classes
    state: Shapes = {"stack.weight": (len(config.bases),)}
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
    return Expected(state=state | boards | {"logits": asked.rows["logits"]}, kept={})


def _gap(asked: Fit) -> Expected:
    config = asked.entry.options
    width = _encoded(config.head, asked.facts)
    states = {f"noisy_state.{hop}": width for hop in range(1, config.num_hops + 1)}
    return _on_channels(asked, [width, *states.values()], states)


def _caribou(asked: Fit) -> Expected:
    from dpgnn.methods.caribou.options import is_released_code

    config, facts = asked.entry.options, asked.facts
    if is_released_code(asked.entry):
        return _caribou_as_released(asked)
    width = _encoded(config.head, facts)
    found = _on_channels(asked, [width, width], {"noisy_state": width})
    if not asked.is_edge and config.release == "noisy-state":
        return replace(found, state=found.state | {"noisy_state": (facts.num_nodes, width)})
    return found


def _caribou_as_released(asked: Fit) -> Expected:
    """A head alone, trained without noise; at node level its statistics of rows stay with the owner."""
    head = _head(asked.entry.options.head, [asked.facts.num_features], asked.facts)
    if asked.is_edge:
        return Expected(state=head | asked.rows, kept={})
    released = {name: s for name, s in head.items() if name.endswith((".weight", ".bias"))}
    rest = {name: shape for name, shape in head.items() if name not in released}
    return Expected(state=released, kept=rest | asked.answers)


def _dpdgc(asked: Fit) -> Expected:
    config, facts = asked.entry.options.head, asked.facts
    weights = {"encoder.weight": (facts.num_nodes, config.hidden)}
    channels = [facts.num_features, config.hidden]
    if asked.is_edge:
        sums = {"noisy_state": (facts.num_nodes, config.hidden)}
        state = weights | sums | _head(config, channels, facts) | asked.rows
        return Expected(state=state, kept={})
    return Expected(state=weights | _private_head(config, sum(channels), facts), kept=asked.answers)


def _on_channels(asked: Fit, channels: Sequence[int], states: Mapping[str, int]) -> Expected:
    """Encoder and head on channels of these widths, and at edge level the noisy states and the answers."""
    from dpgnn.methods.shared.head_private import perceptron
    from dpgnn.methods.shared.head_training import encoder_of

    config, facts = asked.entry.options.head, asked.facts
    sizes = _graph(facts)
    layers, encoder = config.encoder_layers, Shapes()
    if asked.is_edge:
        if layers:
            encoder = _module(encoder_of(config, sizes), "encoder.")
        noisy = {name: (facts.num_nodes, width) for name, width in states.items()}
        head = _head(config, channels, facts)
        return Expected(state=encoder | noisy | head | asked.rows, kept={})
    if layers:
        encoder = _named(perceptron(config, sizes, facts.num_features, layers), "encoder")
    head = _private_head(config, sum(channels), facts)
    return Expected(state=encoder | head, kept=asked.answers)


def _encoded(config: HeadConfig, facts: Facts) -> int:
    """Columns of the encoder's rows."""
    return config.hidden if config.encoder_layers else facts.num_features


def _head(config: HeadConfig, channels: Sequence[int], facts: Facts) -> Shapes:
    from dpgnn.methods.shared.head_training import head_of

    return _module(head_of(config, channels, facts.num_classes), "head.")


def _private_head(config: HeadConfig, width: int, facts: Facts) -> Shapes:
    from dpgnn.methods.shared.head_private import perceptron

    network = perceptron(config, _graph(facts), width, config.base_layers)
    return _named(network, "head")


def _progap(asked: Fit) -> Expected:
    """Base modules as they were after their own stage and after the last one, and the last head."""
    from dpgnn.methods.progap.node_model import stage_network

    config, sizes = asked.entry.options, _graph(asked.facts)
    widths = [sizes.num_features, *[config.hidden] * config.num_hops]
    if asked.is_edge:
        return _progap_edge(asked, widths)
    shapes = stage_network(config, widths, sizes).shapes
    state = {f"last.{name}": shape for name, shape in shapes.items()}
    for stage in range(config.num_hops):
        own = {name: s for name, s in shapes.items() if name.startswith(f"base.{stage}.")}
        state |= {f"sent.{stage}.{name}": shape for name, shape in own.items()}
    return Expected(state=state, kept=asked.answers)


def _progap_edge(asked: Fit, widths: Sequence[int]) -> Expected:
    import torch

    from dpgnn.methods.progap.stage_model import Base
    from dpgnn.methods.shared.head_model import Stack

    config, facts, state = asked.entry.options, asked.facts, Shapes()
    plain: Any = {"batch_norm": config.batch_norm, "dropout": 0.0, "generator": torch.Generator()}
    for stage, width in enumerate(widths):
        base = Base(width, config.hidden, config.base_layers, **plain)
        state |= _module(base, f"last.base.{stage}.")
        if stage < config.num_hops:
            state |= _module(base, f"sent.{stage}.")
            state[f"noisy_state.{stage + 1}"] = (facts.num_nodes, config.hidden)
    joined = config.hidden * len(widths)
    head = [joined, *[config.hidden] * (config.head_layers - 1), facts.num_classes]
    return Expected(state=state | _module(Stack(head, **plain), "last.head.") | asked.rows, kept={})


def _gcn(asked: Fit) -> Expected:
    """Of methods that perturb the graph and train a GCN on it."""
    import torch

    from dpgnn.models.gcn import GCN

    facts = asked.facts
    sizes = facts.num_features, asked.entry.options.gcn.hidden, facts.num_classes
    model = GCN(*sizes, dropout=0.0, generator=torch.Generator())
    return Expected(state=_module(model, "") | asked.rows, kept={})


def _pertgraph(asked: Fit) -> Expected:
    import torch

    from dpgnn.methods.pertgraph.network import SumSage

    config, sizes = asked.entry.options, _graph(asked.facts)
    model = SumSage(config, sizes, dropout=0.0, generator=torch.Generator())
    return Expected(state=_module(model, "") | asked.rows, kept={})


def _lpgnet(asked: Fit) -> Expected:
    """A perceptron for each hop, on all logits and noisy degrees before it."""
    from dpgnn.methods.lpgnet.fit import model_of

    config, facts, state = asked.entry.options, asked.facts, Shapes()
    for hop in range(config.num_hops + 1):
        width = 2 * hop * facts.num_classes if hop else facts.num_features
        state |= _module(model_of(width, _graph(facts), config), f"mlp.{hop}.")
        if hop:
            state[f"noisy_state.{hop}"] = (facts.num_nodes, facts.num_classes)
    return Expected(state=state | asked.rows, kept={})


TENSORS: Mapping[str, Callable[[Fit], Expected]] = {
    "caribou": _caribou,
    "dp_gnn": _dp_gnn,
    "dp_linear": _dp_linear,
    "dp_mlp": _dp_mlp,
    "dp_mlp_smooth": _dp_mlp,
    "dpar": _dpar,
    "dpdgc": _dpdgc,
    "drw": _drw,
    "edgerand": _gcn,
    "gap": _gap,
    "heterpoisson": _heterpoisson,
    "lapgraph": _gcn,
    "lpgnet": _lpgnet,
    "pertgraph": _pertgraph,
    "progap": _progap,
    "votes": _votes,
}

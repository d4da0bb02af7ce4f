"""What a fit leaves: names and shapes of its tensors, stated by each method from its own networks.

A bundle is compared with them, so that a tensor of another name or shape is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn

    from dpgnn.methods.entry import Entry, Facts
    from dpgnn.models.network import Network

Shapes = dict[str, tuple[int, ...]]
# hash of the graph that released answers are for: 32 bytes
ANSWERS_FOR, HASH = "answers_for", (32,)


@dataclass(frozen=True, kw_only=True)
class Tensors:
    """Names and shapes of tensors.

    Attributes:
        state: of those that are released.
        kept: of those that stay with the owner.
    """

    state: Shapes
    kept: Shapes = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trained:
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
    def sizes(self) -> Any:
        """The facts, where a network reads the sizes of a graph."""
        return self.facts

    @property
    def answers(self) -> Shapes:
        """Answers of all nodes."""
        return {"logits": (self.facts.num_nodes, self.facts.num_classes)}

    @property
    def released_answers(self) -> Shapes:
        """Answers of all nodes, and the hash of the graph that they are for."""
        return self.answers | {ANSWERS_FOR: HASH}


# None: of a network that is a user's own code
States = Callable[[Trained], Tensors | None]


def of_network(network: Network) -> Tensors:
    """The weights of a network, all of them released."""
    return Tensors(state=dict(network.shapes))


def named(network: Network, stage: str) -> Shapes:
    """The weights of a network that is one of several."""
    return {f"{stage}.{name}": shape for name, shape in network.shapes.items()}


def of_module(module: nn.Module, prefix: str = "") -> Shapes:
    """Parameters and buffers of a module."""
    return {f"{prefix}{name}": tuple(value.shape) for name, value in module.state_dict().items()}

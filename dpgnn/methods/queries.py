"""A method's statements on its fitted models: how they answer, and what an attack may use.

If answers have noise, a query says which: frozen noise repeats the draws of the run, as if one noisy object
answered every query (like a perturbed graph, or an aggregation with a fixed seed); fresh noise is a new
release, with the cost of the run's mechanism.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from dpgnn.accountants.plan import Plan
from dpgnn.core.randomness import FreshSecrets, Streams
from dpgnn.methods.entry import Entry, Prepared

if TYPE_CHECKING:
    import numpy as np
    import scipy.sparse as sp
    from torch import Tensor

    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.shared.aggregate import Draw
    from dpgnn.methods.shared.layers import Layers

# none: answers read no noise; answers: every query passes through noise over the private edges; release: the
# noise lies on rows that read no feature, so a query does not ask for it again
NoiseIn = Literal["none", "answers", "release"]
AGGREGATE = "aggregate"


@dataclass(frozen=True, kw_only=True, eq=False)
class FittedRun:
    """A fitted model with the data for further queries; as sensitive as the graph.

    Attributes:
        entry: of the fit.
        state: its tensors, as in `model.safetensors`.
        kept: what its answers read besides, as the fit left it in the process.
        graph: the graph of the fit, edges of the setting.
        split: of the fit.
        prepared: its prepared sample, or None.
        plan: of the run.
        streams: of the run; frozen noise repeats its draws.
        leaks: as the method states them.
    """

    entry: Entry
    state: Mapping[str, Tensor]
    graph: Graph
    split: Split
    prepared: Prepared | None
    plan: Plan
    streams: Streams
    leaks: Leaks
    kept: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def noise_stddev(self) -> float:
        """Noise of the planned mechanism `aggregate`; 0 without privacy."""
        return self.plan.mechanism(AGGREGATE).noise_stddev if self.plan.mechanisms else 0.0

    @cached_property
    def noisy_edges(self) -> sp.csr_array:
        """The perturbed adjacency of the run, for methods that release one."""
        assert self.leaks.noisy_edges is not None
        return self.leaks.noisy_edges(self, self.graph, self.streams)

    def fresh(self, number: int) -> Streams:
        """Streams of query `number`: its own noise, otherwise as in the run."""
        root = self.streams.root_seed
        secret = number if number != root else root + 2**32
        return FreshSecrets(root_seed=root, axes=self.streams.axes, secret_seed=secret)

    def part(self, prefix: str) -> dict[str, Tensor]:
        """The tensors whose names start with `prefix`, with the prefix removed."""
        found = {**self.kept, **self.state}
        return {k.removeprefix(prefix): v for k, v in found.items() if k.startswith(prefix)}


@dataclass(frozen=True, kw_only=True, eq=False)
class Query:
    """A query of a fitted model: all answers on a graph.

    Attributes:
        graph: features and edges of the query.
        streams: of the noise.
        frozen: whether they are the run's own.
        prepared: the prepared sample of `graph`, if answers read one.
    """

    graph: Graph
    streams: Streams
    frozen: bool
    prepared: Prepared | None


@dataclass(frozen=True, kw_only=True)
class Queries:
    """How the models of a method answer; `Queries()`: through `predict`, about any graph, without noise.

    Attributes:
        noise: entry -> kind of noise in the answers.
        why_not_other_features: entry -> why they cannot be queried with other features; "" if they can.
        why_not_other_graph: entry -> why they cannot be queried on other nodes; "" if they can.
        answer: (run, query) -> logits, shape (num_nodes, num_classes); None: by the method's `predict`.
        covered: whether an edge-level claim covers frozen answers on other features, because they are
            post-processing of a single release.
        reads_sample: entry -> whether answers read a prepared sample of the query's graph.
        reads_kept: entry -> whether answers read what a fit keeps in the process, so that a stored model is
            not enough.
        disjoint: whether answers in unconnected parts of a graph are independent of each other.
        layers: run -> the model as sparse products and row-wise layers; if None, each query takes its own
            pass.
        why_not_layers: entry -> why `layers` does not apply to it; "" if it does.
    """

    noise: Callable[[Entry], NoiseIn] = lambda entry: "none"
    why_not_other_features: Callable[[Entry], str] = lambda entry: ""
    why_not_other_graph: Callable[[Entry], str] = lambda entry: ""
    answer: Callable[[FittedRun, Query], Tensor] | None = None
    covered: bool = False
    reads_sample: Callable[[Entry], bool] = lambda entry: False
    reads_kept: Callable[[Entry], bool] = lambda entry: False
    disjoint: bool = False
    layers: Callable[[FittedRun], Layers] | None = None
    why_not_layers: Callable[[Entry], str] = lambda entry: ""


@dataclass(frozen=True, kw_only=True)
class Leaks:
    """Data for attacks on specific kinds of release; None if the method has no such release.

    Attributes:
        noisy_edges: (run, graph, streams) -> the perturbed adjacency, released once: 0/1 CSR.
        noisy_rows: run -> (released noisy rows, the public rows they are sums of).
        why_not_rows: entry -> why these are not attacked; "" if they are.
        last_row: (run, graph, node) -> (draw -> the node's last row of an iteration over private edges, minus
            its public residual).
        why_not_last_row: entry -> why its last layer is not attacked as noise-free; "" if it is.
        without_other_leaks: entry -> a variant whose only leak is the sampler that counts readers.
        why_not_sampler: entry -> why that sampler is not attacked; "" if it is.
        board: (run, graph, ids of voters) -> (draw -> the released board of votes); None without a board.
    """

    noisy_edges: Callable[[FittedRun, Graph, Streams], sp.csr_array] | None = None
    noisy_rows: Callable[[FittedRun], tuple[np.ndarray, np.ndarray]] | None = None
    why_not_rows: Callable[[Entry], str] = lambda entry: ""
    last_row: Callable[[FittedRun, Graph, int], Callable[[Draw], np.ndarray]] | None = None
    why_not_last_row: Callable[[Entry], str] = lambda entry: ""
    without_other_leaks: Callable[[Entry], Entry] | None = None
    why_not_sampler: Callable[[Entry], str] = lambda entry: ""
    board: Callable[[FittedRun, Graph, np.ndarray], Callable[[Draw], np.ndarray] | None] | None = (
        None
    )


def at_node_level(entry: Entry) -> bool:
    """Whether features are private besides edges, so that rows stay in the run."""
    return entry.mode != "nonprivate" and entry.privacy_unit != "edge"

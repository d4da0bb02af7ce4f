"""The stages of a run: trained one after another, or read back from a state, for queries."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from dpgnn.methods.progap import node_model
from dpgnn.methods.progap.plan import stage_name
from dpgnn.methods.progap.stage_model import Base, StageModel
from dpgnn.methods.shared.head_model import Stack
from dpgnn.methods.shared.private_training import run_dp_sgd
from dpgnn.models.forward import full_graph_logits
from dpgnn.models.inputs import SparseRows, as_input
from dpgnn.models.trees import lone_roots
from dpgnn.training.nonprivate import train_on_rows

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context
    from dpgnn.methods.progap.options import ProgapConfig

# rows with a larger share of non-zero entries are multiplied faster as dense ones
DENSE_SHARE = 0.05

State = dict[str, Tensor]


class Stages(Protocol):
    """K + 1 stages; `channels` are x_0 and the noisy sums so far, of all nodes."""

    history: list[Mapping[str, Any]]

    def train(self, stage: int, channels: Sequence[Any]) -> None:
        """Train a stage on the first stage + 1 channels."""

    def embed(self, stage: int, rows: Any) -> np.ndarray:
        """The embedding of its channel by the stage's own base module: float64, shape (num_nodes, hidden)."""

    def logits(self, channels: Sequence[Any]) -> Tensor:
        """Answers of the last stage to all nodes, float32."""

    def state(self) -> State:
        """The weights that `embed` and `logits` read."""

    def double(self) -> Self:
        """Compute in float64 from now on; returns itself."""


def dense_or_sparse(x: Any) -> Any:
    """Features in the faster form for products: dense float32 if they are not sparse enough."""
    if isinstance(x, np.ndarray):
        return x
    return x.toarray() if x.nnz > DENSE_SHARE * x.shape[0] * x.shape[1] else x


class EdgeStages:
    """Stages trained without noise on public features and labels and on released sums.

    Args:
        config: public options.
        graph: features, labels and sizes; no edge is read.
        state: weights to load; None if they are to be trained.
        split, context: for training.
    """

    def __init__(
        self,
        config: ProgapConfig,
        graph: Graph,
        *,
        state: Mapping[str, Tensor] | None = None,
        split: Split | None = None,
        context: Context | None = None,
    ) -> None:
        self.config, self.graph, self.split, self.context = config, graph, split, context
        self.history: list[Mapping[str, Any]] = []
        self.sent: list[Base] = []  # base module of stage i after stage i
        self.bases: list[Base] = []  # after the last stage
        self.head: Stack | None = None
        self.dtype: type = np.float32
        if state is not None:
            self._read(state)

    def train(self, stage: int, channels: Sequence[Any]) -> None:
        """See `Stages.train`."""
        assert self.split is not None
        assert self.context is not None
        config, streams = self.config, self.context.streams
        generator = streams.torch("weights", stage=stage_name(stage))
        own = self._base(_width(channels[stage]), generator, config.dropout)
        head = self._head(stage, generator, config.dropout)
        frozen = stage if config.layerwise else 0
        trained = [own] if config.layerwise else [*map(copy.deepcopy, self.bases), own]
        model = StageModel(trained, head, frozen=frozen)
        rows = self._inputs(channels, frozen)
        train, val = (
            ([_at(channel, nodes) for channel in rows], torch.from_numpy(self.graph.y[nodes]))
            for nodes in (self.split.train_idx, self.split.val_idx)
        )
        kept, history = train_on_rows(
            model, model, [train], val, config.training, task=self.graph.task,
            generator=streams.torch("dropout", stage=stage_name(stage)),
            progress=self.context.progress(config.training.num_epochs, stage_name(stage)),
        )  # fmt: skip
        model.load_state_dict(kept)
        model.eval()
        self.bases = [*self.bases[:frozen], *trained]
        self.head = head
        self.sent.append(copy.deepcopy(own))
        self.history += [{**row, "stage": stage} for row in history]

    def embed(self, stage: int, rows: Any) -> np.ndarray:
        """See `Stages.embed`."""
        return self._embedding(self.sent[stage], rows).astype(np.float64)

    def logits(self, channels: Sequence[Any]) -> Tensor:
        """See `Stages.logits`."""
        assert self.head is not None
        model = StageModel(self.bases, self.head).eval()
        with torch.no_grad():
            found: Tensor = model([self._input(channel) for channel in channels])
        return found

    def state(self) -> State:
        """See `Stages.state`."""
        assert self.head is not None
        named = {f"sent.{i}": base for i, base in enumerate(self.sent[:-1])}
        named |= {f"last.base.{i}": base for i, base in enumerate(self.bases)}
        found = {
            f"{place}.{name}": value
            for place, module in named.items()
            for name, value in module.state_dict().items()
        }
        return found | {f"last.head.{n}": v for n, v in self.head.state_dict().items()}

    def _read(self, state: Mapping[str, Tensor]) -> None:
        def part(prefix: str) -> State:
            return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}

        hidden = self.config.hidden
        for stage in range(self.config.num_hops + 1):
            width = hidden if stage else self.graph.num_features
            places = [(self.bases, f"last.base.{stage}.")]
            if stage < self.config.num_hops:
                places.append((self.sent, f"sent.{stage}."))
            for kept, prefix in places:
                base = self._base(width, torch.Generator(), 0.0)
                base.load_state_dict(part(prefix))
                kept.append(base.eval())
        self.head = self._head(self.config.num_hops, torch.Generator(), 0.0)
        self.head.load_state_dict(part("last.head."))
        self.head.eval()

    def _base(self, width: int, generator: torch.Generator, dropout: float) -> Base:
        config = self.config
        return Base(
            width, config.hidden, config.base_layers, batch_norm=config.batch_norm,
            dropout=dropout, generator=generator,
        )  # fmt: skip

    def _head(self, stage: int, generator: torch.Generator, dropout: float) -> Stack:
        config = self.config
        widths = [
            config.hidden * (stage + 1), *[config.hidden] * (config.head_layers - 1),
            self.graph.num_classes,
        ]  # fmt: skip
        return Stack(widths, batch_norm=config.batch_norm, dropout=dropout, generator=generator)

    def _inputs(self, channels: Sequence[Any], frozen: int) -> list[Any]:
        """The stage's training channels, with those of frozen bases as embeddings."""
        made = [self._embedding(self.sent[i], channels[i]) for i in range(frozen)]
        return [*made, *(_float32(channel) for channel in channels[frozen:])]

    def double(self) -> Self:
        """See `Stages.double`."""
        self.dtype = np.float64
        for module in (*self.sent, *self.bases, self.head):
            assert module is not None
            module.double()
        return self

    def _input(self, rows: Any) -> Any:
        if self.dtype is np.float32:
            return as_input(_float32(rows))
        return torch.from_numpy(np.asarray(rows, dtype=np.float64))

    def _embedding(self, base: Base, rows: Any) -> np.ndarray:
        with torch.no_grad():
            return np.asarray(base.eval()(self._input(rows)).numpy())


class NodeStages:
    """Stages trained by planned DP-SGD mechanisms; each training node is one root of each.

    Guarantee: in a release a row's embedding is a function of that row and of released weights, to the last
    bit.

    Args:
        as for `EdgeStages`; `delta` is that of the history's epsilon.
    """

    def __init__(
        self,
        config: ProgapConfig,
        graph: Graph,
        *,
        state: Mapping[str, Tensor] | None = None,
        split: Split | None = None,
        context: Context | None = None,
        delta: float = 0.0,
    ) -> None:
        self.config, self.graph, self.split, self.context = config, graph, split, context
        self.history: list[Mapping[str, Any]] = []
        self.delta = delta
        self.sent: list[State] = []
        self.last: State = {}
        self.dtype: type = np.float32
        if state is not None:
            self.last, self.sent = _node_state(state, config.num_hops)

    def train(self, stage: int, channels: Sequence[Any]) -> None:
        """See `Stages.train`.

        Guarantee: the weights are the release of the mechanism of that stage.
        """
        assert self.split is not None
        assert self.context is not None
        config, train = self.config, self.split.train_idx
        frozen = stage if config.layerwise else 0
        rows = [_dense(channel[train]) for channel in channels]
        rows = [*(self._embedding(i, rows[i]) for i in range(frozen)), *rows[frozen:]]
        network = node_model.stage_network(
            config, [part.shape[1] for part in rows], self.graph, frozen=frozen
        )

        def warm_start(flat: Tensor) -> None:
            for name, view in network.views(flat).items():
                if name.startswith("base.") and name in self.last:
                    view.copy_(self.last[name])

        weights, history = run_dp_sgd(
            network,
            _joined(rows, np.float32),
            lone_roots(np.arange(len(train)), self.graph.y[train]),
            config.node.stage.optimizer,
            self.context,
            delta=self.delta,
            mechanism_name=stage_name(stage),
            prepare=warm_start,
        )
        kept = {n: v for n, v in self.last.items() if n.startswith("base.")} if frozen else {}
        self.last = kept | weights
        self.sent.append({n: v for n, v in weights.items() if n.startswith(f"base.{stage}.")})
        self.history += [{**row, "stage": stage} for row in history]

    def embed(self, stage: int, rows: Any) -> np.ndarray:
        """See `Stages.embed`."""
        return self._embedding(stage, _dense(rows)).astype(np.float64)

    def logits(self, channels: Sequence[Any]) -> Tensor:
        """See `Stages.logits`."""
        network = node_model.stage_network(
            self.config, [channel.shape[1] for channel in channels], self.graph
        )
        return full_graph_logits(network, self.last, _joined(channels, self.dtype), None)

    def state(self) -> State:
        """See `Stages.state`."""
        found = {f"last.{name}": value for name, value in self.last.items()}
        for stage, weights in enumerate(self.sent[:-1]):
            found |= {f"sent.{stage}.{name}": value for name, value in weights.items()}
        return found

    def double(self) -> Self:
        """See `Stages.double`."""
        self.dtype = np.float64
        self.last = {name: value.double() for name, value in self.last.items()}
        self.sent = [{name: v.double() for name, v in weights.items()} for weights in self.sent]
        return self

    def _embedding(self, stage: int, rows: np.ndarray) -> np.ndarray:
        rows, weights = rows.astype(self.dtype), self.sent[stage]
        if self.context is not None and self.context.streams.is_secret("noise"):
            return node_model.embedded_by_rows(self.config, stage, weights, rows)
        with torch.no_grad():
            found = node_model.embedded(self.config, stage, weights, torch.from_numpy(rows))
        return np.asarray(found.numpy())


def _node_state(state: Mapping[str, Tensor], num_hops: int) -> tuple[State, list[State]]:
    def part(prefix: str) -> State:
        return {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}

    return part("last."), [part(f"sent.{stage}.") for stage in range(num_hops)]


def _width(channel: Any) -> int:
    return int(channel.shape[1])


def _dense(rows: Any) -> np.ndarray:
    return np.asarray(rows if isinstance(rows, np.ndarray) else rows.toarray())


def _joined(channels: Sequence[Any], dtype: type) -> np.ndarray:
    """All channels side by side; no matrix of them in another type is held beside it."""
    rows = [_dense(channel) for channel in channels]
    return np.concatenate(rows, axis=1, dtype=dtype, casting="same_kind")


def _float32(channel: Any) -> Any:
    return channel.astype(np.float32, copy=False)


def _at(channel: Any, nodes: np.ndarray) -> Any:
    """Rows of some nodes as a model input."""
    rows = channel[nodes]
    assert not isinstance(rows, SparseRows)
    return as_input(rows)

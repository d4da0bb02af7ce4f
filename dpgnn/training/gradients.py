"""Clipped sums of per-root gradients over a batch: the one entry to the clipping engine."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import at_least, one_of, require
from dpgnn.data.stored import StoredRows
from dpgnn.models.forward import to_torch
from dpgnn.models.modules import ModuleNetwork
from dpgnn.models.network import Linear, Network
from dpgnn.models.trees import Trees
from dpgnn.training import compiled, ghost
from dpgnn.training.chunks import chunk_layout, chunks_of
from dpgnn.training.clipping import Clipping, Per, uniform_clipping
from dpgnn.training.gpu.steps import ResidentSteps, check_precision
from dpgnn.training.modules.engine import ModuleEngine
from dpgnn.training.modules.masks import Masks, draws_kept
from dpgnn.training.rounding import ROWS_OF_A_PRODUCT, SPREAD_SHARE

Path = Literal["auto", "compiled", "autograd", "torch"]
# rows of trees at once when norms are computed; fixed, so that they do not depend on the path
NORM_ROWS = 4096
# and with dropout, whose masks are drawn by chunks, so that they depend on neither device nor memory
DROPOUT_ROWS = 2560
# enough to keep a GPU busy
GPU_ROWS = 2**17


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Settings of speed: they change rounding at most, never the mechanism.

    Attributes:
        device: "cpu", "cuda", "cuda:1".
        dtype: "float32" or "float64"; half precision is refused, since its norms would not be bounds.
        chunk_rows: rows of trees processed at once; None chooses by the device and its free memory. With
            dropout, whose masks are drawn by chunks, chunks always have `DROPOUT_ROWS` rows.
        path: compiled (CPU loops), autograd (any network on the CPU, compiled norms), torch (torch alone,
            any device), auto (the first of these that is possible). For a user's module, `modules.choice`
            chooses among other ways.
    """

    device: str = "cpu"
    dtype: Literal["float32", "float64"] = "float32"
    chunk_rows: int | None = None
    path: Path = "auto"

    def __post_init__(self) -> None:
        one_of("dtype", self.dtype, ("float32", "float64"))
        one_of("path", self.path, ("auto", "compiled", "autograd", "torch"))
        if self.chunk_rows is not None:
            at_least("chunk_rows", self.chunk_rows, 1)

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype as torch's."""
        return torch.float64 if self.dtype == "float64" else torch.float32


class RootGradients:
    """Sums of clipped per-root gradients of a network over the roots of some trees.

    Guarantee: for fixed parameters the sum over a batch is a sum of one term per root, each term a function
    of that root's tree, features and label alone, of norm at most `clipping.total_norm` (0 if a value is not
    finite). Chunks, path and device change rounding only.

    Args:
        network: the network.
        x: features, dense float32 array, scipy CSR or rows in a file, shape (num_nodes, num_features).
        trees: trees of all roots; labels of all of them must be known.
        clipping: bounds; None sums plain gradients (no privacy).
        execution: speed settings.
        dropout: applied to the input of every linear layer, see `ghost.layer_rows`; not on the compiled path.
        masks: of dropout in a user's module, from a named stream.

    Attributes:
        track_loss: keep the loss of the last batch, for the progress line of studies; off by default.

    Raises:
        ValueError: depths or labels do not match, or the path cannot run the network.
    """

    _norm_rows = NORM_ROWS
    # bool, shape (num_roots,): trees that fit into one product; None outside a release
    _is_small: np.ndarray | None = None

    def __init__(
        self,
        network: Network,
        x: Any,
        trees: Trees,
        *,
        clipping: Clipping | None,
        execution: Execution | None = None,
        dropout: ghost.Dropout | None = None,
        masks: Masks | None = None,
    ) -> None:
        execution = execution or Execution()
        _check(network, x, trees)
        self.network, self.trees = network, trees
        self.clip(clipping)
        self.execution, self.device = execution, torch.device(execution.device)
        if self.device.type == "cuda":
            check_precision()
        self.dropout, self.masks = dropout, masks
        self.path = _choose_path(network, execution, with_dropout=dropout is not None)
        self._norms = ghost.compiled_norms if self.path == "autograd" else ghost.root_norms
        chosen = execution.chunk_rows if dropout is None else DROPOUT_ROWS
        self.chunk_rows = chosen or _default_chunk_rows(self.path, network, self.device)
        self.track_loss, self._count, self._spread_share = False, 0, 0.0
        dtype = execution.torch_dtype
        self._sum_in(dtype)
        self._resident: ResidentSteps | None = None
        plain = self.path == "torch" and dropout is None and trees.num_roots > 0
        if self.device.type == "cuda" and plain and not isinstance(x, StoredRows):
            self._resident = ResidentSteps(
                network, x if isinstance(x, np.ndarray) else _sorted(x), trees, dtype, self.device
            )
        self._x = self._features(x)
        self._y = torch.from_numpy(trees.y).to(self.device)
        if isinstance(network, ModuleNetwork):
            self.module = self._module_engine(network, trees)
            if self.module.choice.draws:
                self.dropout = lambda rows: rows  # set if gradients depend on masks
        if self.path == "compiled":
            self._engine = _compiled_engine(network, x, trees, dtype)

    def _module_engine(self, network: ModuleNetwork, trees: Trees) -> ModuleEngine:
        """The engine of a user's module, which is tested in chunks of this run's size."""
        return ModuleEngine(
            network, trees, self._rows, self._y, self.device, self.execution.torch_dtype, self.masks,
            max_rows=max(self.chunk_rows, NORM_ROWS),
        )  # fmt: skip

    def __call__(self, parameters: Tensor, roots: np.ndarray) -> Tensor:
        """The clipped sum over `roots`.

        Args:
            parameters: flat, shape (num_parameters,), on the execution's device and dtype.
            roots: int64 positions among the trees' roots; may be empty.

        Returns:
            flat, shape (num_parameters,), of the execution's dtype, float64 in a release; overwritten by the
            next call; sensitive until noise is added.
        """
        self._sum.zero_()
        self._loss, self._count = torch.zeros((), device=self.device), len(roots)
        roots = np.ascontiguousarray(roots, dtype=np.int64)
        roots = roots if self._is_small is None else roots[self._is_small[roots]]
        named = self.network.views(parameters.detach())
        if self._resident is not None:
            self._loss = self._resident.add(
                parameters.detach(), roots, self._sum, self.parts, chunk_rows=self.chunk_rows,
                spread_share=self._spread_share, by_itself=partial(self._add_chunk, named),
            )  # fmt: skip
            return self._sum
        with self._kept():
            for chunk in chunks_of(self.trees, roots, self.chunk_rows):
                loss = self._add_chunk(named, chunk)
                if self.track_loss and loss is not None:
                    self._loss += loss
        return self._sum

    def _kept(self) -> AbstractContextManager[None]:
        """Puts the global generators back, from which a user's module may draw."""
        return draws_kept() if self.path == "module" else nullcontext()

    def _add_chunk(self, named: Mapping[str, Tensor], chunk: np.ndarray) -> Tensor | None:
        """Add the terms of a chunk's roots; return their summed loss if it is computed."""
        if self.path == "compiled":
            with torch.no_grad():
                return self._engine.add_clipped_sum(
                    named, chunk, self.parts, self._views, with_loss=self.track_loss,
                    spread_share=self._spread_share,
                )  # fmt: skip
        if self.path == "module":
            return self.module.add_clipped_sum(
                named, chunk, self.parts, self._views, self._spread_share
            )
        layout = chunk_layout(*self.trees.of(chunk), self.device)
        y = self._y[torch.from_numpy(chunk).to(self.device)]
        x = self._rows(layout.node)
        return ghost.add_clipped_sum(
            self.network, named, layout, x, y, self.parts, self._views, self.dropout,
            self._norms, self._spread_share,
        )  # fmt: skip

    def _features(self, x: Any) -> Any:
        """The features that `_rows` reads; dense ones are copied to the device once."""
        if not isinstance(x, np.ndarray):
            return x
        if self._resident is not None and self._resident.features.dense is not None:
            return self._resident.features.dense
        return to_torch(x, self.device, self.network)

    def sum_for_release(self) -> None:
        """Sum in float64 from now on, so that `rounding.rounding_share` bounds the rounding.

        On a CPU the term of a root is also bitwise independent of the other roots: the compiled path works
        row by row, the others (attention, a user's module) process one root at a time. A user's module gets
        one tree at a time on every device, so no term can read another root's tree. The norm of a term is
        still at most `clipping.total_norm`; a root whose rows nearly cancel is clipped more. Norms of
        `part_norms` are independent in the same way.

        A root whose tree has more than `ROWS_OF_A_PRODUCT` rows (of a user's module: rows and edges), or on
        which a user's module fails, adds nothing: its term is 0 by a public rule, so no record decides
        whether there is a release. `max_list_size` or fewer hops keep trees small.
        """
        rows = np.diff(self.trees.row_ptr)
        if self.path == "module":
            # products over edges and nodes together
            rows = rows + np.diff(self.trees.entry_ptr[self.trees.row_ptr])
            self.module.of_release = True
            with self._kept():
                self.module.try_out()
        self._is_small = rows <= ROWS_OF_A_PRODUCT
        self.chunk_rows = min(self.chunk_rows, ROWS_OF_A_PRODUCT)
        self._spread_share = SPREAD_SHARE
        if self.path == "compiled":
            self._engine.by_rows = True
        elif self.path == "module" or self.device.type == "cpu":
            # rounding in a library's product may depend on its number of rows, so no two roots share one
            self.chunk_rows = 1
            self._norm_rows = 1
        self._sum_in(torch.float64)

    def _sum_in(self, dtype: torch.dtype) -> None:
        self._sum = torch.zeros(self.network.num_parameters, dtype=dtype, device=self.device)
        self._views = self.network.views(self._sum)

    def clip(self, clipping: Clipping | None) -> None:
        """Use these bounds from now on; None sums plain gradients (no privacy)."""
        self.clipping = clipping
        self.parts = None if clipping is None else clipping.parts(self.network)

    def stated(self) -> dict[str, Any]:
        """For the record: how gradients of a user's module are computed; {} for other networks."""
        if not isinstance(self.network, ModuleNetwork):
            return {}
        choice = self.module.choice
        return {"module": {"name": self.network.name, "way": choice.way, "why": choice.why}}

    def part_norms(self, parameters: Tensor, roots: np.ndarray, per: Per) -> np.ndarray:
        """Norms of the parts of per-root gradients before clipping.

        Guarantee: in a release on a CPU a root's norms are a function of its own tree, to the last bit.

        Args:
            parameters: flat, shape (num_parameters,), on the execution's device and dtype.
            roots: int64 positions among the trees' roots.
            per: how tensors form parts; parts are in the order of `Clipping.parts`.

        Returns:
            float64, shape (num_parts, num_roots); upper bounds also with rounding; sensitive.
        """
        part_of, bounds = uniform_clipping(self.network, per, 1.0).parts(self.network)
        named, found = self.network.views(parameters.detach()), []
        with self._kept():
            for chunk in chunks_of(
                self.trees, np.ascontiguousarray(roots, np.int64), self._norm_rows
            ):
                total = np.zeros((len(bounds), len(chunk)))
                np.add.at(total, part_of, self._squared_norms(named, chunk))
                found.append(np.sqrt(total))
        return np.concatenate(found, axis=1) if found else np.zeros((len(bounds), 0))

    def _squared_norms(self, named: Mapping[str, Tensor], chunk: np.ndarray) -> np.ndarray:
        """float64, shape (num_tensors, num_roots), of a chunk's roots."""
        if self.path == "module":
            return self.module.squared_norms(named, chunk)
        if self.path == "compiled" and self._engine.by_rows:
            return self._engine.squared_norms(named, chunk)
        layout = chunk_layout(*self.trees.of(chunk), self.device)
        y, squared = self._y[torch.from_numpy(chunk).to(self.device)], []
        for op, a, g in ghost.layer_rows(self.network, named, layout, self._rows(layout.node), y):
            weight, _, bias, _ = ghost.root_norms(a, g, layout.ptr[self.network.levels[op.source]])
            squared += [weight.cpu().numpy(), bias.cpu().numpy()][: 1 + op.bias]
        return np.stack(squared)

    @property
    def mean_loss(self) -> float:
        """Mean loss over the last batch, in nats; sensitive. NaN for an empty batch.

        Raises:
            ValueError: `track_loss` is off.
        """
        require(self.track_loss, "track_loss", "be on to read the loss", self.track_loss)
        return float(self._loss) / self._count if self._count else math.nan

    def _rows(self, node: Tensor) -> Tensor:
        """A chunk's features, dense."""
        if isinstance(self._x, Tensor):
            return self._x.index_select(0, node).to(self.execution.torch_dtype)
        rows = self._x[node.cpu().numpy()]
        rows = rows if isinstance(rows, np.ndarray) else rows.toarray()
        return torch.from_numpy(rows).to(self.device, self.execution.torch_dtype)


def _check(network: Network, x: Any, trees: Trees) -> None:
    config = network.config
    require(
        trees.num_hops == config.num_hops, "trees", f"have depth {config.num_hops}", trees.num_hops
    )
    require(
        x.shape[1] == config.num_features, "x", f"have {config.num_features} columns", x.shape[1]
    )
    if config.task == "multiclass":
        ok = trees.y.ndim == 1 and bool(((trees.y >= 0) & (trees.y < config.num_outputs)).all())
        rule = f"be classes in 0..{config.num_outputs - 1}"
        require(ok, "labels of the roots", rule, "another", "train on labelled nodes only")
    else:
        require(
            trees.y.shape[1:] == (config.num_outputs,), "labels of the roots",
            f"have {config.num_outputs} columns", trees.y.shape,
        )  # fmt: skip
    inside = len(trees.node) == 0 or (trees.node.min() >= 0 and trees.node.max() < x.shape[0])
    require(bool(inside), "nodes of the trees", f"lie in 0..{x.shape[0] - 1}", "another")


def _choose_path(network: Network, execution: Execution, *, with_dropout: bool) -> str:
    if isinstance(network, ModuleNetwork):
        one_of("path of a module", execution.path, ("auto",))
        return "module"
    on_cpu = torch.device(execution.device).type == "cpu"
    can = compiled.supports(network) and not with_dropout
    if execution.path == "auto":
        return ("compiled" if can else "autograd") if on_cpu else "torch"
    if execution.path != "torch":
        require(on_cpu, "path", "be torch on a GPU", execution.path, "use path: auto")
    if execution.path == "compiled":
        rule = "be autograd or torch for attention and dropout"
        require(can, "path", rule, "compiled", "use path: auto")
    return execution.path


def _default_chunk_rows(path: str, network: Network, device: torch.device) -> int:
    """Rows that fit into a CPU's cache, or that keep a GPU busy, within a fifth of its free memory.

    On a GPU it is a power of two and rarely below `GPU_ROWS`: chunks affect rounding, which should not depend
    on the memory of other runs.
    """
    if device.type != "cuda":
        return 4096 if path in ("compiled", "module") else DROPOUT_ROWS
    free, _ = torch.cuda.mem_get_info(device)
    widths = sum(op.num_in + op.num_out for op in network.linears)
    # what a module computes for a row is unknown; estimated by the sum of the sides of its tensors
    widths = widths or sum(sum(shape) for shape in network.shapes.values())
    # float32 values and gradients, their float64 copies for norms, and autograd's own
    fitting = max(1024, int(free * 0.2 / (24 * widths)))
    return int(min(GPU_ROWS, 2 ** math.floor(math.log2(fitting))))


def _compiled_engine(
    network: Network, x: Any, trees: Trees, dtype: torch.dtype
) -> compiled.CompiledEngine:
    """An engine on sparse features if the first layer reads them directly, otherwise on dense ones."""
    if isinstance(x, StoredRows):
        return compiled.CompiledEngine(network, x, trees, dtype)
    sparse = not isinstance(x, np.ndarray) and isinstance(network.operations[0], Linear)
    features = _sorted(x) if sparse else to_torch(_dense(x), "cpu", network).to(dtype)
    return compiled.CompiledEngine(network, features, trees, dtype)


def _dense(x: Any) -> np.ndarray:
    return x if isinstance(x, np.ndarray) else x.toarray()


def _sorted(x: Any) -> Any:
    """CSR with sorted indices, each once, and 64-bit pointers, as the kernels expect."""
    import scipy.sparse as sp

    x = sp.csr_array(x)
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    parts = (x.data, x.indices.astype(np.int64), x.indptr.astype(np.int64))
    return sp.csr_array(parts, shape=x.shape)

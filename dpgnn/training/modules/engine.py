"""Clipped sums over the trees of some roots, computed in the way chosen for a module."""

from __future__ import annotations

import copy
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.modules import ModuleNetwork
from dpgnn.models.trees import Trees
from dpgnn.training.modules.batches import TreeBatch, tree_batch
from dpgnn.training.modules.choice import Way, choose
from dpgnn.training.modules.gradients import (
    Gradients,
    Parts,
    add_clipped,
    formed_by_loop,
    formed_by_vmap,
    norms_of,
    row_gradients,
)
from dpgnn.training.modules.masks import Masks, start_draws
from dpgnn.training.modules.probes import CHUNK_ROWS, largest_chunk, moved, probe
from dpgnn.training.modules.watch import NoRows

LACKS_MEMORY = (MemoryError, torch.OutOfMemoryError)
# errors of a way where forward takes another course, such as on a tree without edges; the loop follows it
OTHER_COURSE: dict[Way, tuple[type[Exception], ...]] = {
    "rows": (NoRows,), "vmap": (Exception,), "loop": (),
}  # fmt: skip
# roots whose gradients are formed at once; vmap is fastest with chunks of 32 to 64
FORMED_AT_ONCE = 32


@dataclass(eq=False)
class ModuleEngine:
    """Per-root gradients of a module over the trees of some roots.

    Args:
        network: the module; a copy of it is trained.
        trees: made for a convolution without self-loops.
        rows_of: positions in x -> features, in `dtype` on `device`.
        y: labels of all roots, on `device`.
        device, dtype: of the computation.
        masks: of dropout, from a named stream; None omits dropout.
        way: None chooses the fastest correct one.
        max_rows: of the largest chunk in which `rows` is tested; 0 tests it on a few trees.
        of_release: a root on which forward fails adds nothing, and says nothing: whether there is a release,
            and a message, would tell of its tree.

    Guarantee: a call of forward gets the trees of several roots only in chunks of at most as many rows and
    edges as the module was tested with; a larger tree is alone. Global generators start from the same state
    for each call; the caller puts them back (`masks.draws_kept`).
    """

    network: ModuleNetwork
    trees: Trees
    rows_of: Callable[[Tensor], Tensor]
    y: Tensor
    device: torch.device
    dtype: torch.dtype
    masks: Masks | None = None
    way: Way | None = None
    max_rows: int = CHUNK_ROWS
    of_release: bool = False

    def __post_init__(self) -> None:
        self.module = copy.deepcopy(self.network.module).to(self.device, self.dtype).train()
        self.choice = choose(self.network, self.way, max_rows=self.max_rows, device=self.device)
        self._tested = largest_chunk(self.network, self.max_rows)

    def add_clipped_sum(
        self,
        named: Mapping[str, Tensor],
        roots: np.ndarray,
        parts: Parts | None,
        sums: Mapping[str, Tensor],
        spread_share: float = 0.0,
    ) -> Tensor:
        """Add the clipped gradients of a chunk's roots to `sums`; arguments as `ghost.add_clipped_sum`.

        Guarantee: each root adds one term of norm at most the clipping's `total_norm`.
        """
        loss = torch.zeros((), dtype=self.dtype, device=self.device)
        for some in self._pieces(roots):
            found = self._of(named, some)
            if found is not None:
                add_clipped(found[0], len(some), parts, sums, self.dtype, spread_share)
                loss += found[1]
        return loss

    def _of(
        self, named: Mapping[str, Tensor], roots: np.ndarray
    ) -> tuple[Gradients, Tensor] | None:
        """`gradients`; None in a release where forward fails on the trees."""
        try:
            return self.gradients(named, roots)
        except LACKS_MEMORY:
            raise
        except Exception:
            if not self.of_release:
                raise
            return None

    def try_out(self) -> None:
        """Run the module on artificial trees on this device: what fails there would fail on every root.

        Raises:
            ValueError, RuntimeError: forward or backward fails.
        """
        trees, x, y = probe(self.network, crowded=True)
        rows = x.to(self.device, self.dtype)
        tried = replace(
            self, trees=trees, rows_of=partial(torch.index_select, rows, 0), y=y.to(self.device),
            way=self.choice.way, max_rows=0, of_release=False,
        )  # fmt: skip
        named = {key: value.to(rows) for key, value in moved(self.network).items()}
        for root in range(trees.num_roots):
            tried.squared_norms(named, np.array([root]))

    def squared_norms(self, named: Mapping[str, Tensor], roots: np.ndarray) -> np.ndarray:
        """float64, shape (num_tensors, num_roots): upper bounds on squared norms; sensitive."""
        names, found = tuple(self.network.shapes), []
        for some in self._pieces(roots):
            each = self._of(named, some)
            none = np.full((len(names), len(some)), np.inf)
            found.append(none if each is None else norms_of(each[0], names, len(some))[0])
        return np.concatenate(found, axis=1)

    def gradients(self, named: Mapping[str, Tensor], roots: np.ndarray) -> tuple[Gradients, Tensor]:
        """Each root's gradient, and the summed loss; sensitive.

        Args:
            named: parameters by name.
            roots: int64 positions among the roots.
        """
        batch = tree_batch(self.trees, roots, self.device)
        x, y = self.rows_of(batch.node), self.y[torch.from_numpy(roots).to(self.device)]
        start_draws()
        try:
            if self.choice.way == "rows":
                given = (self.network, self.module, named, batch, x, y, list(self.choice.kinds))
                return row_gradients(*given, self.masks)[:2]
            return self._formed(named, batch, x, y, self.choice.way)
        except LACKS_MEMORY:
            raise
        except OTHER_COURSE[self.choice.way]:
            start_draws()
        return self._formed(named, batch, x, y, "loop")

    def _pieces(self, roots: np.ndarray) -> list[np.ndarray]:
        """Pieces of roots whose gradients are computed together."""
        if self.choice.way == "rows":
            return list(pieces_of(self.trees, roots, *self._tested))
        return [roots[at : at + FORMED_AT_ONCE] for at in range(0, len(roots), FORMED_AT_ONCE)]

    def _formed(
        self, named: Mapping[str, Tensor], batch: TreeBatch, x: Tensor, y: Tensor, way: Way
    ) -> tuple[Gradients, Tensor]:
        each = [one_tree(batch, place) for place in range(batch.num_roots)]
        groups: dict[bytes, list[int]] = defaultdict(list)
        for place, (rows, edges) in enumerate(each):
            shape = b"%d " % (rows.stop - rows.start) + edges.cpu().numpy().tobytes()
            groups[shape if way == "vmap" else b"%d" % place].append(place)
        found = {
            name: x.new_empty(batch.num_roots, math.prod(shape))
            for name, shape in self.network.shapes.items()
        }
        loss = torch.zeros((), dtype=self.dtype, device=self.device)
        for places in groups.values():
            inputs = torch.stack([x[each[place][0]] for place in places])
            chosen, edges = torch.tensor(places, device=y.device), each[places[0]][1]
            given = (self.network, self.module, named, inputs, edges, y[chosen])
            if way == "vmap":
                gradients, part = formed_by_vmap(*given)
            else:
                roots = batch.root_id[chosen].tolist()
                gradients, part = formed_by_loop(*given, self.masks, roots)
            loss += part
            for name, value in gradients.items():
                found[name][chosen] = value.flatten(1)
        return dict(found), loss


def one_tree(batch: TreeBatch, place: int) -> tuple[slice, Tensor]:
    """The rows of one root in the batch, and its edges by positions inside its tree."""
    rows = slice(int(batch.ptr[place]), int(batch.ptr[place + 1]))
    edges = slice(int(batch.edge_ptr[place]), int(batch.edge_ptr[place + 1]))
    return rows, batch.edge_index[:, edges] - rows.start


def pieces_of(
    trees: Trees, roots: np.ndarray, max_rows: int, max_edges: int
) -> Iterator[np.ndarray]:
    """Consecutive pieces of `roots` with at most so many rows and edges each; a larger root is a piece."""
    first, last = trees.row_ptr[roots], trees.row_ptr[roots + 1]
    rows = np.concatenate([[0], np.cumsum(last - first)])
    edges = np.concatenate([[0], np.cumsum(trees.entry_ptr[last] - trees.entry_ptr[first])])
    start = 0
    while start < len(roots):
        ends = (
            np.searchsorted(total, total[start] + most, side="right") - 1
            for total, most in ((rows, max_rows), (edges, max_edges))
        )
        stop = max(int(min(ends)), start + 1)
        yield roots[start:stop]
        start = stop

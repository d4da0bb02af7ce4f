"""Check that a user's module can be trained with clipped per-root gradients.

One root's gradient is a function of its own tree only if the module does not mix rows of several trees, keep
values between calls, draw from a global generator, or hold data of the graph. The checks inspect the module
and run it on artificial trees, so no result depends on data.
"""

from __future__ import annotations

import copy
import dataclasses
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgnn.core.checks import fail, one_line, require
from dpgnn.models.forward import per_root_loss
from dpgnn.models.modules import ModuleNetwork, call
from dpgnn.models.trees import Trees
from dpgnn.training.modules.batches import tree_batch
from dpgnn.training.modules.choice import Choice, choose, formed
from dpgnn.training.modules.engine import ModuleEngine
from dpgnn.training.modules.gradients import Rows, formed_by_loop
from dpgnn.training.modules.held import refuse_data, refuse_state_and_draws, where_of
from dpgnn.training.modules.masks import Masks, OneTree, draws_kept
from dpgnn.training.modules.probes import CHUNK_ROWS, copies, moved, num_copies, probe

# layers with statistics over rows, by their names in torch and torch_geometric
MIXING = {
    "_BatchNorm": "nn.LayerNorm", "BatchNorm": "nn.LayerNorm", "HeteroBatchNorm": "nn.LayerNorm",
    "_InstanceNorm": "nn.LayerNorm", "InstanceNorm": "nn.LayerNorm", "GraphNorm": "nn.LayerNorm",
    "GraphSizeNorm": "nn.LayerNorm", "PairNorm": "nn.LayerNorm", "MeanSubtractionNorm": "nn.LayerNorm",
    "DiffGroupNorm": "nn.LayerNorm", "HeteroLayerNorm": "nn.LayerNorm",
}  # fmt: skip


def validate(
    network: ModuleNetwork, *, num_nodes: int | None = None, is_declared: bool = False
) -> Choice:
    """Refuse a module whose root gradients would not be functions of their own trees.

    Args:
        network: the module.
        num_nodes: public number of nodes, to find tensors with a row for each; None: unknown.
        is_declared: whether that is a declared number, near which the graph's own may be.

    Returns:
        how its gradients will be computed.

    Raises:
        ValueError: names the module, the layer, the rule and the remedy.
    """
    with draws_kept():
        return _validated(network, num_nodes, is_declared=is_declared)


def _validated(network: ModuleNetwork, num_nodes: int | None, *, is_declared: bool) -> Choice:
    refuse_mixing(network.module, network.name)
    refuse_data(network.module, network.name, num_nodes, is_declared=is_declared)
    trees, x, _ = probe(network)
    module = copy.deepcopy(network.module).double()
    for probed in (probe(network), probe(network, crowded=True)):
        for is_trained in (True, False):
            refuse_state_and_draws(module.train(is_trained), network.name, *probed[:2])
    choice = choose(network)
    refuse_other_weights(network)
    if choice.gives_rows:
        module.train()
        refuse_neighbours(module, network.name, trees, x)
        refuse_places(module, network.name, *probe(network, crowded=True)[:2])
    refuse_dependence(network, choice)
    refuse_failing(network, choice)
    return choice


def refuse_mixing(module: nn.Module, name: str) -> None:
    """Refuse layers with statistics over rows.

    Raises:
        ValueError: names the layer.
    """
    for path, part in module.named_modules():
        kinds = {kind.__name__ for kind in type(part).__mro__}
        found = sorted(kinds & MIXING.keys())
        whole = "LayerNorm" in kinds and getattr(part, "mode", "node") == "graph"
        if found or whole:
            kind = type(part).__name__ + (" in mode graph" if whole else "")
            remedy = "LayerNorm(..., mode='node')" if whole else MIXING[found[0]]
            fail(
                where_of(name, path), "not mix roots", kind,
                f"its statistics are over the rows of many trees, so one record would change every gradient; "
                f"use {remedy}, which treats each row independently",
            )  # fmt: skip


def refuse_neighbours(module: nn.Module, name: str, trees: Trees, x: Tensor) -> None:
    """Refuse modules in which a root's logits change if there is another tree beside its own.

    Raises:
        ValueError: names the first layer whose rows change.
    """
    for root in (trees.num_roots - 1, trees.num_roots - 2):
        alone, beside = (tree_batch(trees, np.array(some)) for some in ([root], [root, 0, 1, 2]))
        seen = [_outputs(module, name, batch, x) for batch in (alone, beside)]
        size = len(alone.node)
        for path, value in seen[0].items():
            other = seen[1].get(path)
            if other is None or len(value) != size or len(other) != len(beside.node):
                continue
            _require_same(
                module, name, path, value, other[:size],
                "it reads other rows than a node's and those that send to it; use nn.LayerNorm in place of "
                "statistics over all rows",
            )  # fmt: skip


def refuse_places(module: nn.Module, name: str, trees: Trees, x: Tensor) -> None:
    """Refuse modules in which a root's logits change with its place in a chunk or with the chunk's size.

    The trees stand side by side as often as the largest chunk on a CPU allows. The choice of a way tests
    gradients in chunks of the run's own size.

    Raises:
        ValueError: names the first layer whose rows change.
    """
    alone = _outputs(module, name, tree_batch(trees, np.arange(trees.num_roots)), x)
    size = len(trees.node)
    for number in num_copies(trees, CHUNK_ROWS):
        batch, _ = copies(trees, number)
        for path, other in _outputs(module, name, batch, x).items():
            value = alone.get(path)
            if value is None or len(value) != size or len(other) != number * size:
                continue
            _require_same(
                module, name, path, value.expand(number, *value.shape),
                other.reshape(number, *value.shape),
                f"in {len(other)} rows and {batch.edge_index.shape[1]} edges of many trees it reads how many "
                "there are or where they stand; use no row numbers, no len(x) and no part of edge_index",
            )  # fmt: skip


def _require_same(
    module: nn.Module, name: str, path: str, value: Tensor, other: Tensor, remedy: str
) -> None:
    """A layer's rows must not change with what stands beside them."""
    moved = float((value - other).abs().max()) if value.numel() else 0.0
    kind = type(dict(module.named_modules())[path]).__name__
    require(
        moved <= 1e-9 * max(1.0, float(value.abs().max())), where_of(name, path),
        "compute a tree's rows from that tree alone", kind, remedy,
    )  # fmt: skip


def refuse_other_weights(network: ModuleNetwork) -> None:
    """Refuse modules whose backward pass reads other weights than forward, as by `torch.utils.checkpoint`.

    Raises:
        ValueError: the gradient by the engine is not that of a module that has these weights itself.
    """
    trees, x, y = probe(network)
    named, engine = moved(network), copy.deepcopy(network.module).double().train()
    own = copy.deepcopy(engine)
    own.load_state_dict(named, strict=False)
    trained = [value for key, value in own.named_parameters() if key in named]
    for root in range(trees.num_roots):
        batch, label = tree_batch(trees, np.array([root])), y[[root]]
        rows = x[batch.node]
        given = (network, engine, named, rows[None], batch.edge_index, label)
        found, _ = formed_by_loop(*given, Masks(1), [0])
        with OneTree(Masks(1), 0):
            out = own(rows.clone(), batch.edge_index)
        loss = per_root_loss(network, out.reshape(-1, out.shape[-1])[:1], label).sum()
        grads = torch.autograd.grad(loss, trained, allow_unused=True)
        for (key, value), grad in zip(found.items(), grads):
            wanted = torch.zeros_like(value[0]) if grad is None else grad
            apart = float((value[0] - wanted).abs().max()) if wanted.numel() else 0.0
            require(
                apart <= 1e-9 * max(1.0, float(wanted.abs().max())), f"{network.name}: the gradient of {key}",
                "be that of the weights in forward", "another one",
                "leave out torch.utils.checkpoint and hooks on gradients",
            )  # fmt: skip


def refuse_failing(network: ModuleNetwork, choice: Choice) -> None:
    """Refuse modules that fail in float32, in which they are trained; in a release, who fails adds nothing.

    Raises:
        ValueError: forward or backward fails, or answers are not float32; names the module.
    """
    trees, x, y = probe(network, crowded=True)
    engine = _engine(network, choice, trees, x.float(), y)
    named = {key: value.float() for key, value in moved(network).items()}
    for root in range(trees.num_roots):
        try:
            norms = engine.squared_norms(named, np.array([root]))
        except Exception as error:
            why, rule = f"{type(error).__name__}: {one_line(error)}", "be trained in float32"
            fail(network.name, rule, why, "leave out autocast and half precision")
        name, finite = f"{network.name}: the gradient in float32", bool(np.isfinite(norms).all())
        require(finite, name, "be finite", "a value that is not")


def refuse_dependence(network: ModuleNetwork, choice: Choice) -> None:
    """Refuse modules in which a root's gradient depends on the trees and labels of others.

    The gradient must stay bitwise equal when other trees change. These keep their numbers of rows and edges,
    since rounding of a matrix product may depend on its shape.

    Raises:
        ValueError: the gradient of a root changes; names the tensor.
    """
    trees, x, y = probe(network)
    named = moved(network)
    watched, everyone = trees.num_roots - 1, np.arange(trees.num_roots)
    first, found = int(trees.row_ptr[watched]), []
    rows, labels = x.clone(), y.clone()
    rows[:first] = 3.0 * (rows[:first].flip(0) - 0.3)
    labels[:watched] = labels[:watched].flip(0)
    for given in ((trees, x, y), (_rewired(trees, watched), rows, labels)):
        engine = _engine(network, choice, *given)
        each, _ = engine.gradients(named, everyone)
        once = {name: _whole(one) for name, one in each.items()}
        # a second time, after all roots, to find values that were kept from them
        again, _ = engine.gradients(named, everyone)
        repeats = {name: torch.equal(once[name], _whole(one)) for name, one in again.items()}
        found.append((each, repeats))
    alone, _ = _engine(network, choice, trees, x, y).gradients(named, np.array([watched]))
    (each, repeats), (others, _) = found
    for name, one in each.items():
        like = torch.zeros(trees.num_roots, named[name].numel(), dtype=torch.float64)
        own, together = formed(alone.get(name), like[:1])[0], formed(one, like)[watched]
        close = float((own - together).abs().max()) <= 1e-9 * max(1.0, float(own.abs().max()))
        same = torch.equal(_of_root(one, watched), _of_root(others[name], watched))
        require(
            close and same and repeats[name], f"{network.name}: the gradient of a root's {name}",
            "depend on its own tree alone", "one that changes with another root's tree",
            "look for hooks, caches and statistics that see several trees",
        )  # fmt: skip


def _engine(
    network: ModuleNetwork, choice: Choice, trees: Trees, x: Tensor, y: Tensor
) -> ModuleEngine:
    return ModuleEngine(
        network, trees, partial(torch.index_select, x, 0), y, torch.device("cpu"), x.dtype, Masks(1),
        choice.way, max_rows=0,
    )  # fmt: skip


def _whole(each: Rows | Tensor) -> Tensor:
    return each.clone() if isinstance(each, Tensor) else torch.cat([each.a, each.g], dim=1)


def _rewired(trees: Trees, watched: int) -> Trees:
    """Other edges, of equal number, in the trees before `watched`."""
    entries = trees.entry_row.copy()
    for root in range(watched):
        first, last = trees.row_ptr[root], trees.row_ptr[root + 1]
        size, span = int(last - first), slice(trees.entry_ptr[first], trees.entry_ptr[last])
        if size > 2:
            # never the row itself, since a tree has no self-loops
            target = np.repeat(np.arange(size), np.diff(trees.entry_ptr[first : last + 1]))
            moved = 1 + entries[span] % (size - 1)
            entries[span] = np.where(moved == target, entries[span], moved)
    return dataclasses.replace(trees, entry_row=entries)


def _of_root(each: Rows | Tensor, root: int) -> Tensor:
    if isinstance(each, Tensor):
        return each[root].clone()
    span = slice(int(each.ptr[root]), int(each.ptr[root + 1]))
    a, g = each.a[span], each.g[span]
    adds = (g != 0).any(
        dim=1
    )  # rows of zeros add nothing; they are kept or not for all roots together
    return torch.cat([a[adds], g[adds]], dim=1)


def _outputs(module: nn.Module, name: str, batch: Any, x: Tensor) -> dict[str, Tensor]:
    """Rows that each part of the module returned, in order of return."""
    seen: dict[str, Tensor] = {}
    handles = []
    for path, part in module.named_modules():

        def keep(part: nn.Module, given: Any, out: Any, path: str = path) -> None:
            if isinstance(out, Tensor) and out.ndim:
                seen.setdefault(path, out.detach().clone())

        handles.append(part.register_forward_hook(keep))
    try:
        with torch.no_grad(), OneTree(None):
            call(module, {}, x[batch.node], batch.edge_index, name)
    finally:
        for handle in handles:
            handle.remove()
    return seen

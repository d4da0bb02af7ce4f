"""Check that a user's module can be trained with clipped per-root gradients.

One root's gradient is a function of its own tree only if the module does not mix rows of several trees, keep
values between calls, draw from a global generator, or hold data of the graph. The checks inspect the module
and run it on artificial trees, so no result depends on data.
"""

from __future__ import annotations

import copy
import dataclasses
import random
import types
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgnn.core.checks import fail, require
from dpgnn.models.modules import ModuleNetwork, call
from dpgnn.models.trees import Trees
from dpgnn.training.modules.batches import tree_batch
from dpgnn.training.modules.choice import Choice, choose
from dpgnn.training.modules.engine import ModuleEngine
from dpgnn.training.modules.gradients import Rows
from dpgnn.training.modules.masks import Masks, OneTree
from dpgnn.training.modules.probes import CHUNK_ROWS, copies, moved, num_copies, probe

# layers with statistics over rows, by their names in torch and torch_geometric
MIXING = {
    "_BatchNorm": "nn.LayerNorm", "BatchNorm": "nn.LayerNorm", "HeteroBatchNorm": "nn.LayerNorm",
    "_InstanceNorm": "nn.LayerNorm", "InstanceNorm": "nn.LayerNorm", "GraphNorm": "nn.LayerNorm",
    "GraphSizeNorm": "nn.LayerNorm", "PairNorm": "nn.LayerNorm", "MeanSubtractionNorm": "nn.LayerNorm",
    "DiffGroupNorm": "nn.LayerNorm", "HeteroLayerNorm": "nn.LayerNorm",
}  # fmt: skip
STATE_REMEDY = "a step must not change the module: compute it in each forward (cached=False)"
RANDOM_REMEDY = "leave it out, or use nn.Dropout, whose masks come from the stream `dropout`"


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
    refuse_mixing(network.module, network.name)
    refuse_data(network.module, network.name, num_nodes, is_declared=is_declared)
    trees, x, _ = probe(network)
    module = copy.deepcopy(network.module).double().train()
    refuse_state_and_draws(module, network.name, trees, x)
    choice = choose(network)
    if choice.gives_rows:
        refuse_neighbours(module, network.name, trees, x)
        refuse_places(module, network.name, *probe(network, crowded=True)[:2])
    refuse_dependence(network, choice)
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
                _where(name, path), "not mix roots", kind,
                f"its statistics are over the rows of many trees, so one record would change every gradient; "
                f"use {remedy}, which treats each row independently",
            )  # fmt: skip


def refuse_data(
    module: nn.Module, name: str, num_nodes: int | None, *, is_declared: bool = False
) -> None:
    """Refuse tensors with a row for every node, and lists of edges, in the module or read by its forward.

    Guarantee: private numbers, such as that of edges or the counted one beside a declared one, are not read:
    a refusal would tell them.

    Raises:
        ValueError: names the tensor.
    """
    for where, value in _held(module, name):
        if isinstance(value, nn.Parameter):
            continue
        shape = tuple(value.shape)
        is_whole = not (
            value.is_floating_point() if isinstance(value, Tensor) else value.dtype.kind == "f"
        )
        why = ""
        if num_nodes is not None and any(_is_near(size, num_nodes, is_declared) for size in shape):
            why = f"{num_nodes} is the number of nodes"
        elif is_whole and len(shape) == 2 and shape[0] == 2 and shape[1] > 1:
            why = "whole numbers in two rows are a list of edges"
        if why:
            remedy = f"{why}, and forward may read its root's tree alone"
            fail(where, "hold nothing of the graph", f"shape {shape}", remedy)


def _is_near(size: int, num_nodes: int, is_declared: bool) -> bool:
    """Whether a size is that of the graph; a declared number may be rounded by a tenth."""
    rounded = (
        is_declared and min(size, num_nodes) >= 100 and abs(size - num_nodes) <= num_nodes / 10
    )
    return size > 1 and (size == num_nodes or rounded)


def refuse_state_and_draws(module: nn.Module, name: str, trees: Trees, x: Tensor) -> None:
    """Refuse modules whose forward changes their values or draws from a global generator.

    Raises:
        ValueError: names the tensor or attribute, or the generator.
    """
    for root in range(trees.num_roots):
        batch = tree_batch(trees, np.array([root]))
        held, generators = _state(module, name), _generators()
        with torch.no_grad(), OneTree(Masks()):
            call(module, {}, x[batch.node], batch.edge_index, name)
        after = _state(module, name)
        for where in sorted(held.keys() | after.keys()):
            same = held.get(where) == after.get(where)
            require(
                same, where, "not be written in forward", "another value after it", STATE_REMEDY
            )
        for generator, state in _generators().items():
            require(
                state == generators[generator], f"{name}.forward",
                "not draw from a global generator", generator, RANDOM_REMEDY,
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
        moved <= 1e-9 * max(1.0, float(value.abs().max())), _where(name, path),
        "compute a tree's rows from that tree alone", kind, remedy,
    )  # fmt: skip


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
    found, again = [], {}
    for scale in (0.0, 3.0):
        rows, labels = x.clone(), y.clone()
        first = int(trees.row_ptr[watched])
        if scale:
            rows[:first] = scale * (rows[:first].flip(0) - 0.3)
            labels[:watched] = labels[:watched].flip(0)
        source = trees if not scale else _rewired(trees, watched)
        engine = ModuleEngine(
            network, source, partial(torch.index_select, rows, 0), labels, torch.device("cpu"),
            torch.float64, Masks(1), choice.way, max_rows=0,
        )  # fmt: skip
        gradients, _ = engine.gradients(named, everyone)
        found.append({name: _of_root(each, watched) for name, each in gradients.items()})
        if not scale:  # a second time, after all roots, to find values that were kept from them
            once = {name: _whole(each) for name, each in gradients.items()}
            second, _ = engine.gradients(named, everyone)
            again = {name: torch.equal(once[name], _whole(each)) for name, each in second.items()}
    for name, value in found[0].items():
        require(
            again[name] and torch.equal(value, found[1][name]),
            f"{network.name}: the gradient of a root's {name}", "depend on its own tree alone",
            "one that changes with another root's tree",
            "look for hooks, caches and statistics that see several trees",
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


def _held(module: nn.Module, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors and arrays of all parts: in attributes, in their own classes, and in what forward reads."""
    for path, part in module.named_modules():
        where = _where(name, path)
        for key, value in vars(part).items():
            if key == "_modules":
                continue
            for inner, tensor in _arrays(value):
                label = inner if key in ("_buffers", "_parameters") else key
                yield f"{where}.{label}" if label else where, tensor
        for kind in filter(_is_own, type(part).__mro__):
            for key, value in vars(kind).items():
                for _, tensor in _arrays(value):
                    yield f"{where}.{key}", tensor
        forward = getattr(type(part), "forward", None)
        if _is_own(type(part)) and isinstance(forward, types.FunctionType):
            for key, value in _read_by(forward):
                for _, tensor in _arrays(value):
                    yield f"{key}, which {where}.forward reads", tensor


def _is_own(kind: type) -> bool:
    """Whether a class is a user's, not one of a library's layers."""
    return kind.__module__.split(".")[0] not in ("torch", "torch_geometric", "builtins")


def _read_by(forward: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Globals, closures and default arguments of a function."""
    code = forward.__code__
    for key in code.co_names:
        yield key, forward.__globals__.get(key)
    for key, cell in zip(code.co_freevars, forward.__closure__ or ()):
        yield key, cell.cell_contents
    defaults, given = forward.__defaults__ or (), code.co_varnames[: code.co_argcount]
    yield from zip(given[len(given) - len(defaults) :], defaults)
    yield from (forward.__kwdefaults__ or {}).items()


def _arrays(value: Any, depth: int = 3) -> Iterator[tuple[str, Any]]:
    """Tensors and arrays in a value: itself, its items, attributes of a PyG `Data`."""
    if isinstance(value, (Tensor, np.ndarray)):
        yield "", value
    elif depth and isinstance(value, dict):
        for key, item in value.items():
            for _, found in _arrays(item, depth - 1):
                yield str(key), found
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            for _, found in _arrays(item, depth - 1):
                yield "", found
    elif (
        depth
        and type(value).__module__.startswith("torch_geometric.data")
        and hasattr(value, "to_dict")
    ):
        yield from _arrays(value.to_dict(), depth - 1)


def _state(module: nn.Module, name: str) -> dict[str, bytes | str]:
    """All values that could be kept between calls: contents of tensors, numbers and texts."""
    found: dict[str, bytes | str] = {}
    for where, value in _held(module, name):
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
        found[where] = found.get(where, b"") + b"%d %s" % (array.size, array.tobytes())  # type: ignore[operator]
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, (int, float, str, bool)) and key != "training":
                found[f"{_where(name, path)}.{key} "] = repr(value)
            elif isinstance(value, (list, dict)) and not key.startswith("_") and len(value) < 10**4:
                plain = all(isinstance(v, (int, float, str)) for v in list(value))
                found[f"{_where(name, path)}.{key} "] = repr(value) if plain else str(len(value))
    return found


def _generators() -> dict[str, bytes]:
    """States of the global generators."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 what others may draw from
    return {
        "torch's": torch.get_rng_state().numpy().tobytes(),
        "numpy's": state["state"]["key"].tobytes() + repr(state["state"]["pos"]).encode(),
        "Python's": repr(random.getstate()).encode(),
    }


def _where(name: str, path: str) -> str:
    return f"{name}.{path}" if path else name

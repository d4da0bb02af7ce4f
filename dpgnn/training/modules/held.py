"""What a user's module holds: data of the graph, values that forward writes, draws from global generators."""

from __future__ import annotations

import random
import types
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpgnn.core.checks import fail, require
from dpgnn.models.modules import call
from dpgnn.models.trees import Trees
from dpgnn.training.modules.batches import tree_batch
from dpgnn.training.modules.masks import Masks, OneTree

STATE_REMEDY = "a step must not change the module: compute it in each forward (cached=False)"
RANDOM_REMEDY = "leave it out, or use nn.Dropout, whose masks come from the stream `dropout`"


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
        if isinstance(value, nn.Parameter) and value.requires_grad:
            continue
        shape = tuple(value.shape)
        why = ""
        if num_nodes is not None and any(_is_near(size, num_nodes, is_declared) for size in shape):
            why = f"{num_nodes} is the number of nodes"
        elif _is_whole(value) and len(shape) == 2 and shape[0] == 2 and shape[1] > 1:
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


def _held(module: nn.Module, name: str) -> Iterator[tuple[str, Any]]:
    """Tensors and arrays of all parts: in attributes, in their own classes, and in what forward reads."""
    for path, part in module.named_modules():
        where = where_of(name, path)
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
        found[where] = found.get(where, b"") + _bytes(value)  # type: ignore[operator]
    for path, part in module.named_modules():
        for key, value in vars(part).items():
            if isinstance(value, (int, float, str, bool)) and key != "training":
                found[f"{where_of(name, path)}.{key} "] = repr(value)
            elif isinstance(value, (list, dict)) and not key.startswith("_") and len(value) < 10**4:
                plain = all(isinstance(v, (int, float, str)) for v in list(value))
                found[f"{where_of(name, path)}.{key} "] = repr(value) if plain else str(len(value))
    return found


def _is_whole(value: Tensor | np.ndarray) -> bool:
    """Whether it holds whole numbers."""
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "iu"
    kind = value.dtype
    return not (kind.is_floating_point or kind.is_complex or kind == torch.bool)


def _bytes(value: Tensor | np.ndarray) -> bytes:
    """Its size and contents; also of kinds that numpy does not have, such as bfloat16."""
    if isinstance(value, np.ndarray):
        return b"%d %s" % (value.size, value.tobytes())
    plain = value.detach().to_dense() if value.layout != torch.strided else value.detach()
    flat = plain.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return b"%d %s" % (flat.numel(), flat.view(torch.uint8).numpy().tobytes())


def _generators() -> dict[str, bytes]:
    """States of the global generators."""
    state: Any = np.random.get_state(legacy=False)  # noqa: NPY002 what others may draw from
    return {
        "torch's": torch.get_rng_state().numpy().tobytes(),
        "numpy's": state["state"]["key"].tobytes() + repr(state["state"]["pos"]).encode(),
        "Python's": repr(random.getstate()).encode(),
    }


def where_of(name: str, path: str) -> str:
    """The name of a part of a module, for messages."""
    return f"{name}.{path}" if path else name

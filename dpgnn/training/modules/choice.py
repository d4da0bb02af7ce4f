"""The choice of a way to compute a module's gradients: the fastest that is correct.

A way is correct if its gradients equal those of one root at a time. This is tested on artificial trees, a few
and as many as the largest chunk holds, so the choice depends on the module and the size of chunks alone, not
on data.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import one_line, require
from dpgnn.models.modules import ModuleNetwork, call
from dpgnn.models.trees import Trees
from dpgnn.training.modules.batches import Kind, tree_batch
from dpgnn.training.modules.gradients import Rows, formed_by_loop, formed_by_vmap, row_gradients
from dpgnn.training.modules.masks import Masks, OneTree
from dpgnn.training.modules.probes import copies, moved, num_copies, probe
from dpgnn.training.modules.watch import NoRows

Way = Literal["rows", "vmap", "loop"]
# largest difference of two ways in float64, relative to the largest entry
CLOSE = 1e-9


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The chosen way for a module.

    Attributes:
        way: rows, vmap or loop.
        why: in words; names the layer that excludes a faster way.
        gives_rows: forward returns a row for each node.
        draws: forward uses dropout.
        kinds: kind of the rows in each use of a parameter, for `rows`.
    """

    way: Way
    why: str
    gives_rows: bool
    draws: bool = False
    kinds: tuple[Kind, ...] = ()


def choose(
    network: ModuleNetwork,
    way: Way | None = None,
    *,
    max_rows: int = 0,
    device: torch.device | str = "cpu",
) -> Choice:
    """The fastest way whose gradients equal those of the loop on the trees of `probe`.

    Args:
        network: the module; its weights are perturbed, so that no tensor has equal entries.
        way: None chooses the fastest; otherwise this way is tested.
        max_rows: of the largest chunk, in which `rows` is tested, too; 0: only a few trees.
        device: of the test in a large chunk.

    Raises:
        ValueError: forward fails or returns something else, or the requested way is wrong for the module.
    """
    trees, x, y = probe(network, crowded=True)
    module, named = copy.deepcopy(network.module).double().train(), moved(network)
    gives_rows, draws = _returned(network, module, named, trees, x)
    reasons: list[str] = []
    plain = _plain(network, module, named, trees, x, y)
    ways: tuple[Way, Way] = ("rows", "vmap")
    for one in ways:
        if way not in (None, one):
            continue
        if one == "vmap" and draws:
            reasons.append("no vmap: dropout draws anew for each root")
            continue
        kinds, why = _tried(one, network, module, named, trees, x, y, plain)
        if why is None and one == "rows" and max_rows:
            why = _in_chunks(network, named, (trees, x, y), plain, kinds, max_rows, device)
        if why is None:
            why, kept = "; ".join(reasons) or "all parameters enter by rows", tuple(kinds)
            return Choice(way=one, why=why, gives_rows=gives_rows, draws=draws, kinds=kept)
        reasons.append(f"no {one}: {why}")
    why, rule = "; ".join(reasons), f"give the gradients of {network.name}"
    require(way in (None, "loop"), "way", rule, way, why)
    return Choice(way="loop", why=why, gives_rows=gives_rows, draws=draws)


def _returned(
    network: ModuleNetwork,
    module: torch.nn.Module,
    named: Mapping[str, Tensor],
    trees: Trees,
    x: Tensor,
) -> tuple[bool, bool]:
    """Whether forward returns a row for each node, and whether it uses dropout."""
    found, draws = set(), False
    with torch.no_grad():
        for root in range(trees.num_roots):
            batch = tree_batch(trees, np.array([root]))
            with OneTree(None) as watch:
                out = call(module, dict(named), x[batch.node], batch.edge_index, network.name)
            draws |= watch.dropout.asked
            size = len(batch.node)
            if size > 1 or out.shape != (1, network.config.num_outputs):
                found.add(network.gives_rows(size, out))
            require(
                bool(out.isfinite().all()), f"what {network.name}.forward returns", "be finite",
                f"a value that is not, for a tree of {size} node{'s' * (size > 1)}",
            )  # fmt: skip
    rule = "return a row for each node of every tree, or the root's for every tree"
    require(len(found) == 1, f"{network.name}.forward", rule, "both")
    return found.pop(), draws


def _plain(
    network: ModuleNetwork, module: torch.nn.Module, named: Mapping[str, Tensor], trees: Trees,
    x: Tensor, y: Tensor,
) -> dict[str, Tensor]:  # fmt: skip
    found = []
    for root in range(trees.num_roots):
        batch = tree_batch(trees, np.array([root]))
        one, _ = formed_by_loop(
            network,
            module,
            named,
            x[batch.node][None],
            batch.edge_index,
            y[[root]],
            Masks(1),
            batch.root_id.tolist(),
        )
        found.append(one)
    return {name: torch.cat([one[name] for one in found]).flatten(1) for name in named}


def _tried(
    way: str, network: ModuleNetwork, module: torch.nn.Module, named: Mapping[str, Tensor],
    trees: Trees, x: Tensor, y: Tensor, plain: dict[str, Tensor],
) -> tuple[list[Kind], str | None]:  # fmt: skip
    """Kinds, and why the way is wrong (None: it is correct)."""
    kinds: list[Kind] = []
    roots = np.arange(trees.num_roots)
    try:
        if way == "rows":
            batch = tree_batch(trees, roots)
            gradients, _, kinds = row_gradients(
                network, module, named, batch, x[batch.node], y, None, Masks(1)
            )
        else:
            rows: dict[str, list[Tensor]] = defaultdict(list)
            for root in roots:
                batch = tree_batch(trees, np.array([root]))
                pair = x[batch.node].expand(2, -1, -1)
                one, _ = formed_by_vmap(
                    network, module, named, pair, batch.edge_index, y[[root, root]]
                )
                for name in named:
                    rows[name].append(one[name][:1])
            gradients = {name: torch.cat(each).flatten(1) for name, each in rows.items()}
    except NoRows as error:
        return [], str(error)
    except Exception as error:
        return [], f"{type(error).__name__}: {one_line(error)}"
    for name, expected in plain.items():
        apart = float((formed(gradients.get(name), expected) - expected).abs().max())
        if not apart <= CLOSE * max(1.0, float(expected.abs().max())):
            return [], f"the gradient of {name} is not that of one root at a time"
    return kinds, None


def _in_chunks(
    network: ModuleNetwork, named: Mapping[str, Tensor], probed: tuple[Trees, Tensor, Tensor],
    plain: dict[str, Tensor], kinds: list[Kind], max_rows: int, device: torch.device | str,
) -> str | None:  # fmt: skip
    """Why `rows` is wrong where the trees stand many times in a chunk, at any place (None: it is correct)."""
    trees, x, y = probed[0], probed[1].to(device), probed[2].to(device)
    module = copy.deepcopy(network.module).to(device, torch.float64).train()
    named = {name: value.to(device) for name, value in named.items()}
    for number in num_copies(trees, max_rows):
        batch, roots = copies(trees, number, device)
        where = f"in a chunk of {len(batch.node)} rows and {batch.edge_index.shape[1]} edges"
        try:
            gradients, _, _ = row_gradients(
                network, module, named, batch, x[batch.node], y[torch.from_numpy(roots).to(device)],
                kinds, Masks(1),
            )  # fmt: skip
        except Exception as error:
            return f"{where} {type(error).__name__}: {one_line(error)}"
        for name, expected in plain.items():
            found, wanted = _projected(gradients.get(name), expected, number)
            apart = float((found - wanted).abs().max())
            if not apart <= CLOSE * max(1.0, float(wanted.abs().max())):
                return f"{where} the gradient of {name} is not that of one root at a time"
    return None


def _projected(each: Rows | Tensor | None, plain: Tensor, number: int) -> tuple[Tensor, Tensor]:
    """Each root's gradient of one tensor in a random direction, and that of one root at a time.

    Returns:
        shapes (number, num_roots) and (num_roots,), on the CPU.
    """
    generator = torch.Generator().manual_seed(0)

    def draw(size: int) -> Tensor:
        return torch.randn(size, generator=generator, dtype=torch.float64)

    if isinstance(each, Rows):
        v, u = draw(each.a.shape[1]), draw(each.g.shape[1])
        direction = torch.outer(v, u) if each.transposed else torch.outer(u, v)
        terms = (each.a.cpu() @ v) * (each.g.cpu() @ u)
        owner = torch.from_numpy(np.repeat(np.arange(len(each.ptr) - 1), np.diff(each.ptr)))
        found = torch.zeros(len(each.ptr) - 1, dtype=terms.dtype).index_add_(0, owner, terms)
    else:
        direction = draw(plain.shape[1])
        found = plain.new_zeros(number * len(plain)) if each is None else each.cpu() @ direction
    return found.reshape(number, -1), plain @ direction.flatten()


def formed(each: Rows | Tensor | None, like: Tensor) -> Tensor:
    """Each root's gradient of one tensor, shape (num_roots, number of entries)."""
    if each is None:
        return torch.zeros_like(like)
    if isinstance(each, Tensor):
        return each
    found = []
    for first, last in zip(each.ptr[:-1], each.ptr[1:]):
        one = each.a[first:last].T @ each.g[first:last]
        found.append((one if each.transposed else one.T).reshape(-1))
    return torch.stack(found)

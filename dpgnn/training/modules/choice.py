"""The choice of a way to compute a module's gradients: the fastest that is correct.

A way is correct if its gradients equal those of one root at a time. This is tested on artificial trees, so
the choice depends on the module alone, not on data.
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
from dpgnn.models.trees import Trees, build_trees
from dpgnn.training.modules.batches import Kind, tree_batch
from dpgnn.training.modules.gradients import Rows, formed_by_loop, formed_by_vmap, row_gradients
from dpgnn.training.modules.masks import Masks, OneTree
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


def choose(network: ModuleNetwork, way: Way | None = None) -> Choice:
    """The fastest way whose gradients equal those of the loop on the trees of `probe`.

    Args:
        network: the module; its weights are perturbed, so that no tensor has equal entries.
        way: None chooses the fastest; otherwise this way is tested.

    Raises:
        ValueError: forward fails or returns something else, or the requested way is wrong for the module.
    """
    trees, x, y = probe(network)
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
        if why is None:
            reason = "; ".join(reasons) or "all parameters enter by rows"
            kept = tuple(kinds)
            return Choice(way=one, why=reason, gives_rows=gives_rows, draws=draws, kinds=kept)
        reasons.append(f"no {one}: {why}")
    require(
        way in (None, "loop"),
        "way",
        f"give the gradients of {network.name}",
        way,
        "; ".join(reasons),
    )
    return Choice(way="loop", why="; ".join(reasons), gives_rows=gives_rows, draws=draws)


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


def moved(network: ModuleNetwork, seed: int = 0) -> dict[str, Tensor]:
    """The module's weights, perturbed, in float64, so that zeros and equal entries hide nothing."""
    generator = torch.Generator().manual_seed(seed)
    return {
        name: value.detach().double()
        + 0.1 * torch.randn(value.shape, generator=generator, dtype=torch.float64)
        for name, value in network.module.named_parameters()
        if name in network.shapes
    }


def probe(network: ModuleNetwork, seed: int = 0) -> tuple[Trees, Tensor, Tensor]:
    """Artificial trees of the network's depth: single root, stars, chains, shared neighbours.

    Returns:
        trees; x float64, shape (num_rows, num_features); labels of the roots. The numbers of nodes, edges,
        both together, and roots are all different.
    """
    config, rng = network.config, np.random.default_rng(seed)
    stars = [[], [(1, 0)], [(1, 0), (2, 0)], [(k, 0) for k in range(1, 6)]]
    deep = [
        [(1, 0), (2, 1)], [(1, 0), (2, 0), (3, 1), (3, 2)], [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (2, 1)],
        [(1, 0), (2, 1), (0, 1), (3, 2), (4, 3), (1, 2)],
    ]  # fmt: skip
    lists = [*stars, *(deep if config.num_hops > 1 else []), [(1, 0), (2, 0), (3, 0)]]
    sizes = [1 + max((max(pair) for pair in arcs), default=0) for arcs in lists]
    ends = np.array([pair for arcs in lists for pair in arcs], dtype=np.int64).reshape(-1, 2)
    num_rows = sum(sizes)
    if config.task == "multiclass":
        y = rng.integers(0, config.num_outputs, len(lists))
    else:
        y = rng.integers(0, 2, (len(lists), config.num_outputs))
    given = {
        "node_ptr": np.concatenate([[0], np.cumsum(sizes)]), "node": np.arange(num_rows),
        "edge_ptr": np.concatenate([[0], np.cumsum([len(arcs) for arcs in lists])]),
        "edge_source": ends[:, 0], "edge_target": ends[:, 1],
    }  # fmt: skip
    trees = build_trees(**given, y=y, num_hops=max(config.num_hops, 1), conv="sage")
    x = torch.from_numpy(rng.standard_normal((num_rows, config.num_features)))
    return trees, x, torch.from_numpy(trees.y)

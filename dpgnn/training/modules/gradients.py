"""Per-root gradients of a user's module in three ways, and their clipped sum.

`rows`: one forward and backward pass for all trees; norms are computed from the rows where parameters enter,
without forming gradients of matrices. `vmap`: one gradient for each root, for trees of equal shape at once.
`loop`: one root at a time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from dpgnn.models.forward import per_root_loss
from dpgnn.models.modules import ModuleNetwork, call
from dpgnn.training import ghost
from dpgnn.training.clipping import clip_factors
from dpgnn.training.modules.batches import Kind, TreeBatch
from dpgnn.training.modules.masks import Masks, OneTree
from dpgnn.training.modules.watch import NoRows, Product, Watch, root_sums

Parts = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, kw_only=True, eq=False)
class Rows:
    """sum_t a_t^T g_t of each root, as rows.

    Attributes:
        a: (num_rows, num_in); g: (num_rows, num_out); a root's rows are consecutive.
        ptr: int64, shape (num_roots + 1,).
        transposed: the parameter has shape (num_in, num_out), otherwise (num_out, num_in).
    """

    a: Tensor
    g: Tensor
    ptr: np.ndarray
    transposed: bool = False


# each root's gradient of a tensor: its rows, or formed, shape (num_roots, number of entries)
Gradients = dict[str, "Rows | Tensor"]


def row_gradients(
    network: ModuleNetwork,
    module: torch.nn.Module,
    named: Mapping[str, Tensor],
    batch: TreeBatch,
    x: Tensor,
    y: Tensor,
    kinds: list[Kind] | None,
    masks: Masks | None = None,
) -> tuple[Gradients, Tensor, list[Kind]]:
    """Gradients of all roots of a batch by rows, with one forward and one backward pass.

    Args:
        x: (rows of the batch, num_features); y: labels of the roots.
        kinds: as found before; None determines them.

    Returns:
        gradients, the summed loss, and the kinds.

    Raises:
        NoRows: a parameter is used where rows cannot be assigned to roots.
    """
    leaves = {name: value.detach().requires_grad_() for name, value in named.items()}
    watch = Watch(leaves, batch, kinds, masks)
    with torch.enable_grad():
        with watch:
            out = call(module, leaves, x, batch.edge_index, network.name)
        if tuple(out.shape) != (len(x), network.config.num_outputs):
            raise NoRows(f"forward returns {tuple(out.shape)} for {len(x)} nodes")
        logits = out[torch.from_numpy(batch.ptr[:-1]).to(out.device)]
        loss = per_root_loss(network, logits, y).sum()
        asked = [use.z for use in watch.products] + [use.copies for use in watch.spreads]
        if not asked:
            raise NoRows("no parameter was seen in forward")
        grads = torch.autograd.grad(loss, asked, allow_unused=True, retain_graph=False)
    return _by_parameter(watch, grads, batch, leaves), loss.detach(), watch.kinds


def _by_parameter(
    watch: Watch, grads: Sequence[Tensor | None], batch: TreeBatch, leaves: dict[str, Tensor]
) -> Gradients:
    """Gradients at the uses of parameters, collected by parameter."""
    formed: dict[str, Tensor] = {}
    products: dict[str, list[Rows]] = defaultdict(list)
    for use, g in zip(watch.products, grads):
        if g is None:
            continue
        if use.bias:
            _add(formed, use.bias, _bias_sums(use, g, batch))
        products[use.weight].append(_nonzero(_rows_of(use, g, batch)))
    for spread, g in zip(watch.spreads, grads[len(watch.products) :]):
        if g is not None:
            for name, each in root_sums(spread, g, batch, leaves):
                _add(formed, name, each.detach())
    both = sorted(set(formed) & set(products))
    if both:
        raise NoRows(f"{both[0]} enters a matrix product and other places")
    return {**{name: _joined(uses) for name, uses in products.items()}, **formed}


def _bias_sums(use: Product, g: Tensor, batch: TreeBatch) -> Tensor:
    """Each root's sum of the rows of g, shape (num_roots, num_out)."""
    owner, _, _ = batch.owners(use.kind)
    rows = g if use.repeats == 1 else g.flatten(1, -2).sum(dim=1)
    return rows.new_zeros(batch.num_roots, g.shape[-1]).index_add_(0, owner, rows)


def _rows_of(use: Product, g: Tensor, batch: TreeBatch) -> Rows:
    """The terms that one use of a matrix adds to its gradient, a root's rows together."""
    _, ptr, order = batch.owners(use.kind)
    # half precision inside forward: the products of its values are summed, and measured, in float32
    kind = torch.promote_types(use.a.dtype, torch.float32)
    a, flat = use.a.to(kind), g.reshape(-1, g.shape[-1]).to(kind)
    if order is not None:
        moved = order if use.repeats == 1 else _repeated(order, use.repeats)
        a, flat = a[moved], flat[moved]
    return Rows(a=a, g=flat, ptr=ptr * use.repeats, transposed=use.transposed)


def formed_by_loop(
    network: ModuleNetwork, module: torch.nn.Module, named: Mapping[str, Tensor], x: Tensor,
    edge_index: Tensor, y: Tensor, masks: Masks | None = None, roots: Sequence[int] = (),
) -> tuple[dict[str, Tensor], Tensor]:  # fmt: skip
    """The gradient of each root by autograd of its own loss.

    Args:
        x: (num_roots, num_rows, num_features), of trees with the same edges; y: their labels.
        masks: of dropout, for these roots.

    Returns:
        name -> (num_roots, *shape), and the summed loss.
    """
    found: dict[str, list[Tensor]] = {name: [] for name in named}
    loss = x.new_zeros(())
    for rows, label, root in zip(x, y, roots or [0] * len(x)):
        leaves = {name: value.detach().requires_grad_() for name, value in named.items()}
        with torch.enable_grad():
            with OneTree(masks, root):
                out = call(module, leaves, rows, edge_index, network.name)
            one = per_root_loss(network, out.reshape(-1, out.shape[-1])[:1], label[None]).sum()
            grads = torch.autograd.grad(one, list(leaves.values()), allow_unused=True)
        loss += one.detach()
        for name, value in zip(leaves, grads):
            found[name].append(torch.zeros_like(named[name]) if value is None else value)
    return {name: torch.stack(values) for name, values in found.items()}, loss


def formed_by_vmap(
    network: ModuleNetwork, module: torch.nn.Module, named: Mapping[str, Tensor], x: Tensor,
    edge_index: Tensor, y: Tensor,
) -> tuple[dict[str, Tensor], Tensor]:  # fmt: skip
    """As `formed_by_loop`, with torch.func for all roots at once; without dropout."""

    def loss(leaves: dict[str, Tensor], rows: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        with OneTree(None):
            out = functional_call(module, leaves, (rows, edge_index))
        one = per_root_loss(network, out.reshape(-1, out.shape[-1])[:1], label[None]).sum()
        return one, one.detach()

    plain = {name: value.detach() for name, value in named.items()}
    gradients, losses = vmap(grad(loss, has_aux=True), in_dims=(None, 0, 0))(plain, x, y)
    return gradients, losses.sum()


def norms_of(
    gradients: Gradients, names: Sequence[str], num_roots: int
) -> tuple[np.ndarray, np.ndarray]:
    """Upper bounds on squared norms, and spreads; each float64, shape (num_tensors, num_roots)."""
    squared, spread = np.zeros((2, len(names), num_roots))
    for place, name in enumerate(names):
        each = gradients.get(name)
        if isinstance(each, Rows):
            a, g = (each.a, each.g)
            if a.device.type == "cpu":
                found = ghost.norm_array(a.contiguous(), g.contiguous(), each.ptr)
            else:
                found = torch.stack(ghost.root_norms(a, g, each.ptr)).cpu().numpy()
            squared[place], spread[place] = found[0], found[1]
        elif each is not None:
            length = torch.linalg.vector_norm(each, dim=1, dtype=torch.float64).cpu().numpy()
            squared[place] = length**2 * (1 + 2.0**-52 * (each.shape[1] + 8))
            spread[place] = length
    return squared, spread


def add_clipped(
    gradients: Gradients,
    num_roots: int,
    parts: Parts | None,
    sums: Mapping[str, Tensor],
    dtype: torch.dtype,
    spread_share: float = 0.0,
) -> None:
    """Clip each root's gradient and add them to `sums`; None for parts does not clip.

    Guarantee: as `clip_factors`; a root with a value that is not finite adds nothing.
    """
    names, unit = tuple(sums), torch.finfo(dtype).eps / 2
    factors = np.ones((len(names), num_roots))
    bad = np.zeros(num_roots, dtype=bool)
    if parts is not None:
        squared, spread = norms_of(gradients, names, num_roots)
        factors, bad = clip_factors(squared, spread, *parts, unit, spread_share)
    for place, name in enumerate(names):
        each, total = gradients.get(name), sums[name]
        if isinstance(each, Rows):
            a, g = each.a, each.g
            if parts is not None:
                counts = np.diff(each.ptr)
                factor = torch.from_numpy(np.repeat(factors[place], counts)).to(g)
                if bad.any():
                    rows = torch.from_numpy(np.repeat(bad, counts)).to(g.device)[:, None]
                    a, g = a.masked_fill(rows, 0.0), g.masked_fill(rows, 0.0)
                g = g * factor[:, None]
            a, g = a.to(total.dtype), g.to(total.dtype)
            left, right = (a, g) if each.transposed else (g, a)
            total.addmm_(left.T, right)
        elif each is not None:
            if bad.any():
                each = each.masked_fill(torch.from_numpy(bad).to(each.device)[:, None], 0.0)
            factor = torch.from_numpy(factors[place]).to(each)
            scaled = (each * factor[:, None]).to(total.dtype)
            total.add_(scaled.sum(dim=0).reshape(total.shape))


def _add(sums: dict[str, Tensor], name: str, value: Tensor) -> None:
    sums[name] = sums[name] + value if name in sums else value


def _repeated(order: Tensor, repeats: int) -> Tensor:
    return (order[:, None] * repeats + torch.arange(repeats, device=order.device)).reshape(-1)


def _nonzero(rows: Rows) -> Rows:
    """Without rows on which no loss depends, such as those of non-roots after the last hop."""
    if rows.g.device.type != "cpu":
        return rows
    # the first rows show whether checking all of them can pay
    if bool((rows.g[:64] != 0).any(dim=1).all()):
        return rows
    keep = torch.linalg.vector_norm(rows.g, ord=float("inf"), dim=1) != 0
    if int(keep.sum()) > 0.7 * len(keep):
        return rows
    ptr = np.concatenate([[0], np.cumsum(keep.numpy())])[rows.ptr]
    return Rows(a=rows.a[keep], g=rows.g[keep], ptr=ptr, transposed=rows.transposed)


def _joined(uses: list[Rows]) -> Rows:
    """Several uses of one matrix joined, a root's rows together."""
    if len(uses) == 1:
        return uses[0]
    counts = [np.diff(use.ptr) for use in uses]
    root = np.arange(len(counts[0]))
    owner = np.concatenate([np.repeat(root, count) for count in counts])
    order = torch.from_numpy(np.argsort(owner, kind="stable")).to(uses[0].a.device)
    if len({use.transposed for use in uses}) > 1:
        raise NoRows("a matrix is used as it is and transposed")
    return Rows(
        a=torch.cat([use.a for use in uses])[order], g=torch.cat([use.g for use in uses])[order],
        ptr=np.concatenate([[0], np.cumsum(sum(counts))]), transposed=uses[0].transposed,
    )  # fmt: skip

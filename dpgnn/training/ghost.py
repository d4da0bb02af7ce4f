"""The torch path: any network of `models`, on CPU or GPU, by autograd on layer outputs.

Autograd gives the gradient g of the summed loss by each linear layer's output; with the layer's input a,
root i's gradient is the sum of a_t^T g_t over i's rows. Its norm is computed from small Gram matrices and the
clipped sum from one product per layer, so no per-root gradient is formed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from dpgnn.models.forward import evaluate, per_root_loss, plain_linear
from dpgnn.models.network import Linear, Network
from dpgnn.training import _kernels as kernels
from dpgnn.training.chunks import ChunkLayout
from dpgnn.training.clipping import LARGEST_ROW, clip_factors

Record = tuple[Linear, Tensor, Tensor]
Norms = Callable[[Tensor, Tensor, np.ndarray], tuple[Tensor, Tensor, Tensor, Tensor]]
# the input of a linear layer -> the input with some entries set to 0 and the others scaled up
Dropout = Callable[[Tensor], Tensor]


def layer_rows(
    network: Network,
    parameters: Mapping[str, Tensor],
    layout: ChunkLayout,
    x: Tensor,
    y: Tensor,
    dropout: Dropout | None = None,
) -> list[Record]:
    """Inputs a and output gradients g of every linear layer, for the summed loss of a chunk.

    Guarantee: none; the result is sensitive and never leaves the process.

    Args:
        x: dense, shape (rows of level 0, num_features).
        y: labels of the chunk's roots.
        dropout: applied to the input of every linear layer; must treat every row independently, so that a
            root's gradient is a function of its own tree.

    Returns:
        (layer, a, g) in the order of `network.linears`; sensitive.
    """
    return _rows_and_loss(network, parameters, layout, x, y, dropout)[0]


def _rows_and_loss(
    network: Network,
    parameters: Mapping[str, Tensor],
    layout: ChunkLayout,
    x: Tensor,
    y: Tensor,
    dropout: Dropout | None,
) -> tuple[list[Record], Tensor]:
    """`layer_rows`, and the summed loss."""
    outputs: list[tuple[Linear, Tensor, Tensor]] = []

    def linear(op: Linear, a: Tensor) -> Tensor:
        if dropout is not None:
            a = dropout(a)
        z = plain_linear(parameters, op, a)
        if not z.requires_grad:
            z.requires_grad_()
        outputs.append((op, a.detach(), z))
        return z

    with torch.enable_grad():
        loss = per_root_loss(network, evaluate(network, parameters, layout, x, linear), y).sum()
    grads = torch.autograd.grad(loss, [z for _, _, z in outputs])
    return [(op, a, g) for (op, a, _), g in zip(outputs, grads)], loss.detach()


def add_clipped_sum(
    network: Network,
    parameters: Mapping[str, Tensor],
    layout: ChunkLayout,
    x: Tensor,
    y: Tensor,
    parts: tuple[np.ndarray, np.ndarray] | None,
    sums: Mapping[str, Tensor],
    dropout: Dropout | None = None,
    norms: Norms | None = None,
    spread_share: float = 0.0,
) -> Tensor:
    """Add a chunk's clipped per-root gradients to `sums`.

    Args:
        parts: from `Clipping.parts`; None adds plain gradients (no privacy).
        sums: named tensors, changed in place; float64 ones are summed in float64 for rows of any dtype.
        dropout: as in `layer_rows`.
        norms: how norms are computed; by default `root_norms`, on any device.
        spread_share: as in `clip_factors`.

    Roots with a value that is not finite add nothing.

    Guarantee: each root adds one term of norm at most the clipping's `total_norm`.

    Returns:
        the chunk's summed loss, a scalar; sensitive, for the progress of studies only.
    """
    records, loss = _rows_and_loss(network, parameters, layout, x, y, dropout)
    if parts is None:
        _add_plain(records, sums)
        return loss
    pointers = [layout.ptr[network.levels[op.source]] for op, _, _ in records]
    squared, spread = _all_norms(records, pointers, norms or root_norms)
    unit = torch.finfo(x.dtype).eps / 2
    factors, bad = clip_factors(squared, spread, *parts, unit, spread_share)
    named = dict(zip(network.shapes, factors))
    for record, ptr in zip(records, pointers):
        _add_scaled(record, ptr, named, bad, sums)
    return loss


def _add_plain(records: list[Record], sums: Mapping[str, Tensor]) -> None:
    for op, a, g in records:
        sums[f"{op.name}.weight"].addmm_(a.T, g)
        if op.bias:
            sums[f"{op.name}.bias"].add_(g.sum(dim=0))


def _add_scaled(
    record: Record,
    ptr: np.ndarray,
    factors: Mapping[str, np.ndarray],
    bad: np.ndarray,
    sums: Mapping[str, Tensor],
) -> None:
    """Add one layer's terms to `sums`, each root's scaled by its factors; those of `bad` roots are 0."""
    op, a, g = record
    counts, size = torch.from_numpy(np.diff(ptr)).to(g.device), int(ptr[-1])
    if bad.any():
        rows = _of_rows(bad, counts, size)[:, None]
        a, g = a.masked_fill(rows, 0.0), g.masked_fill(rows, 0.0)
    weight = _of_rows(factors[f"{op.name}.weight"], counts, size).to(g.dtype)
    if op.bias:
        bias = _of_rows(factors[f"{op.name}.bias"], counts, size).to(g.dtype)
        bias_sum = sums[f"{op.name}.bias"]
        bias_sum.add_(bias.to(bias_sum.dtype) @ g.to(bias_sum.dtype))
    weight_sum = sums[f"{op.name}.weight"]
    weight_sum.addmm_(a.to(weight_sum.dtype).T, (g * weight[:, None]).to(weight_sum.dtype))


def _of_rows(values: np.ndarray, counts: Tensor, num_rows: int) -> Tensor:
    """The value of a root for each of its rows."""
    moved = torch.from_numpy(values).to(counts.device)
    return torch.repeat_interleave(moved, counts, output_size=num_rows)


def _all_norms(
    records: list[Record], pointers: list[np.ndarray], norms: Norms
) -> tuple[np.ndarray, np.ndarray]:
    """Squared norms and spreads, each float64 (num_tensors, num_roots) on the host, in tensor order."""
    squared, spread = [], []
    for (op, a, g), ptr in zip(records, pointers):
        found = norms(a, g, ptr)
        squared += [found[0], found[2]][: 1 + op.bias]
        spread += [found[1], found[3]][: 1 + op.bias]
    # one transfer for all layers
    both = torch.stack([torch.stack(squared), torch.stack(spread)]).cpu().numpy()
    return both[0], both[1]


def compiled_norms(a: Tensor, g: Tensor, ptr: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """As `root_norms`, by compiled loops; both tensors are on the CPU."""
    squared_w, spread_w, squared_b, spread_b = torch.from_numpy(norm_array(a, g, ptr))
    return squared_w, spread_w, squared_b, spread_b


def norm_array(a: Tensor, g: Tensor, ptr: np.ndarray) -> np.ndarray:
    """The result of `compiled_norms` as an array, float64, shape (4, num_roots)."""
    found = np.empty((4, len(ptr) - 1))
    limit = formed_from(a.shape[1], g.shape[1])
    kernels.dense_norms(a.numpy(), g.numpy(), ptr, limit, *found)
    form_large(found, a, g, ptr, limit)
    return found


def form_large(found: np.ndarray, a: Tensor, g: Tensor, ptr: np.ndarray, limit: int) -> None:
    """Replace the diagonals of roots with more than `limit` rows by `formed_norms`."""
    large = np.flatnonzero(np.diff(ptr) > limit)
    if len(large):
        weight, _, bias, _ = formed_norms(a, g, ptr, large)
        # a non-finite diagonal marks the root; adding keeps the mark
        found[0, large] = weight.numpy() + np.where(np.isfinite(found[0, large]), 0.0, np.inf)
        found[2, large] = bias.numpy()


def root_norms(a: Tensor, g: Tensor, ptr: np.ndarray) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Upper bounds on the squared norms of sum_t a_t^T g_t and sum_t g_t per root, and their spreads.

    Args:
        a: (num_rows, num_in); g: (num_rows, num_out); rows of a root are consecutive.
        ptr: int64 (num_roots + 1,): where each root's rows start.

    Returns:
        squared_w, spread_w, squared_b, spread_b: float64, shape (num_roots,); sensitive.

    Source: Goodfellow (2015), arXiv:1510.01799; several rows: Li et al. (2022), arXiv:2110.05679.
    """
    counts = np.diff(ptr)
    if (counts == 1).all():
        return one_row_norms(a, g)
    out = torch.zeros(4, len(counts), dtype=torch.float64, device=a.device)
    for members, size in _buckets(counts):
        where = torch.from_numpy(members).to(a.device)
        if size > formed_from(a.shape[1], g.shape[1]):
            found = formed_norms(a, g, ptr, members)
        else:
            found = _gram_norms(a, g, ptr, members, size)
        out[:, where] = torch.stack(found)
    squared_w, spread_w, squared_b, spread_b = out
    return squared_w, spread_w, squared_b, spread_b


def formed_from(num_in: int, num_out: int) -> int:
    """Number of rows from which forming a gradient is cheaper than Gram matrices: T p d < T^2 (p + d) / 2."""
    return 2 * num_in * num_out // (num_in + num_out)


def one_row_norms(a: Tensor, g: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Norms where every root has one row: |a||g| and |g|."""
    aa = torch.linalg.vector_norm(a, dim=1, dtype=torch.float64)
    gg = torch.linalg.vector_norm(g, dim=1, dtype=torch.float64)
    product = torch.where(aa <= LARGEST_ROW, aa, torch.inf) * gg
    grow = 1 + 2.0**-52 * (a.shape[1] + g.shape[1] + 9)
    return product**2 * grow, product, gg**2 * grow, gg


def _buckets(counts: np.ndarray) -> list[tuple[np.ndarray, int]]:
    """Roots grouped by number of rows, rounded up to a power of two if they differ; none without rows."""
    if counts[0] > 0 and (counts == counts[0]).all():
        return [(np.arange(len(counts)), int(counts[0]))]
    sizes = 2 ** np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    sizes[counts == 0] = 0
    return [(np.flatnonzero(sizes == size), int(size)) for size in np.unique(sizes[sizes > 0])]


def _gram_norms(
    a: Tensor, g: Tensor, ptr: np.ndarray, members: np.ndarray, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Norms of roots with at most `size` rows from their Gram matrices, in float64."""
    counts = np.diff(ptr)[members]
    if (counts == size).all() and len(members) == len(ptr) - 1:
        wide_a = a.double().unflatten(0, (-1, size))
        wide_g = g.double().unflatten(0, (-1, size))
    else:
        step = np.arange(size)
        inside = step < counts[:, None]
        # padding repeats the root's own first row: the row of another root could bring in NaN
        rows = torch.from_numpy(ptr[members, None] + np.where(inside, step, 0)).to(a.device)
        mask = torch.from_numpy(inside).to(a.device)
        wide_a, wide_g = a[rows].double(), g[rows].mul_(mask[:, :, None]).double()
    gram_a, gram_g = wide_a @ wide_a.mT, wide_g @ wide_g.mT
    aa, gg = (gram.diagonal(dim1=1, dim2=2).clamp(min=0.0).sqrt() for gram in (gram_a, gram_g))
    aa = torch.where(aa <= LARGEST_ROW, aa, torch.inf)
    spread_w, spread_b = (aa * gg).sum(dim=1), gg.sum(dim=1)
    gamma = 2.0**-52 * (a.shape[1] + g.shape[1] + size * size + 8)
    squared_w = (gram_g * gram_a).sum(dim=(1, 2)).clamp(min=0.0) + gamma * spread_w**2
    squared_b = gram_g.sum(dim=(1, 2)).clamp(min=0.0) + gamma * spread_b**2
    return squared_w, spread_w, squared_b, spread_b


def formed_norms(
    a: Tensor, g: Tensor, ptr: np.ndarray, members: np.ndarray
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Norms of a few large roots whose gradients are formed one at a time, in float64."""
    found, size = [], a.shape[1] * g.shape[1]
    for i in members:
        rows = slice(int(ptr[i]), int(ptr[i + 1]))
        wide_a, wide_g = a[rows].double(), g[rows].double()
        aa, gg = wide_a.norm(dim=1), wide_g.norm(dim=1)
        aa = torch.where(aa <= LARGEST_ROW, aa, torch.inf)
        spread_w, spread_b = (aa * gg).sum(), gg.sum()
        # num_rows products per entry, then all entries of the norm
        gamma = 2.0**-52 * (len(wide_g) + size + 8)
        weight = torch.linalg.vector_norm(wide_a.T @ wide_g) + gamma * spread_w
        bias = torch.linalg.vector_norm(wide_g.sum(dim=0)) + gamma * spread_b
        found.append(torch.stack([weight**2, spread_w, bias**2, spread_b]))
    squared_w, spread_w, squared_b, spread_b = torch.stack(found, dim=1)
    return squared_w, spread_w, squared_b, spread_b

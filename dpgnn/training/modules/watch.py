"""Observe a module's forward: where parameters enter, and which rows belong to which root.

Where a parameter enters a matrix product, the product's input and output are kept. Where it enters an
entrywise sum or product, it is replaced by a copy for every row. Autograd then gives gradients by rows. Rows
belong to nodes, to edges, or to edges and then nodes. Which of these holds is determined on artificial trees,
where their numbers differ, and checked by comparison with one root at a time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dpgnn.models.modules import Stop
from dpgnn.training.modules.batches import Kind, TreeBatch
from dpgnn.training.modules.masks import DROPOUTS, Dropout, Masks

_T = torch.Tensor
ENTRY_BY_ENTRY = {
    torch.add, torch.sub, torch.mul, torch.div, torch.true_divide,
    _T.add, _T.sub, _T.mul, _T.div, _T.true_divide, _T.add_, _T.sub_, _T.mul_, _T.div_,
    _T.__add__, _T.__radd__, _T.__iadd__, _T.__sub__, _T.__rsub__, _T.__isub__, _T.__mul__, _T.__rmul__,
    _T.__imul__, _T.__truediv__, _T.__rtruediv__, _T.__itruediv__,
}  # fmt: skip
PRODUCTS = {torch.matmul, torch.mm, _T.matmul, _T.mm, _T.__matmul__}


class NoRows(Stop):
    """A parameter is used where rows cannot be assigned to roots; the message says where."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Product:
    """a W or a W^T: rows of inputs, and the output whose gradient is computed.

    Attributes:
        weight: name of W.
        bias: name of the tensor that is added to the output, or "".
        a: (num_rows, num_in); z: (..., num_out), the output in the autograd graph.
        kind: kind of the rows; repeats: rows for each row of the owner.
        transposed: W has shape (num_in, num_out), as in a @ W.
    """

    weight: str
    bias: str
    a: Tensor
    z: Tensor
    kind: Kind
    repeats: int
    transposed: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class Spread:
    """A parameter, or a tensor of parameters alone, that entered entrywise, with a copy for each row.

    Attributes:
        source: the tensor that was copied; computed from `name`.
        copies: its copies, whose gradient is computed.
    """

    source: Tensor
    copies: Tensor
    kind: Kind


class Watch(TorchFunctionMode):
    """Observes one forward.

    Args:
        named: leaf tensors by name, as passed to the module.
        batch: the trees.
        kinds: kind of the rows in each use, as found before; None determines them by the number of rows.
        masks: of dropout; None omits dropout.
    """

    def __init__(
        self,
        named: dict[str, Tensor],
        batch: TreeBatch,
        kinds: list[Kind] | None,
        masks: Masks | None,
    ) -> None:
        super().__init__()
        self._names = {id(value): name for name, value in named.items()}
        self._made: dict[int, Tensor] = {id(value): value for value in named.values()}
        self._batch, self._known = batch, kinds
        # nothing here refers to this object: a cycle would keep a chunk's rows until garbage collection
        self._drop = Dropout(masks)
        self.kinds: list[Kind] = []
        self.products: list[Product] = []
        self.spreads: list[Spread] = []

    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """One call of a function of torch."""
        kwargs = kwargs or {}
        if func in DROPOUTS:
            return self._drop(self._places, *args, **kwargs)
        tensors = _tensors(args) + _tensors(kwargs.values())
        mine = [t for t in tensors if id(t) in self._made]
        if not mine:
            return func(*args, **kwargs)
        if len(mine) == len(tensors):
            return self._derived(func, args, kwargs)
        if func is F.linear:
            return self._linear(*args, **kwargs)
        if func in PRODUCTS and not kwargs:
            return self._matmul(func, *args)
        if func is F.layer_norm:
            return self._layer_norm(*args, **kwargs)
        if func in ENTRY_BY_ENTRY:
            return func(*(self._copies(arg, tensors) for arg in args), **kwargs)
        names = sorted({self._names.get(id(t), "one made of parameters") for t in mine})
        raise NoRows(f"{', '.join(names)} enters {getattr(func, '__name__', func)}")

    def _places(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self._batch.places(self._kind(rows))

    def _derived(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tensor computed from parameters alone counts as a parameter; numbers and shapes do not."""
        out = func(*args, **kwargs)
        if isinstance(out, Tensor) and out.requires_grad:
            self._made[id(out)] = out
        return out

    def _linear(self, input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return self._product(input, weight, bias, transposed=False)

    def _matmul(self, func: Any, left: Tensor, right: Tensor) -> Tensor:
        if id(left) in self._made or right.ndim != 2:
            raise NoRows(f"{self._names.get(id(left), 'a parameter')} stands left in a product")
        return self._product(left, right, None, transposed=True)

    def _product(
        self, a: Tensor, weight: Tensor, bias: Tensor | None, *, transposed: bool
    ) -> Tensor:
        if id(a) in self._made or id(weight) not in self._names or a.ndim < 2:
            raise NoRows("a matrix product has a parameter in another place than the weight's")
        name, kind = self._names[id(weight)], self._kind(a)
        if bias is not None and id(bias) not in self._names:
            raise NoRows(f"the bias that is added with {name} is none of the module's tensors")
        plain = None if bias is None else bias.detach()
        z = a @ weight.detach() if transposed else F.linear(a, weight.detach(), plain)
        if not z.requires_grad:
            z.requires_grad_()
        rows = a.detach().reshape(-1, a.shape[-1])
        self.products.append(
            Product(
                weight=name, bias="" if bias is None else self._names[id(bias)], a=rows, z=z, kind=kind,
                repeats=math.prod(a.shape[1:-1]), transposed=transposed,
            )
        )  # fmt: skip
        # a view, so that later in-place operations do not change the output
        return z.view_as(z)

    def _layer_norm(
        self, input: Tensor, normalized_shape: Any, weight: Tensor | None = None,
        bias: Tensor | None = None, eps: float = 1e-5,
    ) -> Tensor:  # fmt: skip
        out = F.layer_norm(input, normalized_shape, None, None, eps)
        for factor in (weight, bias):
            if factor is not None:
                copies = self._copies(factor, [out, factor])
                out = out * copies if factor is weight else out + copies
        return out

    def _copies(self, value: Any, tensors: list[Tensor]) -> Any:
        """A copy of a parameter for every row of the other operand."""
        if not isinstance(value, Tensor) or id(value) not in self._made:
            return value
        shape = torch.broadcast_shapes(*(t.shape for t in tensors))
        apart = len(shape) > value.ndim or value.shape[0] == 1
        if not shape or not apart:
            raise NoRows(
                f"{self._names.get(id(value), 'a parameter')} has a row for each row of data"
            )
        kind = self._kind_of_size(shape[0])
        copies = value.detach().expand(shape).requires_grad_()
        self.spreads.append(Spread(source=value, copies=copies, kind=kind))
        return copies

    def _kind(self, rows: Tensor) -> Kind:
        return self._kind_of_size(rows.shape[0])

    def _kind_of_size(self, size: int) -> Kind:
        sizes, place = self._batch.sizes(), len(self.kinds)
        if self._known is not None:
            kind = self._known[place] if place < len(self._known) else "none"
            if sizes.get(kind) != size:
                raise NoRows("forward takes another course on other trees")
        else:
            found = [kind for kind, count in sizes.items() if count == size]
            if not found:
                raise NoRows(f"a parameter meets {size} rows, which are neither nodes nor edges")
            kind = found[0]
        self.kinds.append(kind)
        return kind


def root_sums(
    spread: Spread, gradient: Tensor, batch: TreeBatch, named: dict[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """Per-root gradients of the parameters of a spread: name, (num_roots, number of entries)."""
    source = spread.source
    extra = gradient.ndim - 1
    shape = (1,) * (gradient.ndim - source.ndim) + tuple(source.shape)
    dims = [d for d in range(1, extra + 1) if shape[d] == 1 and gradient.shape[d] != 1]
    rows = gradient.sum(dim=dims, keepdim=True) if dims else gradient
    owner, _, _ = batch.owners(spread.kind)
    each = rows.new_zeros((batch.num_roots, *rows.shape[1:])).index_add_(0, owner, rows)
    each = each.reshape(batch.num_roots, *source.shape)
    name = next((name for name, value in named.items() if value is source), None)
    if name is not None:
        yield name, each.flatten(1)
        return
    found = torch.autograd.grad(
        source, list(named.values()), each, is_grads_batched=True, allow_unused=True,
        retain_graph=True,
    )  # fmt: skip
    for key, value in zip(named, found):
        if value is not None:
            yield key, value.flatten(1)


def _tensors(values: Iterable[Any]) -> list[Tensor]:
    """Tensors among the arguments, and in lists of tensors among them."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value[:2]):
            found += _tensors(value)
    return found

"""The tensors of a model: names and shapes that its method, options, public sizes and plan decide.

A pattern of names lets any matrix through that is called a weight; an exact list does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dpgnn import methods
from dpgnn.core.checks import require
from dpgnn.methods.tensors import Shapes, Tensors, Trained

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.methods.base import Entry, Facts

# the candidate of `selected`
CHOSEN = "chosen"


def expected(
    entry: Entry, facts: Facts, released: str, tensors: Mapping[str, Tensor]
) -> Tensors | None:
    """The tensors that a private fit of an entry leaves.

    Guarantee: reads names, options, sizes and what the plan's claim releases; of `tensors` only the candidate
    that was chosen and how many nodes have a row.

    Args:
        entry: private, of any method.
        facts: public ones; a declared number of nodes may differ from the number of rows.
        released: what the plan's first claim releases.
        tensors: of a model, released and kept.

    Returns:
        names and shapes; None for a network that is a user's own code, whose tensors only that code knows,
        and for a method that does not state them.

    Raises:
        ValueError: the chosen candidate does not exist, or the number of rows is not that of the facts.
    """
    entry, chosen = trained(entry, tensors)
    made = _stated(entry, facts, released)
    if made is None:
        return None
    known, rows = facts.num_nodes, _rows(made, entry, facts, released, tensors)
    require(facts.declared or rows == known, "rows of the tensors", f"be {known}", rows)
    if rows != known:
        made = _stated(entry, replace(facts, num_nodes=rows), released)
        assert made is not None
    return replace(made, state=made.state | chosen)


def _stated(entry: Entry, facts: Facts, released: str) -> Tensors | None:
    """What the method states, for a number of rows that is that of the facts."""
    import torch

    stated = methods.get(entry.method).tensors
    if stated is None:
        return None
    with torch.device("meta"):  # shapes alone: a forged size takes no memory
        return stated(Trained(entry=entry, facts=facts, released=released))


def _rows(
    made: Tensors, entry: Entry, facts: Facts, released: str, tensors: Mapping[str, Tensor]
) -> int:
    """Rows of the first tensor that has one for each node: with one node more its shape is another."""
    more = _stated(entry, replace(facts, num_nodes=facts.num_nodes + 1), released)
    assert more is not None
    shapes, wider = made.state | made.kept, more.state | more.kept
    by_node = [name for name, shape in shapes.items() if wider[name] != shape]
    found = (len(tensors[n]) for n in by_node if n in tensors and tensors[n].ndim)
    return next(found, facts.num_nodes)


def check_exact(
    entry: Entry,
    facts: Facts,
    released: str,
    state: Mapping[str, Tensor],
    kept: Mapping[str, Tensor],
) -> bool:
    """Compare names and shapes of a model's tensors with those that its fit leaves.

    Guarantee: a tensor that the method does not make is refused, whatever it is called.

    Args:
        entry, facts, released: as for `expected`.
        state: released tensors.
        kept: rows that stay with the owner; none where a model was handed on without them.

    Returns:
        whether they could be compared; not those of a user's own module or of a method that states none.

    Raises:
        ValueError: a tensor is missing, of another shape, or not the method's; names it.
    """
    keeps = looks_up(entry) and entry.privacy_unit != "edge"
    rule = f"be left out: {entry.method} keeps none under {entry.privacy_unit}"
    require(keeps or not kept, "own rows", rule, sorted(kept))
    wanted = expected(entry, facts, released, {**kept, **state})
    if wanted is None:
        return False
    _compare("tensors", wanted.state, state)
    if kept:
        _compare("own rows", wanted.kept, kept)
    return True


def _compare(what: str, wanted: Shapes, found: Mapping[str, Tensor]) -> None:
    shapes = {name: tuple(tensor.shape) for name, tensor in found.items()}
    other = sorted(n for n in {*wanted, *shapes} if wanted.get(n) != shapes.get(n))
    told = {name: shapes.get(name, "missing") for name in other[:5]}
    asked = [f"{name} {wanted[name]}" if name in wanted else f"no {name}" for name in other[:5]]
    rule = f"be those that the method makes: {', '.join(asked)}"
    require(not other, what, rule, told, "take out what no fit of the method leaves")


def trained(entry: Entry, tensors: Mapping[str, Tensor]) -> tuple[Entry, Shapes]:
    """The entry whose tensors a model has, and the tensor that says which it is where it was chosen.

    Args:
        entry: of any method.
        tensors: of a model.

    Raises:
        ValueError: the chosen candidate does not exist.
    """
    if entry.method != "selected":
        return entry, {}
    from dpgnn.methods.selected.options import candidates

    known, place = candidates(entry), tensors.get(CHOSEN)
    whole = place is not None and not place.ndim and int(place) in range(len(known))
    require(whole, f"tensor {CHOSEN}", f"be a number in 0..{len(known) - 1}", place)
    assert place is not None
    return known[int(place)], {CHOSEN: ()}


def looks_up(entry: Entry) -> bool:
    """Whether an answer is a row of the fit, released or kept, so that only nodes of the fit have one.

    Args:
        entry: of any method; nothing else decides it.
    """
    from dpgnn.methods.shared.aggregate_answers import answer

    method = methods.get(entry.method)
    if entry.method == "selected":
        from dpgnn.methods.selected.options import base_of

        method = base_of(entry)
    return method.predict is answer or entry.privacy_unit == "edge"

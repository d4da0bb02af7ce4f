"""Layers prepared for queries: unperturbed rows are computed once, then only the changes of each query."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.attacks.differences import Differences, at_nodes, wanted_rows
from dpgnn.methods.shared.layers import (
    Features,
    Joined,
    Layers,
    Offset,
    Product,
    RowWise,
    Spread,
    Step,
    Sum,
)

# a difference below this share of its row is rounding
ROUNDING = 1e-12


class Stack:
    """A model prepared for queries.

    Args:
        layers: as the method states them.
        num_nodes: of the graph of the fit.
    """

    def __init__(self, layers: Layers, num_nodes: int) -> None:
        self.num_nodes = num_nodes
        self.operator = layers.operator
        self.columns = None if layers.operator is None else sp.csc_array(layers.operator)
        self.steps = _in_order(layers.logits)
        self.num_spreads = sum(isinstance(step, Spread) for step in self.steps)
        weights = [step.weight for step in self.steps if isinstance(step, Product)]
        self.width = max((weight.shape[1] for weight in weights), default=1)
        # before and after each row-wise layer, without perturbation
        self._before: dict[Step, np.ndarray] = {}
        self._after: dict[Step, np.ndarray] = {}
        self._compute_unperturbed()

    @cached_property
    def rows_of_a_query(self) -> int:
        """Number of rows that one query may change in a layer."""
        return 1 if self.columns is None else reach(self.columns, self.num_spreads)

    def ask(
        self, nodes: np.ndarray, before: np.ndarray, after: np.ndarray, keep: np.ndarray
    ) -> Differences:
        """Changed logits of the queries, at the needed rows.

        Args:
            nodes: int64, shape (num_queries,): perturbed.
            before, after: float64, shape (num_queries, num_features): their rows.
            keep: bool, shape (num_queries, num_nodes): rows that are read.
        """
        wanted = [keep]
        if self.operator is not None:
            wanted = wanted_rows(self.operator, keep, self.num_spreads)
        masks = iter(wanted)
        found: dict[Step, Differences] = {}
        for step in self.steps:
            match step:
                case Features():
                    first, second = step.encode(nodes, before), step.encode(nodes, after)
                    value = start(nodes, first, second, self.num_nodes)
                case Product():
                    value = found[step.source].times(step.weight)
                case Spread():
                    value = found[step.source].spread(self.columns, keep=next(masks))
                    value = value.scaled(step.factor)
                case Offset():
                    value = found[step.source]
                case Sum():
                    value = found[step.left].plus(found[step.right].scaled(step.weight))
                case RowWise():
                    base, ends = self._before[step], self._after.get(step)
                    value = found[step.source].through(base, step.layer, ends)
                case Joined():
                    value = joined([found[source] for source in step.sources], keep)
            found[step] = value
        return found[self.steps[-1]]

    def _compute_unperturbed(self) -> None:
        """The rows before each row-wise layer, and after it if they can be reused."""
        row_wise = [place for place, step in enumerate(self.steps) if isinstance(step, RowWise)]
        bases: dict[Step, Any] = {}
        # layers after the last row-wise one are linear and need no base
        for step in self.steps[: row_wise[-1] if row_wise else 0]:
            bases[step] = self._unperturbed(step, bases)
            if not isinstance(step, Features):
                self.width = max(self.width, bases[step].shape[1])
            if isinstance(step, RowWise) and step.exact:
                self._after[step] = bases[step]
        for place in row_wise:
            layer = self.steps[place]
            assert isinstance(layer, RowWise)
            self._before[layer] = bases[layer.source]

    def _unperturbed(self, step: Step, bases: dict[Step, Any]) -> Any:
        match step:
            case Features():
                return step.rows
            case Product():
                return bases[step.source] @ step.weight
            case Spread():
                return step.factor * (self.operator @ bases[step.source])
            case Offset():
                return bases[step.source] + step.value
            case Sum():
                return bases[step.left] + step.weight * bases[step.right]
            case RowWise():
                return step.layer(np.arange(self.num_nodes), bases[step.source])
            case Joined():
                return np.concatenate([bases[source] for source in step.sources], axis=1)


def start(nodes: np.ndarray, before: np.ndarray, after: np.ndarray, num_nodes: int) -> Differences:
    """Changed rows of the first layer; differences from rounding count as unchanged."""
    value = after - before
    value[np.abs(value) <= ROUNDING * np.abs(before).max(axis=1, keepdims=True)] = 0.0
    return at_nodes(nodes, value, num_nodes)


def joined(parts: list[Differences], keep: np.ndarray) -> Differences:
    """Channels side by side at the rows that are read: bool, shape (num_queries, num_nodes)."""
    masks = [keep[part.query, part.node] for part in parts]
    keys = [part.key[mask] for part, mask in zip(parts, masks)]
    key = np.unique(np.concatenate(keys))
    columns = []
    for part, mask, own in zip(parts, masks, keys):
        value = np.zeros((len(key), part.value.shape[1]))
        value[np.searchsorted(key, own)] = part.value[mask]
        columns.append(value)
    value = np.concatenate(columns, axis=1)
    return Differences(num_nodes=parts[0].num_nodes, key=key, value=value)


def reach(columns: sp.csc_array, hops: int) -> int:
    """An upper estimate of the mean number of rows that a query changes."""
    degree = columns.nnz / columns.shape[0] + 1
    # a node is reached by its degree: the mean over edges of the degree, not the mean over nodes
    counts = np.diff(columns.indptr).astype(np.float64)
    weighted = float((counts**2).sum() / max(counts.sum(), 1.0)) + 1
    return int(min(columns.shape[0], degree * weighted ** max(hops - 1, 0)))


def _sources(step: Step) -> tuple[Step, ...]:
    match step:
        case Features():
            return ()
        case Sum():
            return step.left, step.right
        case Joined():
            return step.sources
    return (step.source,)


def _in_order(last: Step) -> list[Step]:
    """The steps of an expression in topological order."""
    order: dict[Step, None] = {}
    waiting: list[tuple[Step, bool]] = [(last, False)]
    while waiting:
        step, ready = waiting.pop()
        if ready:
            order.setdefault(step)
        elif step not in order:
            waiting.append((step, True))
            waiting += [(source, False) for source in reversed(_sources(step))]
    return list(order)

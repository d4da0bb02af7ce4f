"""Stand-in graphs: their homophily is by construction, so results on them are kept apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from dpgnn.data.datasets import is_stand_in

T = TypeVar("T")


def on_real_graphs(items: Iterable[T], dataset: Callable[[T], str]) -> list[T]:
    """Items whose data set is not a stand-in, in their order."""
    return [item for item in items if not is_stand_in(dataset(item))]


def on_real_graphs_if_any(items: Sequence[T], dataset: Callable[[T], str]) -> list[T]:
    """Items whose data set is not a stand-in; all items if every data set is one."""
    return on_real_graphs(items, dataset) or list(items)

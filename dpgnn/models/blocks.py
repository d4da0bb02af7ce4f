"""Inference on a graph on disk: the asked nodes in blocks, each with all rows that it reads.

A block has the nodes within r hops of its asked nodes, ordered by distance, so the rows needed after hop k,
those within r - k hops, are a prefix. Lists are complete and weights use the degrees of the whole graph, as
`forward.full_graph` has it; only the order of additions in matrix products may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpgnn.core.checks import one_of, require
from dpgnn.data.stored import StoredLists
from dpgnn.models.forward import _csr, evaluate
from dpgnn.models.network import CONVS, Conv, Network

# largest numbers of list entries and asked nodes of a block, unless one node alone exceeds them
MOST_ENTRIES, MOST_ASKED = 1 << 18, 1 << 14


@dataclass(frozen=True, kw_only=True, eq=False)
class Block:
    """The layout (see `forward.Layout`) of some asked nodes.

    Attributes:
        nodes: int64, shape (rows of level 0,): ids, the asked ones first.
        sizes: rows of level 0, 1, ..., r.
        ptr, source: lists of the rows of level 1, as positions in `nodes`; int64.
        weight: float32, of each entry.
    """

    nodes: np.ndarray
    sizes: tuple[int, ...]
    ptr: Tensor
    source: Tensor
    weight: Tensor

    def keep(self, hop: int, h: Tensor) -> Tensor:
        """Rows within r - hop hops of an asked node."""
        return h[: self.sizes[hop]]

    def aggregate(self, hop: int, h: Tensor) -> Tensor:
        """One sparse product."""
        ptr, end = self._lists(hop)
        shape = (self.sizes[hop], self.sizes[hop - 1])
        weight = self.weight[:end].to(h.dtype)
        return _csr(ptr, self.source[:end], weight, shape) @ h

    def entries(self, hop: int) -> tuple[Tensor, Tensor, int]:
        """Entries of the hop."""
        ptr, end = self._lists(hop)
        target = torch.repeat_interleave(torch.arange(self.sizes[hop]), ptr.diff())
        return target, self.source[:end], self.sizes[hop]

    def _lists(self, hop: int) -> tuple[Tensor, int]:
        ptr = self.ptr[: self.sizes[hop] + 1]
        return ptr, int(ptr[-1])


class _TooMany(Exception):
    """A block would read more than allowed."""


def block_of(
    lists: StoredLists, asked: np.ndarray, *, num_hops: int, conv: Conv, most: int | None = None
) -> Block:
    """The layout of some nodes.

    Args:
        lists: complete lists of all nodes, without the nodes themselves.
        asked: int64, shape (n,), each once.
        num_hops: r >= 1.
        conv: decides entries and weights; not `weighted`.
        most: largest number of entries; None allows any number.

    Raises:
        ValueError: another `conv`.
    """
    one_of("conv", conv, CONVS[:5])
    nodes, sizes = asked, [len(asked)]
    found: list[tuple[np.ndarray, np.ndarray]] = []
    total, frontier = 0, asked
    for _ in range(num_hops):
        total += int(lists.lengths(frontier).sum())
        if most is not None and total > most:
            raise _TooMany
        found.append(lists.of(frontier))
        frontier = np.setdiff1d(found[-1][1], nodes)
        nodes = np.concatenate([nodes, frontier])
        sizes.append(len(nodes))
    ptr, source = _one_after_the_other(found)
    return _weighted(lists, nodes, tuple(sizes[::-1]), ptr, source, conv)


def _one_after_the_other(
    found: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    lengths = np.concatenate([np.diff(ptr) for ptr, _ in found])
    return np.concatenate([[0], np.cumsum(lengths)]), np.concatenate([s for _, s in found])


def _weighted(
    lists: StoredLists, nodes: np.ndarray, sizes: tuple[int, ...], ptr: np.ndarray,
    source: np.ndarray, conv: Conv,
) -> Block:  # fmt: skip
    """Entries as positions in `nodes`, with the weights of `conv`; a node that reads itself comes first."""
    order = np.argsort(nodes)
    place = order[np.searchsorted(nodes, source, sorter=order)]
    rows = len(ptr) - 1
    degree = np.diff(ptr)
    own = 0 if conv == "sage" else 1
    start = ptr + own * np.arange(rows + 1)
    entries = np.empty(start[-1], np.int64)
    at = np.arange(len(source)) + own * (np.repeat(np.arange(rows), degree) + 1)
    entries[at] = place
    if own:
        entries[start[:-1]] = np.arange(rows)
    sizes_of = np.repeat(degree, degree + own)  # of the row that an entry belongs to
    weight = np.ones(len(entries))
    if conv == "gcn":
        weight = 1.0 / (sizes_of + 1.0)
    elif conv == "sage":
        weight = 1.0 / sizes_of
    elif conv == "symmetric":
        other = lists.lengths(nodes)[entries]
        weight = 1.0 / np.sqrt((sizes_of + 1.0) * (other + 1.0))
        weight[start[:-1]] = 1.0 / (degree + 1.0)
    return Block(
        nodes=nodes, sizes=sizes, ptr=torch.from_numpy(start), source=torch.from_numpy(entries),
        weight=torch.from_numpy(weight.astype(np.float32)),
    )  # fmt: skip


def blocks_of(
    lists: StoredLists, asked: np.ndarray, *, num_hops: int, conv: Conv, most: int = MOST_ENTRIES
) -> Iterator[tuple[np.ndarray, Block]]:
    """Blocks of consecutive asked nodes; one that would have more than `most` entries is halved.

    A node that reads more by itself is a block of its own.

    Returns:
        the asked nodes of each block, and its layout.
    """
    waiting = [asked[i : i + MOST_ASKED] for i in range(0, len(asked), MOST_ASKED)][::-1]
    while waiting:
        part = waiting.pop()
        limit = most if len(part) > 1 else None
        try:
            block = block_of(lists, part, num_hops=num_hops, conv=conv, most=limit)
        except _TooMany:
            half = len(part) // 2
            waiting += [part[half:], part[:half]]
            continue
        yield part, block


def stored_answers(
    network: Network, x: Any, lists: StoredLists | None, asked: np.ndarray
) -> Callable[[Mapping[str, Tensor]], Tensor]:
    """Named parameters -> logits of the asked nodes, block by block; nothing is kept between calls.

    Args:
        network: its operations.
        x: rows read by position, float32, shape (num_nodes, num_features).
        lists: complete lists; None if the network has no hop.
        asked: int64, shape (n,), each once.

    Returns:
        a function to float32, shape (n, num_outputs). With hops its values read other nodes' records, so a
        claim about the weights does not cover them.

    Raises:
        ValueError: the network has a hop and no lists are given.
    """
    hops = network.config.num_hops
    require(not hops or lists is not None, "lists", "be given for a network with hops", None)

    @torch.no_grad()
    def logits(parameters: Mapping[str, Tensor]) -> Tensor:
        out = torch.empty(len(asked), network.config.num_outputs)
        done = 0
        for rows, layout in _pieces(network, lists, asked):
            size = min(MOST_ASKED, len(asked) - done) if layout is None else layout.sizes[-1]
            inputs = torch.from_numpy(x[rows])
            out[done : done + size] = evaluate(network, parameters, layout, inputs)  # type: ignore[arg-type]
            done += size
        return out

    return logits


def _pieces(
    network: Network, lists: StoredLists | None, asked: np.ndarray
) -> Iterator[tuple[np.ndarray, Block | None]]:
    """Rows that are read at once, and how they relate."""
    config = network.config
    if lists is None or not config.num_hops:
        for first in range(0, len(asked), MOST_ASKED):
            yield asked[first : first + MOST_ASKED], None
        return
    for _, block in blocks_of(lists, asked, num_hops=config.num_hops, conv=config.conv):
        yield block.nodes, block

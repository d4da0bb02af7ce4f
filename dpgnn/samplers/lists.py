"""Sampled lists (the sources that each root reads), from arcs in memory or streamed, and their trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np

from dpgnn.core.checks import at_least, require
from dpgnn.samplers import _kernels, _ragged, _top_k
from dpgnn.samplers.subgraphs import Subgraphs

PULLED = 4  # number of ranges of readers that are processed one after another
# arcs as an array of shape (2, num_arcs), or a function that starts a new pass over such chunks
Arcs = np.ndarray | Callable[[], Iterator[np.ndarray]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Lists:
    """Sampled lists: node v reads sources[pointer[v]:pointer[v + 1]].

    Attributes:
        pointer: int64, shape (num_nodes + 1,).
        sources: int32 node ids, ascending inside a list.
    """

    pointer: np.ndarray
    sources: np.ndarray

    @property
    def num_nodes(self) -> int:
        """Size of the id universe."""
        return len(self.pointer) - 1

    def edge_index(self) -> np.ndarray:
        """The sampled arcs: int64, shape (2, num_arcs), sorted by target, then source."""
        targets = np.repeat(np.arange(self.num_nodes), np.diff(self.pointer))
        return np.stack([self.sources.astype(np.int64), targets])


def arc_chunks(arcs: Arcs, num_nodes: int) -> Iterator[np.ndarray]:
    """One pass over the arcs in chunks of shape (2, n).

    Args:
        arcs: int, shape (2, num_arcs), or a function that yields chunks of that form.
        num_nodes: size of the id universe, < 2^31.

    Raises:
        ValueError: a chunk has another shape, or an id is not in 0..num_nodes-1.
    """
    require(num_nodes < 2**31, "num_nodes", "be < 2^31", num_nodes)
    for chunk in [arcs] if isinstance(arcs, np.ndarray) else arcs():
        require(chunk.ndim == 2 and chunk.shape[0] == 2, "arcs", "have shape (2, n)", chunk.shape)
        inside = not chunk.size or (chunk.min() >= 0 and chunk.max() < num_nodes)
        require(bool(inside), "arcs", f"hold ids in 0..{num_nodes - 1}", "an id outside")
        yield chunk


def write_own_arcs(
    place: np.ndarray, source: np.ndarray, target: np.ndarray, found: np.ndarray
) -> int:
    """Write the arcs whose source has a position, without loops, to the first columns of `found`.

    Args:
        place: int32, shape (num_nodes,); -1 for nodes whose arcs are not needed.
        source, target: int, shape (n,).
        found: int32, shape (2, >= n): positions of the sources, and the targets.

    Returns:
        number of written arcs.
    """
    return int(_kernels.arcs_of(place, source, target, found[0], found[1]))


def node_mask(num_nodes: int, idx: np.ndarray, name: str) -> np.ndarray:
    """uint8, shape (num_nodes,): 1 at `idx`.

    Args:
        num_nodes: size of the id universe.
        idx: integer ids, shape (n,), each once.
        name: for the message.

    Raises:
        ValueError: an id is out of range or repeated.
    """
    idx = np.asarray(idx)
    require(idx.ndim == 1 and idx.dtype.kind in "iu", name, "be integer node ids", str(idx.dtype))
    inside = not len(idx) or (idx.min() >= 0 and idx.max() < num_nodes)
    require(bool(inside), name, f"lie in 0..{num_nodes - 1}", "an id outside")
    mask = np.zeros(num_nodes, np.uint8)
    mask[idx] = 1
    require(int(mask.sum()) == len(idx), name, "hold each id once", "a repeated id")
    return mask


def top_k_slots(
    arcs: Arcs,
    num_nodes: int,
    max_degree: int,
    *,
    by: str,
    group_ok: np.ndarray,
    item_ok: np.ndarray,
    key: np.ndarray,
    order: str = "group",
    num_workers: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """For each node the `max_degree` arcs of smallest keyed priority, in one pass.

    Memory: 4 * max_degree + 4 bytes for each node, for any number of arcs.

    Guarantee: the list of a group is a function of its own arcs, the masks and the key; no list is longer
    than `max_degree`.

    Args:
        by: "source" groups arcs by their source and keeps targets; "target" the other way round.
        group_ok, item_ok: uint8 masks; arcs with an end outside are not offered.
        order: priority of (group, item) ("group") or of (item, group) ("item").
        num_workers: threads; the result is the same for any number.

        key: uint64, shape (2,), from `draw_key`.

    Returns:
        slots (int32, shape (num_nodes, max_degree)) and counts (int32, shape (num_nodes,)); sensitive.

    Raises:
        ValueError: `arcs` has another shape or an id outside 0..num_nodes-1.
    """
    by_item = ("group", "item").index(order) == 1
    if max_degree == 0:
        max_degree, group_ok = 1, np.zeros_like(group_ok)  # check the arcs; none is kept
    rows = np.full(num_nodes * max_degree + int(_top_k.EIGHT), -1, np.int32)
    limits = np.full(num_nodes, _top_k.OPEN, np.uint32)
    groups_in, items_in = (np.packbits(mask, bitorder="little") for mask in (group_ok, item_ok))

    def work(chunk: np.ndarray, own: slice) -> None:
        group, item = (chunk[0], chunk[1]) if by == "source" else (chunk[1], chunk[0])
        _top_k.offer(
            group, item, groups_in, items_in, key, by_item, own.start, own.stop, rows, max_degree,
            limits,
        )  # fmt: skip

    _each_chunk(arcs, num_nodes, num_workers, work)
    counts = limits.view(np.int32)
    _top_k.count_rows(rows, max_degree, limits, counts)
    return rows[: num_nodes * max_degree].reshape(num_nodes, max_degree), counts


def thinned_slots(
    arcs: Arcs,
    num_nodes: int,
    max_degree: int,
    *,
    source_ok: np.ndarray,
    target_ok: np.ndarray,
    key: np.ndarray,
    coins: str,
    num_workers: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """SAMPLE-EDGELISTS in two passes; lists with more than `max_degree` survivors are emptied.

    Memory: 4 * max_degree + 8 bytes a node, up to 12 more unless coins = "pair".

    Args:
        source_ok, target_ok: uint8 masks of the ends that take part.
        coins: what a coin is keyed by: "pair", "position" in the list, or position and length ("list").

    Returns, Raises:
        as `top_k_slots` by source.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Algorithm 1.
    """
    slots, counts = np.empty((num_nodes, max_degree), np.int32), np.zeros(num_nodes, np.int32)
    lengths = _lengths(arcs, num_nodes, source_ok, target_ok, num_workers)
    by_position = coins != "pair"
    seen = np.zeros(num_nodes if by_position else 0, np.int32)
    keys_of_lists = lengths.astype(np.uint64) if coins == "list" else np.zeros(len(seen), np.uint64)
    _kernels.coin_limits(lengths, max_degree)

    def thin(chunk: np.ndarray, own: slice) -> None:
        _kernels.thin_lists(
            chunk[0], chunk[1], source_ok, target_ok, key, by_position, keys_of_lists, own.start,
            own.stop, lengths, seen, slots, counts,
        )  # fmt: skip

    _each_chunk(arcs, num_nodes, num_workers, thin)
    counts[counts > max_degree] = 0
    return slots, counts


def _lengths(
    arcs: Arcs, num_nodes: int, source_ok: np.ndarray, target_ok: np.ndarray, num_workers: int
) -> np.ndarray:
    """Number of readers of each node among the allowed ends; uint32, shape (num_nodes,)."""
    lengths = np.zeros(num_nodes, np.uint32)

    def count(chunk: np.ndarray, own: slice) -> None:
        source, target = chunk
        _kernels.count_arcs(source, target, source_ok, target_ok, own.start, own.stop, lengths)

    _each_chunk(arcs, num_nodes, num_workers, count)
    return lengths


def lists_of(slots: np.ndarray, counts: np.ndarray) -> Lists:
    """The lists of readers: slots[u] holds the nodes that read u.

    Memory: 8 bytes a node and a quarter of `slots` more; slots and counts are used up.

    Args:
        slots: int32, shape (num_nodes, K), C-contiguous; becomes the memory of the result.
        counts: int32, shape (num_nodes,): ids in each row.
    """
    packed, pointer = slots.reshape(-1), np.zeros(len(counts) + 1, np.int64)
    total = int(_kernels.pack_rows(packed, slots.shape[1], counts, pointer))
    begins = pointer[1:]  # starts of the lists, and ends once the lists are written
    lows = np.unique(np.searchsorted(begins, np.arange(PULLED) * total // PULLED, "right") - 1)
    starts = begins[lows].tolist()
    stops = [*starts[1:], total]
    room = np.empty(max(map(int.__sub__, stops, starts), default=0), np.int32)
    for low, start, stop in reversed(list(zip(lows.tolist(), starts, stops))):
        found = room[: stop - start]
        _kernels.pull_range(packed, counts, pointer, low, found)
        packed[start:stop] = found
    if slots.flags.owndata:  # frees the memory that the lists do not need
        del packed
        slots.resize(total, refcheck=False)
        return Lists(pointer=pointer, sources=slots)
    # a view keeps all of the slots in memory
    sources = packed[:total] if 2 * total > len(packed) else packed[:total].copy()
    return Lists(pointer=pointer, sources=sources)


def shorten(lists: Lists, limit: int, *, key: np.ndarray, by_priority: bool) -> Lists:
    """Cut every list to `limit` sources, by keyed priority or to the first ones.

    Args:
        lists: of any lengths.
        limit: largest number of sources of a list, >= 0.
        key: uint64, shape (2,), from `draw_key`.
        by_priority: keep the smallest priorities; False keeps the first.

    Raises:
        ValueError: limit is negative.
    """
    pointer, sources = _kernels.shorten_lists(
        lists.pointer, lists.sources, at_least("limit", limit, 0), key, by_priority
    )
    return Lists(pointer=pointer, sources=sources)


def present_mask(num_nodes: int, present: np.ndarray | None) -> np.ndarray:
    """uint8 mask of nodes with a record."""
    if present is None:
        return np.ones(num_nodes, np.uint8)
    return np.ascontiguousarray(present, dtype=np.uint8)


def present_roots(train_idx: np.ndarray, present: np.ndarray | None) -> np.ndarray:
    """Ascending int64 ids of the training nodes that have a record."""
    roots = np.sort(np.asarray(train_idx, dtype=np.int64))
    return roots if present is None else roots[np.asarray(present, dtype=bool)[roots]]


def trees(
    lists: Lists, roots: np.ndarray, *, num_hops: int, max_occurrences: int, num_workers: int = 1
) -> Subgraphs:
    """The subgraph of every root: the nodes and arcs of its depth-`num_hops` tree, each once.

    A message-passing network of `num_hops` layers gives the root the same output on this subgraph, on
    the tree with repeated nodes, and on the whole sampled graph: all arcs into nodes of depth below
    num_hops are present. Memory: the result, and for more than one hop 16 bytes for each node and worker.

    Guarantee: that of the promise of the sampler that made the lists, with its unit and relation.

    Args:
        lists: the sources that each node reads.
        roots: int64 node ids, ascending.
        num_hops: r >= 0.
        max_occurrences: the sampler's bound on the subgraphs that one node is in.
        num_workers: threads; the bytes are the same for any number.

    Returns:
        one subgraph per root, in the order of `roots`; sensitive.

    Raises:
        ValueError: num_workers is below 1.

    Source: Daigavane et al. (2021), arXiv:2111.15521, Algorithms 2 and 3.
    """
    roots = np.ascontiguousarray(roots, dtype=np.int64)
    size = 0 if num_hops == 1 else lists.num_nodes  # trees of one hop mark no nodes
    node_ptr, edge_ptr = _tree_pointers(lists, roots, num_hops, size, num_workers)
    nodes, depth = np.empty(node_ptr[-1], np.int64), np.empty(node_ptr[-1], np.int8)
    heads, tails = np.empty(edge_ptr[-1], np.int32), np.empty(edge_ptr[-1], np.int32)

    def fill(part: slice) -> None:
        mark = np.full(size, -1, np.int64)
        _ragged.fill_trees(
            lists.pointer, lists.sources, roots[part], num_hops, mark,
            node_ptr[part.start :], edge_ptr[part.start :], nodes, depth, heads, tails,
        )  # fmt: skip

    in_threads(fill, len(roots), num_workers)
    return Subgraphs(
        roots=roots,
        node_ptr=node_ptr,
        nodes=nodes,
        edge_ptr=edge_ptr,
        edge_source=heads,
        edge_target=tails,
        depth=depth,
        max_occurrences=max_occurrences,
    )


def _each_chunk(
    arcs: Arcs, num_nodes: int, num_workers: int, work: Callable[[np.ndarray, slice], None]
) -> None:
    """Run `work` on every chunk for every range of nodes; ranges write to disjoint memory."""
    for chunk in arc_chunks(arcs, num_nodes):
        in_threads(partial(work, chunk), num_nodes, num_workers)


def in_threads(work: Callable[[slice], None], size: int, num_workers: int) -> None:
    """Run `work` on slices that make up 0..size-1, in threads; the kernels release the interpreter's lock.

    Raises:
        ValueError: num_workers is below 1.
    """
    bounds = np.linspace(0, size, at_least("num_workers", num_workers, 1) + 1).astype(int).tolist()
    parts = [slice(low, high) for low, high in zip(bounds, bounds[1:]) if low < high]
    if len(parts) == 1:
        work(parts[0])
        return
    with ThreadPoolExecutor(num_workers) as pool:
        list(pool.map(work, parts))


def _tree_pointers(
    lists: Lists, roots: np.ndarray, num_hops: int, size: int, num_workers: int
) -> tuple[np.ndarray, np.ndarray]:
    """Starts of each root's nodes and edges, int64 of shape (num_roots + 1,)."""
    node_ptr, edge_ptr = np.zeros(len(roots) + 1, np.int64), np.zeros(len(roots) + 1, np.int64)
    node_count, edge_count = node_ptr[1:], edge_ptr[1:]

    def measure(part: slice) -> None:
        mark = np.full(size, -1, np.int64)
        _ragged.measure_trees(
            lists.pointer, lists.sources, roots[part], num_hops, mark, np.empty_like(mark),
            node_count[part], edge_count[part],
        )  # fmt: skip

    in_threads(measure, len(roots), num_workers)
    np.cumsum(node_count, out=node_count)
    np.cumsum(edge_count, out=edge_count)
    return node_ptr, edge_ptr

"""Samplers against plain Python and against their own memory bound: goals 10 to 12, as ratios in one run.

Ratios of one thread are of processor time, so that other processes disturb them little; those of two
threads are of elapsed time and need a quiet machine.

python -m benchmarks.samplers            about two minutes
python -m benchmarks.samplers --full     a graph of the size of ogbn-products, 2.45 M nodes, 123 M arcs, 2 GB;
                                         writes the table of docs/performance.md
python -m benchmarks.samplers --full --only large --out benchmarks/samplers.json
                                         that graph alone; the other lines stay as the file has them
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._page import fill
from benchmarks._timing import interleaved, peak_extra_bytes, ratios
from dpgnn.core import storage
from dpgnn.samplers.adjacency import Adjacency, induced_adjacency
from dpgnn.samplers.appr import approximate_pagerank
from dpgnn.samplers.lists import Lists, trees
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.published import Published
from dpgnn.samplers.rows import top_k
from dpgnn.samplers.tree_sampler import TreeSampler
from dpgnn.samplers.walks import Walks

SMALL = (169_343, 1_170_000)
PRODUCTS = (2_450_000, 123_000_000)
EIGHTH = (306_250, 15_375_000)  # products-shaped: the same mean degree
SAMPLER, OWN = Published(max_degree=7), OwnList(max_degree=7)


def heavy_arcs(num_nodes: int, num_arcs: int, seed: int = 0) -> np.ndarray:
    """int32, shape (2, num_arcs), in random order: read nodes heavy-tailed (rank^-0.6), readers uniform."""
    rng = np.random.default_rng(seed)
    weight = np.cumsum(np.arange(1, num_nodes + 1) ** -0.6)
    place = rng.permutation(num_nodes).astype(np.int32)
    arcs = np.empty((2, num_arcs), np.int32)
    for start in range(0, num_arcs, 1 << 22):
        part = slice(start, min(start + (1 << 22), num_arcs))
        size = part.stop - part.start
        arcs[0, part] = place[np.searchsorted(weight, rng.random(size) * weight[-1])]
        arcs[1, part] = rng.integers(0, num_nodes, size)
    return arcs


def train_nodes(num_nodes: int, share: float) -> np.ndarray:
    """A share of the nodes, ascending."""
    rng = np.random.default_rng(1)
    return np.sort(rng.choice(num_nodes, int(share * num_nodes), replace=False))


def edgelists(arcs: np.ndarray, num_nodes: int, train: np.ndarray, workers: int = 1) -> Lists:
    """SAMPLE-EDGELISTS, edge list -> lists of the readers."""
    rng = np.random.default_rng(2)
    return SAMPLER.lists(arcs, num_nodes=num_nodes, train_idx=train, rng=rng, num_workers=workers)


def plain_edgelists(arcs: np.ndarray, num_nodes: int, train: np.ndarray) -> dict[int, list[int]]:
    """The same with dicts of lists and one numpy draw for each list."""
    rng = np.random.default_rng(2)
    is_train = np.zeros(num_nodes, bool)
    is_train[train] = True
    readers: dict[int, list[int]] = {}
    for u, w in zip(arcs[0].tolist(), arcs[1].tolist()):
        if is_train[w] and u != w:
            readers.setdefault(u, []).append(w)
    lists: dict[int, list[int]] = {}
    for u, entries in readers.items():
        keep = rng.random(len(entries)) <= 7 / (2 * len(entries))
        kept = {entries[place] for place in np.flatnonzero(keep)}
        if len(kept) <= 7:
            for w in kept:
                lists.setdefault(w, []).append(u)
    return lists


def plain_trees(lists: dict[int, list[int]], roots: list[int], num_hops: int) -> list[tuple]:
    """Distinct nodes and arcs of every root's tree, breadth first."""
    found = []
    for root in roots:
        local, nodes, arcs, start = {root: 0}, [root], [], 0
        for _ in range(num_hops):
            stop = len(nodes)
            for place in range(start, stop):
                for u in lists[nodes[place]]:
                    if u not in local:
                        local[u] = len(nodes)
                        nodes.append(u)
                    arcs.append((local[u], place))
            start = stop
        found.append((nodes, arcs))
    return found


def plain_walks(neighbours: list[list[int]], length: int) -> list[list[int]]:
    """DRW as printed."""
    rng = np.random.default_rng(0)
    used = [False] * len(neighbours)
    subgraphs = []
    for root in rng.permutation(len(neighbours)).tolist():
        if used[root]:
            continue
        used[root] = True
        walk = [root]
        for _ in range(length):
            free = [v for v in neighbours[walk[-1]] if not used[v]]
            if not free:
                break
            walk.append(free[int(rng.random() * len(free))])
            used[walk[-1]] = True
        subgraphs.append(walk)
    return subgraphs


def plain_push(
    neighbours: list[list[int]], roots: list[int], alpha: float, rho: float
) -> list[dict]:
    """Forward push with dicts, self-loops included."""
    rows = []
    for root in roots:
        p: dict[int, float] = {}
        r = {root: 1.0}
        queue = deque([root])
        while queue:
            u = queue.popleft()
            degree = len(neighbours[u]) + 1
            mass = r[u]
            if mass <= rho * degree:
                continue
            p[u] = p.get(u, 0.0) + alpha * mass
            share = (1 - alpha) / 2 * mass / degree
            r[u] = (1 - alpha) / 2 * mass + share
            for v in neighbours[u]:
                r[v] = r.get(v, 0.0) + share
                if r[v] > rho * (len(neighbours[v]) + 1) and r[v] - share <= rho * (
                    len(neighbours[v]) + 1
                ):
                    queue.append(v)
            if r[u] > rho * degree:
                queue.append(u)
        rows.append(p)
    return rows


class Goals:
    """Lines of the report, and whether all goals were met."""

    def __init__(self) -> None:
        self.lines: list[dict[str, object]] = []

    def add(
        self, goal: str, value: float, least: float | None = None, most: float | None = None
    ) -> None:
        """Note a value and, where there is one, its bound."""
        met = (least is None or value >= least) and (most is None or value <= most)
        bound = f">= {least}" if least is not None else f"<= {most}" if most is not None else ""
        self.lines.append({"goal": goal, "value": value, "bound": bound, "met": met})
        verdict = "" if not bound else "met" if met else "MISSED"
        print(f"{goal:<66} {value:>10.3g} {bound:>9} {verdict}", flush=True)

    @property
    def met(self) -> bool:
        """Whether every bound held."""
        return all(line["met"] for line in self.lines)


def small_rate_of(rounds: int) -> float:
    """Arcs per second of one worker on the small graph."""
    arcs, train = heavy_arcs(*SMALL), train_nodes(SMALL[0], 0.54)
    step = {"one": lambda: edgelists(arcs, SMALL[0], train)}
    return SMALL[1] / interleaved(step, rounds=rounds, clock=time.process_time)["one"].median


def small_graph(goals: Goals, rounds: int) -> None:
    """Goal 10 and the trees of goal 12."""
    num_nodes, num_arcs = SMALL
    arcs, train = heavy_arcs(num_nodes, num_arcs), train_nodes(num_nodes, 0.54)
    timings = interleaved(
        {
            "python": lambda: plain_edgelists(arcs, num_nodes, train),
            "one": lambda: edgelists(arcs, num_nodes, train),
            "own-list": lambda: own_lists(arcs, num_nodes, train),
        },
        rounds=rounds,
        clock=time.process_time,
    )
    goals.add(
        "10 SAMPLE-EDGELISTS, 1.17 M arcs: x of dicts, 1 worker",
        ratios(timings, "python", "one"),
        60,
    )
    goals.add(
        "own-list lists, 1.17 M arcs: x of dicts, 1 worker", ratios(timings, "python", "own-list")
    )
    for num_hops, degree in ((1, 7), (2, 3)):
        lists = Published(max_degree=degree).lists(
            arcs, num_nodes=num_nodes, train_idx=train, rng=np.random.default_rng(2)
        )
        plain = {v: [] for v in range(num_nodes)}
        for u, w in lists.edge_index().T.tolist():
            plain[w].append(u)
        roots = train.tolist()
        found = interleaved(
            {
                "python": lambda: plain_trees(plain, roots, num_hops),  # noqa: B023
                "compiled": lambda: trees(lists, train, num_hops=num_hops, max_occurrences=13),  # noqa: B023
            },
            rounds=rounds,
            clock=time.process_time,
        )
        name = f"12 trees of 91 k roots, r = {num_hops}, K = {degree}: x of Python"
        goals.add(name, ratios(found, "python", "compiled"), 20)


def walks_and_rows(goals: Goals, rounds: int) -> None:
    """Goal 12: walks and push."""
    num_nodes, num_arcs = SMALL
    arcs = heavy_arcs(num_nodes, num_arcs)
    keys = np.unique(np.concatenate([arcs, arcs[::-1]], axis=1).astype(np.int64).T @ [num_nodes, 1])
    both = np.stack([keys // num_nodes, keys % num_nodes])
    graph = induced_adjacency(both, num_nodes=num_nodes, node_idx=np.arange(num_nodes))
    plain = [part.tolist() for part in np.split(graph.neighbours, graph.pointer[1:-1])]
    for length in (1, 2):
        sampler = Walks(length=length)
        timings = interleaved(
            {
                "python": lambda: plain_walks(plain, length),  # noqa: B023
                "compiled": lambda: sampler.draw(graph, rng=np.random.default_rng(0)),  # noqa: B023
            },
            rounds=rounds,
            clock=time.process_time,
        )
        name = (
            f"12 walks, 169 k nodes, {both.shape[1] / 1e6:.1f} M entries, L = {length}: x of Python"
        )
        goals.add(name, ratios(timings, "python", "compiled"), 25)
    push_ratio(goals, graph, plain, rounds)


def push_ratio(goals: Goals, graph: Adjacency, plain: list[list[int]], rounds: int) -> None:
    """Push for 10,000 roots with two threads against Python on 70 of them, scaled."""
    roots = np.random.default_rng(3).choice(graph.num_nodes, 10_000, replace=False)

    def rows(solver: str, chosen: np.ndarray, workers: int) -> Callable[[], object]:
        def step() -> object:
            found = approximate_pagerank(
                graph, chosen, rho=1e-4, solver=solver, num_workers=workers
            )
            return top_k(found, 32)

        return step

    few = roots[:1000]
    python = {"python": lambda: plain_push(plain, roots[:70].tolist(), 0.25, 1e-4)}
    scale = {"python": len(roots) / 70, "coordinate": 10.0, "ista": 10.0}
    timings = interleaved(python | {"push": rows("push", roots, 2)}, rounds=rounds, scale=scale)
    title = "12 push, 10,000 roots, top 32, 2 threads: x of Python"
    goals.add(title, ratios(timings, "python", "push"), 20)
    variants = {
        "push": rows("push", roots, 1),
        "coordinate": rows("coordinate", few, 1),
        "ista": rows("ista", few, 1),
    }
    timings = interleaved(python | variants, rounds=rounds, scale=scale, clock=time.process_time)
    for name in variants:
        goals.add(f"rows by {name}, 1 thread: x of Python push", ratios(timings, "python", name))


def own_lists(arcs: np.ndarray, num_nodes: int, train: np.ndarray, workers: int = 1) -> Lists:
    """Own lists, edge list -> lists of the readers."""
    rng = np.random.default_rng(2)
    return OWN.lists(arcs, num_nodes=num_nodes, train_idx=train, rng=rng, num_workers=workers)


def large_graph(goals: Goals, shape: tuple[int, int], small_rate: float, rounds: int) -> None:
    """Goal 11: memory, rate and the same bytes for any number of workers."""
    num_nodes, num_arcs = shape
    arcs, train = heavy_arcs(num_nodes, num_arcs), train_nodes(num_nodes, 0.5)
    name = f"11 {num_arcs / 1e6:.0f} M arcs"
    draws = {"": edgelists, ", own-list": own_lists}
    timings = interleaved(
        {kind: (lambda draw=draw: draw(arcs, num_nodes, train)) for kind, draw in draws.items()}
        | {"read": lambda: (arcs.sum(), arcs.sum())},
        rounds=rounds,
        clock=time.process_time,
    )
    workers = interleaved(
        {kind: (lambda draw=draw: draw(arcs, num_nodes, train, 2)) for kind, draw in draws.items()},
        rounds=rounds,
    )
    rate = num_arcs / timings[""].median
    goals.add(f"{name}: rate per arc, x of that at 1.17 M, 1 worker", rate / small_rate, 0.4)
    goals.add(f"{name}: reading the arcs twice, x", ratios(timings, "", "read"))
    for kind, draw in draws.items():
        goals.add(f"{name}{kind}: M arcs/s, 1 worker", num_arcs / timings[kind].median / 1e6)
        least = 40 if num_arcs == PRODUCTS[1] else None
        rate = num_arcs / workers[kind].median / 1e6
        goals.add(f"{name}{kind}: M arcs/s, 2 workers", rate, least)
        extra = peak_extra_bytes(lambda: lambda: draw(arcs, num_nodes, train), repeats=1)  # noqa: B023
        title = f"{name}{kind}: extra memory, x of the arcs ({arcs.nbytes / 1e6:.0f} MB)"
        goals.add(title, extra / arcs.nbytes, most=0.15)
        first = draw(arcs, num_nodes, train)
        same = all(
            np.array_equal(first.sources, other.sources)
            and np.array_equal(first.pointer, other.pointer)
            for other in (draw(arcs, num_nodes, train, count) for count in (2, 3, 7))
        )
        goals.add(f"{name}{kind}: same lists for 1, 2, 3, 7 workers (1 = yes)", float(same), 1)
    for sampler in (SAMPLER, OWN):
        end_to_end(goals, sampler, arcs, num_nodes, train)


def end_to_end(
    goals: Goals, sampler: TreeSampler, arcs: np.ndarray, num_nodes: int, train: np.ndarray
) -> None:
    """From arcs to subgraphs: seconds, sizes, memory."""
    known = {"num_nodes": num_nodes, "train_idx": train}
    start = time.perf_counter()
    sample = sampler.sample(arcs, rng=np.random.default_rng(2), num_workers=2, **known)
    seconds = time.perf_counter() - start
    largest = sample.occurrences(num_nodes).max()
    title = f"{arcs.shape[1] / 1e6:.0f} M arcs, {sampler.promise.name}, end to end"
    goals.add(f"{title}: seconds, 2 workers", seconds)
    goals.add(f"{title}: largest occurrence", float(largest), most=sample.max_occurrences)
    goals.add(f"{title}: M nodes in {len(sample) / 1e6:.2f} M subgraphs", len(sample.nodes) / 1e6)
    del sample
    extra = peak_extra_bytes(
        lambda: lambda: sampler.sample(arcs, rng=np.random.default_rng(2), **known), repeats=1
    )
    goals.add(f"{title}: extra memory with the subgraphs, MB", extra / 1e6)


def as_markdown(lines: Sequence[Mapping[str, Any]]) -> str:
    """The report as a table."""
    rows = ["| what | measured | bound | met |", "| --- | ---: | ---: | --- |"]
    for line in lines:
        met = "" if not line["bound"] else "yes" if line["met"] else "**no**"
        rows.append(f"| {line['goal']} | {line['value']:.3g} | {line['bound']} | {met} |")
    return "\n".join(rows)


def write(goals: Goals, options: argparse.Namespace) -> None:
    """Lines as JSON and in the page; with --only the others stay as the file has them."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    load = f"load average {os.getloadavg()[0]:.1f}, peak memory {peak / 1e9:.1f} GB"
    print(load)
    lines = goals.lines
    if options.only and options.out and options.out.exists():
        kept = [
            line
            for line in storage.read_json(options.out)
            if line["goal"].startswith(("10 ", "12 ", "own-list", "rows"))
            == (options.only == "large")
        ]
        lines = kept + lines if options.only == "large" else lines + kept
    if options.out:
        storage.write_json(options.out, lines)
    page = options.page or (Path("docs/performance.md") if options.full else None)
    if page is not None:
        fill(page, "samplers", f"{as_markdown(lines)}\n\nTaken at {load}.")


def main(arguments: list[str] | None = None) -> int:
    """Run the goals; 1 when one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="123 M arcs (about 2 GB of memory)")
    parser.add_argument("--rounds", type=int, default=5, help="measured rounds of each variant")
    parser.add_argument("--only", choices=("small", "large"), help="goal 10 and 12, or 11 alone")
    parser.add_argument("--out", type=Path, help="write the lines as JSON to this file")
    parser.add_argument(
        "--page", type=Path, help="write the lines into this page; with --full docs/performance.md"
    )
    options = parser.parse_args(arguments)
    goals = Goals()
    if options.only != "large":
        small_graph(goals, options.rounds)
        walks_and_rows(goals, options.rounds)
    if options.only != "small":
        shape = PRODUCTS if options.full else EIGHTH
        large_graph(goals, shape, small_rate_of(5), 3 if options.full else options.rounds)
    write(goals, options)
    return 0 if goals.met else 1


if __name__ == "__main__":
    sys.exit(main())

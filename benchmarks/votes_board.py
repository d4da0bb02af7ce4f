"""Boards and reads of votes on a graph of the size of ogbn-products, its arcs drawn again in every pass.

python -m benchmarks.votes_board            2.45 M nodes, 123 M arcs, 47 classes, 8 % voters, two rounds
python -m benchmarks.votes_board --small    an eighth of it

Prints seconds of processor time of each part and the peak memory of the process. Training is not part of it.
Arcs are drawn in chunks, so the graph itself is not in memory.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Iterator

import numpy as np

from dpgnn.methods.votes.board import (
    READERS_AT_ONCE,
    clipped,
    combined,
    noisy_board,
    noisy_second_board,
    own_lists,
    pushed,
    read,
    shares_of,
    slices,
    vote_vectors,
)

NUM_CLASSES, NOISE = 47, (1.7, 1.1)
CHUNK = 1 << 22


def arcs_of(num_nodes: int, num_arcs: int) -> Callable[[], Iterator[np.ndarray]]:
    """Arcs in chunks, the same in every pass: senders with heavy tails, receivers uniform."""

    def chunks() -> Iterator[np.ndarray]:
        for first in range(0, num_arcs, CHUNK):
            rng = np.random.default_rng([0, first])
            size = min(CHUNK, num_arcs - first)
            # density proportional to rank^-0.6
            source = (num_nodes * rng.random(size, dtype=np.float32) ** 2.5).astype(np.int32)
            target = rng.integers(num_nodes, size=size, dtype=np.int32)
            yield np.stack([np.minimum(source, num_nodes - 1), target])

    return chunks


def measured(num_nodes: int, num_arcs: int) -> dict[str, float]:
    """Seconds of the parts of two rounds, of which drawing arcs is measured alone."""
    arcs, seconds = arcs_of(num_nodes, num_arcs), {}
    rng = np.random.default_rng(1)
    y = rng.integers(NUM_CLASSES, size=num_nodes)
    train = np.sort(rng.choice(num_nodes, int(0.08 * num_nodes), replace=False))
    others = np.setdiff1d(np.arange(num_nodes), train)

    def timed(name: str, make: Callable[[], np.ndarray | None]) -> np.ndarray | None:
        start = time.process_time()
        made = make()
        seconds[name] = time.process_time() - start
        return made

    def boards(nodes: np.ndarray, release: Callable[..., np.ndarray], noise: float) -> np.ndarray:
        sums = pushed(arcs, num_nodes, nodes, vote_vectors(y[nodes], NUM_CLASSES))
        return release(sums, noise, lambda step, shape: rng.standard_normal(shape))

    def reads(nodes: np.ndarray, board: np.ndarray) -> None:
        for part in slices(len(nodes), READERS_AT_ONCE):
            votes = vote_vectors(y[nodes[part]], NUM_CLASSES)
            lists = own_lists(arcs, num_nodes, nodes[part])
            clipped(read(lists, nodes[part], votes, board), 10.0)

    def drawn() -> None:
        for _ in arcs():
            pass

    timed("one pass over the arcs", drawn)
    first = timed("first board", lambda: boards(train, noisy_board, NOISE[0]))
    assert first is not None
    timed("reads of voters", lambda: reads(train, first))
    second = timed("second board", lambda: boards(others, noisy_second_board, NOISE[1]))
    assert second is not None
    both = combined((first, second), shares_of(*NOISE))
    timed("reads of all others", lambda: reads(others, both))
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--small", action="store_true", help="an eighth of the size")
    part = 8 if parser.parse_args().small else 1
    seconds = measured(2_450_000 // part, 123_000_000 // part)
    for name, value in seconds.items():
        print(f"{name}: {value:.1f} s")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"all: {sum(seconds.values()):.1f} s, peak memory {memory:.2f} GiB")


if __name__ == "__main__":
    main()

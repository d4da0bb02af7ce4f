"""Processor time of a run of votes beside DP-MLP's and GAP's, turn by turn in one process.

python -m benchmarks.votes_time photo facebook-Rutgers89      graphs of results/graphs (`dpgnn data prepare`)

A run is plan, fit and answers to the test nodes, as an entry of the head-to-head at epsilon 4; the first turn
of each, which compiles and reads caches, is not counted, and the best of the others is printed. Other work on
the machine slows all of them, so read the ratios.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from pathlib import Path

import numpy as np
import torch

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split, SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, PlannedRun, facts_of
from dpgnn.study.study import load_study

ENTRIES = ("dp_mlp", "votes", "votes-2", "votes_edge", "gap")
STUDY, TURNS = "workflow/studies/headtohead.yaml", 4


def seconds_of(entry: Entry, graph: Graph, split: Split, delta: float, turn: int) -> float:
    """One run, in seconds of processor time."""
    start = time.process_time()
    method = methods.get(entry.method)
    plan = method.plan(entry, facts_of(graph, split, None), Budget(epsilon=4.0, delta=delta))
    streams = Streams(root_seed=turn, axes={})
    context = Context(ledger=Ledger(plan), streams=streams, store=Store(None), label="time")
    seen = method.sees(graph)
    with contextlib.redirect_stderr(io.StringIO()):
        fitted = method.fit(
            PlannedRun(
                entry=entry, graph=seen, split=split, prepared=None, plan=plan, context=context
            )
        )
        method.predict(entry, fitted, seen, split.test_idx)
    return time.process_time() - start


def measured(name: str, results: Path) -> dict[str, float]:
    """Entry -> seconds."""
    study = load_study(STUDY, "M")
    graph = read_graph(results / "graphs" / name)
    rng = np.random.default_rng(0)
    split = make_split(graph, SplitConfig(train_fraction=0.6, val_fraction=0.2), rng=rng)
    taken: dict[str, list[float]] = {entry: [] for entry in ENTRIES}
    for turn in range(TURNS):
        for entry, found in taken.items():
            stated = study.entries[entry].for_dataset(name)
            delta = study.delta_for(entry, name)
            assert isinstance(delta, float)
            found.append(seconds_of(stated, graph, split, delta, turn))
    return {entry: min(found[1:]) for entry, found in taken.items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("graphs", nargs="+")
    parser.add_argument("--results", type=Path, default=Path("results"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    for name in args.graphs:
        found = measured(name, args.results)
        for entry, seconds in found.items():
            ratio = seconds / found["dp_mlp"]
            print(f"{name} {entry}: {seconds:.2f} s, {ratio:.2f} times DP-MLP")


if __name__ == "__main__":
    main()

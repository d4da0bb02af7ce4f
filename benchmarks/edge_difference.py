"""What a release of CARIBOU at edge level shows to an attacker who knows the graph but for the asked edges.

`dpgnn attack` scores an edge by its ends' rows (`released-state`). Here the score is the best linear one: the
state without noise is computed once for every asked edge added to the graph without any of them, and the
coins are fitted to the release by ridge regression on these differences. The encoder is public at edge level,
and so are all other edges.

    python -m benchmarks.edge_difference --results results            # writes benchmarks/edge_difference.json
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn.accountants.plan import Budget
from dpgnn.attacks import linkteller, released_state, statistics
from dpgnn.attacks.queries import fitted_run
from dpgnn.core.paths import Paths
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import write_json
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.graph import Graph
from dpgnn.data.splits import read_split
from dpgnn.methods.caribou import fit
from dpgnn.methods.queries import FittedRun
from dpgnn.methods.shared import aggregate_queries
from dpgnn.study.study import load_study

STUDY = Path("workflow/studies/headtohead.yaml")
SETTING, ENTRY = "whole", "caribou"
# the last is none that anybody asks for: it shows what the score can see
BUDGETS = (1.0, 8.0, 32.0, 1000.0)
NUM_EDGES, SEED = 1000, 0
OUT = Path(__file__).with_suffix(".json")


def differences(run: FittedRun, pairs: linkteller.Pairs) -> tuple[np.ndarray, np.ndarray]:
    """The noise-free state without the asked edges, and by how much each of them moves it.

    Returns:
        float64, shape (num_nodes, width), and float32, shape (num_pairs, num_nodes * width).
    """
    ends = np.stack([pairs.perturbed, pairs.looked_at])
    both = np.concatenate([ends, ends[::-1]], axis=1)
    size, there = run.graph.num_nodes, run.graph.edge_index
    other = ~np.isin(there[0] * size + there[1], both[0] * size + both[1])
    rows = aggregate_queries.first_rows(run, run.graph)

    def quiet(edges: np.ndarray) -> np.ndarray:
        graph: Graph = dataclasses.replace(run.graph, edge_index=edges)
        adjacency = aggregate_queries.read_edges(run, graph, None)
        return fit.channels_of(run.entry, graph, rows, adjacency, 0.0, None)[-1]

    base = there[:, other]
    alone = quiet(base)
    moved = np.empty((ends.shape[1], alone.size), dtype=np.float32)
    for place, edge in enumerate(ends.T):
        added = np.stack([edge, edge[::-1]], axis=1)
        moved[place] = (quiet(np.concatenate([base, added], axis=1)) - alone).ravel()
    return alone, moved


def scores_of(run: FittedRun, alone: np.ndarray, moved: np.ndarray) -> np.ndarray:
    """Coins fitted to the release, one a pair: their mean is one half, their variance one quarter."""
    released = run.state["noisy_state"].double().numpy()
    rest = (released - alone).ravel() - moved.sum(axis=0) / 2
    gram = (moved @ moved.T).astype(np.float64)
    noise = 4 * run.noise_stddev**2 * np.eye(len(gram))
    return np.linalg.solve(gram + noise, moved @ rest)


def main() -> None:
    """Fit one run a budget on a graph with each asked edge kept by a coin, and score it both ways."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--results", type=Path, default=Path("results"), help="with graph and split"
    )
    parser.add_argument("--dataset", default="cora", help="of the head-to-head")
    args = parser.parse_args()
    paths = Paths(results=args.results)
    graph = read_graph(paths.graph(args.dataset))
    split = read_split(paths.split(args.dataset, SETTING, 0), num_nodes=graph.num_nodes)
    entry = load_study(STUDY).entries[ENTRY].for_dataset(args.dataset)
    held, pairs = linkteller.hold_out(graph, NUM_EDGES, rng=np.random.default_rng(SEED))
    found: dict[str, Any] = {"dataset": args.dataset, "num_edges": len(pairs.member), "budgets": []}
    for epsilon in BUDGETS:
        budget, streams = Budget(epsilon=epsilon, delta=1e-6), Streams(root_seed=1, axes={})
        run = fitted_run(entry, held, split, None, budget, streams)
        alone, moved = differences(run, pairs)
        sizes = np.linalg.norm(moved, axis=1)
        aucs = {
            name: statistics.auc(scores, pairs.member)
            for name, scores in (
                ("rows", released_state.pair_scores(run, pairs)),
                ("differences", scores_of(run, alone, moved)),
            )
        }
        found["budgets"].append({
            "epsilon": epsilon, "noise_stddev": run.noise_stddev, "median_moved": float(np.median(sizes)),
            "largest_moved": float(sizes.max()), "auc": aucs,
        })  # fmt: skip
        print(found["budgets"][-1], flush=True)
    write_json(OUT, found)


if __name__ == "__main__":
    main()

"""Fits of ProGAP, LPGNet and HeterPoisson beside GAP, the MLP and DP-GNN: ratios of processor time.

`python -m benchmarks.baselines`: Photo unless said; both sides in one process, in turn; the first fit of each
does not count. A fit makes its history too; a step is what a fit of 450 takes longer than one of 45.
Raw files are those of `dpgnn data prepare photo` and `cora`.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data import datasets
from dpgnn.data.splits import SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, PlannedRun, facts_of

REPEATS = 2
EDGE, RECORD = ("edge", "add-remove"), ("node-record", "add-remove")
FIVE = {"num_hops": 5}
NARROW = {**FIVE, "head": {"hidden": 16, "dropout": 0.0}}
MLP = {"hidden": [16], "row_norm": "l1", "training": {"num_epochs": 500}}
GNN = {"width": 128, "max_degree": 1, "training": {"num_steps": 45, "expected_batch_size": 1024}}
POISSON, LONG_POISSON = ({"num_epochs": epochs} for epochs in (9, 90))
LONG_GNN = {**GNN, "training": {**GNN["training"], "num_steps": 450}}  # type: ignore[dict-item]
Side = tuple[str, Any, Any]
# what, data set, (method, options, unit) of ours and of the other side, the goal
PAIRS: list[tuple[str, str, Side, Side, float]] = [
    ("ProGAP over GAP, K = 5, default options", "photo", ("progap", FIVE, EDGE), ("gap", FIVE, EDGE), 1.5),
    ("ProGAP over GAP, K = 5, width 16", "photo", ("progap", FIVE, EDGE), ("gap", NARROW, EDGE), 1.5),
    (
        "layer-wise ProGAP over GAP, K = 5, width 16", "photo",
        ("progap", {**FIVE, "layerwise": True}, EDGE), ("gap", NARROW, EDGE), 1.5,
    ),
    ("LPGNet over MLP, K = 2", "photo", ("lpgnet", {}, EDGE), ("mlp", MLP, None), 1.2),
    ("LPGNet over MLP, K = 2", "cora", ("lpgnet", {}, EDGE), ("mlp", MLP, None), 1.2),
    (
        "HeterPoisson over DP-GNN, 45 steps", "photo",
        ("heterpoisson", POISSON, RECORD), ("dp_gnn", GNN, RECORD), 1.3,
    ),
]  # fmt: skip


def seconds(graph: Any, split: Any, name: str, options: Any, unit: Any) -> float:
    """Processor time of one fit, its plan and sample made before."""
    method = methods.get(name)
    entry = Entry(
        name=name, method=name, mode="sound" if unit else "nonprivate",
        privacy_unit=unit[0] if unit else None, relation=unit[1] if unit else None,
        options=strict.read(method.config, options),
    )  # fmt: skip
    spec, prepared = method.sampler(entry), None
    if spec is not None and method.prepare is not None:
        prepared = method.prepare(graph, split, spec, np.random.default_rng(0))
    budget = Budget(epsilon=4.0 if unit else math.inf, delta=8e-7)
    plan = method.plan(entry, facts_of(graph, split, prepared), budget)
    context = Context(ledger=Ledger(plan), streams=Streams(root_seed=0, axes={}), store=Store(None))
    start = time.process_time()
    method.fit(PlannedRun(
        entry=entry, graph=method.sees(graph), split=split, prepared=prepared, plan=plan, context=context
    ))  # fmt: skip
    return time.process_time() - start


def turns(graph: Any, split: Any, *sides: Side) -> np.ndarray:
    """Least processor time of each side."""
    times = [[seconds(graph, split, *side) for side in sides] for _ in range(REPEATS + 1)]
    return np.asarray(np.min(times[1:], axis=0))


def main() -> None:
    """Print a line for each pair, and one for a step of HeterPoisson beside DP-GNN's."""
    graphs = {name: datasets.load(name, root_seed=0) for name in ("photo", "cora")}
    splits = {
        name: make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
        for name, graph in graphs.items()
    }
    for what, name, ours, other, goal in PAIRS:
        a, b = turns(graphs[name], splits[name], ours, other)
        print(f"{what}, {name}: {a:.2f} s / {b:.2f} s = {a / b:.2f} (goal {goal})", flush=True)
    sides = [
        (method, options, RECORD)
        for method, both in (("heterpoisson", (LONG_POISSON, POISSON)), ("dp_gnn", (LONG_GNN, GNN)))
        for options in both
    ]
    long, short, gnn_long, gnn_short = turns(graphs["photo"], splits["photo"], *sides)
    a, b = (1000 * (x - y) / 405 for x, y in ((long, short), (gnn_long, gnn_short)))
    print(
        f"HeterPoisson's step over DP-GNN's, photo: {a:.1f} ms / {b:.1f} ms = {a / b:.2f} (goal 1.3)"
    )


if __name__ == "__main__":
    main()

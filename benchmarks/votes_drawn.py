"""Where the board of votes pays, on drawn graphs: the data behind the fitted limit of its budget rule.

Degree-corrected blocks (lognormal weights, four of five edges inside a class), two kinds of features: 64
dense columns of little signal, and 1,000 words of much. Three in five nodes train.

python -m benchmarks.votes_drawn            DP-MLP, and votes with a board, in 288 cells: votes_drawn.json
python -m benchmarks.votes_drawn --fit      fits the limit to votes_drawn.json and prints it
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants import gdp
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, PlannedRun, facts_of
from dpgnn.methods.votes.plan import signal_of

DATA = Path(__file__).with_suffix(".json")
AGREEMENT, DELTA, SHARE = 0.8, 1e-5, 0.4
SIZES, CLASSES, DEGREES, EPSILONS, SEEDS = (
    (1200, 4000),
    (6, 15),
    (3, 5, 10, 20),
    (1, 2, 4),
    (0, 1, 2),
)
# outside, the board is worth nothing or everything
SIGNALS = (0.15, 2.2)
# at the limit, this fraction of the drawn cells loses by the board: a loss weighs twice as much as no gain
LOSING = 1 / 3


def drawn(
    num_nodes: int,
    classes: int,
    degree: int,
    kind: str,
    seed: int,
    *,
    agreement: float = AGREEMENT,
    shift: int = 0,
) -> tuple[Graph, Split]:
    """A graph and its split.

    Args:
        agreement: this share of the edges goes from a class to the one `shift` places on; 0 is its own.
    """
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=num_nodes)
    weight = rng.lognormal(0, 0.8, num_nodes)
    wanted = num_nodes * degree // 2
    ends = _ends(rng, y, weight, 2 * wanted, agreement, shift)
    pairs = np.sort(ends, axis=1)
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    pairs = rng.permutation(pairs)[:wanted].T
    x = _dense(rng, y, classes)
    if kind == "words":  # the graph and the split are those of the dense ones
        x = _words(y, classes, seed)
    order, first, second = rng.permutation(num_nodes), 6 * num_nodes // 10, 8 * num_nodes // 10
    graph = Graph(
        name="drawn", x=x.astype(np.float32), y=y.astype(np.int64), num_classes=classes,
        edge_index=np.concatenate([pairs, pairs[::-1]], axis=1).astype(np.int64),
    )  # fmt: skip
    parts = [np.sort(part) for part in np.split(order, [first, second])]
    return graph, Split(train_idx=parts[0], val_idx=parts[1], test_idx=parts[2], inductive=False)


def _ends(
    rng: np.random.Generator,
    y: np.ndarray,
    weight: np.ndarray,
    count: int,
    agreement: float,
    shift: int,
) -> np.ndarray:
    """Pairs of ends, `agreement` of them of classes c and c + shift; int64, shape (count, 2)."""
    first = rng.choice(len(y), count, p=weight / weight.sum())
    second, inside = np.empty_like(first), rng.random(count) < agreement
    classes = int(y.max()) + 1
    for label in range(classes):
        for same in (True, False):
            chosen = np.flatnonzero((y == (label + shift) % classes) == same)
            hit = (y[first] == label) & (inside == same)
            p = weight[chosen] / weight[chosen].sum()
            second[hit] = chosen[rng.choice(len(chosen), int(hit.sum()), p=p)]
    return np.stack([first, second], axis=1)


def _dense(rng: np.random.Generator, y: np.ndarray, classes: int) -> np.ndarray:
    means = rng.standard_normal((classes, 64))
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    return 0.4 * means[y] + 0.25 * rng.standard_normal((len(y), 64))


def _words(y: np.ndarray, classes: int, seed: int) -> np.ndarray:
    rng, words = np.random.default_rng([seed, 9]), 1000
    common = rng.dirichlet(np.full(words, 0.5))
    own = rng.dirichlet(np.full(words, 0.02), size=classes)
    law = 0.75 * common + 0.25 * own
    x = np.zeros((len(y), words))
    for label in range(classes):
        chosen = np.flatnonzero(y == label)
        x[chosen] = rng.multinomial(20, law[label], size=len(chosen)) > 0
    return x


def accuracy(
    graph: Graph, split: Split, epsilon: float, seed: int, method: str, options: Any
) -> float:
    """Test accuracy in percent of one run."""
    chosen = methods.get(method)
    entry = Entry(
        name=method, method=method, mode="sound", privacy_unit="node-record",
        relation="add-remove", options=strict.read(chosen.config, options),
    )  # fmt: skip
    plan = chosen.plan(entry, facts_of(graph, split, None), Budget(epsilon=epsilon, delta=DELTA))
    streams = Streams(root_seed=seed, axes={})
    context = Context(ledger=Ledger(plan), streams=streams, store=Store(None), label="drawn")
    seen = chosen.sees(graph)
    fitted = chosen.fit(
        PlannedRun(entry=entry, graph=seen, split=split, prepared=None, plan=plan, context=context)
    )
    logits = chosen.predict(entry, fitted, seen, split.test_idx).logits
    return 100 * float((logits.argmax(dim=1).numpy() == graph.y[split.test_idx]).mean())


def rows() -> list[dict[str, Any]]:
    """DP-MLP and votes in every cell."""
    found = []
    cells = itertools.product(SEEDS, SIZES, CLASSES, DEGREES, ("dense", "words"))
    for seed, size, classes, degree, kind in cells:
        graph, split = drawn(size, classes, degree, kind, seed)
        batch = 512 if size < 1800 else 1024
        training = {"num_steps": 200, "expected_batch_size": batch, "optimizer": {"lr": 0.01}}
        mlp = {"width": 64, "row_norm": "none", "training": training}
        votes = {"mlp": mlp, "least_signal": 0.0, "mean_degree": float(degree)}
        for epsilon in EPSILONS:
            row = {"n": size, "C": classes, "d": degree, "kind": kind, "seed": seed, "eps": epsilon}
            row["mlp"] = accuracy(graph, split, epsilon, seed, "dp_mlp", mlp)
            row["v1"] = accuracy(graph, split, epsilon, seed, "votes", votes)
            found.append(row)
    return found


def fit(found: list[dict[str, Any]]) -> tuple[float, float]:
    """Factor and power of the limit: where a quantile of the gain, linear in the logarithms, is zero."""
    from sklearn.linear_model import QuantileRegressor

    design, gains = [], []
    for row in found:
        mu = gdp.mu(row["eps"], DELTA)
        signal = signal_of(0.6, row["d"] - 1, row["C"], AGREEMENT, mu * SHARE**0.5)
        if SIGNALS[0] < signal < SIGNALS[1]:
            design.append((np.log(signal), np.log(0.6 * row["n"] * mu / row["C"])))
            gains.append(row["v1"] - row["mlp"])
    found_line = QuantileRegressor(quantile=LOSING, alpha=0).fit(design, gains)
    by_signal, by_size = found_line.coef_
    return float(np.exp(-found_line.intercept_ / by_signal)), float(-by_size / by_signal)


def main() -> None:
    """Measure or fit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fit", action="store_true", help="only fit the limit")
    if not parser.parse_args().fit:
        DATA.write_text("[\n" + ",\n".join(map(json.dumps, rows())) + "\n]\n")
    found = json.loads(DATA.read_text())
    for kind in ("dense", "words", ""):
        part = [row for row in found if kind in row["kind"]]
        factor, power = fit(part)
        words = f"{factor:.2f} * (n_train mu / C) ^ {power:.2f}, {len(part)} cells"
        print(f"{kind or 'both'}: limit = {words}")


if __name__ == "__main__":
    main()

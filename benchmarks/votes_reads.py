"""Weights of the two reads of votes, and graphs whose neighbours disagree: drawn graphs and digits.

python -m benchmarks.votes_reads            two and a half minutes of a core; votes_reads.json, and its means
python -m benchmarks.votes_reads --print    prints them again

Drawn graphs have 2,500 nodes, 6 classes, dense features; three in five nodes train. Four of five edges are
inside a class (agree) or lead to the next class on a ring (ring), or three of ten are inside a class
(mixed). Every variant changes what a node makes of the same two reads before the same training, from public
facts or from the released board alone, so that the claim stands as it is. The second moment is that of the
released rows, less the noise's:

    1.4:0.2     public weights of list and row, of norm sqrt 2; 0.2:1.4 the other way
    signal      public weights by the expected signals: sqrt(d) h and 1, d the declared mean degree, h = 0.76
    one         both reads added with these weights: half as many inputs, the noise of one
    learned     weights by the signals that the board's second moment shows of both reads
    filtered    each eigenvector of each read by signal / (signal + noise), as the second moment shows it
    compatible  the list's read times the second moment, of largest eigenvalue 1
    start       the list's weights start at the second moment, not at 0
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
import torch

from benchmarks.votes_drawn import DELTA, drawn
from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data import datasets
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split, SplitConfig, make_split
from dpgnn.methods.base import Context, Entry, PlannedRun, facts_of
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.linear import linear_logits, linear_model, own_rows
from dpgnn.methods.shared.private_training import run_dp_sgd
from dpgnn.methods.votes.board import clipped, noisy_board, own_lists, read, vote_vectors
from dpgnn.methods.votes.fit import input_scale, sums_of_labels
from dpgnn.methods.votes.plan import BOARD
from dpgnn.models.trees import lone_roots

DATA = Path(__file__).with_suffix(".json")
# agreement, shift: neighbours of the own class, of the next class on a ring, hardly of any
LINKS = {"agree": (0.8, 0), "ring": (0.8, 1), "mixed": (0.3, 0)}
SIZE, CLASSES, DEGREES, EPSILONS, SEEDS = 2500, 6, (5, 20), (1, 4), (0, 1, 2)
DIGITS_DEGREE = 12
STANDS_OUT = 0.76


class Moment:
    """What the released board's second moment shows: signals of both reads along each eigenvector.

    A row is about f sqrt(d) P V for a compatibility P of classes, so its variance along an eigenvector of P
    is q = f^2 d p^2 / (C - 1); a list reads about f d P^2 V, of variance (C - 1) q^2 / f^2.
    """

    def __init__(self, board: np.ndarray, noise: float, fraction: float) -> None:
        rows, classes = board.astype(np.float64), board.shape[1]
        moment = rows.T @ rows / len(rows) - noise**2 * np.eye(classes)
        values, self.vectors = np.linalg.eigh(moment)
        self.row = np.maximum(values, 0.0)
        self.list = (classes - 1) * self.row**2 / fraction**2
        self.noise = noise**2

    def along(self, values: np.ndarray) -> np.ndarray:
        """The matrix with these eigenvalues."""
        return np.asarray(self.vectors * values @ self.vectors.T)

    def compatibility(self) -> np.ndarray:
        """The moment less the noise's, of largest eigenvalue 1; nothing where it shows none."""
        return self.along(self.row / max(self.row.max(), 1e-12))


# reads (n, 2, C), their clipping norm, mean degree, moment -> inputs (n, any)
Make = Callable[[np.ndarray, float, float, Moment], np.ndarray]


def _flat(reads: np.ndarray) -> np.ndarray:
    return reads.reshape(len(reads), -1)


def _weighted(of_list: float, of_row: float) -> Make:
    """Clipped reads times weights of norm sqrt 2."""
    weights = np.array([of_list, of_row], dtype=np.float64)[:, None]
    weights *= math.sqrt(2) / np.linalg.norm(weights)
    return lambda reads, scale, degree, moment: _flat(clipped(reads, scale) * weights)


def _signal(reads: np.ndarray, scale: float, degree: float, moment: Moment) -> np.ndarray:
    return _weighted(math.sqrt(degree) * STANDS_OUT, 1.0)(reads, scale, degree, moment)


def _one(reads: np.ndarray, scale: float, degree: float, moment: Moment) -> np.ndarray:
    weights = np.array([math.sqrt(degree) * STANDS_OUT, 1.0])[:, None]
    return clipped((reads * weights).sum(axis=1) / np.linalg.norm(weights), scale)


def _learned(reads: np.ndarray, scale: float, degree: float, moment: Moment) -> np.ndarray:
    signals = np.sqrt([moment.list.sum(), moment.row.sum()]) + 1e-12
    return _weighted(*signals)(reads, scale, degree, moment)


def _filtered(reads: np.ndarray, scale: float, degree: float, moment: Moment) -> np.ndarray:
    parts = (moment.list, moment.row)
    passed = [moment.along(signal / (signal + moment.noise)) for signal in parts]
    return _flat(clipped(np.stack([reads[:, k] @ passed[k] for k in (0, 1)], axis=1), scale))


def _compatible(reads: np.ndarray, scale: float, degree: float, moment: Moment) -> np.ndarray:
    listed = reads[:, 0] @ moment.compatibility()
    return _flat(clipped(np.stack([listed, reads[:, 1]], axis=1), scale))


VARIANTS: dict[str, Make] = {
    "as it is": _weighted(1, 1),
    "1.4:0.2": _weighted(1.4, 0.2),
    "0.2:1.4": _weighted(0.2, 1.4),
    "signal": _signal,
    "one": _one,
    "learned": _learned,
    "filtered": _filtered,
    "compatible": _compatible,
    "start": _weighted(1, 1),
}


def entry_of(method: str, options: Any) -> Entry:
    """A sound entry under node-record, add-remove."""
    return Entry(
        name=method, method=method, mode="sound", privacy_unit="node-record",
        relation="add-remove", options=strict.read(methods.get(method).config, options),
    )  # fmt: skip


def context_of(plan: Any, seed: int) -> Context:
    """A run of a study."""
    streams = Streams(root_seed=seed, axes={})
    return Context(ledger=Ledger(plan), streams=streams, store=Store(None), label="reads")


def run(entry: Entry, graph: Graph, split: Split, epsilon: float, seed: int) -> float:
    """Test accuracy in percent of one run of an entry, as it is."""
    method = methods.get(entry.method)
    plan = method.plan(entry, facts_of(graph, split, None), Budget(epsilon=epsilon, delta=DELTA))
    seen = method.sees(graph)
    fitted = method.fit(PlannedRun(
        entry=entry, graph=seen, split=split, prepared=None, plan=plan, context=context_of(plan, seed)
    ))  # fmt: skip
    return score(method.predict(entry, fitted, seen, split.test_idx).logits, graph, split)


def score(logits: torch.Tensor, graph: Graph, split: Split) -> float:
    """Test accuracy in percent."""
    hit = logits.argmax(dim=1).numpy() == graph.y[split.test_idx]
    return 100 * float(hit.mean())


def variant(
    name: str, entry: Entry, graph: Graph, split: Split, epsilon: float, seed: int
) -> float:
    """The same of votes with a board whose reads are made into inputs by a variant."""
    config, method = entry.options, methods.get("votes")
    plan = method.plan(entry, facts_of(graph, split, None), Budget(epsilon=epsilon, delta=DELTA))
    context = context_of(plan, seed)
    noise = context.ledger.enter(BOARD).noise_stddev
    sums = sums_of_labels(config, graph, split.train_idx, context.streams)
    board = noisy_board(sums, noise, normal_draw(context, BOARD))
    moment = Moment(board, noise, len(split.train_idx) / graph.num_nodes)
    scale = input_scale(config, noise, graph.num_classes)

    def rows(nodes: np.ndarray, votes: np.ndarray) -> Any:
        heard = read(own_lists(graph.edge_index, graph.num_nodes, nodes), nodes, votes, board)
        made = VARIANTS[name](heard, scale, config.mean_degree, moment)
        return own_rows(
            graph, nodes, np.concatenate([made, np.full((len(nodes), 1), config.bias)], 1)
        )

    def prepare(weights: torch.Tensor) -> None:
        if name == "start":
            first = graph.num_features * graph.num_classes
            start = torch.from_numpy(moment.compatibility().astype(np.float32)).flatten()
            weights[first : first + len(start)] = start

    train, silent = split.train_idx, np.zeros((len(split.test_idx), graph.num_classes))
    inputs = rows(train, vote_vectors(graph.y[train], graph.num_classes))
    weights, _ = run_dp_sgd(
        linear_model(inputs.shape[1], graph), inputs,
        lone_roots(np.arange(len(train)), graph.y[train]), config.training.optimizer, context,
        delta=DELTA, prepare=prepare,
    )  # fmt: skip
    return score(linear_logits(graph, rows(split.test_idx, silent))(weights), graph, split)


def places() -> Any:
    """Name of the kind, graph, split, declared mean degree and seed."""
    for seed, link, degree in itertools.product(SEEDS, LINKS, DEGREES):
        agreement, shift = LINKS[link]
        made = drawn(SIZE, CLASSES, degree, "dense", seed, agreement=agreement, shift=shift)
        yield link, *made, float(degree), seed
    digits = datasets.load("digits", root_seed=0)
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        split = make_split(digits, SplitConfig(train_fraction=0.6, val_fraction=0.2), rng=rng)
        yield "digits", digits, split, float(DIGITS_DEGREE), seed


def measured() -> Iterator[dict[str, Any]]:
    """Accuracy of every variant in every cell, beside DP-MLP, the model without a board, and two rounds."""
    training = {"num_steps": 200, "expected_batch_size": 1024, "optimizer": {"lr": 0.01}}
    mlp = entry_of("dp_mlp", {"width": 64, "row_norm": "none", "training": training})
    for kind, graph, split, degree, seed in places():
        votes = entry_of("votes", {"least_signal": 0.0, "mean_degree": degree})
        twice = replace(votes, options=replace(votes.options, rounds=2))
        others = {"DP-MLP": mlp, "DP-Linear": entry_of("dp_linear", {}), "two rounds": twice}
        for epsilon in EPSILONS:
            row: dict[str, Any] = {
                "kind": kind,
                "C": graph.num_classes,
                "d": degree,
                "eps": epsilon,
                "seed": seed,
            }
            for name, entry in others.items():
                row[name] = run(entry, graph, split, epsilon, seed)
            for name in VARIANTS:
                row[name] = variant(name, votes, graph, split, epsilon, seed)
            yield row


def show(found: list[dict[str, Any]]) -> None:
    """Means for each kind and epsilon; variants as gains over `as it is`, with the least and the largest."""
    parts: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in found:
        parts[row["kind"], row["eps"]].append(row)
    names = [name for name in VARIANTS if name != "as it is"]
    for (kind, epsilon), rows in sorted(parts.items()):
        plain = "  ".join(
            f"{name} {fmean(row[name] for row in rows):.1f}"
            for name in ("DP-MLP", "DP-Linear", "as it is", "two rounds")
        )
        gains = {name: [row[name] - row["as it is"] for row in rows] for name in names}
        words = "  ".join(
            f"{name} {fmean(gain):+.1f} ({min(gain):+.1f}..{max(gain):+.1f})"
            for name, gain in gains.items()
        )
        print(f"{kind}, epsilon {epsilon}, n {len(rows)}: {plain}\n    {words}")
    for name in names:
        gain = [row[name] - row["as it is"] for row in found]
        print(f"{name}: {fmean(gain):+.2f} ± {stdev(gain):.2f} over {len(gain)} cells")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--print", action="store_true", help="only print what was measured")
    if not parser.parse_args().print:
        torch.set_num_threads(1)
        rows = []
        for row in measured():
            rows.append(json.dumps(row))
            DATA.write_text("[\n" + ",\n".join(rows) + "\n]\n")
    show(json.loads(DATA.read_text()))


if __name__ == "__main__":
    main()

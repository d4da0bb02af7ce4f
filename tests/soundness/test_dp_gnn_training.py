"""Sound DP-GNN: between neighbouring graphs the clipped sum moves by no more than was planned.

Every neighbour of small graphs is tried; the examples go through the method's own path from sample to trees
to per-root gradients, so normalisation, aggregation and clipping are part of what is tested.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from exhaustive.neighbours import examine
from exhaustive.worlds import World, make_world, neighbours

from benchmarks.reference import root_gradient
from dpgnn import methods
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.dp_gnn.options import network_of, sampler_of
from dpgnn.methods.dp_gnn.sample import training_input
from dpgnn.samplers.subgraphs import Subgraphs
from dpgnn.training.clipping import uniform_clipping
from dpgnn.training.gradients import Execution, RootGradients

METHOD = methods.get("dp_gnn")
NUM_NODES, NUM_FEATURES, NUM_CLASSES, NORM = 9, 4, 3, 0.5
VARIANTS: dict[str, dict[str, Any]] = {
    "gcn": {"conv": "gcn"},
    "gin": {"conv": "gin"},
    "sage": {"conv": "sage"},
    "gat": {"conv": "gat", "num_heads": 2, "head_width": 2},
    "averaged once": {"aggregate_once": True},
}
PAIRS = [
    ("node-record", "add-remove"),
    ("node-record", "null-one"),
    ("node-record", "replace-one"),
    ("node-features", "replace-one"),
    ("node-bounded", "add-remove"),
]


def entry_of(pair: tuple[str, str], mode: Any = "sound", **options: Any) -> Entry:
    """A small entry."""
    small = {
        "width": 3, "max_degree": 2, "degree_bound": NUM_NODES - 1,
        "training": {"num_steps": 5, "expected_batch_size": 4, "clipping_norm": NORM},
    }  # fmt: skip
    return Entry(
        name="e", method="dp_gnn", mode=mode, privacy_unit=pair[0], relation=pair[1],
        options=strict.read(METHOD.config, small | options),
    )  # fmt: skip


def world_of(seed: int) -> World:
    """A random undirected graph of 9 nodes, 6 of them training nodes."""
    rng = np.random.default_rng(seed)
    pairs = np.array([(a, b) for a in range(NUM_NODES) for b in range(a)]).T
    kept = pairs[:, rng.random(pairs.shape[1]) < 0.4]
    arcs = np.concatenate([kept, kept[::-1]], axis=1)
    return make_world(arcs, NUM_NODES, rng.choice(NUM_NODES, 6, replace=False))


class Gradients:
    """Per-root gradients of an entry's network at weights far from the start, where clipping bites."""

    def __init__(self, entry: Entry, seed: int) -> None:
        self.config = entry.options
        self.network = network_of(self.config, num_features=NUM_FEATURES, num_classes=NUM_CLASSES)
        rng = np.random.default_rng(seed)
        self.x = rng.normal(size=(2, NUM_NODES, NUM_FEATURES)).astype(np.float32)
        self.y = rng.integers(NUM_CLASSES, size=(2, NUM_NODES))
        self.flat = 2 * self.network.initial(rng=rng, dtype=torch.float64)

    def inputs(self, sample: Subgraphs, values: np.ndarray) -> tuple[Any, Any]:
        """Features and trees; a node of value 1 has other features and another label."""
        x, y = self.x[values, np.arange(NUM_NODES)], self.y[values, np.arange(NUM_NODES)]
        return training_input(self.config, x, y, sample.roots, sample)

    def __call__(self, sample: Subgraphs, values: np.ndarray) -> np.ndarray:
        x, trees = self.inputs(sample, values)
        rows = [
            root_gradient(self.network, self.flat, x.astype(np.float64), trees, root).numpy()
            for root in range(trees.num_roots)
        ]
        return np.array(rows).reshape(trees.num_roots, -1)


@pytest.mark.parametrize("hops", [1, 2])
@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("sampler", ["own_list", "stable"])
def test_no_neighbour_moves_the_clipped_sum_beyond_the_promise(
    sampler: str, variant: str, hops: int
) -> None:
    for seed, (unit, relation) in enumerate(PAIRS):
        entry = entry_of((unit, relation), sampler=sampler, num_hops=hops, **VARIANTS[variant])
        report = examine(
            sampler_of(entry), world_of(seed), unit, relation, rng=np.random.default_rng(seed),
            gradient=Gradients(entry, seed), clipping_norm=NORM, max_neighbours=12,
        )  # fmt: skip
        assert report.leaks == 0, "an unchanged example had another gradient"
        assert report.passed, str(report)
        assert report.shift > 0


@pytest.mark.parametrize("clipping", ["global", "group", "tensor"])
@pytest.mark.parametrize("variant", ["gcn", "gat"])
def test_the_engines_sum_moves_by_no_more_than_the_planned_sensitivity(
    variant: str, clipping: str
) -> None:
    pair = ("node-record", "add-remove")
    entry = entry_of(pair, clipping=clipping, num_hops=2, **VARIANTS[variant])
    world, gradients, sampler = world_of(3), Gradients(entry, 3), sampler_of(entry)
    facts = Facts(
        num_nodes=NUM_NODES, num_train=6, num_features=NUM_FEATURES, num_classes=NUM_CLASSES,
        task="multiclass",
    )  # fmt: skip
    plan = METHOD.plan(entry, facts, Budget(epsilon=3.0, delta=1e-3))
    (mechanism,) = plan.mechanisms
    ((event, _),) = parts(mechanism.event)
    assert isinstance(event, PoissonRoots)
    bound = uniform_clipping(gradients.network, clipping, NORM)  # type: ignore[arg-type]
    largest = 0.0
    for _, *worlds in neighbours(world, *pair, owner="source", rng=np.random.default_rng(0)):
        sums = []
        for side in worlds:
            sample = sampler.sample(
                side.arcs, num_nodes=NUM_NODES, train_idx=side.train_idx,
                rng=np.random.default_rng(7), present=side.present,
            )  # fmt: skip
            x, trees = gradients.inputs(sample, side.values)
            engine = RootGradients(
                gradients.network, x, trees, clipping=bound, execution=Execution(dtype="float32")
            )
            total = engine(gradients.flat.float(), np.arange(trees.num_roots))
            sums.append(total.double().clone())
        largest = max(largest, float(torch.linalg.vector_norm(sums[0] - sums[1])))
    assert 0 < largest <= mechanism.sensitivity * (1 + 1e-5)
    assert mechanism.sensitivity == pytest.approx(NORM * (event.d_plus + event.d_minus))


def test_the_published_sampler_moves_the_sum_beyond_what_its_noise_was_made_for() -> None:
    """A canary mentioned by many short lists: its removal changes the odds of all their readers."""
    num_lists, readers_each = 300, 7
    lists = np.arange(1, num_lists + 1)
    readers = 1 + num_lists + np.arange(num_lists * readers_each)
    arcs = np.concatenate(
        [[lists, np.zeros(num_lists, np.int64)], [np.repeat(lists, readers_each), readers]], axis=1
    )
    world = make_world(arcs, 1 + num_lists * (1 + readers_each))
    entry = entry_of(("node-record", "replace-one"), mode="published", max_degree=7)
    report = examine(
        sampler_of(entry), world, "node-record", "add-remove", rng=np.random.default_rng(0),
        offenders=np.array([0]), clipping_norm=NORM,
    )  # fmt: skip
    facts = Facts(
        num_nodes=world.num_nodes, num_train=world.num_nodes, num_features=4, num_classes=3,
        task="multiclass",
    )  # fmt: skip
    plan = METHOD.plan(entry, facts, Budget(epsilon=3.0, delta=1e-5))
    ((event, _),) = parts(plan.mechanisms[0].event)
    assert isinstance(event, FixedSizeRoots)
    assert event.changed_roots == 8
    assert report.d_others > 10 * event.changed_roots
    assert "sampler-ripple" in plan.claims[0].caveats
    assert plan.claims[1].epsilon == np.inf

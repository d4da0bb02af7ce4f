"""HeterPoisson's caveats as its own functions show them."""

import dataclasses

import numpy as np
import torch
from contract import GRAPH, entry_of

from dpgnn.methods.base import Support
from dpgnn.methods.heterpoisson.network import network_of
from dpgnn.methods.heterpoisson.sample import (
    published_lists,
    readers_and_lists,
    without_earlier_roots,
)
from dpgnn.methods.heterpoisson.sums import padded_layers

CONFIG = entry_of(
    "heterpoisson", "published", Support(privacy_unit="node", relation="add-remove")
).options


def gradient(config, size):
    """Of one example of three rows, padded to a size."""
    network = network_of(config, GRAPH)
    flat = network.initial(rng=np.random.default_rng(0))
    rows = torch.zeros(4, GRAPH.num_features)
    rows[:3] = torch.from_numpy(GRAPH.x[:3].copy())
    counts, missing = torch.tensor([4]), torch.tensor([size - 3])
    layers = padded_layers(config, network, flat, rows, counts, missing, torch.tensor([1]))
    return torch.cat([(a.T @ g).flatten() for _, a, g in layers])


def test_one_large_example_changes_the_gradients_of_all_others_in_its_batch():
    alone, beside = gradient(CONFIG, 3), gradient(CONFIG, 10)
    assert float((alone - beside).norm()) > 0.1 * float(alone.norm())
    without = dataclasses.replace(CONFIG, padding=False)
    assert torch.allclose(gradient(without, 3), gradient(without, 10), atol=1e-6)


def test_a_root_stays_in_the_examples_of_roots_before_it():
    """A root that nine others read: half of them keep it on average; its own shift of 1/2 is counted."""
    roots = np.arange(10)
    read = [np.array([0]) for _ in roots]
    read[0] = np.zeros(0, dtype=np.int64)
    kept = []
    for seed in range(400):
        found = without_earlier_roots(roots, read, np.random.default_rng(seed))
        kept.append(sum(len(ids) for ids in found))
    assert 4.0 < np.mean(kept) < 5.0


def test_removing_a_node_changes_the_coins_of_its_neighbours_other_readers():
    """A centre joined to 20 nodes of two readers each: without it the other reader takes for certain."""
    centre, near, far = 0, np.arange(1, 21), np.arange(21, 41)
    pairs = [(centre, u) for u in near] + list(zip(near, far))
    edges = np.array(pairs).T
    graph = dataclasses.replace(
        GRAPH, x=GRAPH.x[:41], y=GRAPH.y[:41],
        edge_index=np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64),
    )  # fmt: skip
    without = dataclasses.replace(
        graph, edge_index=graph.edge_index[:, (graph.edge_index != centre).all(axis=0)]
    )
    taken = []
    for world in (graph, without):
        lists = readers_and_lists(world)
        rng = np.random.default_rng(0)
        found = [published_lists(*lists, far, 1, rng) for _ in range(200)]
        taken.append(np.mean([sum(len(ids) for ids in drawn) for drawn in found]))
    # o goes from 2 to 1: takes go from 1/2 to 1 in every one of 20 rows that do not list the centre
    assert abs(taken[0] - 10) < 1
    assert taken[1] == 20

"""Caveats of published DP-GNN: mirrored edges, and thresholds measured on private gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from exhaustive.neighbours import examine
from exhaustive.worlds import make_world
from scipy.stats import chi2

from dpgnn import methods
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry
from dpgnn.methods.dp_gnn.options import network_of, sampler_of
from dpgnn.methods.dp_gnn.sample import training_input
from dpgnn.samplers.own_list import OwnList
from dpgnn.training.gradients import RootGradients

METHOD = methods.get("dp_gnn")


def test_with_mirrored_edges_a_removed_node_changes_the_lists_of_its_neighbours() -> None:
    """undirected-edges: 200 neighbours mention node 0, each has 20 more edges of its own."""
    hubs = np.arange(1, 201)
    leaves = 201 + np.arange(20 * 200)
    links = np.concatenate(
        [np.stack([np.zeros_like(hubs), hubs]), np.stack([np.repeat(hubs, 20), leaves])], axis=1
    )
    world = make_world(np.concatenate([links, links[::-1]], axis=1), 4201)
    sampler = OwnList(max_degree=7)

    def others(unit: str) -> int:
        report = examine(
            sampler, world, unit, "add-remove", rng=np.random.default_rng(0),
            offenders=np.array([0]),
        )  # fmt: skip
        return report.d_others

    # its own record is worth K = 7 other roots; its edges as well, about a third of its 200 neighbours'
    # lists, for 7 of their 21 edges were kept
    assert others("node-record") == 7
    assert 40 < others("node") < 100
    # so a declared bound on the degree has to pay for every neighbour
    bounded = OwnList(max_degree=7, degree_bound=200).promise.change("node-bounded", "add-remove")
    assert bounded.d_plus == 1 + 7 + 200


@pytest.mark.parametrize("seed", range(3))
def test_thresholds_from_gradients_tell_neighbours_apart_by_the_noise_alone(seed: int) -> None:
    """clip-thresholds-from-data: one replaced record moves a percentile, and with it all noise."""
    rng = np.random.default_rng(seed)
    num_nodes, num_features = 12, 40
    pairs = np.array([(a, b) for a in range(num_nodes) for b in range(a)]).T
    kept = pairs[:, rng.random(pairs.shape[1]) < 0.3]
    arcs = np.concatenate([kept, kept[::-1]], axis=1)
    entry = Entry(
        name="e", method="dp_gnn", mode="published", privacy_unit="node-record",
        relation="replace-one",
        options=strict.read(METHOD.config, {"width": 64, "max_degree": 3}),
    )  # fmt: skip
    network = network_of(entry.options, num_features=num_features, num_classes=3)
    initial = network.initial(rng=np.random.default_rng(1))
    x = rng.normal(size=(num_nodes, num_features)).astype(np.float32)
    y = rng.integers(3, size=num_nodes)
    sample = sampler_of(entry).sample(
        arcs, num_nodes=num_nodes, train_idx=np.arange(num_nodes), rng=np.random.default_rng(2)
    )
    before = _encoder_threshold(entry, network, initial, x, y, sample)
    ratios = []
    for node in range(num_nodes):
        replaced = x.copy()
        replaced[node] *= 5.0
        after = _encoder_threshold(entry, network, initial, replaced, y, sample)
        ratios.append(min(before, after) / max(before, after))
    # the neighbour that differs most, which a guarantee has to cover
    ratio = min(ratios)
    assert ratio < 0.98
    # a test of the variance of the encoder's noise, on one step: level 5 %
    count = num_features * 64
    border = chi2.ppf(0.95, count)
    power = chi2.sf(border * ratio**2, count)
    assert power > 0.3
    # over 100 steps hardly any doubt is left, while the plan charged nothing for it
    assert chi2.sf(chi2.ppf(0.95, 100 * count) * ratio**2, 100 * count) > 0.999


def _encoder_threshold(
    entry: Entry, network: Any, initial: Any, x: Any, y: Any, sample: Any
) -> float:
    rows, trees = training_input(entry.options, x, y, sample.roots, sample)
    gradients = RootGradients(network, rows, trees, clipping=None)
    norms = gradients.part_norms(initial, np.arange(trees.num_roots), "group")
    return float(np.quantile(norms[0], 0.75))

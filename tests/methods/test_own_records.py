"""Whose record a directed arc belongs to, in the samplers whose promise speaks of own lists."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from exhaustive.changed import changed_roots

from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.base import SamplerSpec
from dpgnn.methods.dp_gnn import sample as _dp_gnn_sample
from dpgnn.methods.drw import fit as _drw_fit
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.subgraphs import from_table
from dpgnn.samplers.walks import record_chains


def test_a_record_of_a_directed_graph_decides_its_own_list_and_no_slot_of_another() -> None:
    """A directed star: mirrored before the lists are taken, its hub would stand in every leaf's list."""
    size, leaves = 37, np.arange(1, 13)
    hub = np.stack([np.zeros(12, dtype=np.int64), leaves])
    arcs = np.concatenate([hub, np.stack([leaves, leaves + 12])], axis=1)
    worlds = [
        Graph(
            name="star", x=np.ones((size, 3), np.float32), edge_index=edges,
            y=np.zeros(size, np.int64), num_classes=2, directed=True,
        )
        for edges in (arcs, arcs[:, arcs[0] != 0])
    ]  # fmt: skip
    split = Split(
        train_idx=np.arange(30), val_idx=np.arange(30, 33), test_idx=np.arange(33, size),
        inductive=False,
    )  # fmt: skip
    values = np.zeros(size, np.int64)
    other = values.copy()
    other[0] = 1  # the hub's record is emptied: its features, and its list
    own, chains = OwnList(max_degree=1), record_chains(1)
    params = {key: value for key, value in asdict(own).items() if key != "degree_bound"}
    for prepare, spec, promise in (
        (
            _dp_gnn_sample.prepare,
            SamplerSpec(name="own_list", params=params | {"symmetrize": True}),
            own.promise,
        ),
        (
            _drw_fit.prepare,
            SamplerSpec(name="record-chains", params={"length": 1}),
            chains.promise,
        ),
    ):
        change = promise.change("node-record", "null-one")
        for seed in range(5):
            lost, gained = changed_roots(
                *(
                    from_table(
                        prepare(world, split, spec, np.random.default_rng(seed)).table,
                        max_occurrences=promise.max_occurrences,
                    )
                    for world in worlds
                ),
                values,
                other,
            )
            assert 0 < lost.sum() <= change.d_plus
            assert gained.sum() <= change.d_minus

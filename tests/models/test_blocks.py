"""Answers in blocks over stored lists are those of the whole graph at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgnn.data.stored import FileArray, StoredLists, StoredRows
from dpgnn.models import blocks
from dpgnn.models.blocks import blocks_of, stored_answers
from dpgnn.models.forward import full_graph
from dpgnn.models.network import Network, NetworkConfig

NUM_NODES = 60


def stored(folder: Path, edges: np.ndarray, x: np.ndarray) -> tuple[StoredRows, StoredLists]:
    order = np.argsort(edges[1], kind="stable")
    counts = np.bincount(edges[1], minlength=NUM_NODES)
    np.save(folder / "pointer.npy", np.concatenate([[0], np.cumsum(counts)]))
    np.save(folder / "source.npy", edges[0][order].astype(np.int32))
    np.save(folder / "x.npy", x)
    pointer, source, rows = (FileArray(folder / f"{n}.npy") for n in ("pointer", "source", "x"))
    return StoredRows(rows), StoredLists(pointer=pointer, source=source)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    conv=st.sampled_from(["gcn", "gin", "sage", "gat", "symmetric"]), num_hops=st.integers(0, 3),
    encoder=st.integers(0, 1), num_edges=st.integers(0, 250), most=st.sampled_from([1, 40, 10**6]),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_blocks_answer_as_the_whole_graph(
    tmp_path: Path, conv: Any, num_hops: int, encoder: int, num_edges: int, most: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    edges = np.unique(rng.integers(0, NUM_NODES, (2, num_edges)), axis=1)
    edges = edges[:, edges[0] != edges[1]]
    if conv == "symmetric":
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    x = rng.standard_normal((NUM_NODES, 5)).astype(np.float32)
    network = Network(
        NetworkConfig(
            num_features=5, num_outputs=3, width=6, conv=conv, num_hops=num_hops, num_heads=2,
            head_width=3, encoder_layers=encoder, decoder_layers=1,
        )
    )  # fmt: skip
    parameters = network.views(network.initial(rng=rng))
    asked = rng.permutation(NUM_NODES)[: int(rng.integers(0, NUM_NODES + 1))]
    wanted = full_graph(network, x, edges)(parameters)[torch.from_numpy(asked)]
    rows, lists = stored(tmp_path, edges, x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MOST_ASKED", 17)
        if num_hops:
            pieces = list(blocks_of(lists, asked, num_hops=num_hops, conv=conv, most=most))
            assert np.array_equal(np.concatenate([asked[:0], *(p for p, _ in pieces)]), asked)
            assert all(
                len(part) == 1 or block.ptr[-1] <= most + 2 * NUM_NODES for part, block in pieces
            )
        found = stored_answers(network, rows, lists if num_hops else None, asked)(parameters)
    assert torch.allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_a_hop_without_lists_is_refused() -> None:
    network = Network(NetworkConfig(num_features=5, num_outputs=3, num_hops=1))
    with pytest.raises(ValueError, match="lists must be given for a network with hops"):
        stored_answers(network, None, None, np.arange(3))

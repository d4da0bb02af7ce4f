"""Rows of linear models: own features less their mean, of norm one, and further inputs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from helpers import two_community_graph

from dpgnn.methods.shared import linear
from dpgnn.methods.shared.linear import own_rows


def test_rows_are_centred_and_of_norm_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((60, 12)) < 0.3).astype(np.float32)
    x[3] = 0.0
    graph = replace(two_community_graph(), x=x)
    nodes, further = np.array([5, 3, 40]), np.full((3, 2), 0.3)
    rows = own_rows(graph, nodes, further)
    expected = x[nodes] - x[nodes].mean(axis=1, keepdims=True)
    norms = np.linalg.norm(expected, axis=1, keepdims=True)
    assert rows[:, :12] == pytest.approx(expected / np.maximum(norms, 1e-12), abs=1e-6)
    assert np.array_equal(rows[:, 12:], further.astype(np.float32))
    sparse = replace(graph, x=sp.csr_array(x))
    assert np.array_equal(own_rows(sparse, nodes, further), rows)
    monkeypatch.setattr(linear, "CENTRED_COLUMNS", 11)
    wide = own_rows(sparse, nodes, further)
    assert sp.issparse(wide)
    plain = x[nodes] / np.maximum(np.linalg.norm(x[nodes], axis=1, keepdims=True), 1e-12)
    assert wide.toarray()[:, :12] == pytest.approx(plain, abs=1e-6)

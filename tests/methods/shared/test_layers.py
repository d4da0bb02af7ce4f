"""Features and networks in the form that attacks follow, against the code that trains and predicts."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.rows import normalize_rows
from dpgnn.methods.shared.layers import Features, RowWise, Spread, normalized_features


@pytest.mark.parametrize("kind", ["none", "l1", "l2", "centred"])
@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_those_of_the_run_and_rows_alone_are_normalised_alike(
    kind: str, sparse: bool
) -> None:
    rng = np.random.default_rng(0)
    x = (rng.random((9, 5)) * (rng.random((9, 5)) < 0.5)).astype(np.float32)
    x[4] = 0
    features = normalized_features(sp.csr_array(x) if sparse else x, kind)
    stays = sparse and kind != "centred"
    rows = features.rows.toarray() if stays else features.rows
    assert sp.issparse(features.rows) == stays
    assert rows.dtype == np.float64
    assert np.allclose(rows, normalize_rows(x, kind), rtol=1e-6, atol=1e-7)  # type: ignore[arg-type]
    some = np.array([4, 7])
    assert np.allclose(features.encode(some, x[some].astype(np.float64)), rows[some], rtol=1e-15)


def test_steps_are_told_apart_by_identity() -> None:
    raw = Features(rows=np.zeros((2, 1)), encode=lambda node, rows: rows)
    hops = {Spread(source=raw), Spread(source=raw)}
    assert len(hops) == 2
    assert not RowWise(source=raw, layer=raw.encode).exact

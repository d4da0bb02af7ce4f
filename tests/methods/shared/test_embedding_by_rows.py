"""What an encoder makes of one node in a release is made of that node alone, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from contract import GRAPH, SPLIT, entry_of, inputs_of

from dpgnn.methods.base import Support
from dpgnn.methods.shared import head_private
from dpgnn.methods.shared.head_private import embed_rows
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.run.execute import run_one


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_do_not_depend_on_other_rows(sparse: bool) -> None:
    network = Network(
        NetworkConfig(
            num_features=9, num_outputs=3, width=7, encoder_layers=2, num_hops=0, decoder_layers=1,
            activation="selu",
        )
    )  # fmt: skip
    rng = np.random.default_rng(0)
    weights = network.named(network.initial(rng=rng))
    dense = (rng.standard_normal((50, 9)) * (rng.random((50, 9)) < 0.5)).astype(np.float32)
    dense[4] = 0.0
    x = sp.csr_array(dense) if sparse else dense
    whole = embed_rows(network, weights, 2, x, by_rows=True)
    np.testing.assert_allclose(whole, embed_rows(network, weights, 2, x), atol=1e-5)
    assert not whole[4].any()
    for nodes in (np.array([7]), np.array([4, 7]), np.arange(3, 50, 4), np.arange(0)):
        part = embed_rows(network, weights, 2, x[nodes], by_rows=True)
        assert part.tobytes() == whole[nodes].tobytes()


def test_a_release_embeds_by_rows(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    real = embed_rows

    def spy(*arguments, by_rows=False):
        asked.append(by_rows)
        return real(*arguments, by_rows=by_rows)

    monkeypatch.setattr(head_private, "embed_rows", spy)
    support = Support(privacy_unit="node-bounded", relation="null-one")
    entry = entry_of("gap", "sound", support)
    assert len(SPLIT.train_idx) < GRAPH.num_nodes
    for randomness in ("study", "release"):
        run_one(
            inputs_of(entry, randomness=randomness),
            tmp_path / randomness, work=tmp_path / "work" / randomness,
        )  # fmt: skip
    assert asked == [False, True]

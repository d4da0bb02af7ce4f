"""Norms that are ranked in a release: a root's norms read its own tree alone, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers import planned_run

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, facts_of
from dpgnn.methods.dp_gnn import fit as fitting

METHOD = methods.get("dp_gnn")
ROOTS, FEATURES, CLASSES = 150, 100, 7
SENDER = 2 * ROOTS
OF_GAT = {"num_heads": 2, "head_width": 4}


class Seen(Exception):
    """Ends a fit where the first norm would be chosen."""


@pytest.fixture
def ranked(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """The values that the private choice of a norm ranks."""
    values: list[np.ndarray] = []

    def spy(row: np.ndarray, *_: Any, **__: Any) -> float:
        values.append(row.copy())
        raise Seen

    monkeypatch.setattr(fitting, "private_quantile", spy)
    return values


def graph_of(*, with_sender: bool) -> Graph:
    """Each root has one sender; root 0 has one more in one of two neighbouring graphs."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((SENDER + 1, FEATURES)).astype(np.float32)
    y = rng.integers(0, CLASSES, SENDER + 1)
    sends = np.stack([np.arange(ROOTS, SENDER), np.arange(ROOTS)])
    more = np.array([[SENDER], [0]])
    edges = np.concatenate([sends, more], axis=1) if with_sender else sends
    both = np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64)
    return Graph(name="senders", x=x, edge_index=both, y=y, num_classes=CLASSES)


def run_until_norms(conv: str, width: int, graph: Graph, first_root: int) -> None:
    """A fit of a release, up to its first private threshold; initial weights are public."""
    options = {
        "width": width, "max_degree": 3, "thresholds": "private-quantile", "clipping": "group",
        "quantile_epsilon": 2.0, "training": {"num_steps": 2, "expected_batch_size": 15},
    }  # fmt: skip
    options |= {"num_hops": 0} if conv == "mlp" else {"conv": conv}
    options |= OF_GAT if conv == "gat" else {}
    entry = Entry(
        name="e", method="dp_gnn", mode="sound", privacy_unit="node-record", relation="replace-one",
        options=strict.read(METHOD.config, options),
    )  # fmt: skip
    parts = np.split(np.arange(first_root, SENDER + 1), [ROOTS - first_root, ROOTS])
    split = Split(train_idx=parts[0], val_idx=parts[1], test_idx=parts[2], inductive=False)
    spec = METHOD.sampler(entry)
    prepared = None
    if spec is not None:
        assert METHOD.prepare is not None
        prepared = METHOD.prepare(graph, split, spec, np.random.default_rng(3))
    plan = METHOD.plan(entry, facts_of(graph, split, prepared), Budget(epsilon=8.0, delta=1e-3))
    streams = Streams(root_seed=0, axes={"repeat": 0}, randomness="release")
    context = Context(ledger=Ledger(plan), streams=streams, store=Store(None))
    with pytest.raises(Seen):
        METHOD.fit(planned_run(entry, graph, split, prepared, plan, context))


@pytest.mark.parametrize("width", [4, 7, 16, 64])
@pytest.mark.parametrize("conv", ["gcn", "sage", "gat", "gin", "mlp"])
def test_the_norms_of_other_roots_do_not_move_when_one_tree_grows(
    conv: str, width: int, ranked: list[np.ndarray]
) -> None:
    for with_sender in (True, False):
        # without hops no tree grows: root 0 is there in one graph and not in the other
        first_root = int(conv == "mlp" and not with_sender)
        run_until_norms(conv, width, graph_of(with_sender=with_sender), first_root)
    first, second = ranked
    assert len(first) == ROOTS
    assert conv == "mlp" or first[0] != second[0]
    assert np.array_equal(first[1:], second[-ROOTS + 1 :])

"""GAP: digits of the calibration, claims, quirks as options, zero steps refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.shared.node_level import counted_steps, published_multiplier
from dpgnn.methods.shared.node_level_options import StageConfig

METHOD = methods.get("gap")
STAGE = {"batch_size": 256, "num_epochs": 10}
NODE = {"encoder": STAGE, "head": STAGE}


def plan_of(
    mode: Any, unit: str, relation: str, *, epsilon: float = 8.0, num_train: int = 1895,
    delta: float = 1e-5, **options: Any,
) -> Plan:  # fmt: skip
    entry = Entry(
        name="gap", method="gap", mode=mode, privacy_unit=unit, relation=relation,
        options=strict.read(METHOD.config, options),
    )  # fmt: skip
    facts = Facts(
        num_nodes=2708, num_train=num_train, num_features=1433, num_classes=7, task="multiclass"
    )
    return METHOD.plan(entry, facts, Budget(epsilon=epsilon, delta=delta))


@pytest.mark.parametrize(
    ("epsilon", "per_hops"),
    [
        (1.0, [3.73, 5.28, 6.46, 8.34]),
        (4.0, [1.08, 1.53, 1.87, 2.42]),
        (8.0, [0.60, 0.85, 1.04, 1.34]),
        (16.0, [0.34, 0.49, 0.60, 0.77]),
    ],
)
def test_edge_level_noise_has_the_exact_digits(epsilon: float, per_hops: list[float]) -> None:
    for num_hops, expected in zip((1, 2, 3, 5), per_hops):
        plan = plan_of("sound", "edge", "add-remove", epsilon=epsilon, num_hops=num_hops)
        assert plan.mechanisms[0].details["noise_multiplier"] == pytest.approx(expected, abs=6e-3)
        assert plan.mechanisms[0].sensitivity == pytest.approx(math.sqrt(2))


def test_counting_one_direction_understates_an_undirected_edge() -> None:
    stated, proved = plan_of("published", "edge", "add-remove", epsilon=1.0).claims
    assert stated.epsilon == pytest.approx(1.0, abs=1e-6)
    assert stated.caveats == ("directed-sensitivity",)
    assert proved.epsilon == pytest.approx(1.4652, abs=1e-3)
    assert proved.status == "proved"
    both = plan_of("published", "edge", "add-remove", epsilon=1.0, directed=False).claims
    assert both[0].epsilon == pytest.approx(both[1].epsilon)


@pytest.mark.parametrize(
    ("mode", "directed", "stored"),
    [("published", True, True), ("nonprivate", True, True), ("nonprivate", False, False),
     ("published", False, False), ("sound", True, False)],
)  # fmt: skip
def test_sums_go_along_stored_edges_with_and_without_published_noise(
    mode: Any, directed: bool, stored: bool
) -> None:
    from dpgnn.data.datasets.chains import load
    from dpgnn.methods.gap.fit import edge_adjacency
    from dpgnn.methods.shared.undirected import adjacency_of

    graph = load("chains-s", None, 0)  # type: ignore[arg-type]
    options = strict.read(METHOD.config, {"directed": directed})
    entry = Entry(
        name="gap",
        method="gap",
        mode=mode,
        privacy_unit="edge",
        relation="add-remove",
        options=options,
    )
    wanted = graph.adjacency() if stored else adjacency_of(graph)
    assert (edge_adjacency(entry, graph).toarray() == wanted.toarray()).all()
    # stored: a chain's start and a self-loop on each node; undirected: both directions, no loop
    assert edge_adjacency(entry, graph).nnz == (90 if stored else 2 * 42)


@pytest.mark.parametrize("num_train", [1895, 1896])
def test_the_shared_multiplier_reproduces_the_logged_dp_mlp_noise(num_train: int) -> None:
    """Logged 13.0238 = 2z for Cora's DP-MLP: batch 64, 100 epochs, delta 1e-4, epsilon 1."""
    stage = StageConfig(batch_size=64, num_epochs=100)
    counted = counted_steps(stage, num_train)
    z, stated = published_multiplier((counted,), Budget(epsilon=1.0, delta=1e-4))
    assert 2 * z == pytest.approx(13.0238, rel=1e-3)
    assert stated <= 1.0


def test_sound_node_level_composes_three_mechanisms_within_one_budget() -> None:
    plan = plan_of("sound", "node-record", "add-remove", delta=1e-4, node=NODE)
    assert [m.name for m in plan.mechanisms] == ["encoder", "aggregate", "head"]
    claim = plan.claims[0]
    assert (claim.status, claim.released, claim.accountant) == ("proved", "weights", "pld")
    assert 7.9 < claim.epsilon <= 8.0
    assert plan.mechanism("aggregate").sensitivity == pytest.approx(math.sqrt(20))


def test_each_mechanism_alone_spends_its_share_of_mu_squared() -> None:
    from dpgnn.accountants import gdp
    from dpgnn.accountants.calibration import epsilon

    node = NODE | {"shares": [1.0, 4.0, 1.0]}
    plan = plan_of("sound", "node-record", "add-remove", delta=1e-4, node=node)
    mus = [
        gdp.mu(epsilon(m.event, delta=1e-4, relation="add-remove"), 1e-4) for m in plan.mechanisms
    ]
    assert mus[1] ** 2 / mus[0] ** 2 == pytest.approx(4.0, rel=0.02)
    assert mus[2] ** 2 / mus[0] ** 2 == pytest.approx(1.0, rel=0.02)


def test_replace_one_as_published_counts_fixed_batches_as_poisson() -> None:
    node = NODE | {"bounding": "sampled"}
    stated, proved = plan_of("published", "node-bounded", "replace-one", node=node).claims
    assert set(stated.caveats) == {
        "own-row-uncounted", "degree-bound-unstable", "fixed-size-as-poisson",
    }  # fmt: skip
    assert (stated.released, proved.released) == ("weights+predictions", "weights")
    assert proved.epsilon == math.inf
    stated, proved = plan_of("published", "node-bounded", "replace-one", node=NODE).claims
    # replacing one of a fixed batch costs about as much as adding one to a Poisson batch at half the noise
    assert proved.status == "proved"
    assert proved.epsilon == pytest.approx(stated.epsilon, rel=0.03)


def test_a_batch_larger_than_the_training_set_is_refused_where_batches_are_dropped() -> None:
    with pytest.raises(ValueError, match="nothing would be trained; lower batch_size"):
        plan_of("published", "node-bounded", "replace-one", num_train=8, node=NODE)
    plan = plan_of("sound", "node-bounded", "replace-one", num_train=8, node=NODE)
    # q = 1: every root in every step
    assert plan.mechanism("head").num_steps == 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization": "columns-l1"}, "normalization must be l2 in sound mode"),
        ({"node": NODE | {"bounding": "sampled"}}, "node.bounding must be declared in sound mode"),
    ],
)
def test_published_quirks_are_refused_in_sound_mode(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan_of("sound", "node-bounded", "null-one", **options)


def test_columns_divided_by_norms_over_all_rows_leave_no_proof_at_node_level() -> None:
    """One node's own row is in the norms, so it moves every other row; with l2 it moves D of them."""
    import numpy as np

    from dpgnn.methods.shared.aggregate import column_scaled_rows, noisy_sums, unit_rows
    from dpgnn.methods.shared.undirected import symmetric_adjacency

    for relation in ("add-remove", "null-one", "replace-one"):
        l2, l1 = (
            plan_of("published", "node-bounded", relation, normalization=kind, node=NODE).claims[1]
            for kind in ("l2", "columns-l1")
        )
        assert math.isfinite(l2.epsilon)
        assert l2.status == "proved"
        assert math.isinf(l1.epsilon)

    rng, size = np.random.default_rng(0), 12
    pairs = np.array([[0, 0, 3, 5, 7, 9], [1, 2, 4, 6, 8, 10]])
    x = unit_rows(rng.standard_normal((size, 4)))
    emptied = x.copy()
    emptied[0] = 0
    without = pairs[:, (pairs != 0).all(axis=0)]
    changed = {}
    for kind, normalize in (("l2", unit_rows), ("columns-l1", column_scaled_rows)):
        rows = [
            noisy_sums(
                symmetric_adjacency(edges, size), normalize(start), num_hops=1, noise_stddev=1.0,
                draw=lambda hop, shape: np.random.default_rng(hop).standard_normal(shape),
                normalize=normalize,
            )[-1]
            for edges, start in ((pairs, x), (without, emptied))
        ]  # fmt: skip
        changed[kind] = int((rows[0] != rows[1])[1:].any(axis=1).sum())
    assert changed == {"l2": 2, "columns-l1": size - 1}


def test_options_of_the_head_without_effect_at_node_level_are_refused() -> None:
    for method in ("gap", "dpdgc", "caribou"):
        chosen = methods.get(method)
        for options in ({"dropout": 0.0}, {"head_layers": 3}, {"training": {"lr": 0.5}}):
            entry = Entry(
                name="e", method=method, mode="sound", privacy_unit="node-bounded",
                relation="null-one", options=strict.read(chosen.config, {"head": options}),
            )  # fmt: skip
            with pytest.raises(
                ValueError, match=r"head\..* must stay at its default at node level"
            ):
                chosen.check_entry(entry, "entries.e")
        entry = Entry(
            name="e", method=method, mode="sound", privacy_unit="node-bounded", relation="null-one",
            options=strict.read(chosen.config, {"head": {"hidden": 16}}),
        )  # fmt: skip
        chosen.check_entry(entry, "entries.e")

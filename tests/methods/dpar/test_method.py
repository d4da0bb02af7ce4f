"""DPAR's rows, weights, training and inference; runs in every mode."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import planned_run, two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger, Plan
from dpgnn.core import config as strict
from dpgnn.core import seeds
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, Facts, Fitted, Performance, Prepared
from dpgnn.methods.dpar.fit import _first_stage, network_of, propagation
from dpgnn.methods.dpar.options import DPARConfig, resolved
from dpgnn.methods.dpar.rows import (
    draw_members,
    members_of,
    select_gaussian,
    select_gumbel,
    vectors,
    weights_of_roots,
)
from dpgnn.models.trees import weighted_rows
from dpgnn.run.execute import run_one
from dpgnn.run.specification import RunInputs
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import Execution, RootGradients

METHOD = methods.get("dpar")
GRAPH = two_community_graph()
ORDER = np.random.default_rng(1).permutation(GRAPH.num_nodes)
SPLIT = Split(
    train_idx=np.sort(ORDER[:48]), val_idx=np.zeros(0, dtype=np.int64),
    test_idx=np.sort(ORDER[48:]), inductive=True,
)  # fmt: skip


def entry_of(mode: Any, relation: str = "replace-one", **options: Any) -> Entry:
    """An entry of the method, checked."""
    given = {"width": 4, "batch_size": 8, "num_steps": 12, "num_vectors": 10,
             "subsample_rate": 0.9} | options  # fmt: skip
    private = mode != "nonprivate"
    entry = Entry(
        name="e", method="dpar", mode=mode, privacy_unit="node" if private else None,
        relation=relation if private else None, options=strict.read(METHOD.config, given),
    )  # fmt: skip
    METHOD.check_entry(entry, "entries.e")
    return entry


def prepared_of(entry: Entry) -> Prepared | None:
    """The prepared sample the entry needs."""
    spec = METHOD.sampler(entry)
    if spec is None:
        return None
    assert METHOD.prepare is not None
    return METHOD.prepare(GRAPH, SPLIT, spec, seeds.child(0, "sampler", sampler=spec.label))


def run(folder: Path, entry: Entry, randomness: Any = "study") -> Any:
    """One run on the toy graph; gives the record."""
    private = entry.mode != "nonprivate"
    key = {"study": "s", "dataset": "two", "setting": "r", "entry": "e",
           "epsilon": "8" if private else "inf", "repeat": 0}  # fmt: skip
    inputs = RunInputs(
        key=key, entry=entry, epsilon=8.0 if private else math.inf, delta=1e-3, graph=GRAPH,
        split=SPLIT, prepared=prepared_of(entry), hashes={}, randomness=randomness,
    )  # fmt: skip
    run_one(inputs, folder, work=folder / "work")
    return json.loads((folder / "record.json").read_text())


@pytest.mark.parametrize(
    ("mode", "options"),
    [
        ("published", {"rows": "em0"}),
        ("published", {"rows": "em1", "roots": "vectors"}),
        ("published", {"rows": "gm", "rescale_columns": True, "dropout": 0.1}),
        ("published", {"rows": "none", "power_iterations": 0}),
        ("published", {"rows": "random"}),
        ("published", {"rows": "true"}),
        ("published", {"rows": "true", "noise_like": "sound"}),
        ("sound", {"rows": "em0"}),
        ("sound", {"rows": "em0", "amplification": "correct"}),
        ("sound", {"rows": "em1", "batches": "fixed"}),
        ("sound", {"rows": "gm"}),
        ("sound", {"rows": "none"}),
        ("sound", {"rows": "random"}),
        ("nonprivate", {}),
        ("nonprivate", {"rows": "none", "num_vectors": None, "dropout": 0.2}),
    ],
)
def test_every_variant_runs_and_records(tmp_path: Path, mode: Any, options: dict[str, Any]) -> None:
    record = run(tmp_path, entry_of(mode, **options))
    assert record["status"] == "ok", record["reason"]
    assert record["metrics"]["test"]["num_nodes"] == 12
    if mode == "sound":
        # power iteration reads the evaluation graph
        assert record["prediction"]["answers"] == "none"


def test_answers_without_propagation_read_the_asked_record_alone(tmp_path: Path) -> None:
    record = run(tmp_path, entry_of("sound", rows="none", power_iterations=0))
    assert record["prediction"]["answers"] == "own-record"


@pytest.mark.parametrize("rows", ["em1", "gm"])
@pytest.mark.parametrize("randomness", ["study", "release"])
def test_a_run_that_is_stopped_never_draws_the_noise_of_its_rows_again(
    tmp_path: Path, rows: str, randomness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpgnn.methods.dpar import fit as _dpar_fit
    from dpgnn.methods.dpar import rows as _dpar_rows

    entry = entry_of("sound", rows=rows, amplification="correct")
    draws: list[str] = []
    made = _dpar_rows._private

    def counting(*given: Any) -> Any:
        draws.append("rows")
        return made(*given)

    monkeypatch.setattr(_dpar_rows, "_private", counting)
    train = _dpar_fit._train_private

    class Killed(Exception):
        pass

    def killed(*given: Any) -> Any:
        raise Killed

    monkeypatch.setattr(_dpar_fit, "_train_private", killed)
    with pytest.raises(Killed):
        run(tmp_path, entry, randomness)
    monkeypatch.setattr(_dpar_fit, "_train_private", train)
    record = run(tmp_path, entry, randomness)
    assert record["status"] == "ok"
    assert draws == ["rows"]
    if randomness == "study":
        assert run(tmp_path / "whole", entry) == record


def test_the_subsample_is_a_shuffled_part_of_the_training_nodes() -> None:
    config = resolved(entry_of("published", subsample_rate=0.5))
    seen = np.zeros(GRAPH.num_nodes)
    first = np.zeros(GRAPH.num_nodes)
    for seed in range(400):
        members = draw_members(GRAPH, SPLIT, config, rng=np.random.default_rng(seed))
        assert len(members.nodes) == len(set(members.nodes)) == 24
        assert members.exact.shape == (10, 24)
        seen[members.nodes] += 1
        first[members.nodes[:10]] += 1
    assert seen[SPLIT.test_idx].sum() == 0
    # 48 nodes, half of them in; four deviations of a binomial
    assert np.abs(seen[SPLIT.train_idx] / 400 - 0.5).max() < 4 * math.sqrt(0.25 / 400)
    assert np.abs(first[SPLIT.train_idx] / 400 - 10 / 48).max() < 4 * math.sqrt(0.165 / 400)


def test_exact_rows_are_page_rank_on_the_subsample_alone() -> None:
    config = resolved(entry_of("published", subsample_rate=1.0, rho=1e-9, gamma=1e-6))
    members = draw_members(GRAPH, SPLIT, config, rng=np.random.default_rng(0))
    dense = GRAPH.adjacency().toarray()[np.ix_(members.nodes, members.nodes)] + np.eye(48)
    walk = dense / dense.sum(axis=0)
    alpha = config.alpha
    # the lazy walk (I + A D^-1)/2 with teleport alpha
    exact = np.linalg.inv(np.eye(48) - (1 - alpha) * (np.eye(48) + walk) / 2) * alpha
    np.testing.assert_allclose(members.exact.toarray(), exact[:, :10].T, atol=2e-5)


def test_prepared_rows_are_the_drawn_ones() -> None:
    entry = entry_of("published")
    spec = METHOD.sampler(entry)
    assert spec is not None
    prepared = prepared_of(entry)
    assert prepared is not None
    drawn = draw_members(
        GRAPH, SPLIT, resolved(entry), rng=seeds.child(0, "sampler", sampler=spec.label)
    )
    found = members_of(planned_run(entry, GRAPH, SPLIT, prepared, Plan(), _context()))
    assert np.array_equal(found.nodes, drawn.nodes)
    assert (found.exact != drawn.exact).nnz == 0
    assert prepared.facts == {}


def _context(randomness: Any = "study") -> Any:
    """Streams alone; nothing else is read."""

    class Only:
        streams = Streams(root_seed=0, axes={"repeat": 0}, randomness=randomness)

    found: Context = Only()  # type: ignore[assignment]
    return found


def test_a_secret_subsample_comes_from_a_secret_stream() -> None:
    entry = entry_of("sound", amplification="correct", subsample_rate=0.5)
    draws = [
        members_of(
            planned_run(entry, GRAPH, SPLIT, None, Plan(), _context("release"))
        ).nodes.tolist()
        for _ in range(2)
    ]
    assert draws[0] != draws[1]
    again = [
        members_of(planned_run(entry, GRAPH, SPLIT, None, Plan(), _context())).nodes.tolist()
        for _ in range(2)
    ]
    assert again[0] == again[1]


@pytest.mark.parametrize(("rows", "exactly"), [(20_000, False), (3_000, True)])
def test_gumbel_selection_is_the_exponential_mechanism(rows: int, exactly: bool) -> None:
    scores, scale = np.array([0.0, 0.3e-3, 0.9e-3, 5e-3, 0.0]), 0.0007
    exact = sp.csr_array(np.tile(scores, (rows, 1)))
    rng = np.random.default_rng(0)
    chosen = select_gumbel(exact, 1e-3, scale, 2, rng=rng, exactly=exactly)
    weight = np.exp(np.minimum(scores, 1e-3) / scale)
    law = weight / weight.sum()
    observed = np.bincount(chosen[:, 0], minlength=5) / rows
    assert np.abs(observed - law).max() < 4 * math.sqrt(0.25 / rows)
    # the second pick, given that the first was node 3
    rest = np.where(np.arange(5) == 3, 0, weight)
    after = chosen[chosen[:, 0] == 3, 1]
    observed = np.bincount(after, minlength=5) / len(after)
    assert np.abs(observed - rest / rest.sum()).max() < 4 * math.sqrt(0.25 / len(after))


@pytest.mark.parametrize("randomness", ["study", "release"])
def test_weights_have_laplace_noise_of_the_planned_scale(randomness: Any) -> None:
    count, scale = 1500, 0.3
    config: Any = SimpleNamespace(rows="em1", top_k=4, max_entry=0.5)
    ledger = SimpleNamespace(enter=lambda name: SimpleNamespace(details={"scale": scale}))
    streams = Streams(root_seed=0, axes={}, randomness=randomness)
    context: Any = SimpleNamespace(ledger=ledger, streams=streams)
    exact = sp.csr_array(np.tile([0.1, 0.2, 0.5, 0.9], (count, 1)))
    noise = vectors(config, exact, context).toarray() - [0.1, 0.2, 0.5, 0.5]
    # the mean of |noise| is the scale, its deviation too
    assert np.abs(noise).mean() == pytest.approx(scale, abs=5 * scale / math.sqrt(4 * count))


def test_gaussian_rows_are_scaled_noised_and_cut() -> None:
    exact = sp.csr_array(np.array([[0.6, 0.0, 0.8, 0.0], [0.003, 0.0, 0.0, 0.004]]))
    chosen, values = select_gaussian(exact, 0.01, 1e-9, 2, rng=np.random.default_rng(0))
    assert np.array_equal(chosen, [[2, 0], [3, 0]])
    np.testing.assert_allclose(values, [[0.008, 0.006], [0.004, 0.003]], atol=1e-7)
    spread = select_gaussian(sp.csr_array((3000, 4)), 0.01, 0.5, 4, rng=np.random.default_rng(1))[1]
    assert spread.std() == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize("roots", ["all", "vectors"])
def test_weights_have_identity_rows_bounded_columns_and_capped_counts(
    rescale: bool, roots: Any
) -> None:
    rng = np.random.default_rng(0)
    config = DPARConfig(column_cap=2, rescale_columns=rescale, roots=roots, top_k=3)
    chosen = np.concatenate([np.zeros((12, 1), np.int64), rng.integers(1, 20, (12, 2))], axis=1)
    dense = np.zeros((12, 20))
    np.put_along_axis(dense, chosen, 1 / 3, axis=1)
    found = weights_of_roots(
        config, sp.csr_array(dense), 20, sound=True, key=np.random.default_rng(1)
    ).toarray()
    assert found.shape == (20 if roots == "all" else 12, 20)
    assert ((found[:12] != 0).sum(axis=0) <= 2).all()
    if roots == "all":
        assert np.array_equal(found[12:] != 0, np.eye(20)[12:] != 0)
    norms = np.abs(found).sum(axis=0)
    if rescale:
        np.testing.assert_allclose(norms[norms > 0], 1)
    else:
        assert (norms <= 1 + 1e-12).all()
    free = weights_of_roots(
        config, sp.csr_array(dense), 20, sound=False, key=np.random.default_rng(1)
    ).toarray()
    assert (free[:12, 0] != 0).all()  # published: a node may stand in every row


def test_power_iteration_is_the_stated_one_on_the_graph_of_the_setting() -> None:
    entry = entry_of("sound", rows="none", restart=0.3, power_iterations=3)
    config = resolved(entry)
    network = network_of(config, GRAPH, hop=False)
    state = network.views(network.initial(rng=np.random.default_rng(0)))
    nodes = SPLIT.test_idx
    found = METHOD.predict(entry, Fitted(state=state), GRAPH, nodes).logits.numpy()
    w0, w1 = (value.numpy() for value in state.values())
    own = np.maximum(GRAPH.x @ w0, 0) @ w1
    loops = GRAPH.adjacency().toarray() + np.eye(60)
    operator = loops / loops.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(propagation(GRAPH).toarray(), operator, atol=1e-6)
    expected = own
    for _ in range(3):
        expected = 0.7 * operator @ expected + 0.3 * own
    np.testing.assert_allclose(found, expected[nodes], rtol=1e-4, atol=1e-5)


def test_rows_that_were_lost_take_what_was_trained_on_them_along(tmp_path: Path) -> None:
    """New rows are a second release; a model that saw both would have two where one is paid for."""
    entry = entry_of("sound")
    facts = Facts(
        num_nodes=60, num_train=48, num_features=GRAPH.num_features, num_classes=GRAPH.num_classes,
        task="multiclass", structure={},
    )  # fmt: skip
    plan = METHOD.plan(entry, facts, Budget(epsilon=8.0, delta=1e-3))
    store = Store(tmp_path / "work")

    def first_stage() -> sp.csr_array:
        context = Context(
            ledger=Ledger(plan), streams=Streams(root_seed=0, axes={"repeat": 0}), store=store,
            performance=Performance(),
        )  # fmt: skip
        return _first_stage(planned_run(entry, GRAPH, SPLIT, prepared_of(entry), plan, context))[1]

    rows = first_stage()
    store.save("train", {"flat": np.ones(3)}, {"step": 5})
    assert (first_stage() != rows).nnz == 0
    assert store.load("train") is not None
    (tmp_path / "work" / "rows.safetensors").unlink()
    first_stage()
    assert store.load("train") is None
    assert store.load("rows") is not None


def test_one_node_moves_the_sum_by_no_more_than_the_plan_says() -> None:
    """Every node, random features and labels: at most s + 1 roots of 2C each, with the rows released."""
    rng = np.random.default_rng(3)
    config = resolved(entry_of("sound", column_cap=2, top_k=3))
    members, norm = 40, 0.05
    dense = np.zeros((25, members))
    popular = np.where(rng.random((25, 3)) < 0.5, rng.integers(0, 4, (25, 3)),
                       rng.integers(0, members, (25, 3)))  # fmt: skip
    np.put_along_axis(dense, popular, 1 / 3, axis=1)
    weights = weights_of_roots(config, sp.csr_array(dense), members, sound=True, key=rng)
    network = network_of(config, GRAPH, hop=True)
    flat = network.initial(rng=rng, dtype=torch.float64) * 20

    def total(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        gradients = RootGradients(
            network, x, weighted_rows(weights, y), clipping=global_clipping(norm),
            execution=Execution(dtype="float64"),
        )  # fmt: skip
        return gradients(flat, np.arange(members)).numpy().copy()

    x, y = GRAPH.x[:members], GRAPH.y[:members]
    before, largest, bound = total(x, y), 0.0, 2 * norm * (config.column_cap + 1)
    for node in range(members):
        for _ in range(5):
            other_x, other_y = x.copy(), y.copy()
            other_x[node] = rng.normal(0, 20, x.shape[1])
            other_y[node] = 1 - y[node]
            largest = max(largest, float(np.linalg.norm(total(other_x, other_y) - before)))
    assert largest <= bound
    assert largest > 0.4 * bound


def test_a_node_of_the_capped_rows_changes_at_most_one_root_more_than_the_cap() -> None:
    """Its own root, and those of the rows it stands in; the bound is attained."""
    from dpgnn.samplers.rows import cap_columns, rows_of

    rng = np.random.default_rng(0)
    dense = np.zeros((30, 30))
    np.put_along_axis(dense[:20], rng.integers(0, 6, (20, 3)), 1 / 3, axis=1)
    capped = cap_columns(rows_of(sp.csr_array(dense), np.arange(30)), 2, rng=rng)
    row = np.repeat(capped.roots, np.diff(capped.pointer))
    touched = [{node, *row[capped.columns == node].tolist()} for node in range(30)]
    assert max(len(roots) for roots in touched) == 3

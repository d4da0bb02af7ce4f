"""DP-GNN end to end: samples, thresholds, training in every mode, inference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from helpers import planned_run, two_community_graph

from benchmarks.reference import root_gradient
from dpgnn import methods
from dpgnn.accountants.events import GumbelTopK, compose
from dpgnn.accountants.plan import Budget, Ledger, Mechanism, Plan
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, Fitted, Prepared, facts_of
from dpgnn.methods.dp_gnn import fit as fitting
from dpgnn.methods.dp_gnn import sample as sampling
from dpgnn.methods.dp_gnn.options import network_of, part_names, sampler_of
from dpgnn.training.clipping import Clipping, uniform_clipping
from dpgnn.training.gradients import RootGradients

METHOD = methods.get("dp_gnn")
GRAPH = two_community_graph()
ORDER = np.random.default_rng(1).permutation(GRAPH.num_nodes)
PARTS = [np.sort(part) for part in np.split(ORDER, [30, 45])]
SPLIT = Split(train_idx=PARTS[0], val_idx=PARTS[1], test_idx=PARTS[2], inductive=False)
LOOP = {"num_steps": 25, "expected_batch_size": 15, "optimizer": {"lr": 0.05}}
SMALL: dict[str, Any] = {"width": 8, "max_degree": 3, "training": LOOP}


def entry_of(mode: Any, relation: str = "replace-one", **options: Any) -> Entry:
    """An entry for the unit node-record."""
    private = mode != "nonprivate"
    return Entry(
        name="e", method="dp_gnn", mode=mode, privacy_unit="node-record" if private else None,
        relation=relation if private else None,
        options=strict.read(METHOD.config, SMALL | options),
    )  # fmt: skip


def prepared_of(entry: Entry, seed: int = 0, graph: Any = GRAPH) -> Prepared | None:
    """The prepared sample of an entry."""
    spec = METHOD.sampler(entry)
    if spec is None:
        return None
    assert METHOD.prepare is not None
    return METHOD.prepare(graph, SPLIT, spec, np.random.default_rng(seed))


def context_of(plan: Plan, tmp_path: Any = None, randomness: Any = "study") -> Context:
    """What surrounds a fit."""
    streams = Streams(root_seed=0, axes={"repeat": 0}, randomness=randomness)
    return Context(ledger=Ledger(plan), streams=streams, store=Store(tmp_path, "x"))


def fit(entry: Entry, epsilon: float = 8.0, graph: Any = GRAPH) -> tuple[Plan, Fitted]:
    """Plan and fit."""
    prepared = prepared_of(entry, graph=graph)
    facts = facts_of(graph, SPLIT, prepared)
    plan = METHOD.plan(entry, facts, Budget(epsilon=epsilon, delta=1e-3))
    context = context_of(plan)
    fitted = METHOD.fit(planned_run(entry, graph, SPLIT, prepared, plan, context))
    context.ledger.close()
    return plan, fitted


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize("conv", ["gcn", "gin", "gat", "sage"])
def test_every_network_trains_in_every_mode_for_exactly_the_planned_steps(
    conv: str, hops: int
) -> None:
    for mode in ("nonprivate", "published", "sound"):
        entry = entry_of(mode, conv=conv, num_hops=hops, num_heads=2, head_width=4)
        plan, fitted = fit(entry)
        assert fitted.history[-1]["step"] == 25
        assert plan.num_steps == (0 if mode == "nonprivate" else 25)
        if mode == "sound":
            assert fitted.history[-1]["epsilon"] == pytest.approx(plan.claims[0].epsilon)
        if mode == "published":
            assert fitted.history[-1]["epsilon"] == pytest.approx(plan.claims[0].epsilon)
        answer = METHOD.predict(entry, fitted, GRAPH, SPLIT.test_idx)
        assert answer.logits.shape == (15, 2)
        assert torch.isfinite(answer.logits).all()
        assert (answer.answers == "own-record") == (hops == 0 and mode != "nonprivate")


def test_without_privacy_the_network_learns_and_with_a_large_budget_so_does_the_sound_one() -> None:
    for mode in ("nonprivate", "sound"):
        _, fitted = fit(entry_of(mode), epsilon=200.0)
        answer = METHOD.predict(entry_of(mode), fitted, GRAPH, SPLIT.test_idx)
        right = answer.logits.argmax(1).numpy() == GRAPH.y[SPLIT.test_idx]
        assert right.mean() > 0.9, mode


def test_entries_that_differ_in_training_only_share_one_sample() -> None:
    base = METHOD.sampler(entry_of("sound"))
    assert base is not None
    assert base.name == "own_list"
    other = entry_of("sound", "null-one", conv="gin", degree_bound=30, clipping="group")
    assert METHOD.sampler(other) == base
    assert METHOD.sampler(entry_of("sound", max_degree=4)) != base
    plain, published = METHOD.sampler(entry_of("nonprivate")), METHOD.sampler(entry_of("published"))
    assert plain == published
    assert METHOD.sampler(entry_of("sound", num_hops=0)) is None


def test_the_prepared_file_states_the_promise_and_the_sample_keeps_it() -> None:
    for mode, options in (
        ("sound", {}), ("sound", {"sampler": "stable"}), ("published", {"reference_code": True}),
    ):  # fmt: skip
        entry = entry_of(mode, num_hops=2, **options)
        prepared = prepared_of(entry)
        assert prepared is not None
        promise = sampler_of(entry).promise
        assert prepared.facts["promise"]["max_occurrences"] == promise.max_occurrences
        assert prepared.diagnostics["largest_occurrence"] <= promise.max_occurrences
        sample = sampling.read_sample(entry, GRAPH, prepared)
        assert sample is not None
        assert sample.roots.tolist() == SPLIT.train_idx.tolist()


def test_a_missing_sample_and_a_degree_beyond_the_declared_one_are_refused() -> None:
    with pytest.raises(ValueError, match="run `dpgnn prepare`"):
        sampling.read_sample(entry_of("sound"), GRAPH, None)
    entry = entry_of("sound", "add-remove", degree_bound=3)
    entry = replace(entry, privacy_unit="node-bounded")
    with pytest.raises(ValueError, match="degree_bound must be at least every node's degree"):
        sampling.read_sample(entry, GRAPH, prepared_of(entry))


@pytest.mark.parametrize("conv", ["gcn", "gat"])
@pytest.mark.parametrize("per", ["global", "group", "tensor"])
def test_measured_norms_are_those_of_one_root_at_a_time(conv: str, per: str) -> None:
    entry = entry_of("published", conv=conv, clipping=per, num_hops=2, num_heads=2, head_width=4)
    config = entry.options
    network = network_of(config, num_features=6, num_classes=2)
    sample = sampling.read_sample(entry, GRAPH, prepared_of(entry))
    x, trees = sampling.training_input(config, GRAPH.x, GRAPH.y, SPLIT.train_idx, sample)
    initial = network.initial(rng=np.random.default_rng(3), dtype=torch.float64)
    roots = np.arange(trees.num_roots)
    gradients = RootGradients(network, x, trees, clipping=None)
    found = gradients.part_norms(initial.float(), roots, per)  # type: ignore[arg-type]
    part_of, bounds = uniform_clipping(network, per, 1.0).parts(network)  # type: ignore[arg-type]
    assert found.shape == (len(bounds), trees.num_roots)
    for root in roots[:7]:
        gradient = root_gradient(network, initial, x.astype(np.float64), trees, int(root))
        for part in range(len(bounds)):
            tensors = list(network.views(gradient).values())
            chosen = [t.reshape(-1) for t, owner in zip(tensors, part_of) if owner == part]
            norm = float(torch.linalg.vector_norm(torch.cat(chosen)))
            assert found[part, root] == pytest.approx(norm, rel=1e-4, abs=1e-6)


def test_sparse_features_are_measured_as_dense_ones() -> None:
    entry = entry_of("published")
    network = network_of(entry.options, num_features=6, num_classes=2)
    sample = sampling.read_sample(entry, GRAPH, prepared_of(entry))
    initial = network.initial(rng=np.random.default_rng(3))
    found = []
    for x in (GRAPH.x, sp.csr_array(GRAPH.x)):
        rows, trees = sampling.training_input(entry.options, x, GRAPH.y, SPLIT.train_idx, sample)
        roots = np.arange(trees.num_roots)
        gradients = RootGradients(network, rows, trees, clipping=None)
        found.append(gradients.part_norms(initial, roots, "group"))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_a_published_run_clips_at_the_75th_percentile_and_noises_each_group_by_its_own() -> None:
    entry = entry_of("published", decoder_layers=2)
    plan, fitted = fit(entry)
    norms = fitted.details["clipping_norms"]
    assert list(norms) == ["encoder", "aggregation", "decoder"]
    config = entry.options
    network = network_of(config, num_features=6, num_classes=2)
    sample = sampling.read_sample(entry, GRAPH, prepared_of(entry))
    x, trees = sampling.training_input(config, GRAPH.x, GRAPH.y, SPLIT.train_idx, sample)
    context = context_of(plan)
    initial = network.initial(rng=context.streams.numpy("weights"))
    gradients = RootGradients(network, x, trees, clipping=None)
    measured = gradients.part_norms(initial, np.arange(30), "group")
    np.testing.assert_allclose(list(norms.values()), np.quantile(measured, 0.75, axis=1))

    clipping = Clipping(per="group", norms=norms)
    mechanism = fitting.in_units_of(plan.mechanisms[0], clipping.total_norm)
    noise = fitting._noise(entry, clipping, mechanism)
    stated = plan.mechanisms[0].details["stated_noise_multiplier"]
    for name, norm in norms.items():
        # Algorithm 4: sigma_l = lambda * 2 C_l N(K, r)
        assert noise.stddev[name] == pytest.approx(stated * 2 * norm * 4)


def test_the_reference_code_adds_one_deviation_from_the_root_of_all_squares() -> None:
    entry = entry_of("published", reference_code=True)
    plan, fitted = fit(entry)
    norms = fitted.details["clipping_norms"]
    assert "encoder.0.weight" in norms
    assert "encoder.0.bias" in norms
    clipping = Clipping(per="tensor", norms=norms)
    noise = fitting._noise(
        entry, clipping, fitting.in_units_of(plan.mechanisms[0], clipping.total_norm)
    )
    stated = plan.mechanisms[0].details["stated_noise_multiplier"]
    expected = stated * 2 * 4 * np.sqrt(sum(norm**2 for norm in norms.values()))
    assert set(noise.stddev) == set(norms)
    np.testing.assert_allclose(list(noise.stddev.values()), expected)


def test_a_release_shows_no_measured_norm() -> None:
    entry = entry_of("published")
    prepared = prepared_of(entry)
    plan = METHOD.plan(entry, facts_of(GRAPH, SPLIT, prepared), Budget(epsilon=8, delta=1e-3))
    fitted = METHOD.fit(
        planned_run(entry, GRAPH, SPLIT, prepared, plan, context_of(plan, randomness="release"))
    )
    assert fitted.details == {}


def test_a_private_quantile_comes_near_the_quantile_when_it_may_spend() -> None:
    values = np.random.default_rng(0).lognormal(size=2000)
    event = GumbelTopK(relation="add-remove", scale=0.5, score_sensitivity=4.0, num_selected=1)
    mechanism = Mechanism(
        name="threshold/encoder", event=event, noise_stddev=1.0, sensitivity=4.0,
        details={"scale": 0.5, "wanted_rank": 1500},
    )  # fmt: skip
    found = [
        fitting.private_quantile(values, mechanism, rng=np.random.default_rng(seed))
        for seed in range(20)
    ]
    ranks = [(values <= norm).mean() for norm in found]
    assert max(abs(rank - 0.75) for rank in ranks) < 0.04
    wide = replace(mechanism, details={"scale": 1e9, "wanted_rank": 1500})
    blind = {
        fitting.private_quantile(values, wide, rng=np.random.default_rng(seed))
        for seed in range(20)
    }
    assert len(blind) > 10


def test_a_run_with_private_quantiles_enters_every_mechanism() -> None:
    entry = entry_of("sound", thresholds="private-quantile", clipping="group", quantile_epsilon=2.0)
    plan, fitted = fit(entry, epsilon=20.0)
    assert len(plan.mechanisms) == 4
    assert set(fitted.details["clipping_norms"]) == {"encoder", "aggregation", "decoder"}
    assert all(norm in fitting.CANDIDATES for norm in fitted.details["clipping_norms"].values())


def test_lengths_in_units_of_a_found_norm_keep_what_is_counted() -> None:
    plan, _ = fit(entry_of("sound"))
    mechanism = plan.mechanisms[0]
    scaled = fitting.in_units_of(mechanism, 3.5)
    assert scaled.clipping_norm == 3.5
    assert scaled.noise_stddev / 3.5 == pytest.approx(mechanism.noise_stddev)
    ((event, count),) = scaled.event.parts  # type: ignore[attr-defined]
    assert scaled.event == compose(event, count)
    assert event.noise_stddev == scaled.noise_stddev


@pytest.mark.parametrize("hops", [1, 2])
def test_features_averaged_once_are_those_of_each_roots_own_subgraph(hops: int) -> None:
    entry = entry_of("sound", aggregate_once=True, num_hops=hops)
    sample = sampling.read_sample(entry, GRAPH, prepared_of(entry))
    assert sample is not None
    for x in (GRAPH.x, sp.csr_array(GRAPH.x)):
        rows, trees = sampling.training_input(entry.options, x, GRAPH.y, SPLIT.train_idx, sample)
        assert trees.num_hops == 0
        dense = rows if isinstance(rows, np.ndarray) else rows.toarray()
        assert dense.dtype == np.float32
        for i, root in enumerate(sample.roots):
            part = sample.select(np.array([i]))
            adjacency = np.eye(len(part.nodes))
            adjacency[part.edge_target, part.edge_source] = 1
            mean = adjacency / adjacency.sum(axis=1, keepdims=True)
            expected = np.linalg.matrix_power(mean, hops)[0] @ GRAPH.x[part.nodes]
            np.testing.assert_allclose(
                dense[i], np.concatenate([GRAPH.x[root], expected]), atol=1e-5
            )


def test_an_entry_that_averages_once_trains_and_predicts() -> None:
    for mode in ("nonprivate", "sound"):
        entry = entry_of(mode, aggregate_once=True, encoder_layers=0, num_hops=2)
        _, fitted = fit(entry, epsilon=200.0)
        answer = METHOD.predict(entry, fitted, GRAPH, SPLIT.test_idx)
        assert (answer.logits.argmax(1).numpy() == GRAPH.y[SPLIT.test_idx]).mean() > 0.9


def test_inference_reads_complete_lists_except_at_training_nodes_of_deep_published_runs() -> None:
    entry = entry_of("published", num_hops=2)
    config = entry.options
    sample = sampling.read_sample(entry, GRAPH, prepared_of(entry))
    assert sample is not None
    complete = sampling.inference_arcs(config, GRAPH, SPLIT.train_idx, None)
    assert {tuple(arc) for arc in complete.T} == {tuple(arc) for arc in GRAPH.edge_index.T}
    mixed = sampling.inference_arcs(config, GRAPH, SPLIT.train_idx, sample)
    is_train = np.isin(mixed[1], SPLIT.train_idx)
    sampled = {tuple(arc) for arc in sample.arcs_into_roots().T}
    assert {tuple(arc) for arc in mixed[:, is_train].T} == sampled
    others = GRAPH.edge_index[:, ~np.isin(GRAPH.edge_index[1], SPLIT.train_idx)]
    assert {tuple(arc) for arc in mixed[:, ~is_train].T} == {tuple(arc) for arc in others.T}

    _, fitted = fit(entry)
    near = METHOD.predict(entry, fitted, GRAPH, SPLIT.test_idx).logits
    # a released model has the weights alone and reads complete lists
    released = Fitted(state=fitted.state)
    far = METHOD.predict(entry, released, GRAPH, SPLIT.test_idx).logits
    assert not torch.equal(near, far)
    _, sound = fit(entry_of("sound", num_hops=2))
    entry = entry_of("sound", num_hops=2)
    assert torch.equal(
        METHOD.predict(entry, sound, GRAPH, SPLIT.test_idx).logits,
        METHOD.predict(entry, Fitted(state=sound.state), GRAPH, SPLIT.test_idx).logits,
    )


def test_projected_features_are_a_public_map_of_each_record_by_itself() -> None:
    entry = entry_of("sound", projection=3, row_norm="l2")
    dense = sampling.features_of(entry.options, GRAPH.x)
    sparse = sampling.features_of(entry.options, sp.csr_array(GRAPH.x))
    assert dense.shape == (GRAPH.num_nodes, 3)
    np.testing.assert_allclose(dense, sparse, atol=1e-6)
    alone = sampling.features_of(entry.options, GRAPH.x[5:6])
    np.testing.assert_allclose(alone[0], dense[5], atol=1e-6)
    _, fitted = fit(entry)
    assert fitted.state["encoder.0.weight"].shape == (3, 8)
    assert METHOD.predict(entry, fitted, GRAPH, SPLIT.test_idx).logits.shape == (15, 2)


def test_a_directed_graph_is_symmetrized_once_without_repeated_arcs() -> None:
    edges = np.array([[0, 1, 2, 2], [1, 0, 3, 4]])
    graph = replace(GRAPH, edge_index=edges, directed=True)
    both = sampling.arcs_of(graph, symmetrize=True)
    assert {tuple(arc) for arc in both.T} == {(0, 1), (1, 0), (2, 3), (3, 2), (2, 4), (4, 2)}
    assert both.shape[1] == 6
    assert np.array_equal(sampling.arcs_of(graph, symmetrize=False), edges)
    loops = np.concatenate([edges, [[3], [3]]], axis=1)
    graph = replace(graph, edge_index=loops, allow_self_loops=True)
    assert np.array_equal(sampling.arcs_of(graph, symmetrize=False), edges)


def test_parts_are_named_in_the_order_of_the_network() -> None:
    entry = entry_of("published", num_hops=0)
    assert part_names(entry) == ("encoder", "decoder")
    entry = entry_of("sound")
    assert part_names(entry) == ("all",)

"""`dpgnn.fit` is a run of a study: the same bytes, the same claims; what it cannot answer it refuses."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch
import yaml
from models_in_memory import GRAPH, SMALL, data_of, small
from safetensors.torch import load_file

import dpgnn
from dpgnn.accountants.implications import Notion
from dpgnn.cli.train import train
from dpgnn.core.paths import Paths
from dpgnn.core.storage import json_text
from dpgnn.data import datasets
from dpgnn.data.files.content import structure_hash
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.splits import SplitConfig, make_split, write_split
from dpgnn.records.schema import record_from
from dpgnn.release.data import read_data
from dpgnn.run.ledger import GraphLedger
from dpgnn.run.totals import TotalBudget, declare
from dpgnn.study.study import load_study


@pytest.mark.parametrize("method", ["dp_mlp", "dp_gnn"])
def test_a_fit_and_a_run_of_a_study_leave_the_same_bytes(method: str, tmp_path: Path) -> None:
    unit = {"dp_mlp": "node", "dp_gnn": "node-record"}[method]
    stated = {
        "name": "small", "root_seed": 7, "epsilons": ["4"], "repeats": 1,
        "datasets": {"digits": {"settings": ["given"]}},
        "settings": {"given": {"kind": "random"}},
        "entries": {method: {
            "method": method, "mode": "sound", "privacy_unit": unit, "relation": "replace-one",
            "options": {"width": 8, "training": {"num_steps": 6, "expected_batch_size": 64}},
        }},
    }  # fmt: skip
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(stated))
    study, paths = load_study(tmp_path / "study.yaml"), Paths(results=tmp_path)
    datasets.prepare("digits", paths.graph("digits"), folder=tmp_path, root_seed=7)
    graph = read_graph(paths.graph("digits"))
    split = make_split(graph, SplitConfig(kind="random"), rng=np.random.default_rng(3))
    write_split(paths.split("digits", "given", 0), split, num_nodes=graph.num_nodes)
    (key,) = study.keys
    _prepare(study, key, paths)
    record = train(study, key, paths, work=tmp_path / "work")
    data = data_of(graph, split.train_idx)
    data.val_mask, data.test_mask = torch.zeros(2, graph.num_nodes, dtype=torch.bool)
    data.val_mask[split.val_idx], data.test_mask[split.test_idx] = True, True
    model = dpgnn.fit(
        data, method=method, epsilon=4, unit=unit, relation="replace-one", num_classes=10, seed=7,
        name="digits", **stated["entries"][method]["options"],
    )  # fmt: skip
    released = load_file(paths.run("small", key.folder) / "model.safetensors")
    assert {k: v.numpy().tobytes() for k, v in released.items()} == {
        k: v.numpy().tobytes() for k, v in model.state.items()
    }
    for name in ("plan", "budget", "facts", "metrics", "prediction", "code_sha256", "randomness"):
        assert json_text(getattr(record, name)) == json_text(getattr(model.record, name)), name
    mine, theirs = model.claim.claims, dpgnn.Model(record=record, state={}).claim.claims
    # what digits states of its own making comes with its folder, not with a Data
    assert mine == tuple(
        dataclasses.replace(c, caveats=tuple(x for x in c.caveats if x != "preprocessing"))
        for c in theirs
    )


def _prepare(study: Any, key: Any, paths: Paths) -> None:
    from dpgnn import methods
    from dpgnn.__main__ import main

    entry = study.entries[key.entry].for_dataset(key.dataset)
    spec = methods.get(entry.method).sampler(entry)
    if spec is not None:
        import json

        out = paths.prepared(key.dataset, key.setting, key.repeat, spec.label)
        words = [
            "prepare", "--graph", str(paths.graph("digits")),
            "--split", str(paths.split("digits", "given", 0)), "--dataset", "digits",
            "--setting", "given", "--repeat", "0", "--root-seed", "7", "--method", entry.method,
            "--sampler", spec.name, "--params-json", json.dumps(spec.params), "--out", str(out),
        ]  # fmt: skip
        assert main(words) == 0


def test_without_a_seed_noise_is_secret_and_the_claim_covers_rounding() -> None:
    first, second = small(seed=None), small(seed=None)
    assert first.claim.is_release
    assert first.claim.claims[0].arithmetic == "rounded-sums"
    assert first.record.metrics == {}
    assert first.record.randomness == {"kind": "release", "root_seed": None}
    assert any(not torch.equal(first.state[name], second.state[name]) for name in first.state)


def test_a_seed_repeats_the_model_and_the_claim_says_that_it_is_no_release() -> None:
    first, second = small(), small()
    assert all(torch.equal(first.state[name], second.state[name]) for name in first.state)
    assert not first.claim.is_release
    assert str(first.claim).startswith("This is no release")
    assert first.claim.epsilon <= 4
    assert (first.claim.delta, first.claim.answers) == (1e-3, "own-record")


def test_a_model_is_shown_in_a_line() -> None:
    assert repr(small()) == "<DP-MLP: node, add-remove, epsilon 4, no release>"


def test_a_declared_population_stands_in_the_claim_in_place_of_a_caveat() -> None:
    counted, declared = small(), small(population=(100, 50), delta=None)
    assert "population-changes" in counted.claim.caveats
    assert "population-changes" not in declared.claim.caveats
    assert declared.facts.num_nodes == 100
    assert declared.claim.delta == 1 / 1000


def test_classes_that_are_counted_are_a_caveat() -> None:
    assert "preprocessing" in small(num_classes=None).claim.caveats
    assert "preprocessing" not in small().claim.caveats
    assert "preprocessing" not in small(num_classes=None, classes=("a", "b")).claim.caveats


def test_nodes_without_a_label_are_answered_and_not_scored() -> None:
    data = data_of()
    data.y[~data.train_mask] = -1
    model = dpgnn.fit(
        data, method="dp_mlp", unit="node", num_classes=2, seed=1, delta=1e-3, **SMALL
    )
    labelled = small().state
    assert model.record.metrics == {}
    assert all(torch.equal(model.state[name], rows) for name, rows in labelled.items())
    # of the 40 test nodes those with a label are scored
    data.y[1:10] = data_of().y[1:10]
    some = dpgnn.fit(data, method="dp_mlp", unit="node", num_classes=2, seed=1, delta=1e-3, **SMALL)
    assert some.record.metrics["test"]["num_nodes"] == 6


def test_answers_are_those_of_the_method_with_names_and_who_may_see_them() -> None:
    model = small(classes=("left", "right"))
    found = model.predict(data_of(), [3, 1])
    assert found.nodes.tolist() == [3, 1]
    assert np.allclose(found.probabilities.sum(1), 1)
    assert found.classes.tolist() == found.probabilities.argmax(1).tolist()
    assert found.names == tuple(("left", "right")[c] for c in found.classes)
    assert found.covered
    assert found.answers == "own-record"
    mask = np.arange(GRAPH.num_nodes) < 5
    assert model.predict(data_of(), mask).nodes.tolist() == [0, 1, 2, 3, 4]


def test_answers_that_read_neighbours_afresh_are_covered_by_no_claim() -> None:
    model = small(method="DP-GNN", unit="node-record", max_degree=3)
    assert model.claim.answers == "none"
    assert not model.predict(data_of(), [0]).covered


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"x": torch.zeros(60, 5)}, "columns of x must be 6, got 5"),
        (
            {"edge_index": torch.tensor([[0], [60]])},
            r"data\.edge_index must hold nodes in 0\.\.59, got \[60\]; number nodes from 0",
        ),
        ({"y": torch.full((60,), 2)}, "y of node 0"),
    ],
)
def test_a_graph_that_cannot_be_answered_about_is_refused(change: Any, named: str) -> None:
    model, data = small(), data_of()
    for name, value in change.items():
        setattr(data, name, value)
    with pytest.raises(ValueError, match=named):
        model.predict(data, [0])


def test_nodes_and_columns_that_are_not_there_are_refused() -> None:
    model = small(features=tuple("abcdef"))
    with pytest.raises(ValueError, match=r"nodes must lie in 0\.\.59, got \[60\]"):
        model.predict(data_of(), [0, 60])
    with pytest.raises(ValueError, match="another order"):
        model.predict(data_of(), [0], features=tuple("bacdef"))
    with pytest.raises(ValueError, match=r"'more': \['z'\], 'missing': \['f'\]"):
        model.predict(data_of(), [0], features=tuple("abcdez"))


def test_rows_that_are_kept_answer_about_the_graph_of_the_fit_alone() -> None:
    private = {"batch_size": 5, "num_epochs": 1}
    model = small(
        method="GAP", unit="node-record", relation="replace-one", num_hops=1, epsilon=16,
        node={"max_degree": 5, "encoder": private, "head": private}, head={"hidden": 4},
    )  # fmt: skip
    assert model.predict(data_of(), [0]).answers == "own-record"
    other = data_of()
    other.x = other.x + 1
    with pytest.raises(ValueError, match="be the graph of the fit"):
        model.predict(other, [0])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"method": "DP-MPL"}, "did you mean dp_mlp"),
        ({"epsilon": 0}, "epsilon must be > 0"),
        ({"unit": "edge"}, "privacy_unit / relation must be one of"),
        ({"classes": ("a", "b", "c"), "num_classes": 2}, "names of classes must be 2 names"),
        ({"widht": 3}, "widht"),
        ({"population": "many"}, "population must be a number, or two"),
        ({"device": "tpu"}, "unknown device 'tpu'; known: cpu, cuda"),
        ({"num_threads": 0}, "num_threads must be >= 1"),
        ({"options": 3}, "options must be a mapping"),
        ({"name": "../friends"}, "name must match"),
    ],
)
def test_bad_input_is_refused_by_name(change: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        small(**change)


def with_labels(change: Any) -> Any:
    data = data_of()
    data.y = change(data.y.clone())
    return data


def strayed(y: torch.Tensor) -> torch.Tensor:
    y[5] = 10**12
    return y


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda y: torch.where(y == 1, torch.nan, y.float()), "hold whole numbers, -1 where"),
        (lambda y: np.where(y == 1, "a", "b"), "hold whole numbers, -1 where"),
        (strayed, r"hold labels below 10000 where they are counted, got 1000000000000; number the"),
    ],
)
def test_labels_that_count_no_classes_are_refused_by_name(change: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"data.y must {named}"):
        dpgnn.fit(with_labels(change), method="dp_mlp", unit="node", delta=1e-3, seed=1, **SMALL)


def test_labels_of_any_width_count_the_classes() -> None:
    data = with_labels(lambda y: y.to(torch.uint8))
    model = dpgnn.fit(data, method="dp_mlp", unit="node", delta=1e-3, seed=1, **SMALL)
    assert model.facts.num_classes == 2
    assert all(
        torch.equal(rows, small(num_classes=None).state[n]) for n, rows in model.state.items()
    )


def test_a_seed_is_one_that_a_bundle_can_hold(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"seed must be <= 9007199254740992, got 1152921504606846976"
    ):
        small(seed=2**60)
    made = small(seed=np.int64(2**53)).save(tmp_path / "bundle")
    assert dpgnn.load(made).record.randomness["root_seed"] == 2**53


@pytest.mark.parametrize("missing", ["x", "edge_index", "y", "train_mask"])
def test_a_data_without_an_attribute_is_refused_by_name(missing: str) -> None:
    data = data_of()
    delattr(data, missing)
    with pytest.raises(ValueError, match=f"data.{missing} must be there"):
        dpgnn.fit(data, method="dp_mlp", num_classes=2)


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "scipy", "bfloat16"])
def test_features_of_any_form_are_read(form: str) -> None:
    data, dense = data_of(), data_of().x
    data.x = {
        "coo": dense.to_sparse_coo, "csr": dense.to_sparse_csr, "csc": dense.to_sparse_csc,
        "scipy": lambda: sp.csr_matrix(dense.numpy()), "bfloat16": dense.bfloat16,
    }[form]()  # fmt: skip
    graph = read_data(data, name="two", num_classes=2, directed=False).graph
    wanted = dense.bfloat16().float() if form == "bfloat16" else dense
    found = graph.x if isinstance(graph.x, np.ndarray) else graph.x.toarray()
    np.testing.assert_array_equal(found, wanted.numpy())


def test_an_attribute_of_another_form_and_masks_that_overlap_are_named() -> None:
    data = data_of()
    data.test_mask = data.train_mask.clone()
    said = r"data\.test_mask must leave out the nodes of data\.train_mask, got \[0\]"
    with pytest.raises(ValueError, match=said):
        read_data(data, name="two", num_classes=2, directed=False)
    data = data_of()
    data.edge_index = torch.eye(60).to_sparse_coo()
    with pytest.raises(ValueError, match=r"data\.edge_index must be a dense tensor of numbers"):
        read_data(data, name="two", num_classes=2, directed=False)
    with pytest.raises(ValueError, match="num_classes must be >= 1, got 0"):
        small(num_classes=0)


def test_an_account_is_the_plan_of_the_fit() -> None:
    model = small(population=(100, 50))
    found = dpgnn.account(
        "DP-MLP", delta=1e-3, nodes=100, training=50, epsilon=4, unit="node", num_steps=5,
        options={"training.expected_batch_size": 10},
    )  # fmt: skip
    (mechanism,) = model.record.plan["mechanisms"]
    assert found.shown.noise_stddev == pytest.approx(mechanism["noise_stddev"])


def test_an_audit_finds_nothing_against_a_fit() -> None:
    (finding,) = dpgnn.audit(small(), runs=40, steps=3)
    assert not finding.accuses


def test_a_record_read_again_is_the_same_model() -> None:
    import json

    model = small()
    again = dpgnn.Model(
        record=record_from(json.loads(json_text(model.record)), "here"), state=model.state
    )
    assert again.claim == model.claim
    assert again.entry == model.entry


def test_every_call_is_in_the_ledger_of_its_graph_and_a_budget_stops_it(tmp_path: Path) -> None:
    ledger = GraphLedger(tmp_path, structure_hash(GRAPH))
    small(seed=None, releases=tmp_path)
    small(seed=None, releases=tmp_path, method="GAP", unit="edge")
    small(releases=tmp_path)  # seeded: no release
    found = ledger.releases()
    assert [one.method for one in found] == ["dp_mlp", "gap"]
    assert found[0].claims[0].epsilon == pytest.approx(4.0, rel=1e-3)
    assert not list(tmp_path.rglob("*.safetensors"))
    node = Notion(privacy_unit="node", relation="add-remove")
    declare(ledger, TotalBudget(notion=node, epsilon=100.0, delta=0.5))
    with pytest.raises(ValueError, match=r"must keep epsilon 100 at delta 0\.5, got 'inf with api"):
        small(seed=None, releases=tmp_path)
    assert len(ledger.releases()) == 2


def test_a_model_with_a_board_is_asked_about_the_nodes_of_its_fit() -> None:
    model = small(
        method="votes", unit="node-record", relation="replace-one", least_signal=0.0,
        training={"num_steps": 5},
    )  # fmt: skip
    assert len(model.predict(data_of(), [3]).classes) == 1
    data = data_of()
    fewer = data.subgraph(torch.arange(data.num_nodes) < 50)
    with pytest.raises(ValueError, match="nodes of the graph must be the 60 of the fit"):
        model.predict(fewer, [3])

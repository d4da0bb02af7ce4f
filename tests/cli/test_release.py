"""From a run to a bundle, from a bundle to a table of answers, by commands alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from helpers import tells
from models_in_memory import GRAPH, data_of, small

import dpgnn
from dpgnn.__main__ import main
from dpgnn.release.from_run import own_ids
from dpgnn.study.workflow import Workflow

FEATURES = tuple("abcdef")
IDS = [f"node{i}" for i in range(GRAPH.num_nodes)]


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """One of a method that reads no edge, and one of a method that reads edges."""
    folder = tmp_path_factory.mktemp("bundles")
    names: Any = {"classes": ("left", "right"), "features": FEATURES}
    graph_method = small(method="dp_gnn", unit="node-record", max_degree=3, **names)
    return {
        "dp_mlp": small(**names).save(folder / "dp_mlp"),
        "dp_gnn": graph_method.save(folder / "dp_gnn"),
    }


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    """The graph of the models as CSV, with ids and a label that is not asked for."""
    x = np.asarray(GRAPH.x)
    nodes = pl.DataFrame(
        {"id": IDS, **{name: x[:, i] for i, name in enumerate(FEATURES)}, "label": GRAPH.y}
    )
    nodes.write_csv(tmp_path / "nodes.csv")
    source, target = ([IDS[i] for i in end] for end in GRAPH.edge_index)
    pl.DataFrame({"source": source, "target": target}).write_csv(tmp_path / "edges.csv")
    return tmp_path / "nodes.csv", tmp_path / "edges.csv"


@pytest.mark.parametrize("method", ["dp_mlp", "dp_gnn"])
def test_answers_from_tables_are_those_of_the_model(
    method: str, bundles: dict[str, Path], tables: tuple[Path, Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    nodes, edges = tables
    out = tmp_path / "answers.csv"
    words = ["predict", str(bundles[method]), str(nodes), "--edges", str(edges), "--out", str(out)]
    assert main(words) == 0
    found = pl.read_csv(out)
    wanted = dpgnn.load(bundles[method]).predict(data_of())
    assert found["id"].to_list() == IDS
    assert found["class"].to_list() == list(wanted.names)
    assert found["probability"].to_numpy() == pytest.approx(wanted.probabilities.max(1), abs=1e-5)
    said = capsys.readouterr().err
    assert ("that node's own record" if method == "dp_mlp" else "No claim covers") in said


def changed(path: Path, change: Any) -> None:
    frame = change(pl.read_csv(path, infer_schema=False))
    frame.write_csv(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.drop("c"), "{'missing': ['c']}"),
        (lambda f: f.with_columns(z=pl.lit("1")), "{'too many': ['z']}"),
        (lambda f: f.select("id", *FEATURES[::-1]), "another order"),
        (lambda f: f.rename({"a": "A"}), "{'missing': ['a'], 'too many': ['A']}"),
        (
            lambda f: f.with_columns(a=pl.lit("much")),
            "column a of node node0 must be a number, got 'much, and 59 more cells'",
        ),
        (
            lambda f: f.with_columns(b=pl.lit("nan")),
            "feature of node node0, column b must be finite, got 'nan, and 59 more'",
        ),
        (lambda f: f.with_columns(id=pl.lit("anna")), "id must stand in each row, and once"),
        (lambda f: f.with_columns(id=pl.lit(None)), "id must stand in each row, and once"),
    ],
)
def test_a_table_of_nodes_that_does_not_fit_is_named(
    change: Any, says: str, bundles: dict[str, Path], tables: tuple[Path, Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    changed(tables[0], change)
    out = tmp_path / "answers.csv"
    assert main(["predict", str(bundles["dp_mlp"]), str(tables[0]), "--out", str(out)]) == 1
    assert says in capsys.readouterr().err
    assert not out.exists()


def test_answers_do_not_take_the_place_of_a_table(
    bundles: dict[str, Path], tables: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes, edges = tables
    before = [path.read_bytes() for path in tables]
    words = ["predict", str(bundles["dp_gnn"]), str(nodes), "--edges", str(edges), "--out"]
    for path in tables:
        assert main([*words, str(path)]) == 1
        tells(capsys.readouterr().err, "--out must not be a table that is read", str(path))
    assert [path.read_bytes() for path in tables] == before


def test_edges_are_asked_for_and_know_their_nodes(
    bundles: dict[str, Path], tables: tuple[Path, Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    nodes, edges = tables
    words = ["predict", str(bundles["dp_gnn"]), str(nodes), "--out", str(tmp_path / "answers.csv")]
    assert main(words) == 1
    tells(capsys.readouterr().err, "--edges must be given", "edges")
    changed(edges, lambda f: f.with_columns(target=pl.lit("nobody")))
    assert main([*words, "--edges", str(edges)]) == 1
    tells(capsys.readouterr().err, "target of edge 1 must", "id of a node", "'nobody")
    changed(edges, lambda f: f.rename({"target": "to"}))
    assert main([*words, "--edges", str(edges)]) == 1
    tells(capsys.readouterr().err, "column target must be there", "source", "to")
    assert not (tmp_path / "answers.csv").exists()


def test_tables_are_read_as_those_of_an_own_graph(
    bundles: dict[str, Path], tables: tuple[Path, Path], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Blanks around cells, blank lines at the end, columns of edges in another order; Parquet."""
    nodes, edges = tables
    words = ["predict", str(bundles["dp_gnn"]), str(nodes), "--edges", str(edges), "--out"]
    assert main([*words, str(tmp_path / "wanted.csv")]) == 0
    wanted = (tmp_path / "wanted.csv").read_bytes()
    pl.read_csv(nodes).write_parquet(tmp_path / "nodes.parquet")
    pl.read_csv(edges).write_parquet(tmp_path / "edges.parquet")
    changed(edges, lambda f: f.select("target", "source"))
    for path in tables:
        head, *rows = path.read_text().splitlines()
        path.write_text("\n".join([head, *(row.replace(",", " , ") for row in rows)]) + "\n\n\n")
    assert main([*words, str(tmp_path / "found.csv")]) == 0
    assert (tmp_path / "found.csv").read_bytes() == wanted
    columns = [word.replace(".csv", ".parquet") for word in words]
    assert main([*columns, str(tmp_path / "found.csv")]) == 0
    assert (tmp_path / "found.csv").read_bytes() == wanted
    nodes.write_text(nodes.read_text().replace("node7 ", "\nnode7 "))
    assert main([*words, str(tmp_path / "none.csv")]) == 1
    tells(capsys.readouterr().err, "nodes.csv, line 9", "8 cells", "a blank line", "remove it")


def test_edges_of_a_question_have_directions_where_those_of_the_fit_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [f"u{i},{i % 7},{i % 5},{i % 2},{'train' if i < 20 else 'test'}" for i in range(30)]
    edges = [f"u{i},u{(i + step) % 30}" for i in range(30) for step in (2, 5)]
    (own / "nodes.csv").write_text("\n".join(["id,age,posts,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    stated = {
        "name": "mine", "root_seed": 7, "epsilons": ["8"], "repeats": 1, "randomness": "release",
        "datasets": {"mine": {"settings": ["public"], "delta": 1e-3}},
        "settings": {"public": {"kind": "public"}},
        "entries": {"hp": {
            "method": "heterpoisson", "mode": "sound", "privacy_unit": "node-record",
            "relation": "add-remove", "options": {"batch_size": 10, "num_epochs": 2, "width": 8},
        }},
    }  # fmt: skip
    Path("mine.yaml").write_text(yaml.safe_dump(stated))
    work = Workflow(study_file="mine.yaml", tier="S")
    (label,), run = work.labels, "mine.public/hp/eps=8/0"
    (sample, *_) = work.prepared_of("mine", "public", "hp", 0)
    split = "--dataset mine --setting public --repeat 0 --root-seed 7"
    drawn = "results/splits/mine.public.0.parquet"
    prepare = (
        f"prepare --graph results/graphs/mine --split {drawn} {split} --method heterpoisson --sampler"
        f" {work.sampler_name(label)} --params-json {work.sampler_json(label)} --out {sample}"
    )
    for directed in (True, False):
        options = f"classes: ['0', '1']\ndirected: {directed}\n"
        (own / "graph.yaml").write_text(options)
        for made in ("results", "releases"):
            shutil.rmtree(made, ignore_errors=True)
        bundle = f"bundle-{directed}"
        for line in (
            "data prepare mine",
            f"split --graph results/graphs/mine {split} --kind public --out {drawn}",
            prepare,
            f"train --study mine.yaml --run {run}",
            f"release mine.yaml --run {run} --out {bundle}",
            f"predict {bundle} {own}/nodes.csv --edges {own}/edges.csv --out {bundle}.csv",
            f"verify {bundle}",
        ):
            assert main(line.split()) == 0, line
        model, graph = dpgnn.load(bundle), dpgnn.read_graph("results/graphs/mine")
        assert model.directed_graph == graph.directed == directed
        assert ("directed" in Path(bundle, "MODEL_CARD.md").read_text()) == directed
        wanted = model.predict(graph)
        assert pl.read_csv(f"{bundle}.csv")["probability"].to_numpy() == pytest.approx(
            wanted.probabilities.max(1), abs=1e-5
        )
        assert np.array_equal(model.predict(data_of(graph)).probabilities, wanted.probabilities)
        other = model.predict(data_of(graph), directed_graph=False)
        assert np.array_equal(other.probabilities, wanted.probabilities) != directed


def test_verify_says_what_it_checked(
    bundles: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(bundles["dp_mlp"])]) == 0
    told = capsys.readouterr()
    assert "ok           plan" in told.out
    assert "nothing wrong, 2 not checked" in told.err
    assert main(["verify", str(tmp_path)]) == 1
    assert "wrong        files" in capsys.readouterr().out
    assert main(["verify", "nowhere"]) == 1
    tells(capsys.readouterr().err, "folder", "nowhere")


def test_a_run_of_a_study_becomes_a_bundle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = "chains-s.public/dp_mlp/eps=4/0"
    stated = {
        "name": "small", "root_seed": 7, "epsilons": ["4"], "repeats": 1, "randomness": "release",
        "datasets": {"chains-s": {"settings": ["public"]}},
        "settings": {"public": {"kind": "public"}},
        "entries": {"dp_mlp": {
            "method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": "replace-one",
            "options": {"width": 8, "training": {"num_steps": 6, "expected_batch_size": "full"}},
        }},
    }  # fmt: skip
    Path("study.yaml").write_text(yaml.safe_dump(stated))
    command = ["release", "study.yaml", "--run", run, "--out", "bundle"]
    assert main(command) == 1
    assert f"runs/{run} must be done" in capsys.readouterr().err
    graph, split = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
    for line in (
        f"data prepare chains-s --out {graph}",
        f"split --graph {graph} --dataset chains-s --setting public --repeat 0 --root-seed 7 --kind public"
        f" --out {split}",
        f"train --study study.yaml --run {run}",
    ):
        assert main(line.split()) == 0, line
    assert main([*command, "--classes", "a,b,c"]) == 1
    tells(capsys.readouterr().err, "--classes must", 2, 3)
    assert main([*command, "--classes", "no,yes"]) == 0
    tells(capsys.readouterr().out, "differential privacy", "one node")
    assert main(["verify", "bundle"]) == 0
    assert dpgnn.load("bundle").claim.is_release
    capsys.readouterr()
    assert main(["attack", "--study", "study.yaml"]) == 1
    tells(capsys.readouterr().err, "randomness of study small must be study", "'release'")
    assert not Path("results/studies/small/attacks").exists()
    assert main([*command[:-1], "other", "--run", "chains-s.public/dp_mlp/eps=3/0"]) == 1
    told = "must be planned by study small, tier S, got 'chains-s.public/dp_mlp/eps=3/0'; it plans"
    assert f"{told} {run}" in capsys.readouterr().err
    # the only run of a study need not be named; one of several must be
    assert main(["release", "study.yaml", "--out", "only"]) == 0
    assert dpgnn.load("only").claim == dpgnn.load("bundle").claim
    Path("study.yaml").write_text(yaml.safe_dump(stated | {"repeats": 9}))
    assert main(["release", "study.yaml", "--out", "other"]) == 1
    tells(said := capsys.readouterr().err, "chains-s.public/dp_mlp/eps=4/")
    assert "and 6 more" in said


def test_names_that_graph_yaml_declares_come_with_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [
        f"user{i},{i % 7},{i % 3},{'ab'[i % 2]},{'train' if i < 8 else 'test'}" for i in range(12)
    ]
    (own / "nodes.csv").write_text("\n".join(["id,age,posts,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    (own / "graph.yaml").write_text("classes: [b, a]\nfeatures: [age, posts]\n")
    split = "--dataset mine --setting public --repeat 0 --root-seed 0 --kind public --inductive"
    run = "mine.public/dp_mlp/eps=4/0"
    for line in (
        "data study mine --release --out mine.yaml",
        "data prepare mine",
        f"split --graph results/graphs/mine {split} --out results/splits/mine.public.0.parquet",
        f"train --study mine.yaml --run {run}",
        f"release mine.yaml --run {run} --out bundle",
        f"release mine.yaml --run {run} --out other --classes no,yes",
        f"predict bundle {own}/nodes.csv --out answers.csv",
    ):
        assert main(line.split()) == 0, line
    names = dpgnn.load("bundle").names
    assert (names.classes, names.features) == (("b", "a"), ("age", "posts"))
    assert dpgnn.load("other").names.classes == ("no", "yes")
    answers = pl.read_csv("answers.csv")
    assert answers["id"].to_list() == [f"user{i}" for i in range(12)]
    assert set(answers["class"]) <= {"a", "b"}


def test_studies_and_calls_share_one_ledger_and_its_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [f"user{i},{i % 7},{i % 2},{'train' if i < 30 else 'test'}" for i in range(40)]
    (own / "nodes.csv").write_text("\n".join(["id,age,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    (own / "graph.yaml").write_text("num_classes: 2\n")
    split = "--dataset mine --setting public --repeat 0 --root-seed 0 --kind public --inductive"
    ledger = "ledger mine --delta 1e-2 --unit node --relation add-remove"
    train = "train --study mine.yaml --run mine.public/dp_mlp/eps=4/0"
    for line in (
        "data study mine --release --out mine.yaml",
        "data prepare mine",
        f"split --graph results/graphs/mine {split} --out results/splits/mine.public.0.parquet",
        f"{ledger} --budget 4",
    ):
        assert main(line.split()) == 0, line
    graph = dpgnn.read_graph("results/graphs/mine")
    data = data_of(graph, np.arange(30))
    named: Any = {
        "method": "DP-MLP", "unit": "node", "relation": "add-remove", "num_classes": 2, "name": "mine",
        "delta": 2e-3, "releases": "releases", "training": {"num_steps": 5, "expected_batch_size": "full"},
    }  # fmt: skip
    dpgnn.fit(data, epsilon=2, **named)
    # after the call the study's run is too much
    assert main(train.split()) == 1
    tells(capsys.readouterr().err, "must keep", "epsilon 4", "delta 0.01")
    assert not Path("releases/mine-release").exists()
    assert main(f"{ledger} --budget 1".split()) == 0
    tells(
        capsys.readouterr().out, "of 1 at delta 0.01", "exceeded by", "further release is refused"
    )
    assert main(f"{ledger} --budget 4.1".split()) == 0
    assert "exceeded" not in capsys.readouterr().out
    assert main(train.split()) == 0
    # and after the study another call
    with pytest.raises(
        ValueError, match=r"keep epsilon 4\.1 at delta 0\.01, got .* after 2 earlier"
    ):
        dpgnn.fit(data, epsilon=4, **named)
    capsys.readouterr()
    assert main(["ledger", "mine"]) == 0
    said = capsys.readouterr().out
    assert "mine: 2 releases" in said
    # a graph without files is found by its name
    shutil.rmtree("results/graphs")
    assert main(["ledger", "mine"]) == 0
    assert capsys.readouterr().out == said
    assert main(["ledger", "other"]) == 1
    tells(capsys.readouterr().err, "releases", "'other'")
    other = small(seed=None, name="mine", releases="releases")
    assert other.claim.is_release
    assert main(["ledger", "mine"]) == 1
    tells(capsys.readouterr().err, "mine must be one", 2)


def votes_from_tables(own: Path) -> None:
    """A votes bundle in `bundle` of the graph in `own`, by commands."""
    options = {"least_signal": 0.0, "mean_degree": 2.0, "training": {"num_steps": 5}}
    stated = {
        "name": "mine", "root_seed": 7, "epsilons": ["8"], "repeats": 1, "randomness": "release",
        "datasets": {"mine": {"settings": ["public"], "delta": 1e-3}},
        "settings": {"public": {"kind": "public"}},
        "entries": {"votes": {
            "method": "votes", "mode": "sound", "privacy_unit": "node-record", "relation": "replace-one",
            "options": options,
        }},
    }  # fmt: skip
    Path("mine.yaml").write_text(yaml.safe_dump(stated))
    split = "--dataset mine --setting public --repeat 0 --root-seed 7 --kind public"
    run = "mine.public/votes/eps=8/0"
    for line in (
        f"data prepare {own.name}",
        f"split --graph results/graphs/mine {split} --out results/splits/mine.public.0.parquet",
        f"train --study mine.yaml --run {run}",
        f"release mine.yaml --run {run} --out bundle",
    ):
        assert main(line.split()) == 0, line


def test_a_model_that_keeps_a_board_answers_a_node_from_its_own_record_in_any_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = [
        f"user{i},{i % 7},{i % 3},{'ab'[i % 2]},{'train' if i < 20 else 'test'}" for i in range(30)
    ]
    edges = [f"user{i},user{(i + step) % 30}" for i in range(30) for step in (2, 4)]
    (own / "nodes.csv").write_text("\n".join(["id,age,posts,label,split", *rows]) + "\n")
    (own / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    (own / "graph.yaml").write_text("classes: [b, a]\nfeatures: [age, posts]\n")
    votes_from_tables(own)
    assert main(["verify", "bundle"]) == 0
    assert not Path("bundle/ids.json").exists()
    assert Path("bundle/own_ids.json").stat().st_mode & 0o077 == 0
    assert "user" not in Path("bundle/certificate.json").read_text()
    whole = f"predict bundle {own}/nodes.csv --edges {own}/edges.csv --out all.csv"
    assert main(whole.split()) == 0
    every = {row["id"]: row["probability"] for row in pl.read_csv("all.csv").iter_rows(named=True)}

    # declared public, they are handed on, and any owner of the bundle asks by them
    assert main(["release", "mine.yaml", "--public-ids", "--out", "shared"]) == 0
    assert not list(Path("shared").glob("own*"))
    assert main(["verify", "shared"]) == 0
    assert main(whole.replace("bundle", "shared").replace("all.csv", "shared.csv").split()) == 0
    assert Path("shared.csv").read_bytes() == Path("all.csv").read_bytes()

    # one training node and one other, in another order, each with its own list alone
    Path("two.csv").write_text(
        "\n".join(["id,age,posts,label", "user25,4,1,", "user3,3,0,b"]) + "\n"
    )
    lists = [line for line in edges if line.split(",")[0] in ("user3", "user25")]
    lists += [
        ",".join(line.split(",")[::-1])
        for line in edges
        if line.split(",")[1] in ("user3", "user25")
    ]
    Path("lists.csv").write_text("\n".join(["source,target", *lists]) + "\n")
    command = "predict bundle two.csv --edges lists.csv --out two_answers.csv"
    assert main(command.split()) == 0
    found = pl.read_csv("two_answers.csv")
    assert found["id"].to_list() == ["user25", "user3"]
    for row in found.iter_rows(named=True):
        assert row["probability"] == pytest.approx(every[row["id"]], abs=2e-6)

    for table, says in (
        ("id,age,posts,label\nanna,3,0,b\n", "id must be nodes of the fit, got 'anna'"),
        ("id,age,posts,label\nuser3,3,0,\n", "labels must be given for asked nodes that voted"),
        (
            "id,age,posts,label\nuser3,3,0,c\n",
            "label of node user3 must be empty or one of b, a, got 'c'",
        ),
    ):
        Path("two.csv").write_text(table)
        assert main(command.split()) == 1
        assert says in capsys.readouterr().err


def test_ids_are_public_where_graph_yaml_says_so_and_a_graph_without_any_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, head, yaml_text in (("mine", "id,", "public_ids: true\n"), ("other", "", "")):
        own = Path("data/own") / name
        own.mkdir(parents=True)
        rows = [
            (f"user{i}," if head else "") + f"{i % 7},{i % 2},{'train' if i < 8 else 'test'}"
            for i in range(12)
        ]
        (own / "nodes.csv").write_text("\n".join([f"{head}age,label,split", *rows]) + "\n")
        ends = "user0,user1" if head else "0,1"
        (own / "edges.csv").write_text(f"source,target\n{ends}\n")
        (own / "graph.yaml").write_text(f"num_classes: 2\n{yaml_text}")
        split = (
            f"--dataset {name} --setting public --repeat 0 --root-seed 0 --kind public --inductive"
        )
        for line in (
            f"data study {name} --release --out {name}.yaml",
            f"data prepare {name}",
            f"split --graph results/graphs/{name} {split} --out results/splits/{name}.public.0.parquet",
            f"train --study {name}.yaml --run {name}.public/dp_mlp/eps=4/0",
        ):
            assert main(line.split()) == 0, line
    assert main(["release", "mine.yaml", "--out", "bundle"]) == 0
    assert dpgnn.load("bundle").names.ids == tuple(f"user{i}" for i in range(12))
    assert main(["verify", "bundle"]) == 0
    # it answers about any node, by whatever id
    Path("new.csv").write_text("id,age\nzoe,3\n")
    assert main(["predict", "bundle", "new.csv", "--out", "new_answers.csv"]) == 0
    assert pl.read_csv("new_answers.csv")["id"].to_list() == ["zoe"]
    capsys.readouterr()
    assert main(["release", "other.yaml", "--public-ids", "--out", "second"]) == 1
    tells(capsys.readouterr().err, "--public-ids must", "ids")
    assert not Path("second").exists()


def test_ids_of_a_table_that_changed_since_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    own = Path("data/own/mine")
    own.mkdir(parents=True)
    rows = "".join(f"user{i},{i},{i % 2}\n" for i in range(6))
    (own / "nodes.csv").write_text(f"id,age,label\n{rows}")
    (own / "edges.csv").write_text("source,target\nuser0,user1\n")
    assert main(["data", "prepare", "mine"]) == 0
    assert own_ids(Path("results/graphs/mine")) == tuple(f"user{i}" for i in range(6))
    (own / "nodes.csv").write_text("id,age,label\nuser9,1,0\n")
    with pytest.raises(ValueError, match="be the table that the graph was made from"):
        own_ids(Path("results/graphs/mine"))
    assert own_ids(Path("results/graphs/other")) == ()

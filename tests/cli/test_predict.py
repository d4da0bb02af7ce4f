"""From a bundle and tables of nodes and edges to a table of answers, by commands alone."""

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


@pytest.mark.parametrize("name", ["model.safetensors", "certificate.json", "new.csv", "a/b.csv"])
def test_answers_are_not_written_into_the_bundle(
    name: str,
    bundles: dict[str, Path],
    tables: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    bundle = bundles["dp_mlp"]
    before = {path.name: path.read_bytes() for path in bundle.iterdir()}
    assert main(["predict", str(bundle), str(tables[0]), "--out", str(bundle / name)]) == 1
    tells(capsys.readouterr().err, "--out must lie outside the bundle", name)
    assert {path.name: path.read_bytes() for path in bundle.iterdir()} == before


def test_labels_in_words_of_a_model_without_names_of_classes_say_what_to_do(
    tables: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = small(
        method="votes", unit="node-record", relation="replace-one", least_signal=0.0,
        training={"num_steps": 5}, features=FEATURES,
    )  # fmt: skip
    bundle = model.save(tmp_path / "bundle")
    nodes, edges = tables
    frame = pl.read_csv(nodes).with_columns(pl.lit("book").alias("label"))
    frame.write_csv(nodes)
    words = ["predict", str(bundle), str(nodes), "--edges", str(edges), "--out"]
    assert main([*words, str(tmp_path / "answers.csv")]) == 1
    tells(capsys.readouterr().err, "got 'book'; the model has no names of classes", "--classes")


def study_of(entry: str, method: str, relation: str, options: dict[str, Any]) -> str:
    """A study of one release of the graph `mine`, as YAML."""
    stated = {
        "name": "mine", "root_seed": 7, "epsilons": ["8"], "repeats": 1, "randomness": "release",
        "datasets": {"mine": {"settings": ["public"], "delta": 1e-3}},
        "settings": {"public": {"kind": "public"}},
        "entries": {entry: {
            "method": method, "mode": "sound", "privacy_unit": "node-record", "relation": relation,
            "options": options,
        }},
    }  # fmt: skip
    return yaml.safe_dump(stated)


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
    options = {"batch_size": 10, "num_epochs": 2, "width": 8}
    Path("mine.yaml").write_text(study_of("hp", "heterpoisson", "add-remove", options))
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
        (own / "graph.yaml").write_text(f"classes: ['0', '1']\ndirected: {directed}\n")
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


def votes_from_tables(own: Path) -> None:
    """A votes bundle in `bundle` of the graph in `own`, by commands."""
    options = {"least_signal": 0.0, "mean_degree": 2.0, "training": {"num_steps": 5}}
    Path("mine.yaml").write_text(study_of("votes", "votes", "replace-one", options))
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


def gap_from_tables(head: str, names: list[str]) -> Path:
    """A bundle of a method that keeps rows, of 30 nodes with the ids `names` (none without `head`)."""
    own = Path("data/own/mine")
    shutil.rmtree(own, ignore_errors=True)
    own.mkdir(parents=True)
    rows = [
        f"{name}{i % 7},{i},{i % 2},{'train' if i < 20 else 'test'}" for i, name in enumerate(names)
    ]
    (own / "nodes.csv").write_text("\n".join([f"{head}age,posts,label,split", *rows]) + "\n")
    ends = [name.strip(",") or str(i) for i, name in enumerate(names)]
    edges = [f"{ends[i]},{ends[(i + 2) % 30]}" for i in range(30)]
    (own / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    (own / "graph.yaml").write_text("num_classes: 2\n")
    stage = {"batch_size": 10, "num_epochs": 1}
    options = {"node": {"max_degree": 3, "encoder": stage, "head": stage}, "num_hops": 1}
    Path("mine.yaml").write_text(study_of("gap", "gap", "replace-one", options))
    work = Workflow(study_file="mine.yaml", tier="S")
    (label,), run = work.labels, "mine.public/gap/eps=8/0"
    (sample, *_) = work.prepared_of("mine", "public", "gap", 0)
    split = "--dataset mine --setting public --repeat 0 --root-seed 7"
    drawn = "results/splits/mine.public.0.parquet"
    for made in ("results", "releases", "bundle"):
        shutil.rmtree(made, ignore_errors=True)
    for line in (
        "data prepare mine",
        f"split --graph results/graphs/mine {split} --kind public --out {drawn}",
        f"prepare --graph results/graphs/mine --split {drawn} {split} --method gap --sampler"
        f" {work.sampler_name(label)} --params-json {work.sampler_json(label)} --out {sample}",
        f"train --study mine.yaml --run {run}",
        f"release mine.yaml --run {run} --out bundle",
    ):
        assert main(line.split()) == 0, line
    return own


def test_rows_in_another_order_get_no_answer_from_another_nodes_private_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = gap_from_tables("", [""] * 30)
    told = capsys.readouterr().err
    assert "private, do not hand on: own_rows.safetensors, own.sha256" in told
    assert main(["verify", "bundle"]) == 0
    tells(capsys.readouterr().out, "owner's files", "own_rows.safetensors", "before handing on")
    asked = f"predict bundle nodes.csv --edges {own}/edges.csv --out answers.csv".split()
    head, *rows = (own / "nodes.csv").read_text().splitlines()
    Path("nodes.csv").write_text("\n".join([head, *rows]) + "\n")
    assert main(asked) == 0
    Path("nodes.csv").write_text("\n".join([head, *rows[::-1]]) + "\n")
    Path("answers.csv").unlink()
    assert main(asked) == 1
    tells(capsys.readouterr().err, "data must be the graph of the fit", "other features of node 0")
    assert not Path("answers.csv").exists()


def test_rows_with_ids_are_found_in_any_order_but_not_under_another_nodes_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    own = gap_from_tables("id,", [f"user{i}," for i in range(30)])
    asked = f"predict bundle nodes.csv --edges {own}/edges.csv --out answers.csv".split()
    head, *rows = (own / "nodes.csv").read_text().splitlines()
    Path("nodes.csv").write_text("\n".join([head, *rows]) + "\n")
    assert main(asked) == 0
    every = dict(pl.read_csv("answers.csv")["id", "probability"].iter_rows())
    Path("nodes.csv").write_text("\n".join([head, *rows[:4:-1]]) + "\n")
    assert main(asked) == 0
    found = dict(pl.read_csv("answers.csv")["id", "probability"].iter_rows())
    assert found == {f"user{i}": every[f"user{i}"] for i in range(29, 4, -1)}
    Path("nodes.csv").write_text("\n".join([head, rows[5].replace("user5,", "user6,")]) + "\n")
    assert main(asked) == 1
    tells(capsys.readouterr().err, "data must be the graph of the fit", "node user6")

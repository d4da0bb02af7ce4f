import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers import ROOT, tells

from dpgnn.__main__ import main
from dpgnn.cli import data
from dpgnn.data.datasets import read_graph
from dpgnn.study.study import resolve

DATA_PAGE = ROOT / "docs" / "data.md"


def run(*words):
    parser = argparse.ArgumentParser()
    data.add_parser(parser.add_subparsers(required=True))
    args = parser.parse_args([str(word) for word in words])
    return args.func(args)


def test_prepare_writes_a_graph_that_validate_accepts(tmp_path, capsys):
    out = tmp_path / "chains-m"
    assert run("data", "prepare", "chains-m", "--out", out) == 0
    assert read_graph(out).num_nodes == 60
    assert run("data", "validate", out) == 0
    tells(capsys.readouterr().out, "no problems found", "60 nodes", "edges", "feature columns")


def test_validate_shows_what_is_read_as_features(tmp_path, capsys):
    names = ["age", "note", *(f"f{i}" for i in range(9))]
    lines = [",".join(["id", *names, "label"]), *(f"{i},{'1,' * 11}{i % 2}" for i in range(4))]
    (tmp_path / "nodes.csv").write_text("\n".join(lines))
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n1,2\n3,2\n")
    assert run("data", "validate", tmp_path) == 0
    shown = capsys.readouterr().out
    tells(shown, "4 nodes, 3 edges, 11 feature columns: age, note, f0", "f7, ...")
    assert "f8" not in shown


def test_validate_refuses_a_folder_name_that_no_study_can_have(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("data", "prepare", "chains-m", "--out", Path("data/own/my graph"))
    assert run("data", "validate", Path("data/own/my graph")) == 1
    tells(capsys.readouterr().err, "my graph", "rename its folder")
    with pytest.raises(ValueError, match="rename its folder"):
        run("data", "study", "my graph", "--out", tmp_path / "s.yaml")


def test_validate_names_the_damage(tmp_path, capsys):
    out = tmp_path / "chains-m"
    run("data", "prepare", "chains-m", "--out", out)
    (out / "edges.parquet").write_bytes(b"")
    assert run("data", "validate", out) == 1
    assert "edges.parquet must have" in capsys.readouterr().err


def test_validate_names_a_taken_name_and_a_file_in_place_of_a_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run("data", "prepare", "chains-m", "--out", Path("data/own/cora"))
    assert run("data", "validate", Path("data/own/cora")) == 1
    tells(capsys.readouterr().err, "data/own/cora", "name of its own", "rename the folder")
    Path("nodes.csv").touch()
    assert run("data", "validate", Path("nodes.csv")) == 1
    shown = capsys.readouterr()
    tells(shown.err, "nodes.csv must be a folder", "got a file")
    assert "1 problem\n" in shown.out


def test_list_says_what_is_here_and_what_would_be_fetched(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DPGNN_MIRROR", raising=False)
    assert run("data", "list", "--raw", tmp_path) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "made here" in lines["chains-s"]
    assert "would be fetched" in lines["cora"]
    assert "MIT" in lines["cora"]


def test_an_unknown_name_lists_what_exists(tmp_path):
    with pytest.raises(ValueError, match=r"data set must be one of .*digits.* got 'digit'"):
        run("data", "prepare", "digit", "--out", tmp_path)


def test_parsing_loads_no_heavy_module():
    code = (
        "import argparse, sys; from dpgnn.cli import data, split; "
        "s = argparse.ArgumentParser().add_subparsers(); data.add_parser(s); split.add_parser(s); "
        "print([m for m in ('numpy', 'pyarrow', 'torch') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_study_to_start_from_is_valid(tmp_path, monkeypatch):
    from dpgnn.study.study import load_study

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "own" / "mine").mkdir(parents=True)
    assert run("data", "study", "mine", "--out", tmp_path / "mine.yaml") == 0
    study = load_study(tmp_path / "mine.yaml")
    assert {key.dataset for key in study.keys} == {"mine"}
    assert run("data", "study", "data/own/mine", "--out", tmp_path / "too.yaml") == 0
    assert (tmp_path / "too.yaml").read_text() == (tmp_path / "mine.yaml").read_text()
    with pytest.raises(ValueError, match="data set must be one of"):
        run("data", "study", "yours", "--out", tmp_path / "yours.yaml")


def test_statistics_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("DPGNN_MIRROR", raising=False)
    out = tmp_path / "statistics.md"
    assert run("data", "statistics", "--raw", tmp_path, "--out", out) == 0
    assert "32 equal, 0 differs" in capsys.readouterr().out
    assert "| T6 | Chain-S (chains-s) | nodes | 48 | 48 | equal |" in out.read_text()


def test_an_edited_study_is_not_written_over(tmp_path):
    out = tmp_path / "mine.yaml"
    out.write_text("edited")
    with pytest.raises(ValueError, match=r"--out must be a new file, got .*mine.yaml"):
        run("data", "study", "chains-s", "--out", out)
    assert out.read_text() == "edited"


def test_raw_data_is_not_written_over(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = tmp_path / "data" / "own" / "mine"
    own.mkdir(parents=True)
    files = {"nodes.csv": "id,a,label\n0,1,0\n1,2,1\n", "edges.csv": "source,target\n0,1\n"}
    for name, text in files.items():
        (own / name).write_text(text)
    for out in ("data/own/mine", "data/own/../own/mine", "data/own", ".", ""):
        with pytest.raises(ValueError, match="--out must"):
            run("data", "prepare", "mine", "--out", out)
    assert {path.name: path.read_text() for path in own.iterdir()} == files
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    for _ in range(2):  # a graph may be made again
        assert run("data", "prepare", "mine", "--out", "results/graphs/mine") == 0


def test_tables_are_not_written_over_because_something_hidden_lies_beside_them(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    own, out = tmp_path / "data" / "own" / "mine", tmp_path / "out"
    own.mkdir(parents=True)
    out.mkdir()
    for name in (".nodes.parquet.k3j2h1ab", ".edges.parquet._0z1y2x3"):
        (out / name).write_text("left by a killed write")
    assert run("data", "prepare", "chains-s", "--out", "out") == 0
    for name in ("nodes.parquet", "edges.parquet"):
        (own / name).write_text("a table of its owner")
    (own / ".new.abcdefgh").mkdir()
    with pytest.raises(ValueError, match="must be a new or empty folder or a graph's"):
        run("data", "prepare", "chains-s", "--out", own)
    assert (own / "nodes.parquet").read_text() == "a table of its owner"


def test_an_own_graph_cannot_have_a_name_of_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data" / "own" / "chains-s").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"data/own/chains-s must have a name of its own"):
        run("data", "prepare", "chains-s", "--out", "out")
    assert run("data", "list", "--raw", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines].count("chains-s") == 1
    tells(lines[-1], "data/own/chains-s", "cannot")


def documented_example():
    """nodes.csv and edges.csv, which stand side by side in docs/data.md."""
    block = re.search(r"```\n(nodes\.csv +edges\.csv\n.*?)```", DATA_PAGE.read_text(), re.DOTALL)[1]
    cells = [line.split() for line in block.splitlines()]
    (nodes, edges), *rows = cells
    return {nodes: [row[0] for row in rows], edges: [row[1] for row in rows]}


def test_the_documented_example_makes_every_run_of_its_study(tmp_path, monkeypatch, capsys):
    from dpgnn.study.study import load_study

    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data" / "own" / "friends"
    folder.mkdir(parents=True)
    for name, lines in documented_example().items():
        (folder / name).write_text("\n".join(lines) + "\n")
    assert main(["data", "validate", str(folder)]) == 0
    assert main(["data", "study", "friends", "--out", "friends.yaml"]) == 0
    study = load_study("friends.yaml")
    assert main(["data", "prepare", "friends", "--out", "results/graphs/friends"]) == 0
    first = [key for key in study.keys if key.repeat == 0]
    setting = study.config.settings[first[0].setting]
    assert setting.kind == "public"
    split = ["split", "--graph", "results/graphs/friends", "--dataset", "friends", "--setting"]
    split += [first[0].setting, "--repeat", "0", "--root-seed", "0"]
    split += ["--setting-json", json.dumps(setting.stated)]
    assert main([*split, "--out", "results/splits/friends.public.0.parquet"]) == 0
    # DP-GNN draws its sample in a stage of its own
    assert {key.entry for key in first} == {"mlp", "gcn", "dp_mlp", "dp_gcn", "dp_mlp-mean"}
    first = [key for key in first if key.entry != "dp_gcn"]
    runs = [word for key in first for word in ("--run", key.folder)]
    assert main(["train", "--study", "friends.yaml", *runs]) == 0
    records = [json.loads(path.read_text()) for path in Path("results").rglob("record.json")]
    assert len(records) == len(first) == 6
    assert all(record["status"] == "ok" for record in records), capsys.readouterr().err


def test_a_study_of_a_small_graph_takes_full_batches():
    from dpgnn.data.datasets.template import study_text

    for name, full in (("chains-s", True), ("cora", False), ("facebook-Rutgers89", False)):
        text = study_text(name)
        assert ("expected_batch_size: full" in text) == full
        assert resolve(yaml.safe_load(text)).keys[0].setting == "random"


@pytest.mark.parametrize(
    ("labels", "declared", "line"),
    [
        (["film", "book", ""], None, "classes: [book, film]"),
        (["yes", "no", "it's"], None, "classes: ['it''s', 'no', 'yes']"),
        (["0", "1", "-1"], None, "num_classes: 2"),
        (["film", "book", ""], "classes: [film, book]", ""),
        (["0", "3", ""], "num_classes: 9", ""),
    ],
)
def test_undeclared_classes_are_a_warning_with_the_line_to_paste(
    tmp_path, capsys, labels, declared, line
):
    rows = [f"{i},{i}.5,{label}" for i, label in enumerate(labels)]
    (tmp_path / "nodes.csv").write_text("\n".join(["id,x,label", *rows]) + "\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    if declared:
        (tmp_path / "graph.yaml").write_text(declared + "\n")
    assert main(["data", "validate", str(tmp_path)]) == 0
    said = capsys.readouterr().err
    assert ("warning: " in said) == bool(line)
    assert said.strip().endswith(line)
    if line:
        (tmp_path / "graph.yaml").write_text(line + "\n")
        assert main(["data", "validate", str(tmp_path)]) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize("cells", [["book", " book ", "film"], [True, False, True]])
def test_the_line_to_paste_has_the_names_that_are_read(tmp_path, capsys, cells):
    import polars as pl

    pl.DataFrame({"x": [1.0, 2.0, 3.0], "label": cells}).write_parquet(tmp_path / "nodes.parquet")
    pl.DataFrame({"source": [0], "target": [1]}).write_parquet(tmp_path / "edges.parquet")
    assert main(["data", "validate", str(tmp_path)]) == 0
    line = capsys.readouterr().err.strip().rpartition(": classes: ")[2]
    (tmp_path / "graph.yaml").write_text(f"classes: {line}\n")
    assert main(["data", "validate", str(tmp_path)]) == 0
    assert len(line.split(",")) == 2
    capsys.readouterr()
    (tmp_path / "graph.yaml").write_text("classes: [film, ' book']\n")
    assert main(["data", "validate", str(tmp_path)]) == 1
    assert "classes must have no blanks around a name" in capsys.readouterr().err


def test_a_prepared_graph_has_a_default_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["data", "prepare", "chains-s"]) == 0
    assert (tmp_path / "results" / "graphs" / "chains-s" / "graph.json").exists()

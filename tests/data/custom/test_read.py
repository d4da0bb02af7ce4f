import json
import os

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch
from helpers import tells
from torch_geometric.data import Data

from dpgnn.data import datasets
from dpgnn.data.custom import read as custom
from dpgnn.data.custom.options import read_options
from dpgnn.data.custom.read import problems_of
from dpgnn.data.files.content import content_hash

X = np.array([[1, 0.5], [2, 0], [3, 1.5], [4, 0]], dtype=np.float32)
Y = np.array([0, 1, -1, 1])
EDGES = np.array([[0, 1, 3], [1, 2, 2]])
CODES = {"train": [0], "test": [1, 3]}


def write_csv(folder):
    rows = ["id,h,w,label,split"]
    parts = {0: "train", 1: "test", 3: "test"}
    for node in range(4):
        label = "" if Y[node] < 0 else Y[node]
        rows.append(f"n{node},{X[node, 0]},{X[node, 1]},{label},{parts.get(node, '')}")
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    lines = [f"n{a},n{b}" for a, b in EDGES.T]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(lines) + "\n")


def write_parquet(folder):
    split = ["train", "test", None, "test"]
    label = [None if y < 0 else int(y) for y in Y]
    nodes = {"h": X[:, 0], "w": X[:, 1], "label": label, "split": split}
    pl.DataFrame(nodes).write_parquet(folder / "nodes.parquet")
    pl.DataFrame({"source": EDGES[0], "target": EDGES[1]}).write_parquet(folder / "edges.parquet")


def masks():
    return {
        f"{part}_mask": np.isin(np.arange(4), CODES.get(part, []))
        for part in ("train", "val", "test")
    }


def write_npz(folder):
    np.savez(folder / "graph.npz", x=X, y=Y, edge_index=EDGES, **masks())


def write_sparse_npz(folder):
    x = sp.csr_matrix(X)
    parts = {f"x_{part}": getattr(x, part) for part in ("data", "indices", "indptr")}
    parts["x_shape"] = np.array(x.shape)
    np.savez(folder / "graph.npz", y=Y, edge_index=EDGES, **parts, **masks())


def write_pyg(folder):
    values = {k: torch.from_numpy(v) for k, v in masks().items()}
    data = Data(
        x=torch.from_numpy(X), y=torch.from_numpy(Y), edge_index=torch.from_numpy(EDGES), **values
    )
    torch.save(data, folder / "graph.pt")


def write_tensors(folder):
    values = {"x": X, "y": Y, "edge_index": EDGES, **masks()}
    torch.save({k: torch.from_numpy(v) for k, v in values.items()}, folder / "graph.pt")


WRITERS = [write_csv, write_parquet, write_npz, write_sparse_npz, write_pyg, write_tensors]


@pytest.mark.parametrize("write", WRITERS)
def test_every_format_gives_the_same_graph(tmp_path, write):
    write(tmp_path)
    graph = custom.load_folder(tmp_path, "mine")
    np.testing.assert_array_equal(graph.dense_x(), X)
    np.testing.assert_array_equal(graph.y, Y)
    np.testing.assert_array_equal(graph.edge_index, [[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    np.testing.assert_array_equal(graph.splits["public"]["test"], [1, 3])
    assert (graph.num_classes, graph.directed) == (2, False)
    assert problems_of(tmp_path) == []


def test_other_tensors_of_a_saved_graph_are_left_alone_and_wanted_ones_need_not_be_plain(tmp_path):
    weights = torch.nn.Parameter(torch.from_numpy(X))  # requires a gradient
    values = {"x": weights, "y": torch.from_numpy(Y), "edge_index": torch.from_numpy(EDGES)}
    values |= {"adj_t": torch.eye(4).to_sparse(), "emb": torch.ones(4, 2).bfloat16()}
    torch.save(Data(**values), tmp_path / "graph.pt")
    np.testing.assert_array_equal(custom.load_folder(tmp_path, "mine").dense_x(), X)
    torch.save(values | {"x": torch.from_numpy(X).bfloat16()}, tmp_path / "graph.pt")
    np.testing.assert_array_equal(custom.load_folder(tmp_path, "mine").dense_x(), X)


def test_options_are_read(tmp_path):
    write_csv(tmp_path)
    (tmp_path / "graph.yaml").write_text("{directed: true, num_classes: 5}")
    graph = custom.load_folder(tmp_path, "mine")
    np.testing.assert_array_equal(graph.edge_index, [[0, 1, 3], [1, 2, 2]])
    assert (graph.num_classes, graph.directed) == (5, True)


def test_named_classes_keep_the_stated_order(tmp_path):
    nodes = "h,label\n1,song\n2,book\n3,\n"
    (tmp_path / "nodes.csv").write_text(nodes)
    (tmp_path / "edges.csv").write_text("source,target\n0,2\n")
    np.testing.assert_array_equal(custom.load_folder(tmp_path, "a").y, [1, 0, -1])
    (tmp_path / "graph.yaml").write_text("classes: [song, film, book]")
    graph = custom.load_folder(tmp_path, "a")
    np.testing.assert_array_equal(graph.y, [0, 2, -1])
    assert graph.num_classes == 3


def tables(folder, nodes, edges="source,target\n", options=""):
    (folder / "nodes.csv").write_text(nodes)
    (folder / "edges.csv").write_text(edges)
    (folder / "graph.yaml").write_text(options)


def test_names_are_not_numbered_by_those_present_where_their_number_is_stated(tmp_path):
    """One more node would give all others another class, under a claim without a caveat."""
    nodes = "h,label\n1,book\n2,film\n3,film\n"
    for more in ("", "4,art\n"):
        tables(tmp_path, nodes + more, options="num_classes: 3")
        (problem,) = problems_of(tmp_path)
        tells(problem, "label", "node 0", "whole number", "num_classes")
        assert "`classes: [...]`" in problem
        tables(tmp_path, nodes + more, options="classes: [book, film, art]")
        np.testing.assert_array_equal(custom.load_folder(tmp_path, "a").y[:3], [0, 1, 1])
        assert read_options(tmp_path).caveats == ()
        tables(tmp_path, nodes + more)
        assert read_options(tmp_path).caveats == ("preprocessing",)


@pytest.mark.parametrize("options", ["", "classes: [book, film]"])
def test_minus_one_among_names_is_unlabelled(tmp_path, options):
    tables(tmp_path, "h,label\n1,book\n2,film\n3,-1\n4,\n", options=options)
    graph = custom.load_folder(tmp_path, "a")
    np.testing.assert_array_equal(graph.y, [0, 1, -1, -1])
    assert graph.num_classes == 2


PARQUET_LABELS = {
    "floats with NaN": ([1.0, 0.0, float("nan"), None], [1, 0, -1, -1]),
    "booleans": ([True, False, None, True], [1, 0, -1, 1]),
    "categories": (pl.Series(["b", "a", None, "b"], dtype=pl.Categorical), [1, 0, -1, 1]),
}


@pytest.mark.parametrize("kind", PARQUET_LABELS)
def test_labels_of_a_parquet_table_are_read_by_their_type(tmp_path, kind):
    label, wanted = PARQUET_LABELS[kind]
    pl.DataFrame({"h": [1.0] * 4, "label": label}).write_parquet(tmp_path / "nodes.parquet")
    ends = {"source": [0], "target": [1]}
    pl.DataFrame(ends).write_parquet(tmp_path / "edges.parquet")
    graph = custom.load_folder(tmp_path, "a")
    np.testing.assert_array_equal(graph.y, wanted)
    assert graph.num_classes == 2


def test_whole_numbers_may_be_written_as_pandas_does_beside_empty_cells(tmp_path):
    tables(tmp_path, "h,label\n1,1.0\n2,0.0\n3,\n4,-1.0\n", options="num_classes: 3")
    np.testing.assert_array_equal(custom.load_folder(tmp_path, "a").y, [1, 0, -1, -1])


def test_a_header_with_quotes_is_read_as_csv(tmp_path):
    tables(tmp_path, '"a,b","a,c",label\n1,2,0\n3,4,1\n')
    np.testing.assert_array_equal(custom.load_folder(tmp_path, "a").dense_x(), [[1, 2], [3, 4]])


def test_label_columns_give_the_multilabel_task(tmp_path):
    (tmp_path / "nodes.csv").write_text("h,label_0,label_1,label_10\n1,1,0,1\n2,0,0,1\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n")
    (tmp_path / "graph.yaml").write_text("task: multilabel")
    graph = custom.load_folder(tmp_path, "a")
    np.testing.assert_array_equal(graph.y, [[1, 0, 1], [0, 0, 1]])


def test_loops_and_duplicates_are_dropped_on_request(tmp_path):
    (tmp_path / "nodes.csv").write_text("h,label\n1,1\n2,0\n")
    (tmp_path / "edges.csv").write_text("source,target\n0,1\n0,1\n1,1\n")
    assert len(problems_of(tmp_path)) == 2
    (tmp_path / "graph.yaml").write_text("{drop_self_loops: true, drop_duplicates: true}")
    assert custom.load_folder(tmp_path, "a").num_edges == 2


def test_counting_classes_from_private_labels_is_a_caveat(tmp_path):
    write_csv(tmp_path)
    assert datasets.own_provenance(tmp_path)["caveats"] == ["preprocessing"]
    (tmp_path / "graph.yaml").write_text("num_classes: 2")
    assert datasets.own_provenance(tmp_path)["caveats"] == []


def test_an_own_graph_is_prepared_by_name(tmp_path):
    (tmp_path / "own" / "mine").mkdir(parents=True)
    write_csv(tmp_path / "own" / "mine")
    out, own = tmp_path / "out", tmp_path / "own"
    datasets.prepare("mine", out, folder=tmp_path, root_seed=0, own_folder=own)
    meta = json.loads((out / "graph.json").read_text())
    assert meta["name"] == "mine"
    assert set(meta["provenance"]["raw_sha256"]) == {"nodes.csv", "edges.csv"}
    graph = datasets.load("mine", folder=tmp_path, root_seed=0, own_folder=own)
    assert meta["content_sha256"] == content_hash(graph)
    assert datasets.entry_of("mine", own_folder=own) is datasets.OWN


def test_the_fingerprint_follows_the_files(tmp_path):
    (tmp_path / "mine").mkdir()
    write_csv(tmp_path / "mine")
    before = datasets.own_fingerprint("mine", tmp_path)
    assert before == datasets.own_fingerprint("mine", tmp_path)
    (tmp_path / "mine" / "edges.csv").write_text("source,target\nn0,n3\n")
    assert datasets.own_fingerprint("mine", tmp_path) != before
    assert datasets.own_fingerprint("cora", tmp_path) == ""


def test_all_problems_are_told_at_once(tmp_path):
    (tmp_path / "nodes.csv").write_text("id,h,label\na,x,0\nb,2,-3\nb,3,1\n")
    (tmp_path / "edges.csv").write_text("source,target,weight\na,a,1\n")
    problems = problems_of(tmp_path)
    for part in (
        "id must name each node once",
        "column h of node a",
        "label of node b",
        "weight",
        "loop",
    ):
        assert sum(part in problem for problem in problems) == 1, part
    assert len(problems) == 5


def test_a_row_with_fewer_cells_than_the_header_is_named_with_its_line(tmp_path):
    write_csv(tmp_path)
    text = (tmp_path / "nodes.csv").read_text().replace("n2,3.0,1.5,,", "n2,3.0,1.5")
    (tmp_path / "nodes.csv").write_text(text)
    (problem,) = problems_of(tmp_path)
    assert problem.startswith(f"{tmp_path}/nodes.csv, line 4 must have 5 cells, got '3 cells'")


def test_blank_lines_at_the_end_are_no_rows_and_others_are_named(tmp_path):
    nodes, edges = "id,h,label\na,1,0\nb,2,1\n", "source,target\na,b\n"
    for end in ("", "\n\n", "\r\n\r\n"):
        tables(tmp_path, nodes + end, edges + end)
        assert custom.load_folder(tmp_path, "mine").num_nodes == 2
    tables(tmp_path, nodes.replace("b,", "\nb,"), edges)
    (problem,) = problems_of(tmp_path)
    tells(problem, "nodes.csv, line 3", "3 cells", "a blank line", "remove it")
    tables(tmp_path, nodes.replace("\n", "\r"), edges)
    (problem,) = problems_of(tmp_path)
    tells(problem, "nodes.csv", "line feeds", "carriage returns alone", "CSV UTF-8")


def test_ends_of_edges_are_not_judged_by_ids_that_are_wrong(tmp_path):
    tables(tmp_path, "id,h,label\na,1,0\n,2,1\n", "source,target\na,b\n")
    (problem,) = problems_of(tmp_path)
    tells(problem, "id of row 2", "not be empty")


def test_a_head_without_all_names_and_other_separators_are_named(tmp_path):
    (tmp_path / "edges.csv").write_text("source,target\n")
    (tmp_path / "nodes.csv").write_text("id,h\na,1,0\n")
    (problem,) = problems_of(tmp_path)
    assert problem.endswith(
        "line 2 must have 2 cells, got '3 cells'; is a name missing in the header?"
    )
    for separator in ";\t":
        (tmp_path / "nodes.csv").write_text("id,h,label\na,1,0\n".replace(",", separator))
        (problem,) = problems_of(tmp_path)
        assert "nodes.csv must separate cells by commas" in problem


def test_the_line_of_a_short_row_counts_line_breaks_inside_cells(tmp_path):
    (tmp_path / "nodes.csv").write_text('id,h,label\n"a\nb",1,0\nc,2\n')
    (tmp_path / "edges.csv").write_text("source,target\n")
    (problem,) = problems_of(tmp_path)
    assert problem.startswith(f"{tmp_path}/nodes.csv, line 4 must have 3 cells, got '2 cells'")


@pytest.mark.parametrize("columns", [2**60, 2**31, 1_000_001])
def test_a_sparse_matrix_with_more_columns_than_a_model_can_have_is_refused(tmp_path, columns):
    write_sparse_npz(tmp_path)
    arrays = dict(np.load(tmp_path / "graph.npz"))
    np.savez(tmp_path / "graph.npz", **arrays | {"x_shape": np.array([4, columns])})
    (problem,) = problems_of(tmp_path)
    assert str(columns) in problem
    assert ("1000000 or fewer" in problem) == (columns < 2**31)


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv", "graph.yaml"])
def test_a_named_pipe_is_refused_and_not_read(tmp_path, name):
    write_csv(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    (problem,) = problems_of(tmp_path)
    assert problem.startswith(f"{tmp_path}/{name} must be a regular file, got 'a named pipe'")


def test_a_device_is_refused_and_not_read(tmp_path):
    (tmp_path / "graph.npz").symlink_to("/dev/zero")
    (problem,) = problems_of(tmp_path)
    tells(problem, "graph.npz must be a regular file", "device")


def test_pipes_instead_of_parquet_tables_are_refused(tmp_path):
    for name in ("nodes.parquet", "edges.parquet"):
        os.mkfifo(tmp_path / name)
    (problem,) = problems_of(tmp_path)
    tells(problem, "nodes.parquet must", "regular file")

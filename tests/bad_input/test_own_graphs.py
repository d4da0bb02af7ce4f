"""Bad graphs of a user's own: tables, arrays, saved PyG graphs."""

# ruff: noqa: E501  a case of the table is easier to read as one line

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest
import yaml
from bad_inputs import OWN, Case, Hostile, check, empty_folder, file_after, half, prepare

__all__ = ["empty_folder"]

PREPARE = prepare("mine")
NODES = """\
id,height,weight,label
a,1.0,2.0,0
b,1.5,2.5,1
c,2.0,3.0,1
d,2.5,3.5,0
"""
EDGES = "source,target\na,b\nb,c\nc,d\n"


def own(nodes: str = NODES, edges: str | None = EDGES, **options: object) -> Callable[[], None]:
    """An own graph of two CSV files and graph.yaml."""

    def make() -> None:
        OWN.mkdir(parents=True)
        (OWN / "nodes.csv").write_bytes(nodes.encode("latin1"))
        if edges is not None:
            (OWN / "edges.csv").write_text(edges)
        if options:
            (OWN / "graph.yaml").write_text(yaml.safe_dump(options))

    return make


def bad_own(*says: str, **change: object) -> Case:
    return Case(own(**change), PREPARE, says)  # type: ignore[arg-type]


def own_npz(**change: object) -> Callable[[], None]:
    def make() -> None:
        OWN.mkdir(parents=True)
        arrays = {
            "x": np.ones((4, 2)),
            "y": np.array([0, 1, 1, 0]),
            "edge_index": np.array([[0, 1], [1, 2]]),
        } | change
        np.savez(OWN / "graph.npz", **{k: v for k, v in arrays.items() if v is not None})

    return make


def zip_bomb() -> None:
    OWN.mkdir(parents=True)
    with zipfile.ZipFile(OWN / "graph.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", bytes(1 << 20))
        archive.infolist()[0].file_size = 3 << 30  # what the directory says is what is compared


def packed_npz() -> None:
    own_npz()()
    arrays = dict(np.load(OWN / "graph.npz"))
    rng = np.random.default_rng(0)
    np.savez_compressed(OWN / "graph.npz", **arrays | {"x": rng.random((4, 100))})


def broken_stream(content: bytes) -> bytes:
    """Bytes in the middle of the first compressed array, so that zlib fails and no checksum is compared."""
    return content[:100] + bytes(10) + content[110:]


def own_pt(**change: object) -> Callable[[], None]:
    """A dictionary of tensors; a value is made by a function of torch, so that torch is loaded late."""

    def make() -> None:
        import torch

        OWN.mkdir(parents=True)
        tensors = {
            "x": torch.ones(4, 2),
            "y": torch.tensor([0, 1, 1, 0]),
            "edge_index": torch.tensor([[0, 1], [1, 2]]),
        }
        torch.save(tensors | {k: v(torch) for k, v in change.items()}, OWN / "graph.pt")  # type: ignore[operator]

    return make


def hostile_pt() -> None:
    import torch

    OWN.mkdir(parents=True)
    torch.save({"x": Hostile()}, OWN / "graph.pt")


def pt_without_labels() -> None:
    import torch
    from torch_geometric.data import Data

    OWN.mkdir(parents=True)
    torch.save(Data(x=torch.ones(3, 2), edge_index=torch.zeros(2, 0).long()), OWN / "graph.pt")


def own_parquet(
    damage: Callable[[bytes], bytes] | None = None, **columns: object
) -> Callable[[], None]:
    def make() -> None:
        OWN.mkdir(parents=True)
        table = {"height": [1.0, 2.0, 3.0, 4.0], "label": [0, 1, 1, 0]} | columns
        pl.DataFrame(table).write_parquet(OWN / "nodes.parquet")
        pl.DataFrame({"source": [0, 1], "target": [1, 2]}).write_parquet(OWN / "edges.parquet")
        if damage:
            path = OWN / "nodes.parquet"
            path.write_bytes(damage(path.read_bytes()))

    return make


def twice_stated() -> None:
    own()()
    (OWN / "graph.yaml").write_text("num_classes: 2\nnum_classes: 3\n")


CASES = {
    "missing label column": bad_own(
        "nodes.csv: column label must be there", "height", "rename", nodes=NODES.replace("label", "class")
    ),
    "missing source column": bad_own(
        "edges.csv: column source must be there", "from", edges=EDGES.replace("source", "from")
    ),
    "a word among numbers": bad_own(
        "column height of node b must be a number, got 'tall'", nodes=NODES.replace("1.5", "tall")
    ),
    "an empty cell": bad_own(
        "column height of node b must be a number, got 'an empty cell'", nodes=NODES.replace("1.5", "")
    ),
    "NaN": bad_own(
        "feature of node b, column height must be finite, got nan; replace or drop it",
        nodes=NODES.replace("1.5", "nan"),
    ),
    "inf": bad_own(
        "feature of node c, column weight must be finite, got inf; replace or drop it",
        nodes=NODES.replace("3.0", "inf"),
    ),
    "negative label": bad_own("label of node b must be >= 0", "'-7'", nodes=NODES.replace("2.5,1", "2.5,-7")),
    "label beyond the stated classes": bad_own(
        "label of node b must be a class in 0..1", "got 5", nodes=NODES.replace("2.5,1", "2.5,5"), num_classes=2
    ),
    "one class": bad_own(
        "labels must name two classes or more, got '1 class'", nodes=NODES.replace(",1\n", ",0\n")
    ),
    "edge to an unknown node": bad_own(
        "target of edge 4 must be an id of a node, got 'z'; add the node or drop the edge",
        edges=EDGES + "a,z\n",
    ),
    "duplicate edge": bad_own(
        "edge 1 must stand once, got 'a -> b again, 1 duplicates in all'; drop", edges=EDGES + "a,b\n"
    ),
    "self-loop": bad_own("edge 4 must be no self-loop, got 'c -> c", "drop", edges=EDGES + "c,c\n"),
    "unsorted ids": bad_own(
        "id must ascend, got '2 after a larger one'; sort the table by id",
        nodes="id,h,label\n1,0,0\n3,0,1\n2,0,1\n", edges="source,target\n1,2\n",
    ),
    "an id twice": bad_own("id must name each node once, got 'a twice'", nodes=NODES.replace("\nd,", "\na,")),
    "empty graph": bad_own("nodes.csv must have a row for each node, got 'no rows'", nodes="id,h,label\n"),
    "empty file": bad_own("nodes.csv must begin with a line of column names", nodes=""),
    "no features": bad_own("features must be one column or more, got 'none'", nodes="id,label\na,0\nb,1\nc,1\nd,0\n"),
    "non-UTF-8 CSV": bad_own(
        "nodes.csv, line 3 must be UTF-8, got 'byte 0xe9'; save the table as UTF-8",
        nodes=NODES.replace("b,1.5", "b\xe9,1.5"),
    ),
    "a column name twice": bad_own("columns must have different names, got 'weight twice'", nodes=NODES.replace("height", "weight")),
    "edge weights": bad_own("column w must not be there", "drop it", edges="source,target,w\na,b,1\n"),
    "unknown part of a split": bad_own(
        "split of node a must be train, val, test or empty, got 'trian'",
        nodes="id,h,label,split\na,1,0,trian\nb,1,1,test\n", edges="source,target\na,b\n",
    ),
    "a split without test nodes": bad_own(
        "split must have test nodes, got 'none'; drop the column split",
        nodes="id,h,label,split\na,1,0,train\nb,1,1,train\n", edges="source,target\na,b\n",
    ),
    "edges missing": bad_own("edges.csv must stand beside the nodes, got 'no such file'", edges=None),
    "misspelt key of graph.yaml": bad_own("graph.yaml.num_clases is not a known key; did you mean num_classes", num_clases=2),
    "wrong type in graph.yaml": bad_own("graph.yaml.directed must be true or false, got 'yes please'", directed="yes please"),
    "no graph in the folder": Case(
        lambda: OWN.mkdir(parents=True), PREPARE, ("data/own/mine must hold one of nodes.csv", "got 'none'; see docs/data.md")
    ),
    "many things at once": bad_own(
        "got 3 problems", "column height of node b", "self-loop", "edges.csv: column w",
        nodes=NODES.replace("1.5", "tall"), edges="source,target,w\nc,c,1\n",
    ),
    "npz without labels": Case(own_npz(y=None), PREPARE, ("graph.npz: array y must be there, got 'edge_index, x'",)),
    "npz of another length": Case(own_npz(y=np.zeros(9, int)), PREPARE, ("y must have shape (4,), got (9,)",)),
    "npz with an edge outside": Case(
        own_npz(edge_index=np.array([[0], [7]])), PREPARE, ("must join nodes 0..3, got '0 -> 7'; add the node or drop it",)
    ),
    "npz truncated": Case(
        file_after(own_npz(), OWN / "graph.npz", half), PREPARE, ("graph.npz must be a whole .npz file", "fetch it again")
    ),
    "npz with a broken stream": Case(
        file_after(packed_npz, OWN / "graph.npz", broken_stream), PREPARE, ("graph.npz must be a whole .npz file", "fetch it again")
    ),
    "npz without a feature": Case(own_npz(x=np.ones((4, 0))), PREPARE, ("graph.npz: features must be one column or more, got 'none'",)),
    "npz with labels that are too large": Case(
        own_npz(y=np.array([0, 1, 2**64 - 1, 0], np.uint64)), PREPARE, ("y must be <= 9223372036854775807, got 18446744073709551615",)
    ),
    "PyG file with sparse features": Case(
        own_pt(x=lambda torch: torch.eye(4).to_sparse()), PREPARE,
        ("graph.pt: x must be a dense tensor of numbers, got 'sparse_coo, float32'; give it as `tensor.to_dense()`",),
    ),
    "npz with data of edges": Case(
        own_npz(edge_attr=np.ones((2, 3))), PREPARE,
        ("graph.npz: edge_attr must not be there", "edges carry no weights or features here"),
    ),
    "PyG file with weights": Case(
        own_pt(edge_weight=lambda torch: torch.ones(6)), PREPARE,
        ("graph.pt: edge_weight must not be there", "edges carry no weights or features here"),
    ),
    "npz that would run code": Case(
        own_npz(y=np.array([Hostile()] * 4, dtype=object)), PREPARE, ("graph.npz: array y must hold numbers, got 'Python objects, which are not read'",)
    ),
    "zip bomb": Case(zip_bomb, PREPARE, ("size after unpacking must be <=", "do not unpack it")),
    "PyG file that would run code": Case(hostile_pt, PREPARE, ("graph.pt must hold tensors only", "nothing was executed")),
    "PyG file without labels": Case(pt_without_labels, PREPARE, ("array y must be there, got 'edge_index, x'",)),
    "Parquet of words": Case(
        own_parquet(height=["a", "b", "c", "d"]), PREPARE, ("column height of node 0 must be a number, got 'a, and 3 more cells'",)
    ),
    "own Parquet truncated": Case(own_parquet(half), PREPARE, ("nodes.parquet must be an undamaged Parquet file", "; write it again")),
    "npz of a part of a sparse matrix": Case(
        own_npz(x=None, x_data=np.ones(1), x_indices=np.zeros(1, int)), PREPARE, ("graph.npz: array x_indptr must be there",)
    ),
    "an id in the column label": bad_own(
        "labels must be below the number of labelled nodes, 4, where no number is stated, got '1000000000000 at node b'",
        "state num_classes in graph.yaml", nodes=NODES.replace("2.5,1", "2.5,1000000000000"),
    ),
    "a label beyond all numbers": bad_own("label of node b must be a class", nodes=NODES.replace("2.5,1", "2.5," + "9" * 30)),
    "more classes than can be": bad_own("num_classes must be <= 1000000, got 1000000000000", num_classes=10**12),
    "several labels, and no task stated": bad_own(
        "column label must be there", "set task: multilabel in graph.yaml",
        nodes="id,h,label_0,label_1\na,1,0,1\nb,2,1,0\n", edges="source,target\na,b\n",
    ),
    "names, and only their number stated": bad_own(
        "label of node a must be a whole number, as graph.yaml states num_classes and no names, got 'x'; name all classes in their order",
        nodes=NODES.replace(",0\n", ",x\n").replace(",1\n", ",y\n"), num_classes=2,
    ),
    "a class twice": bad_own("classes must have different names, got ['book', 'book', 'film']; name each class once", classes=["book", "book", "film"]),
    "a number among names": bad_own(
        "label of node a must be a whole number, as 1 is, got 'x'; leave it empty where unlabelled, or name all", nodes=NODES.replace(",0\n", ",x\n")
    ),
    "nan among numbers": bad_own("label of node b must be a whole number, as 0 is, got 'nan'; leave it empty", nodes=NODES.replace("2.5,1", "2.5,nan")),
    "nan among names": bad_own(
        "label of node b must be a whole number or a name, got 'nan'; leave it empty",
        nodes=NODES.replace(",0\n", ",x\n").replace(",1\n", ",y\n").replace("2.5,y", "2.5,nan"),
    ),
    "labels that are lists": Case(own_parquet(label=[[0], [1], [1], [0]]), PREPARE, ("column label must hold numbers or texts",)),
    "labels that are dates": Case(
        own_parquet(label=[datetime.date(2020, 1, day) for day in (1, 2, 2, 1)]), PREPARE, ("label must hold whole numbers or names, got 'Date'",)
    ),
    "a label column left over": bad_own(
        "column label_1 must not be there beside label, got 'label_1, label'; drop or rename one of the two", nodes=NODES.replace("weight", "label_1")
    ),
    "label beside label columns": bad_own(
        "column label must not be there beside label_1, got 'label_1, label'; drop or rename one of the two",
        nodes=NODES.replace("weight", "label_1"), task="multilabel",
    ),
    "an empty end of an edge": bad_own(
        "target of edge 4 must be an id of a node, got 'an empty cell'", nodes=NODES.replace("\nd,", "\nNone,"), edges=EDGES.replace("d", "None") + "a,\n"
    ),
    "a column name twice, once in quotes": bad_own("columns must have different names, got 'weight twice'", nodes=NODES.replace("height", '"weight"')),
    "a key of graph.yaml twice": Case(
        twice_stated, PREPARE, ("graph.yaml, line 2: key 'num_classes' must stand once, and it stands on line 1 too",)
    ),
}  # fmt: skip


def test_there_are_many_cases():
    assert len(CASES) >= 35


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input_gives_one_clear_error_and_leaves_nothing(name, empty_folder, capsys):
    check(CASES[name], capsys)

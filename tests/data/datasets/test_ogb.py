import csv
import dataclasses
import gzip
import importlib.util
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest

from dpgnn.data.datasets import ogb
from dpgnn.data.files import pieces
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.raw.files import RawFiles
from dpgnn.data.raw.sources import source_of

NUM_NODES, NUM_EDGES, NUM_FEATURES, NUM_CLASSES = 50, 200, 4, 3


def text_of(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in np.atleast_2d(rows)).encode()


def tables(name, rng):
    layout = ogb.LAYOUTS[name]
    x = rng.standard_normal((NUM_NODES, NUM_FEATURES)).round(4)
    y = rng.integers(0, NUM_CLASSES, NUM_NODES)
    edges = rng.integers(0, NUM_NODES, (NUM_EDGES, 2))
    feat, label = ("node-feat/paper/", "node-label/paper/") if layout.nodes else ("", "")
    order = rng.permutation(NUM_NODES)
    split = {"train": order[:30], "valid": order[30:35], "test": order[35:48]}
    content = {
        f"raw/{layout.relation}edge.csv.gz": edges,
        f"raw/{feat}node-feat.csv.gz": x,
        f"raw/{label}node-label.csv.gz": y[:, None],
    } | {
        f"split/{layout.split}/{layout.nodes}{part}.csv.gz": idx[:, None]
        for part, idx in split.items()
    }
    return {path: text_of(rows) for path, rows in content.items()}, x, y, edges, split


def files_of(name, tmp_path, content, *, unpacked=False):
    layout = ogb.LAYOUTS[name]
    source = dataclasses.replace(
        source_of(name),
        num_nodes=NUM_NODES,
        num_edges=NUM_EDGES,
        num_features=NUM_FEATURES,
        num_classes=NUM_CLASSES,
    )
    source = dataclasses.replace(
        source, files=tuple(dataclasses.replace(raw, url="") for raw in source.files)
    )
    root = tmp_path / f"ogbn_{layout.archive}"
    root.mkdir(exist_ok=True)
    if unpacked:
        for path, text in content.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(gzip.compress(text))
    else:
        with zipfile.ZipFile(root / f"{layout.archive}.zip", "w") as archive:
            for path, text in content.items():
                archive.writestr(f"{layout.archive}/{path}", gzip.compress(text))
    return RawFiles(source=source, folder=tmp_path, mirrors=())


def more_for_its_loader(name, root, rng):
    """The tables of OGB's archive that its loader reads and ours does not."""

    def put(path, rows):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(gzip.compress(text_of(rows)))

    if name != "ogbn-mag":
        put("raw/num-node-list.csv.gz", [[NUM_NODES]])
        put("raw/num-edge-list.csv.gz", [[NUM_EDGES]])
    else:
        put("raw/triplet-type-list.csv.gz", [["paper", "cites", "paper"]])
        put("raw/relations/paper___cites___paper/num-edge-list.csv.gz", [[NUM_EDGES]])
        put("raw/nodetype-has-feat.csv.gz", [["paper"], ["True"]])
        put("raw/nodetype-has-label.csv.gz", [["paper"], ["True"]])
        put("raw/num-node-dict.csv.gz", [["paper"], [NUM_NODES]])
        put("split/time/nodetype-has-split.csv.gz", [["paper"], ["True"]])
    if name == "ogbn-arxiv":
        put("raw/node_year.csv.gz", rng.integers(2000, 2020, NUM_NODES)[:, None])


@pytest.mark.parametrize("unpacked", [False, True])
@pytest.mark.parametrize("name", list(ogb.LAYOUTS))
def test_archive_and_unpacked_folder_give_the_graph_of_the_tables(
    tmp_path, name, unpacked, monkeypatch
):
    monkeypatch.setattr(ogb, "BLOCK_BYTES", 100)  # many blocks, cut inside lines
    content, x, y, edges, split = tables(name, np.random.default_rng(0))
    files = files_of(name, tmp_path, content, unpacked=unpacked)
    graph = pieces.collect(ogb.pieces(name, files, 0))
    np.testing.assert_allclose(graph.x, x, rtol=1e-6)
    np.testing.assert_array_equal(graph.y, y)
    wanted = {(a, b) for u, v in edges.tolist() for a, b in ((u, v), (v, u)) if a != b}
    assert list(map(tuple, graph.edge_index.T.tolist())) == sorted(wanted)
    public = graph.splits["public"]
    np.testing.assert_array_equal(public["val"], np.sort(split["valid"]))
    np.testing.assert_array_equal(public["test"], np.sort(split["test"]))
    pieces.write(ogb.pieces(name, files, 0), tmp_path / "g", scratch=tmp_path / "work")
    streamed = read_graph(tmp_path / "g", full_check=True)
    np.testing.assert_array_equal(streamed.edge_index, graph.edge_index)
    np.testing.assert_array_equal(streamed.x, graph.x)


@pytest.mark.parametrize("name", list(ogb.LAYOUTS))
def test_ogbs_own_loader_reads_the_same_split_and_graph(tmp_path, name):
    """Ours stays: it finds the same, reads the archive in blocks, and OGB's opens a folder only once."""
    from ogb.nodeproppred import NodePropPredDataset

    rng = np.random.default_rng(0)
    content, *_ = tables(name, rng)
    files = files_of(name, tmp_path, content, unpacked=True)
    graph = pieces.collect(ogb.pieces(name, files, 0))
    root = tmp_path / f"ogbn_{ogb.LAYOUTS[name].archive}"
    (root / f"RELEASE_v{2 if name == 'ogbn-mag' else 1}.txt").touch()  # as in OGB's archive
    (root / "processed").mkdir()
    more_for_its_loader(name, root, rng)
    theirs = NodePropPredDataset(name, root=str(tmp_path))
    (data, labels), split = theirs[0], theirs.get_idx_split()
    edges = (
        data["edge_index_dict"]["paper", "cites", "paper"]
        if theirs.is_hetero
        else data["edge_index"]
    )
    x = data["node_feat_dict"]["paper"] if theirs.is_hetero else data["node_feat"]
    if theirs.is_hetero:
        labels, split = labels["paper"], {part: idx["paper"] for part, idx in split.items()}
    for part, ours in ogb.PARTS.items():
        np.testing.assert_array_equal(graph.splits["public"][ours], np.sort(split[part]))
    np.testing.assert_array_equal(graph.x, x)
    np.testing.assert_array_equal(graph.y, labels.ravel())
    both = {(u, v) for a, b in edges.T.tolist() for u, v in ((a, b), (b, a)) if u != v}
    assert list(map(tuple, graph.edge_index.T.tolist())) == sorted(both)
    with pytest.raises(pickle.UnpicklingError):  # its cache is a pickle that current torch refuses
        NodePropPredDataset(name, root=str(tmp_path))


BAD = {
    "a row too few": (lambda t: t[: t.rstrip(b"\n").rfind(b"\n") + 1], "have 50 rows, got 49"),
    "a column too many": (lambda t: t.replace(b"\n", b",1\n"), "have 4 columns, got 5"),
    "a word": (lambda t: b"x" + t, "hold 4 numbers a line"),
    "an empty cell": (lambda t: b",1,1,1\n" + t.split(b"\n", 1)[1], "hold no empty cell"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_wrong_feature_table_is_named(tmp_path, case):
    change, message = BAD[case]
    content, *_ = tables("ogbn-arxiv", np.random.default_rng(0))
    content["raw/node-feat.csv.gz"] = change(content["raw/node-feat.csv.gz"])
    files = files_of("ogbn-arxiv", tmp_path, content)
    with pytest.raises(ValueError, match=message):
        pieces.write(ogb.pieces("ogbn-arxiv", files, 0), tmp_path / "g", scratch=tmp_path / "work")
    assert not (tmp_path / "g" / "nodes.parquet").exists()


def test_a_missing_table_or_a_cut_one_is_named(tmp_path):
    content, *_ = tables("ogbn-arxiv", np.random.default_rng(0))
    del content["split/time/valid.csv.gz"]
    files = files_of("ogbn-arxiv", tmp_path, content)
    with pytest.raises(ValueError, match=r"split/time/valid\.csv\.gz must be there"):
        pieces.collect(ogb.pieces("ogbn-arxiv", files, 0))
    edge = tmp_path / "ogbn_arxiv" / "raw" / "edge.csv.gz"
    edge.parent.mkdir(parents=True)
    edge.write_bytes(gzip.compress(b"1,2\n" * 5000)[:30])
    with pytest.raises(ValueError, match=r"raw/edge\.csv\.gz must be a whole gzip file"):
        pieces.collect(ogb.pieces("ogbn-arxiv", files, 0))


@pytest.mark.parametrize("place", [20, 300, -4])
def test_a_changed_byte_of_a_table_or_its_archive_is_named(tmp_path, place):
    content, *_ = tables("ogbn-arxiv", np.random.default_rng(0))
    files = files_of("ogbn-arxiv", tmp_path, content)
    table = ogb.Tables(ogb.LAYOUTS["ogbn-arxiv"], files)

    def rows():
        return sum(len(frame) for frame in table.blocks("raw/node-feat.csv.gz", 4, real=True))

    assert rows() == NUM_NODES
    archive = tmp_path / "ogbn_arxiv" / "arxiv.zip"
    packed = gzip.compress(content["raw/node-feat.csv.gz"])
    whole = bytearray(archive.read_bytes())
    start = whole.find(packed[10:30]) - 10
    whole[start + place % len(packed)] ^= 0x55
    archive.write_bytes(whole)
    message = r"arxiv\.zip: raw/node-feat\.csv\.gz must be a whole gzip file.*fetch it again"
    with pytest.raises(ValueError, match=message):
        rows()
    # the same bytes in an unpacked folder, where no archive's checksum tells of them first
    unpacked = tmp_path / "ogbn_arxiv" / "raw" / "node-feat.csv.gz"
    unpacked.parent.mkdir()
    unpacked.write_bytes(whole[start : start + len(packed)])
    table = ogb.Tables(ogb.LAYOUTS["ogbn-arxiv"], files)
    message = r"ogbn_arxiv: raw/node-feat\.csv\.gz must be a whole gzip file"
    with pytest.raises(ValueError, match=message):
        rows()


def test_the_layout_agrees_with_the_metadata_of_the_ogb_package():
    """Read as a file: importing the package starts a look-up on the network."""
    found = importlib.util.find_spec("ogb")
    text = (Path(found.origin).parent / "nodeproppred" / "master.csv").read_text()
    rows = {row[""]: row for row in csv.DictReader(io.StringIO(text))}
    for name, layout in ogb.LAYOUTS.items():
        source = source_of(name)
        assert rows["split"][name] == layout.split
        assert int(rows["num classes"][name]) == source.num_classes
        assert rows["url"][name] == source.files[0].url
        assert layout.archive == rows["download_name"][name]

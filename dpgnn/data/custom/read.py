"""A user's own graph: a folder of CSV, Parquet, npz or saved PyG files in the schema of docs/data.md.

The folder holds one of: nodes.csv with edges.csv; nodes.parquet with edges.parquet; graph.npz;
graph.pt; and, optionally, graph.yaml with what is known in advance and public.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.core.paths import regular
from dpgnn.data.custom import columns
from dpgnn.data.custom.check import (
    Problems,
    RawGraph,
    check_edges,
    check_features,
    check_labels,
    check_parts,
    check_unlabelled,
)
from dpgnn.data.custom.columns import Rows, check_names, check_schema, texts_of
from dpgnn.data.custom.labels import label_columns, labels
from dpgnn.data.custom.options import MAX_FEATURES, Options, graph_file, read_options
from dpgnn.data.files.content import PART_CODES
from dpgnn.data.files.graph_files import read_graph
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.raw.arrays import csr_from, read_npz

if TYPE_CHECKING:
    import polars as pl
    import torch

SHOWN_PROBLEMS = 20
SPARSE = ("x_data", "x_indices", "x_indptr", "x_shape")
READ = ("x", *SPARSE, "y", "edge_index", *(f"{part}_mask" for part in PART_CODES))
MAX_INT = 2**63 - 1


def load_folder(folder: Path, name: str) -> Graph:
    """Read a user's own graph.

    Args:
        folder: one of the formats of docs/data.md.
        name: the graph's name.

    Returns:
        a validated graph.

    Raises:
        ValueError: anything wrong with it; the message lists up to 20 problems.
    """
    graph, problems = read_folder(folder, name)
    if graph is None:
        shown = "\n  ".join(problems[:SHOWN_PROBLEMS])
        more = len(problems) - SHOWN_PROBLEMS
        rest = f"\n  and {more} more; `dpgnn data validate {folder}` shows all" if more > 0 else ""
        raise ValueError(
            f"{folder} must be a valid graph, got {len(problems)} problems:\n  {shown}{rest}"
        )
    return graph


def read_folder(folder: Path, name: str) -> tuple[Graph | None, list[str]]:
    """The graph, or None and everything that is wrong with it."""
    problems = Problems()
    graph = None
    with problems.caught():
        options = read_options(folder)
        raw = READERS[graph_file(folder).name](graph_file(folder), options, problems)
        graph = _build(name, raw, options, problems)
    return (None if problems.texts else graph), problems.texts


def problems_of(path: Path) -> list[str]:
    """All problems found; [] when the graph can be used. Of a graph that is prepared in pieces, the first.

    Args:
        path: a folder that `dpgnn data prepare` made (it holds graph.json), or a user's own graph in
            one of the formats of docs/data.md.
    """
    from dpgnn.data.custom import stream

    path = Path(path)
    if not path.is_dir():
        return [f"{path} must be a folder that holds a graph, got no such folder; see docs/data.md"]
    if not (path / "graph.json").exists():
        if stream.is_large(path):
            return stream.problems_of(path)
        return read_folder(path, path.name)[1]
    try:
        read_graph(path, full_check=True)
    except (ValueError, OSError) as error:
        return [str(error)]
    return []


def warnings_of(path: Path) -> list[str]:
    """What its owner may want to change in a graph in which nothing is wrong.

    Args:
        path: as for `problems_of`; a graph that is read in pieces is not looked at.
    """
    from dpgnn.data.custom import stream
    from dpgnn.data.custom.declare import undeclared_classes

    if (path / "graph.json").exists() or stream.is_large(path):
        return []
    graph, _ = read_folder(path, path.name)
    line = "" if graph is None else undeclared_classes(path, graph.num_classes)
    if not line:
        return []
    return [
        f"the classes are not declared, so they are counted from private labels and every claim says so; if "
        f"they are public, put this line into {path / 'graph.yaml'}: {line}"
    ]


def _build(name: str, raw: RawGraph, options: Options, problems: Problems) -> Graph | None:
    """Check labels, edges and splits; then make the Graph."""
    num_classes = 0
    if raw.x is not None:
        check_features(raw, raw.x, problems)
    if raw.y is not None:
        num_classes = check_labels(raw, raw.y, options, problems)
        check_unlabelled(raw, raw.y, problems)
    if raw.codes is not None:
        check_parts(raw.where, set(raw.codes.tolist()), problems)
    if raw.source is not None and raw.target is not None:
        check_edges(raw, raw.source, raw.target, options, problems)
    if problems.texts:
        return None
    assert raw.source is not None
    assert raw.target is not None
    assert raw.y is not None
    edges = clean_edges(raw.source, raw.target, raw.num_nodes, undirected=not options.directed)
    splits = {}
    if raw.codes is not None:
        parts = PART_CODES.items()
        splits["public"] = {part: np.flatnonzero(raw.codes == code) for part, code in parts}
    return Graph(
        name=name,
        x=raw.x,
        edge_index=edges,
        y=raw.y,
        num_classes=num_classes,
        task=options.task,
        directed=options.directed,
        splits=splits,
    )


def read_npz_graph(path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read graph.npz: x (or x_data, x_indices, x_indptr, x_shape), y, edge_index, *_mask.

    Raises:
        ValueError: damaged, an array is missing, or has another shape.
    """
    arrays = read_npz(path)
    with zipfile.ZipFile(path) as archive:
        unread = {name.removesuffix(".npy") for name in archive.namelist()} - set(arrays)
    for name in ("x", "y", "edge_index"):
        if name in unread:
            remedy = f"save it as numbers: {name} = np.array({name}.tolist(), dtype=...)"
            fail(
                f"{path}: array {name}",
                "hold numbers",
                "Python objects, which are not read",
                remedy,
            )
    return _from_arrays(path, arrays, options, present=sorted(arrays))


def read_pyg(path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read graph.pt: a PyG `Data` or a dictionary of tensors, without running what it may hold.

    Raises:
        ValueError: it holds anything but tensors and PyG's own containers, or a tensor that is read is not
            dense.
    """
    import torch
    from torch_geometric.data import Data
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    try:
        with torch.serialization.safe_globals([Data, DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            found = torch.load(path, weights_only=True, map_location="cpu")
    except Exception as error:  # torch raises many kinds for damaged and hostile files
        text = " ".join(str(error).split())
        remedy = "save the graph as `torch.save(data, ...)` with tensors only; nothing was executed"
        fail(str(path), "hold tensors only", text[-160:], remedy)
    values = found.to_dict() if hasattr(found, "to_dict") else found
    if not isinstance(values, Mapping):
        fail(str(path), "hold a PyG Data or a dictionary", type(values).__name__)
    tensors = {str(k): v for k, v in values.items() if isinstance(v, torch.Tensor)}
    # what else a graph carries, such as a sparse copy of its edges, is left alone
    arrays = {k: _array_of(f"{path}: {k}", v) for k, v in tensors.items() if k in READ}
    return _from_arrays(path, arrays, options, present=sorted(tensors))


def _array_of(where: str, tensor: torch.Tensor) -> np.ndarray:
    """A dense tensor's values; bfloat16, which numpy does not know, as float32."""
    import torch

    plain = tensor.detach()
    try:
        return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
    except (TypeError, RuntimeError):
        kind = f"{tensor.layout}, {tensor.dtype}".replace("torch.", "")
        fail(where, "be a dense tensor of numbers", kind, "save it as `tensor.to_dense()`")


def _from_arrays(
    path: Path, arrays: dict[str, np.ndarray], options: Options, *, present: list[str]
) -> RawGraph:
    wanted = ["y", "edge_index", *([] if "x_data" in arrays else ["x"])]
    for name in wanted:
        if name not in arrays:
            fail(f"{path}: array {name}", "be there", ", ".join(present) or "no arrays")
    x: Any = csr_from(arrays, "x", str(path)) if "x_data" in arrays else arrays["x"]
    require(x.ndim == 2, f"{path}: x", "have two dimensions", x.shape)
    require(x.dtype.kind in "biuf", f"{path}: x", "hold numbers", str(x.dtype))
    num_nodes, y, edges = x.shape[0], arrays["y"], arrays["edge_index"]
    require(num_nodes > 0, f"{path}: x", "have a row for each node", x.shape)
    require(x.shape[1] > 0, f"{path}: features", "be one column or more", "none")
    rule = f"be {MAX_FEATURES} or fewer columns"
    require(x.shape[1] <= MAX_FEATURES, f"{path}: features", rule, x.shape[1])
    require(y.dtype.kind in "biu", f"{path}: y", "hold whole numbers", str(y.dtype))
    if y.dtype.kind == "u" and y.size:
        require(int(y.max()) <= MAX_INT, f"{path}: y", f"be <= {MAX_INT}", int(y.max()))
    multilabel = options.task == "multilabel"
    shape = f"({num_nodes}, number of labels)" if multilabel else f"({num_nodes},)"
    right = y.ndim == (2 if multilabel else 1) and len(y) == num_nodes
    require(right, f"{path}: y", f"have shape {shape}", y.shape)
    right = edges.ndim == 2 and edges.shape[0] == 2
    require(right, f"{path}: edge_index", "have shape (2, num_edges)", edges.shape)
    require(edges.dtype.kind in "iu", f"{path}: edge_index", "hold integers", str(edges.dtype))
    if multilabel:
        require(y.shape[1] > 0, f"{path}: y", "have a column for each label", y.shape)
        other = y[(y != 0) & (y != 1)]
        if len(other):
            fail(f"{path}: y", "hold 0 and 1 only", int(other[0]))
    return RawGraph(
        where=str(path),
        where_edges=f"{path}: edge_index",
        num_nodes=num_nodes,
        x=x.astype(np.float32),
        y=y.astype(np.uint8 if multilabel else np.int64),
        source=edges[0].astype(np.int64),
        target=edges[1].astype(np.int64),
        codes=_codes(path, arrays, num_nodes),
    )


def _codes(path: Path, arrays: Mapping[str, np.ndarray], num_nodes: int) -> np.ndarray | None:
    """train_mask, val_mask, test_mask -> int8 codes."""
    masks = {part: arrays[f"{part}_mask"] for part in PART_CODES if f"{part}_mask" in arrays}
    if not masks:
        return None
    codes = np.full(num_nodes, -1, dtype=np.int8)
    for part, mask in masks.items():
        where = f"{path}: {part}_mask"
        right = mask.shape == (num_nodes,) and mask.dtype == np.bool_
        require(right, where, f"be bool of shape ({num_nodes},)", f"{mask.dtype} {mask.shape}")
        taken = codes[mask] >= 0
        require(not taken.any(), where, "share no node with another mask", f"{int(taken.sum())}")
        codes[mask] = PART_CODES[part]
    return codes


def read_tables(nodes_path: Path, options: Options, problems: Problems) -> RawGraph:
    """Read nodes and edges, noting all that is wrong.

    Args:
        nodes_path: nodes.csv or nodes.parquet; edges are looked for beside it.
        options: graph.yaml.
        problems: gets everything that is wrong.
    """
    edges_path = regular(nodes_path.with_stem("edges"))
    if not edges_path.exists():
        fail(
            str(edges_path),
            "stand beside the nodes",
            "no such file",
            "an empty graph needs its header",
        )
    nodes, edges = _read(nodes_path), _read(edges_path)
    if not len(nodes):
        fail(str(nodes_path), "have a row for each node", "no rows")
    ids = _ids(nodes_path, nodes, problems)
    rows = Rows(path=nodes_path, frame=nodes, ids=ids)
    features = columns.feature_columns(nodes_path, nodes.columns, problems)
    columns.check_feature_names(nodes_path, features, options.features, problems)
    x = columns.features(rows, features, problems)
    y = labels(rows, label_columns(nodes_path, nodes.columns, options, problems), options, problems)
    codes = columns.codes(rows, problems)
    source = target = None
    if columns.check_edge_columns(edges_path, edges.columns, problems):
        place = None if ids is None else {name: position for position, name in enumerate(ids)}
        edge_rows = Rows(path=edges_path, frame=edges)
        source, target = columns.ends(edge_rows, place, len(nodes), problems)
    return RawGraph(
        where=str(nodes_path),
        where_edges=str(edges_path),
        num_nodes=len(nodes),
        x=x,
        y=y,
        source=source,
        target=target,
        codes=codes,
        ids=ids,
        columns=features,
    )


def _read(path: Path) -> pl.DataFrame:
    """All columns of a table; CSV cells as texts, so that a bad one can be named."""
    import polars as pl

    if path.suffix == ".parquet":
        from dpgnn.core.storage import read_parquet

        table = read_parquet(path, remedy="write it again")
        check_schema(path, table.schema)
        try:
            return pl.DataFrame(table)
        except pl.exceptions.PolarsError as error:
            fail(str(path), "hold numbers and texts", str(error).split("\n")[0])
    content = path.read_bytes()
    try:
        content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        remedy = "save the table as UTF-8"
        fail(f"{path}, line {line}", "be UTF-8", f"byte 0x{content[error.start]:02x}", remedy)
    rule = "be a CSV table with one header line"
    try:
        text = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig", newline="")
        reader = csv.reader(text)
        header = next(reader, [])
    except csv.Error as error:
        fail(str(path), rule, str(error))
    if not any(header):
        fail(str(path), "begin with a line of column names", "an empty file")
    check_names(path, header)
    _check_lengths(path, reader, len(header))
    try:
        return pl.read_csv(content, infer_schema=False)
    except pl.exceptions.PolarsError as error:
        fail(str(path), rule, str(error).split("\n")[0])


def _check_lengths(path: Path, reader: Any, num_columns: int) -> None:
    """Refuse a row with fewer cells than the header: they would be read as empty ones.

    What the reader of the whole table refuses itself, too many cells or damaged quotes, is left to it.
    """
    try:
        for row in reader:
            if 0 < len(row) < num_columns:
                rule, remedy = f"have {num_columns} cells", "write every comma, also of empty cells"
                fail(f"{path}, line {reader.line_num}", rule, f"{len(row)} cells", remedy)
    except csv.Error:
        return


def _ids(path: Path, nodes: pl.DataFrame, problems: Problems) -> list[str] | None:
    """The column `id` as texts; None when there is none or it is 0, 1, 2, ..."""
    if "id" not in nodes.columns:
        return None
    ids = texts_of(nodes["id"]).to_list()
    for row, value in enumerate(ids):
        if not value:
            problems.add(f"{path}: id of row {row + 1}", "not be empty", value)
            return None
    seen: set[str] = set()
    for value in ids:
        if value in seen:
            problems.add(f"{path}: id", "name each node once", f"{value} twice")
            break
        seen.add(value)
    if all(re.fullmatch(r"-?\d{1,4000}", value) for value in ids):
        numbers = [int(value) for value in ids]
        falling = [b for a, b in zip(numbers, numbers[1:]) if b < a]
        if falling:  # so that one graph has one file, one order and one hash
            problems.add(
                f"{path}: id", "ascend", f"{falling[0]} after a larger one", "sort the table by id"
            )
    return ids


READERS: dict[str, Callable[[Path, Options, Problems], RawGraph]] = {
    "nodes.csv": read_tables,
    "nodes.parquet": read_tables,
    "graph.npz": read_npz_graph,
    "graph.pt": read_pyg,
}

"""A valid graph in one line, for its owner: `dpgnn data validate` prints it."""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.wording import count
from dpgnn.data.custom import stream
from dpgnn.data.custom.check import Problems
from dpgnn.data.custom.columns import feature_columns
from dpgnn.data.custom.options import graph_file
from dpgnn.data.custom.read import NODE_TABLES, read_folder
from dpgnn.data.custom.table import read_table
from dpgnn.data.files.graph_files import read_graph

SHOWN_COLUMNS = 10


def summary_of(path: Path) -> str:
    """Numbers of nodes and edges, and the first feature columns by name, so that a wrong column is seen.

    Args:
        path: of a valid graph, as for `read.problems_of`; as sensitive as the graph.
    """
    names: list[str] = []
    if (path / "graph.json").exists():
        graph = read_graph(path, features=False)
    elif stream.is_large(path):
        return _numbers_of_tables(path)
    else:
        found, _ = read_folder(path, path.name)
        assert found is not None
        graph, table = found, graph_file(path)
        if table.name in NODE_TABLES:
            names = feature_columns(table, read_table(table).columns, Problems())
    source, target = graph.edge_index
    num_edges = len(source) if graph.directed else int((source <= target).sum())
    return _line(graph.num_nodes, num_edges, graph.num_features, names)


def _numbers_of_tables(path: Path) -> str:
    """The line of a graph that is read in pieces; edges as its table has them."""
    import pyarrow.parquet as pq

    nodes, edges = path / "nodes.parquet", path / "edges.parquet"
    names = feature_columns(nodes, pq.read_schema(nodes).names, Problems())
    rows = [int(pq.read_metadata(table).num_rows) for table in (nodes, edges)]
    return _line(rows[0], rows[1], len(names), names)


def _line(num_nodes: int, num_edges: int, num_features: int, names: list[str]) -> str:
    shown = ", ".join(names[:SHOWN_COLUMNS]) + (", ..." if len(names) > SHOWN_COLUMNS else "")
    features = count(num_features, "feature column") + (f": {shown}" if names else "")
    return f"{count(num_nodes, 'node')}, {count(num_edges, 'edge')}, {features}"

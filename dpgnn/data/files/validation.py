"""`dpgnn data validate`: everything that is wrong with a graph, at once."""

from __future__ import annotations

from pathlib import Path

from dpgnn.data.custom import stream as custom_stream
from dpgnn.data.custom.read import read_folder
from dpgnn.data.files.graph_files import read_graph


def problems_of(path: Path) -> list[str]:
    """All problems found; [] when the graph can be used. Of a graph that is prepared in pieces, the first.

    Args:
        path: a folder that `dpgnn data prepare` made (it holds graph.json), or a user's own graph in
            one of the formats of docs/data.md.
    """
    path = Path(path)
    if not path.is_dir():
        return [f"{path} must be a folder that holds a graph, got no such folder; see docs/data.md"]
    if not (path / "graph.json").exists():
        if custom_stream.is_large(path):
            return custom_stream.problems_of(path)
        return read_folder(path, path.name)[1]
    try:
        read_graph(path, full_check=True)
    except (ValueError, OSError) as error:
        return [str(error)]
    return []

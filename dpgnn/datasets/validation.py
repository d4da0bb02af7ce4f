"""`dpgnn data validate`: everything that is wrong with a graph, at once."""

from __future__ import annotations

from pathlib import Path

from dpgnn.datasets.graph_files import read_graph


def problems_of(path: Path) -> list[str]:
    """All problems found; [] when the graph can be used.

    Args:
        path: a folder with graph.json.
    """
    try:
        read_graph(path, full_check=True)
    except (ValueError, OSError) as error:
        return [str(error)]
    return []

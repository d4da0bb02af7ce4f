"""t-SNE of the training nodes' hidden units in a run's released perceptron; the only figure that reads a
graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.paths import Paths
from dpgnn.report.figures.processes import map_in_processes
from dpgnn.report.paper.panels import Line, Panel, PanelPoint, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpgnn.records.cells import Cell
    from dpgnn.records.frame import Run
    from dpgnn.report.paper.figures import PaperFigure

MAX_NODES = 600


def embedding_panels(figure: PaperFigure, cells: Sequence[Cell], paths: Paths) -> list[Panel]:
    """One panel per series and budget: its first run's hidden units on training nodes in two dimensions, a
    line a class.

    A run is left out if its weights, graph and split are not on disk and no archive has its positions. Both
    axes are arbitrary.
    """
    shown = shown_cells(figure, cells)
    placed = node_positions([cell.runs[0] for _, cell in shown], paths)
    return [
        _panel(label, cell, *found)
        for (label, cell), found in zip(shown, placed)
        if found is not None
    ]


def node_positions(runs: Sequence[Run], paths: Paths) -> list[tuple[np.ndarray, np.ndarray] | None]:
    """Positions by t-SNE, float32 of shape (nodes, 2), and labels of each run's first training nodes.

    From released weights, which takes seconds a run, or from the archive; None for a run with neither.
    """
    units = {at: found for at, run in enumerate(runs) if (found := hidden_units(run, paths))}
    flat = map_in_processes(_in_two_dimensions, [rows for rows, _ in units.values()])
    made = {at: (points, units[at][1]) for at, points in zip(units, flat)}
    return [made.get(at, run.kept.positions) for at, run in enumerate(runs)]


def shown_cells(figure: PaperFigure, cells: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """Label and cell of each panel; the first cell of a series at each budget."""
    from dpgnn.report.paper.figures import matches

    found = []
    for place in figure.places:
        for series in figure.series:
            chosen = [
                cell
                for cell in cells
                if ".".join(cell.place) == place
                and cell.epsilon in ("inf", *figure.epsilons)
                and matches(series.entries, cell.entry, cell.epsilon)
            ]
            first = {cell.epsilon: cell for cell in reversed(chosen)}
            found += [(series.label, first[budget]) for budget in sorted(first, key=float)]
    return found


def hidden_units(run: Run, paths: Paths) -> tuple[np.ndarray, np.ndarray] | None:
    """Hidden units and labels of the first training nodes, from released weights; None if they are not here.

    Only of a perceptron with one hidden layer and ReLU, whose hidden units depend on a node's own features
    alone.
    """
    from safetensors.torch import load_file

    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.rows import normalize_rows
    from dpgnn.data.splits import read_split

    key, options = run.record.key, run.record.entry["options"]
    weights = None if run.folder is None else run.folder / "model.safetensors"
    split_path = paths.split(key["dataset"], key["setting"], key["repeat"])
    graph_path = paths.graph(key["dataset"])
    if weights is None or not (weights.exists() and split_path.exists() and graph_path.exists()):
        return None
    state = {name: tensor.numpy().astype(np.float64) for name, tensor in load_file(weights).items()}
    graph = read_graph(graph_path)
    first = next(name for name, value in state.items() if len(value) == graph.num_features)
    bias = state.get(first.replace("weight", "bias"), 0.0)
    idx = read_split(split_path, num_nodes=graph.num_nodes).train_idx[:MAX_NODES]
    x = normalize_rows(graph.x, options.get("row_norm", "none"))[idx]
    return np.maximum(x @ state[first] + bias, 0.0), graph.y[idx]


def _in_two_dimensions(units: np.ndarray) -> np.ndarray:
    """t-SNE of rows: [nodes, hidden] -> [nodes, 2]."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    units = (units - units.mean(axis=0)) / max(float(units.std()), 1e-12)
    perplexity = min(30.0, (len(units) - 1) / 3)
    with threadpool_limits(1):  # the number of threads decides the order of sums
        return TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(units)


def _panel(label: str, cell: Cell, points: np.ndarray, classes: np.ndarray) -> Panel:
    budget = f", ε = {cell.epsilon}" if cell.is_private else ""
    lines = tuple(
        Line(
            label=f"class {one}",
            points=tuple(PanelPoint(x=float(a), mean=float(b)) for a, b in points[classes == one]),
            cells=(key_of(cell),),
        )
        for one in np.unique(classes)
    )
    return Panel(
        title=f"{label}{budget}", x_title="", y_title="", lines=lines,
        place=".".join(cell.place), where=cell.dataset,
    )  # fmt: skip

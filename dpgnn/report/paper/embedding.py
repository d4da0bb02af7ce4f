"""t-SNE of the class scores of a run's released weights: the one figure that reads a graph."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core import config as strict
from dpgnn.core.paths import Paths
from dpgnn.report.paper.panels import Line, Panel, PanelPoint, key_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dpgnn.records.cells import Cell
    from dpgnn.records.frame import Run
    from dpgnn.report.paper.figures import PaperFigure

MAX_NODES = 600


def embedding_panels(figure: PaperFigure, cells: Sequence[Cell], paths: Paths) -> list[Panel]:
    """One panel per series: its first run's scores on the test nodes, in two dimensions, one line a class.

    Nothing is drawn of a run whose weights, graph or split are not on disk, and whose scores no archive
    kept. Both axes are arbitrary.
    """
    panels = []
    for label, cell in shown_cells(figure, cells):
        found = class_scores(cell.runs[0], paths)
        if found is not None:
            budget = f", ε = {cell.epsilon}" if cell.is_private else ""
            panel = _panel(f"{label}{budget}", *found)
            lines = tuple(replace(line, cells=(key_of(cell),)) for line in panel.lines)
            place = ".".join(cell.place)
            panels.append(replace(panel, lines=lines, place=place, where=cell.dataset))
    return panels


def shown_cells(figure: PaperFigure, cells: Sequence[Cell]) -> list[tuple[str, Cell]]:
    """Label and cell of each panel; the first of a series' cells."""
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
            found += [(series.label, cell) for cell in chosen[:1]]
    return found


def class_scores(run: Run, paths: Paths) -> tuple[np.ndarray, np.ndarray] | None:
    """Class scores and labels of the first test nodes, made again from released weights, else as kept."""
    from safetensors.torch import load_file

    from dpgnn import methods
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.splits import edges_in_setting, read_split
    from dpgnn.methods.base import Entry, Fitted

    key, stated = run.record.key, run.record.entry
    weights = None if run.folder is None else run.folder / "model.safetensors"
    split_path = paths.split(key["dataset"], key["setting"], key["repeat"])
    graph_path = paths.graph(key["dataset"])
    if weights is None or not (weights.exists() and split_path.exists() and graph_path.exists()):
        return run.kept.scores
    method = methods.get(stated["method"])
    graph = read_graph(graph_path)
    split = read_split(split_path, num_nodes=graph.num_nodes)
    graph = replace(graph, edge_index=edges_in_setting(graph, split))
    entry = Entry(
        name=stated["name"], method=stated["method"], mode=stated["mode"],
        privacy_unit=stated.get("privacy_unit"), relation=stated.get("relation"),
        options=strict.read(method.config, stated["options"]),
    )  # fmt: skip
    idx = split.test_idx[:MAX_NODES]
    logits = method.predict(entry, Fitted(state=load_file(weights)), graph, idx).logits
    return logits.numpy().astype(np.float64), graph.y[idx]


def _panel(title: str, scores: np.ndarray, y: np.ndarray) -> Panel:
    from sklearn.manifold import TSNE

    scores = (scores - scores.mean(axis=0)) / max(float(scores.std()), 1e-12)
    perplexity = min(30.0, (len(scores) - 1) / 3)
    points = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(scores)
    lines = tuple(
        Line(
            label=f"class {label}",
            points=tuple(PanelPoint(x=float(a), mean=float(b)) for a, b in points[y == label]),
        )
        for label in np.unique(y)
    )
    return Panel(title=title, x_title="", y_title="", lines=lines)

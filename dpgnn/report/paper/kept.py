"""The histories and t-SNE positions in an archive: those of runs that a figure of the study's paper draws."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from dpgnn.core.paths import Paths
from dpgnn.data.datasets import listed
from dpgnn.records.archive import HISTORY_COLUMNS, SCORE_COLUMNS, Kept, read_kept, write_kept
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run, load_runs
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.embedding import node_positions, shown_cells
from dpgnn.report.paper.figures import PaperFigure, load_figures, planned_of


def keep_for_figures(info: StudyInfo, paths: Paths, folder: Path) -> int:
    """Add to the archive what figures draw of the study's runs below `paths`; other runs' data stays.

    Args:
        info: the study.
        paths: of results.
        folder: the archive's.

    Returns:
        runs with data in the archive now.
    """
    stated = load_figures(info.paper) if info.paper else None
    kinds = {figure.kind for figure in stated.figures.values()} if stated else set()
    if stated is None or not kinds & {"checkpoints", "embedding"}:
        return 0
    runs = load_runs(paths.study(info.name) / "runs", info.planned)
    made, old = _of(stated.figures.values(), runs, info, paths), read_kept(folder)
    here = {run.name for run in runs}
    # a run unpacked from the archive has a record and no history: the archive's history stays
    drawn = {name for name, found in made.items() if found.history or found.positions is not None}
    kept = {
        name: made[name] if name in drawn else old.get(name)
        for name in info.planned
        if name not in here or name in made
    }
    present = {name: found for name, found in kept.items() if found is not None}
    write_kept(folder, present)
    return len(present)


def _of(
    figures: Iterable[PaperFigure], runs: list[Run], info: StudyInfo, paths: Paths
) -> Mapping[str, Kept]:
    cells = [cell for cell in build_cells(runs, info) if listed(cell.dataset) is not None]
    histories, placed = dict[str, Run](), dict[str, Run]()
    for figure in figures:
        if figure.kind == "checkpoints":
            histories |= {run.name: run for run in _scored_runs(figure, cells, info)}
        if figure.kind == "embedding":
            placed |= {cell.runs[0].name: cell.runs[0] for _, cell in shown_cells(figure, cells)}
    positions = dict(zip(placed, node_positions(list(placed.values()), paths)))
    return {
        name: Kept(
            history=_thin(histories[name]) if name in histories else {},
            positions=positions.get(name),
        )
        for name in {*histories, *placed}
    }


def _scored_runs(figure: PaperFigure, cells: list[Cell], info: StudyInfo) -> list[Run]:
    wanted = {key for keys in planned_of(figure, info).values() for key in keys}
    return [
        run
        for cell in cells
        if (*cell.place, cell.entry, cell.epsilon) in wanted and cell.is_private
        for run in cell.runs
    ]


def _thin(run: Run) -> dict[str, list[object]]:
    """A history's steps with a score, in the columns that figures read."""
    columns = {name: run.history[name] for name in HISTORY_COLUMNS if name in run.history}
    scores = [columns[name] for name in SCORE_COLUMNS if name in columns]
    kept = [
        row
        for row in range(len(columns.get("step", [])))
        if any(s[row] is not None for s in scores)
    ]
    return {name: [values[row] for row in kept] for name, values in columns.items()}

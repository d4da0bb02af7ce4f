"""Jobs of several processes are all done, and a failure is not lost."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import figure_data
from dpgnn.report.figures.drawing import write_picture
from dpgnn.report.figures.figures import draw_accuracy
from dpgnn.report.figures.processes import background, map_in_processes
from dpgnn.report.statistics.ranking import rankings


def _note(path: Path) -> None:
    path.write_text(str(os.getpid()))


@pytest.mark.parametrize(("processes", "most"), [(1, 1), (2, 2), (9, 5)])
def test_every_job_is_done_once_by_the_processes_there_are(
    tmp_path: Path, processes: int, most: int
) -> None:
    with background(processes) as start:
        start([partial(_note, tmp_path / str(number)) for number in range(5)])
    ids = {path.read_text() for path in tmp_path.iterdir()}
    assert len(list(tmp_path.iterdir())) == 5
    assert len(ids) == most
    assert (str(os.getpid()) in ids) == (processes == 1)


def test_the_failure_of_a_process_is_raised(tmp_path: Path) -> None:
    jobs = [partial(_note, tmp_path / "a"), partial(_note, tmp_path / "no folder" / "b")]
    with pytest.raises(RuntimeError, match="ended with status 1"), background(2) as start:
        start(jobs)
    assert (tmp_path / "a").exists()


def test_an_error_of_the_body_does_not_wait_for_the_processes(tmp_path: Path) -> None:
    def wait() -> None:
        while not (tmp_path / "never").exists():
            time.sleep(0.01)

    def fail() -> None:
        with background(2) as start:
            start([wait])
            raise ValueError("damaged")

    with pytest.raises(ValueError, match="damaged"):
        fail()


def test_a_killed_process_ends_those_that_wait_for_its_turn(tmp_path: Path) -> None:
    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def draw() -> None:
        with background(2) as start:
            start([die, die])
            start([partial(_note, tmp_path / name) for name in "ab"])

    with pytest.raises(RuntimeError, match=f"ended with status -{int(signal.SIGKILL)}"):
        draw()


def test_nothing_to_draw_is_no_error() -> None:
    with background() as start:
        start([])


@pytest.mark.parametrize("processes", [1, 2, 9])
def test_values_are_mapped_in_order(processes: int) -> None:
    values = list(range(-3, 4))
    assert map_in_processes(abs, values, processes) == [3, 2, 1, 0, 1, 2, 3]
    assert map_in_processes(abs, [], processes) == []


def test_a_figure_has_the_same_bytes_whoever_draws_it(
    tmp_path: Path, runs: list[Run], info: StudyInfo
) -> None:
    cells = build_cells(runs, info)
    for folder, processes in (("one", 1), ("two", 2)):
        made = [
            draw_accuracy(figure, info)
            for figure in figure_data.accuracy_figures(cells, rankings(cells))
        ]
        assert len(made) > 1
        jobs = [partial(write_picture, tmp_path / folder, one) for one in made]
        with background(processes) as start:
            start(jobs)
    names = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert len(names) == 3 * len(made)
    for name in names:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

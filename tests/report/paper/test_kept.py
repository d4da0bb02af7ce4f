"""What an archive keeps beside records: figures drawn from it are those drawn from the runs' own files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from made_runs import write_runs

from dpgnn.core.paths import Paths
from dpgnn.core.storage import DamagedFileError, write_parquet
from dpgnn.records.archive import (
    HISTORIES,
    POSITIONS,
    RUNS,
    Kept,
    pack,
    read_kept,
    unpack,
    write_kept,
)
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run, load_runs
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper import kept
from dpgnn.report.paper.figures import FigureSeries, PaperFigure, PaperFigures
from dpgnn.report.paper.panels import panels_of

SERIES = tuple(FigureSeries(label=name, entries=(name,)) for name in ("dp_gcn", "mlp"))
CURVES = PaperFigure(
    title="t", kind="checkpoints", places=("alpha.random", "beta.public"), series=SERIES
)
CLOUD = PaperFigure(
    title="t", kind="embedding", places=("alpha.random",), epsilons=("8",), series=SERIES
)


@pytest.fixture
def folder(runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Results of the toy study: histories with a score every other row, alpha a public data set."""
    stated = PaperFigures(paper="toy", figures={"F1": CURVES, "F2": CLOUD})
    monkeypatch.setattr(kept, "load_figures", lambda paper: stated)
    monkeypatch.setattr(kept, "listed", lambda name: None if name == "beta" else object())
    write_runs(tmp_path / "studies" / "toy", runs)
    for run in runs:
        end = run.record.metrics["test"]["accuracy"] if run.record.metrics else None
        table = pa.table(
            {
                "step": [1, 2, 3],
                "epsilon": pa.array([1.0, 2.0, 4.0], pa.float64()),
                "train_loss": [0.3, 0.2, 0.1],
                "test_accuracy": pa.array([0.2, None, end], pa.float64()),
            }
        )
        write_parquet(tmp_path / "studies" / "toy" / "runs" / run.name / "history.parquet", table)
    return tmp_path


def test_figures_are_the_same_from_the_archive(
    folder: Path, runs: list[Run], info: StudyInfo
) -> None:
    info = replace(info, paper="toy")
    out, files = folder / "kept", folder / "studies" / "toy" / "runs"
    pack(out / RUNS, files, info.planned)
    assert kept.keep_for_figures(info, Paths(results=folder), out) > 0
    from_files, packed = load_runs(files, info.planned), load_runs(out / "runs", info.planned)
    drawn = [panels_of(CURVES, build_cells(found, info)) for found in (from_files, packed)]
    assert drawn[0][0] == drawn[1][0]
    private = next(line for line in drawn[1][0].lines if not line.level)
    assert [point.x for point in private.points] == [
        1.0,
        4.0,
    ]  # the step without a score is not kept
    # of beta, which is no public data set, nothing is kept: its panel has levels only, so it is not drawn
    assert [panel.title for panel in drawn[0]] == ["alpha", "beta"]
    assert [panel.title for panel in drawn[1]] == ["alpha"]
    assert {name.split(".")[0] for name in read_kept(out)} == {"alpha"}
    assert not (out / POSITIONS).exists()  # no weights on disk


def test_what_was_kept_before_stays_until_its_run_is_made_again(
    folder: Path, runs: list[Run], info: StudyInfo
) -> None:
    info = replace(info, paper="toy")
    out, paths = folder / "kept", Paths(results=folder)
    kept.keep_for_figures(info, paths, out)
    before = read_kept(out)
    first, second = sorted(before)[:2]
    here = (np.array([[0.1, -2.0], [3.5, 0.3]], np.float32), np.array([0, 2]))
    gone = {"gone.x/y/eps=1/0": Kept(positions=here)}
    write_kept(out, before | {first: Kept(positions=here)} | gone)
    (folder / "studies" / "toy" / "runs" / first / "record.json").unlink()
    changed = folder / "studies" / "toy" / "runs" / second / "history.parquet"
    write_parquet(changed, pa.table({"step": [9], "epsilon": [3.0], "test_accuracy": [0.5]}))
    kept.keep_for_figures(info, paths, out)
    after = read_kept(out)
    assert set(after) == set(before)
    positions = after[first].positions
    assert positions is not None
    assert np.array_equal(positions[0], here[0])
    assert np.array_equal(positions[1], here[1])
    assert after[second].history == {"step": [9], "epsilon": [3.0], "test_accuracy": [0.5]}


def test_an_unpacked_run_has_no_history_and_its_archive_keeps_it(
    folder: Path, runs: list[Run], info: StudyInfo
) -> None:
    info = replace(info, paper="toy")
    out, files = folder / "kept", folder / "studies" / "toy" / "runs"
    pack(out / RUNS, files, info.planned)
    number = kept.keep_for_figures(info, Paths(results=folder), out)
    before = read_kept(out)
    assert number == len(before) > 0
    again = Paths(results=folder / "again")
    unpack(out / RUNS, again.study("toy") / "runs")
    assert kept.keep_for_figures(info, again, out) == number
    assert {name: found.history for name, found in read_kept(out).items()} == {
        name: found.history for name, found in before.items()
    }


def test_a_study_without_such_figures_keeps_nothing(
    folder: Path, info: StudyInfo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "load_figures", lambda paper: None)
    assert (
        kept.keep_for_figures(replace(info, paper="toy"), Paths(results=folder), folder / "k") == 0
    )
    assert not (folder / "k").exists()


def test_a_damaged_file_is_an_error(tmp_path: Path) -> None:
    write_kept(tmp_path, {"a.b/c/eps=1/0": Kept(history={"step": [1], "epsilon": [1.0]})})
    path = tmp_path / HISTORIES
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(DamagedFileError, match=HISTORIES):
        read_kept(tmp_path)
    write_parquet(path, pa.table({"run": ["a"]}))
    with pytest.raises(DamagedFileError, match="step"):
        read_kept(tmp_path)

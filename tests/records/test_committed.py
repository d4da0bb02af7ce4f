from __future__ import annotations

import json
import os
from pathlib import Path

from dpgnn.records.archive import read_archive, write_archive
from dpgnn.records.committed import ROOT, committed, graph_facts


def test_cells_hold_what_their_archive_holds() -> None:
    archive = read_archive(ROOT / "baselines" / "runs.parquet")
    cells = committed(study="baselines")
    assert {cell.study for cell in cells} == {"baselines"}
    runs = 0
    for cell in cells:
        folder = f"{cell.dataset}.{cell.setting}/{cell.entry}/eps={cell.epsilon}/"
        texts = [texts for name, texts in archive.items() if name.startswith(folder)]
        scores = [json.loads(record)["metrics"]["test"] for record, _ in texts]
        metric = "micro_f1" if cell.facts["task"] == "multilabel" else "accuracy"
        assert list(cell.scores) == [score[metric] for score in scores]
        assert list(cell.seconds) == [json.loads(used)["seconds"] for _, used in texts if used]
        assert (cell.claims, cell.answers) == ((), "none")
        runs += len(texts)
    assert 0 < runs <= len(archive)
    assert not any(cell.dataset.startswith("synthetic") for cell in cells)


def test_where_there_are_no_archives_there_are_no_cells(tmp_path: Path) -> None:
    assert committed(tmp_path) == []
    assert graph_facts("cora", tmp_path) == {}


def test_counts_of_a_public_graph() -> None:
    facts = graph_facts("cora")
    assert (facts["num_nodes"], facts["num_edges"], facts["num_classes"]) == (2708, 10556, 7)


def test_an_archive_that_changed_is_read_again(tmp_path: Path) -> None:
    texts = read_archive(ROOT / "baselines" / "runs.parquet")
    few = dict(list(texts.items())[:20])
    path = tmp_path / "baselines" / "runs.parquet"
    write_archive(path, few)
    cells = committed(tmp_path)
    assert committed(tmp_path)[0] is cells[0]
    write_archive(path, dict(list(few.items())[:1]))
    os.utime(path, ns=(1, 1))
    assert len(committed(tmp_path)) < len(cells)


def test_points_of_sweeps_are_left_out_when_they_are_not_asked_for(tmp_path: Path) -> None:
    texts = read_archive(ROOT / "baselines" / "runs.parquet")
    (run, kept), *_ = [(run, kept) for run, kept in texts.items() if run.endswith("/0")]
    place, entry, epsilon, repeat = run.split("/")
    write_archive(
        tmp_path / "toy" / "runs.parquet",
        {run: kept, f"{place}/{entry}~lr=1/{epsilon}/{repeat}": kept},
    )
    assert [cell.entry for cell in committed(tmp_path)] == [entry, f"{entry}~lr=1"]
    assert [cell.entry for cell in committed(tmp_path, swept=False)] == [entry]

from __future__ import annotations

import json
from pathlib import Path

from dpgnn.records.archive import read_archive
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

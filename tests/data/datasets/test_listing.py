"""What `dpgnn data list` shows of each data set."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import tells

from dpgnn.data.datasets.listing import HEADER, list_datasets
from dpgnn.data.raw.sources import read_sources


def test_every_data_set_has_a_line_and_own_graphs_stand_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPGNN_MIRROR", raising=False)
    own = tmp_path / "own"
    for name in ("mine", "cora"):
        (own / name).mkdir(parents=True)
    (own / "file").touch()
    lines = list_datasets(tmp_path / "raw", own)
    names = [line.split("  ")[0] for line in lines]
    assert names[0] == HEADER[0]
    assert names[1:-3] == sorted(read_sources())
    assert names[-3] == "mine"
    assert names[-2].startswith("arcs: both directions")
    tells(lines[-1], own / "cora", "cannot", "rename")
    states = dict(zip(names, lines))
    assert "made here" in states["chains-s"]
    assert "would be fetched" in states["cora"]
    assert "place by hand" in states["ppi"]
    assert "by name" in states["facebook-*"]
    assert states["mine"].endswith("your own")
    assert [" 10556 " in states["cora"], " 61859140* " in states["ogbn-products"]] == [True, True]

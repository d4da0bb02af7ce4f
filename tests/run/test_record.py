from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from contract import entry_of, inputs_of
from safetensors import safe_open

from dpgnn.core.storage import read_json, read_parquet
from dpgnn.methods.base import Fitted, Support
from dpgnn.records.schema import read_record
from dpgnn.run.finished import copy_run
from dpgnn.run.record import OWN_ROWS, RUN_FILES, first_record, write_run
from dpgnn.run.specification import specify

ENTRY = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
ROWS = ({"step": 1, "loss": math.nan, "epsilon": 0.5}, {"step": 2, "epsilon": None, "loss": 2})
FITTED = Fitted(state={"w": torch.arange(6.0).reshape(2, 3).t()}, history=ROWS)


@pytest.mark.parametrize(
    ("randomness", "curve"),
    [
        ("study", {"epsilon": [0.5, None], "loss": [None, 2.0], "step": [1, 2]}),
        ("release", {"epsilon": [0.5, None], "step": [1, 2]}),
    ],
)
def test_a_run_leaves_its_curve_its_state_its_resources_and_its_record(
    randomness: str, curve: dict[str, list[Any]], tmp_path: Path
) -> None:
    record = first_record(specify(inputs_of(ENTRY, randomness=randomness)))
    write_run(tmp_path, record, FITTED, {"seconds": 1.5})
    assert {path.name for path in tmp_path.iterdir()} == set(RUN_FILES)
    assert read_parquet(tmp_path / "history.parquet").to_pydict() == curve
    assert read_json(tmp_path / "resources.json") == {"seconds": 1.5}
    assert read_record(tmp_path / "record.json") == record
    assert (record.inputs == {}) == (randomness == "release")
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert file.metadata() == {"released": "dp_mlp"}
        assert file.get_tensor("w").tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_rows_that_are_kept_are_written_in_a_release_alone_and_go_when_there_are_none(
    tmp_path: Path,
) -> None:
    fitted = dataclasses.replace(FITTED, kept={"logits": torch.ones(3, 2)})
    records = {
        kind: first_record(specify(inputs_of(ENTRY, randomness=kind)))
        for kind in ("study", "release")
    }
    write_run(tmp_path, records["study"], fitted, {})
    assert not (tmp_path / OWN_ROWS).exists()
    write_run(tmp_path, records["release"], fitted, {})
    assert (tmp_path / OWN_ROWS).stat().st_mode & 0o077 == 0
    copy_run(tmp_path, tmp_path / "copy")
    assert (tmp_path / "copy" / OWN_ROWS).stat().st_mode & 0o077 == 0
    write_run(tmp_path, records["release"], FITTED, {})
    copy_run(tmp_path, tmp_path / "copy")
    assert not list(tmp_path.rglob(OWN_ROWS))


def test_a_run_without_a_fit_leaves_the_same_files_without_content(tmp_path: Path) -> None:
    write_run(tmp_path, first_record(specify(inputs_of(ENTRY))), None, {})
    assert {path.name for path in tmp_path.iterdir()} == set(RUN_FILES)
    assert read_parquet(tmp_path / "history.parquet").to_pydict() == {"step": []}
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        assert not file.metadata()
        assert not list(file.keys())

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from pathlib import Path

from contract import entry_of, inputs_of

from dpgnn.methods.base import Support
from dpgnn.run.execute import run_one


def test_a_kept_run_is_used_for_the_same_inputs_only(tmp_path: Path) -> None:
    support = Support(privacy_unit="node", relation="add-remove")
    inputs = inputs_of(entry_of("dp_mlp", "sound", support))
    other = dataclasses.replace(inputs, hashes={"graph_sha256": "another"})
    made = []
    for given in (inputs, inputs, other):
        run_one(given, tmp_path / "out", work=None, finished=tmp_path / "kept")
        made.append((tmp_path / "out" / "model.safetensors").read_bytes())
        resources = json.loads((tmp_path / "out" / "resources.json").read_text())
        made.append(resources["started"] + str(resources["seconds"]))
    assert made[:2] == made[2:4]
    assert made[5] != made[3]
    (tmp_path / "kept" / "fingerprint.json").unlink()
    run_one(other, tmp_path / "out", work=None, finished=tmp_path / "kept")


def test_a_copy_is_a_second_name_of_the_same_files_and_a_damaged_one_is_not_used(
    tmp_path: Path,
) -> None:
    inputs = inputs_of(
        entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    )
    out, kept = tmp_path / "out", tmp_path / "kept"

    def made() -> str:
        run_one(inputs, out, work=None, finished=kept)
        return (out / "resources.json").read_text()

    first = made()
    model = out / "model.safetensors"
    assert model.samefile(kept / "model.safetensors")
    shutil.rmtree(out)
    os.utime(kept / "model.safetensors", (0, 0))
    assert made() == first
    assert model.stat().st_mtime > 1  # a result is never older than what it was made from
    content = model.read_bytes()
    for name in ("model.safetensors", "record.json"):
        path = kept / name
        path.write_bytes(path.read_bytes()[:-2] + b"x\n")
        assert made() != first
        assert model.read_bytes() == content
        first = made()

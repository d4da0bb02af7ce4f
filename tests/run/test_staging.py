from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from contract import entry_of, inputs_of

from dpgnn.core.storage import DamagedFileError
from dpgnn.methods.base import Support
from dpgnn.run.execute import run_one
from dpgnn.run.specification import RunInputs, specify
from dpgnn.run.staging import place_of
from dpgnn.run.totals import Notion, TotalBudget, declare

NODE = Notion(privacy_unit="node", relation="add-remove")


def inputs_for(**changes: object) -> RunInputs:
    support = Support(privacy_unit="node", relation="add-remove")
    inputs = inputs_of(entry_of("dp_mlp", "sound", support), randomness="release")
    return dataclasses.replace(inputs, **changes)


def release(folder: Path, inputs: RunInputs) -> Path:
    run_one(inputs, folder / "out", work=None, releases=folder / "releases")
    return place_of(specify(inputs), folder / "releases").folder


def test_a_private_run_is_released_once(tmp_path: Path) -> None:
    inputs, model = inputs_for(), tmp_path / "out" / "model.safetensors"
    kept = release(tmp_path, inputs)
    first = model.read_bytes()
    # a second training would be a second release
    assert release(tmp_path, inputs) == kept
    assert model.read_bytes() == first
    assert not model.samefile(kept / "model.safetensors")
    other = inputs_for(hashes={"graph_sha256": "another"})
    with pytest.raises(ValueError, match=r"be released once, got .* with epsilon 4 in .*two"):
        release(tmp_path, other)
    assert model.read_bytes() == first
    # also where it cannot say any more of what configuration it is
    (kept / "fingerprint.json").unlink()
    with pytest.raises(ValueError, match="move the folder to another place in there"):
        release(tmp_path, inputs)
    kept.rename(tmp_path / "releases" / "earlier")
    release(tmp_path, other)
    assert model.read_bytes() != first
    ledger = place_of(specify(inputs), tmp_path / "releases").ledger
    assert [one.name for one in ledger.releases()] == [str(kept.relative_to(ledger.root))] * 2


def test_a_release_whose_folder_of_releases_is_elsewhere_is_not_made_again(tmp_path: Path) -> None:
    release(tmp_path, inputs_for())
    model = tmp_path / "out" / "model.safetensors"
    first = model.read_bytes()
    (tmp_path / "releases").rename(tmp_path / "moved")
    with pytest.raises(ValueError, match=r"must be copies of releases in .*releases, got"):
        release(tmp_path, inputs_for())
    assert model.read_bytes() == first
    shutil.rmtree(tmp_path / "releases")
    (tmp_path / "moved").rename(tmp_path / "releases")
    release(tmp_path, inputs_for())
    assert model.read_bytes() == first


def test_a_damaged_release_is_named_and_no_second_one_is_made(tmp_path: Path) -> None:
    model = release(tmp_path, inputs_for()) / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedFileError, match=r"eps=4/0/model\.safetensors must be as it was mad"):
        release(tmp_path, inputs_for())


def test_a_failed_run_is_no_release(tmp_path: Path) -> None:
    record = run_one(
        inputs_for(delta=0.5), tmp_path / "out", work=None, releases=tmp_path / "releases"
    )
    assert record.status == "failed"
    assert (tmp_path / "out" / "record.json").exists()
    assert not list((tmp_path / "releases").rglob("*.json"))


def test_only_the_owner_can_read_releases_and_their_ledger(tmp_path: Path) -> None:
    (tmp_path / "releases").mkdir(mode=0o755)
    release(tmp_path, inputs_for())
    for path in (tmp_path / "releases", *(tmp_path / "releases").rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_whole_stage_is_released_as_it_is_and_a_damaged_one_made_again(tmp_path: Path) -> None:
    inputs = inputs_for()
    place = place_of(specify(inputs), tmp_path / "releases")
    release(tmp_path, inputs)
    first = (place.folder / "model.safetensors").read_bytes()
    place.folder.rename(place.staged)  # as a death before the rename leaves it
    release(tmp_path, inputs)
    assert (place.folder / "model.safetensors").read_bytes() == first
    place.folder.rename(place.staged)
    shutil.rmtree(tmp_path / "out")
    (place.staged / "model.safetensors").write_bytes(first[:-1])
    release(tmp_path, inputs)
    assert (place.folder / "model.safetensors").read_bytes() != first
    assert not place.staged.exists()
    assert len(place.ledger.releases()) == 1


def test_a_budget_that_others_used_up_meanwhile_keeps_the_stage_back(tmp_path: Path) -> None:
    inputs = inputs_for()
    place = place_of(specify(inputs), tmp_path / "releases")
    release(tmp_path, inputs)
    place.folder.rename(place.staged)
    shutil.rmtree(tmp_path / "out")
    declare(place.ledger, TotalBudget(notion=NODE, epsilon=4.5, delta=1e-3))
    release(tmp_path, inputs_for(key={**inputs.key, "repeat": 1}))
    with pytest.raises(
        ValueError, match=r"keep epsilon 4.5 at delta 0\.001, got .*, after 1 earlier"
    ):
        release(tmp_path, inputs)
    assert not place.folder.exists()


def test_a_budget_refuses_before_anything_is_staged(tmp_path: Path) -> None:
    ledger = place_of(specify(inputs_for()), tmp_path / "releases").ledger
    declare(ledger, TotalBudget(notion=NODE, epsilon=3.9, delta=1e-3))
    with pytest.raises(
        ValueError, match=r"all releases of graph two \(node, add-remove\) must kee"
    ):
        release(tmp_path, inputs_for())
    assert not [path for path in (ledger.root / ".staged").iterdir() if path.is_dir()]
    assert not (tmp_path / "out").exists()
    shutil.rmtree(ledger.root / "budgets")
    release(tmp_path, inputs_for())

"""Whatever changes in a release, its copy or a ledger is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import yaml
from contract import entry_of, options_of
from helpers import tells

from dpgnn import methods
from dpgnn.__main__ import main
from dpgnn.core.paths import Paths
from dpgnn.core.storage import write_json
from dpgnn.methods.base import SamplerSpec, Support
from dpgnn.study.study import Study, load_study
from dpgnn.study.verify_releases import verify_releases

NODES = Support(privacy_unit="node-record", relation="add-remove")
STATED = {
    "name": "small", "root_seed": 7, "epsilons": ["8"], "repeats": 1, "randomness": "release",
    "datasets": {"chains-s": {"settings": ["public"]}},
    "settings": {"public": {"kind": "public"}},
    "entries": {
        "dp_mlp": {
            "method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": "replace-one",
            "options": {"width": 8, "training": {"num_steps": 6, "expected_batch_size": "full"}},
        },
        "gap": {
            "method": "gap", "mode": "sound", "privacy_unit": "node-record", "relation": "add-remove",
            "options": options_of(methods.get("gap"), NODES),
        },
    },
}  # fmt: skip
GAP = entry_of("gap", "sound", NODES)
SAMPLE = cast(SamplerSpec, methods.get("gap").sampler(GAP))
PARAMS = json.dumps(SAMPLE.params, separators=(",", ":"))
RUNS = [f"chains-s.public/{entry}/eps=8/0" for entry in ("dp_mlp", "gap")]


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the releases of two runs, one of which keeps rows, and a declared budget."""
    folder = tmp_path_factory.mktemp("released")
    graph, split = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("study.yaml").write_text(yaml.safe_dump(STATED))
        for line in (
            f"data prepare chains-s --out {graph}",
            f"split --graph {graph} --dataset chains-s --setting public --repeat 0 --root-seed 7 "
            f"--kind public --out {split}",
            f"prepare --graph {graph} --split {split} --dataset chains-s --setting public --repeat 0 "
            f"--root-seed 7 --method gap --sampler {SAMPLE.name} --params-json {PARAMS} "
            f"--out {Paths().prepared('chains-s', 'public', 0, SAMPLE.label)}",
            *(f"train --study study.yaml --run {run}" for run in RUNS),
            "ledger chains-s --budget 99 --delta 1e-3 --unit node-record --relation add-remove",
        ):
            assert main(line.split()) == 0, line
    return folder


@pytest.fixture
def folder(released: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(released, tmp_path / "copy"))


def study_of(folder: Path) -> Study:
    return load_study(folder / "study.yaml")


def bad(folder: Path) -> dict[str, str]:
    """Path -> state of what is not as it was made."""
    found = verify_releases(study_of(folder), root=folder)
    return {str(item.path.relative_to(folder)): item.state for item in found if item.is_bad}


def test_what_is_whole_is_said_to_be_whole_file_by_file(folder: Path) -> None:
    found = list(verify_releases(study_of(folder), root=folder))
    assert {item.state for item in found} == {"ok"}
    named = [item.path for item in found]
    assert len(named) == len(set(named))
    there = {path for path in (folder / "releases").rglob("*") if path.is_file()}
    locks = {path for path in there if path.suffix == ".lock" or path.name == ".lock"}
    lists = {path for path in there if path.name == "checksums.sha256"}
    assert there - set(named) == locks | lists


def test_a_flipped_byte_of_any_file_is_found(folder: Path) -> None:
    study = study_of(folder)
    copies = [folder / "results/studies/small/runs" / run / "own_rows.safetensors" for run in RUNS]
    files = [path for path in (folder / "releases").rglob("*") if path.is_file()]
    seen = 0
    for path in [*files, *filter(Path.exists, copies)]:
        whole = path.read_bytes()
        for place in sorted({0, len(whole) // 3, len(whole) // 2, len(whole) - 1}) if whole else []:
            path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
            found = verify_releases(study, root=folder)
            named = {item.path for item in found if item.is_bad}
            # of a list that changed, the file whose line it is may be named in its place
            assert path in named or (named and path.name == "checksums.sha256"), (path, place)
            seen += 1
        path.write_bytes(whole)
    assert seen >= 60
    assert bad(folder) == {}


def test_a_missing_file_of_any_kind_is_found(folder: Path) -> None:
    for path in [path for path in (folder / "releases").rglob("*") if path.is_file()]:
        if path.suffix == ".lock" or path.name == ".lock" or path.parent.name == "budgets":
            continue
        whole = path.read_bytes()
        path.unlink()
        assert bad(folder)[str(path.relative_to(folder))] == "missing"
        path.write_bytes(whole)
    release = folder / "releases/small" / RUNS[0]
    release.rename(folder / "elsewhere")
    assert set(bad(folder).values()) == {"missing"}
    assert len(bad(folder)) == 7  # four files of the run, their list, the entry, the fingerprint


def other_list(folder: Path) -> None:
    path = folder / "results/studies/small/runs" / RUNS[0] / "checksums.sha256"
    path.write_text(path.read_text().replace("a", "b"))


def other_entry(folder: Path) -> None:
    one, other = (folder / "releases/small" / run / "ledger.json" for run in RUNS)
    one.write_bytes(other.read_bytes())


def other_fingerprint(folder: Path) -> None:
    write_json(folder / "releases/small" / RUNS[0] / "fingerprint.json", "a" * 64)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (other_list, f"results/studies/small/runs/{RUNS[0]}/checksums.sha256"),
        (other_entry, f"releases/small/{RUNS[0]}/ledger.json"),
        (other_fingerprint, f"releases/small/{RUNS[0]}/fingerprint.json"),
    ],
)
def test_what_is_whole_but_of_another_release_is_found(
    change: Callable[[Path], None], path: str, folder: Path
) -> None:
    change(folder)
    assert bad(folder) == {path: "changed"}


def test_a_fingerprint_of_other_code_or_another_graph_is_left_alone(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def state() -> str:
        return next(
            item.state
            for item in verify_releases(study_of(folder), root=folder)
            if item.path.name == "fingerprint.json"
        )

    assert state() == "ok"
    monkeypatch.setattr("dpgnn.study.wanted.method_code", lambda method: "0" * 64)
    assert state() == "no checksum"
    monkeypatch.undo()
    shutil.rmtree(folder / "results/graphs")
    assert state() == "no checksum"


def test_a_study_that_releases_nothing_has_nothing_to_check(folder: Path, tmp_path: Path) -> None:
    (folder / "study.yaml").write_text(yaml.safe_dump(STATED | {"randomness": "study"}))
    assert list(verify_releases(study_of(folder), root=folder)) == []
    (folder / "study.yaml").write_text(yaml.safe_dump(STATED))
    assert list(verify_releases(study_of(folder), root=tmp_path / "empty")) == []


def test_the_command_ends_with_1_and_says_that_no_release_is_made_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    model = Path("releases/small") / RUNS[0] / "model.safetensors"
    model.write_bytes(model.read_bytes()[:-1] + b"x")
    assert main(["verify", "study.yaml"]) == 1
    told = capsys.readouterr()
    assert f"changed      {model}" in told.out
    tells(told.err, "release cannot be made again", "copy")

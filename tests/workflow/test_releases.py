"""A study of releases ends with its report, and a death at any rename leaves one release, counted once."""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from contract import options_of
from helpers import TOY, bring_compiled, copy_repository, run_tool, tells, write_study

from dpgnn import methods
from dpgnn.cli.ledger import open_ledger
from dpgnn.methods.base import Support
from dpgnn.records.schema import read_record

DEATHS = Path(__file__).with_name("deaths")
GAP_NODES = Support(privacy_unit="node-record", relation="add-remove")
GAP = {
    "method": "gap", "mode": "sound", "privacy_unit": "node-record", "relation": "add-remove",
    "options": options_of(methods.get("gap"), GAP_NODES),
}  # fmt: skip
STUDY: dict[str, Any] = TOY | {"randomness": "release", "epsilons": ["8"]}
ENTRIES: dict[str, Any] = TOY["entries"] | {"gap": GAP}
# of a run's renames: files of the stage, the release, copies in results/; gap has its own rows as well
RENAMES = {"dp_mlp": (7, 1, 5), "gap": (8, 1, 6)}


@pytest.fixture(scope="module")
def repository_copy(toy: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = copy_repository(tmp_path_factory.mktemp("releases"))
    bring_compiled(toy, folder)
    write_study(folder, STUDY | {"entries": ENTRIES})
    run_tool(folder, "snakemake", "--cores", "2", "splits", "prepared")
    return folder


@pytest.fixture
def folder(repository_copy: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(repository_copy, tmp_path / "copy", symlinks=True))


def files_in(folder: Path) -> dict[str, bytes]:
    """Name -> bytes of a folder's files, without those that a death left unfinished."""
    return {path.name: path.read_bytes() for path in folder.glob("[!.]*")}


def start(folder: Path, command: list[str]) -> int:
    paths = os.pathsep.join((str(DEATHS), str(folder)))
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "dpgnn", *command]
    ended = subprocess.run(
        words, cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    print(ended.stderr[-2000:])  # shown where the test fails
    return ended.returncode


def commands(entry: str) -> dict[str, list[str]]:
    key = f"chains-s.public/{entry}/eps=8/0"
    return {
        "train": ["train", "--study", "config.yaml", "--run", key],
        "run": ["run", "quick", "--target", "runs", "--", "--cores", "1"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "run"])
@pytest.mark.parametrize("entry", RENAMES)
def test_a_death_at_any_rename_leaves_one_release_of_the_staged_bytes(
    entry: str, command: str, folder: Path
) -> None:
    write_study(folder, STUDY | {"baseline": "", "entries": {entry: ENTRIES[entry]}})
    released = folder / "releases" / "quick" / f"chains-s.public/{entry}/eps=8/0"
    out = folder / "results/studies/quick/runs" / f"chains-s.public/{entry}/eps=8/0"
    words = commands(entry)[command]
    staged_files, _, copies = RENAMES[entry]
    last = sum(RENAMES[entry])
    for number in range(1, last + 2):
        for made in (folder / "releases", folder / "results" / "studies", folder / "work"):
            shutil.rmtree(made, ignore_errors=True)
        (folder / "death.json").write_text(json.dumps(number))
        code = start(folder, words)
        died = (folder / "death.done").exists()
        assert died == (number <= last) == (code != 0), number
        (folder / ("death.done" if died else "death.json")).unlink()
        stages = [path for path in (folder / "releases" / ".staged").glob("*") if path.is_dir()]
        before = files_in(released) or (files_in(stages[0]) if stages else {})
        # nothing is in results/ before all of it is in releases/
        assert released.exists() == (number > staged_files + 1), number
        assert len(files_in(out)) <= max(0, number - last + copies - 1), number
        for _ in range(2):
            assert start(folder, words) == 0, number
        after = files_in(released)
        if number > staged_files:  # the stage was whole
            assert after == before, number
        kept = {name: after[name] for name in after.keys() - {"ledger.json", "fingerprint.json"}}
        assert files_in(out) == kept
        assert len(kept) == copies
        assert [path.name for path in (folder / "releases" / ".staged").iterdir()] == []
        (only,) = open_ledger("chains-s", folder / "results", folder / "releases").releases()
        assert only.name == f"quick/chains-s.public/{entry}/eps=8/0"
        assert only.claims[0].epsilon == read_record(out / "record.json").claims[0]["epsilon"]
        for path in (folder / "releases", *(folder / "releases").rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_study_of_releases_ends_with_a_report_of_plans_and_claims(folder: Path) -> None:
    ended = run_tool(folder, "dpgnn", "run", "quick", "--", "--cores", "2")
    study = folder / "results" / "studies" / "quick"
    page = html.unescape((study / "report.html").read_text())
    for entry in ("dp_mlp", "gap"):
        run = study / "runs" / f"chains-s.public/{entry}/eps=8/0"
        claim = read_record(run / "record.json").claims[0]
        assert claim["words"].partition("Two graphs")[0].strip() in page
    tells(page, "releases", "plans and claims")
    assert json.loads((study / "metrics.json").read_text()) == {}
    assert (study / "figures").is_dir()
    plans = (study / "tables" / "plans.csv").read_text()
    assert plans.count("PoissonRoots") == 3
    assert plans.count("2 x GaussianRelease") == 1
    assert "chains-s: 2 releases in releases" in ended.stderr
    said = run_tool(folder, "dpgnn", "report", "--study", "config.yaml").stderr
    assert "report.html: 3 of 3 runs" in said
    # results whose releases are elsewhere are not removed
    (folder / "releases").rename(folder / "moved")
    again = run_tool(folder, "dpgnn", "run", "quick", "--", "--cores", "2", check=False)
    assert again.returncode == 1
    tells(again.stderr, "must be copies of releases in releases", "put back the folder")
    assert (run / "model.safetensors").exists()
    (folder / "moved").rename(folder / "releases")
    # the same graph is found by another study
    write_study(folder, STUDY | {"name": "second", "entries": ENTRIES})
    key = "chains-s.public/dp_mlp/eps=8/0"
    run_tool(folder, "dpgnn", "train", "--study", "config.yaml", "--run", key)
    found = json.loads(run_tool(folder, "dpgnn", "ledger", "chains-s", "--json").stdout)
    assert [one["name"] for one in found["releases"]][-1] == f"second/{key}"
    assert len(found["releases"]) == 3
    (total,) = [one for one in found["totals"] if one["notion"]["privacy_unit"] == "node-record"]
    assert total["composed"] is True
    assert 8.0 < total["epsilon"] < 23.0
    # a total budget refuses the next run before it trains
    numbers = ["--budget", str(total["epsilon"] + 0.1), "--delta", str(total["delta"])]
    notion = ["--unit", "node-record", "--relation", "add-remove"]
    said = run_tool(folder, "dpgnn", "ledger", "chains-s", *numbers, *notion).stdout
    assert f"epsilon {total['epsilon']:.6g} of {total['epsilon'] + 0.1:g} at delta" in said
    write_study(folder, STUDY | {"name": "third", "entries": ENTRIES})
    refused = run_tool(
        folder, "dpgnn", "train", "--study", "config.yaml", "--run", key, check=False
    )
    assert refused.returncode == 1
    assert f"keep epsilon {total['epsilon'] + 0.1:g} at delta" in refused.stderr
    assert not (folder / "releases" / "third").exists()
    assert not (folder / "results" / "studies" / "third").exists()

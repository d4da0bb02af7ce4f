"""`attacks: true`: the rule runs every attack on every run, and the report shows what they found."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from helpers import TOY, copy_repository, planned, run_tool, write_study

from dpgnn.attacks.request import ATTACKS
from dpgnn.core.storage import read_json

STUDY: dict[str, Any] = copy.deepcopy(TOY) | {"epsilons": ["8"], "attacks": True}
STUDY["entries"]["lapgraph"] = {
    "method": "lapgraph", "mode": "sound", "privacy_unit": "edge", "relation": "add-remove",
    "options": {"gcn": {"hidden": [4], "training": {"num_epochs": 3}}},
}  # fmt: skip
del STUDY["entries"]["mlp"]
STUDY["baseline"] = "dp_mlp"


@pytest.mark.slow
def test_a_study_with_attacks_runs_to_its_report(tmp_path: Path) -> None:
    folder = copy_repository(tmp_path / "repository")
    write_study(folder, STUDY)
    run_tool(folder, "python", "-m", "dpgnn", "run", "config.yaml", "--", "--cores", "2")

    made = folder / "results" / "studies" / "quick" / "attacks"
    runs = [f"chains-s.public.{entry}.eps=8.0" for entry in ("dp_mlp", "lapgraph")]
    assert {path.name for path in made.iterdir()} == {
        f"{run}.{attack}.json" for run in runs for attack in ATTACKS
    }
    # the model of the run is attacked, and each claim is tested by the attack that it covers
    gmia, leak = (
        read_json(made / name)["results"][0]
        for name in (f"{runs[0]}.gmia.json", f"{runs[1]}.leak.json")
    )
    assert gmia["variants"]["same-graph"]["claim_covers_membership"] is True
    assert (leak["attack"], leak["claim_covers_answers"]) == ("released-state", True)

    page = (folder / "results" / "studies" / "quick" / "report.html").read_text()
    for shown in ("the release itself", "G-MIA, same graph", "cannot say ("):
        assert shown in page
    assert (folder / "results/studies/quick/figures/attacks.svg").exists()
    assert planned(folder) == {}
    # without the key, what stands is left alone and nothing is made again
    write_study(folder, STUDY | {"attacks": False})
    assert "attack" not in planned(folder)

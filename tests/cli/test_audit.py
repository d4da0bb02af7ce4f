"""`dpgnn audit` writes what the report reads; the workflow asks for it only where a study says so."""

from pathlib import Path

import pytest
import yaml
from helpers import TOY

from dpgnn.__main__ import main
from dpgnn.results.claims_table import audits_table, read_audits
from dpgnn.workflow import Workflow


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the toy study, its graph and its split."""
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(yaml.safe_dump(TOY))
    assert main(["data", "prepare", "chains-s", "--out", "results/graphs/chains-s"]) == 0
    split = ["--graph", "results/graphs/chains-s", "--dataset", "chains-s", "--setting", "public"]
    split += ["--repeat", "0", "--root-seed", "1", "--kind", "public"]
    assert main(["split", *split, "--out", "results/splits/chains-s.public.0.parquet"]) == 0
    return tmp_path


def arguments(*more: str) -> list[str]:
    where = ["--study", "config.yaml", "--dataset", "chains-s", "--setting", "public"]
    return ["audit", *where, "--out", "audits/one.json", *more]


def test_an_audit_is_written_and_joins_the_report(prepared: Path, capsys) -> None:
    few = ["--runs", "8", "--steps", "2"]
    assert main(arguments("--entry", "dp_mlp", "--epsilon", "8", *few)) == 0
    (found,) = read_audits(prepared / "audits")
    assert found["key"] == {
        "dataset": "chains-s", "setting": "public", "entry": "dp_mlp", "epsilon": "8",
    }  # fmt: skip
    assert found["passed"]
    assert found["claim_test"]["rejected"] is False
    assert found["epsilon_lower_bound"] <= found["claimed_epsilon"] <= 8
    assert {check["name"] for check in found["checks"]} >= {"clipping", "noise deviation"}
    (row,) = audits_table([found]).rows
    assert row["num_trials"] == 16
    assert "passed" in capsys.readouterr().err
    assert not list((prepared / "work").rglob("*.safetensors"))


def test_an_entry_without_privacy_is_refused(prepared: Path, capsys) -> None:
    assert main(arguments("--entry", "mlp", "--epsilon", "inf")) == 1
    assert "entry must be private" in capsys.readouterr().err


def test_the_workflow_audits_private_entries_where_the_study_says_so(prepared: Path) -> None:
    assert Workflow(study_file="config.yaml").audits == []
    Path("config.yaml").write_text(yaml.safe_dump(TOY | {"audits": True}))
    workflow = Workflow(study_file="config.yaml")
    folder = "results/studies/quick/audits"
    assert workflow.audits == [
        f"{folder}/chains-s.public.dp_mlp.eps={epsilon}.json" for epsilon in ("1", "8")
    ]
    assert len(workflow.audit_code("dp_mlp")) == 64

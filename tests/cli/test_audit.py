"""`dpgnn audit` writes what the report reads; the workflow asks for it only where a study says so."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from helpers import TOY, tells

from dpgnn.__main__ import main
from dpgnn.audits.findings import Finding
from dpgnn.audits.power import Detectable
from dpgnn.cli.audit import _detects
from dpgnn.core.storage import read_json
from dpgnn.methods.shared import exact_cells
from dpgnn.report.tables.claims_table import audits_table, read_audits
from dpgnn.study.workflow import Workflow


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
    assert found["outcome"] == "passed"
    assert "passed" not in found
    assert found["detectable"]["power"] == 0.8
    assert found["claim_test_of_steps"]["num_trials"] == 32
    assert found["claim_test"]["rejected"] is False
    assert found["epsilon_lower_bound"] <= found["claimed_epsilon"] <= 8
    assert {check["name"] for check in found["checks"]} >= {"clipping", "noise deviation"}
    (row,) = audits_table([found]).rows
    assert row.num_trials == 16
    assert re.search(r"^train +passed ", capsys.readouterr().out, re.MULTILINE)
    assert not list((prepared / "work").rglob("*.safetensors"))


def test_the_table_says_what_is_not_known() -> None:
    verdict: Any = object()
    made = {"mechanism": "edges", "attack": "two worlds", "verdict": verdict}
    seen = [
        Detectable(noise_factor=2.0, epsilon=3.456),
        Detectable(noise_factor=None, epsilon=None),
    ]
    assert [_detects(Finding(**made, detectable=each)) for each in (*seen, None)] == [
        "3.46", "-", "not known",
    ]  # fmt: skip
    assert _detects(Finding(mechanism="edges", attack="none", verdict=None)) == "-"


def test_a_repeat_has_seeds_of_its_own_and_stands_beside_the_first(prepared: Path) -> None:
    splits = prepared / "results" / "splits"
    for suffix in ("parquet", "json"):
        for path in splits.glob(f"chains-s.public.0.{suffix}"):
            path.with_name(path.name.replace(".0.", ".1.")).write_bytes(path.read_bytes())
    few = ["--entry", "dp_mlp", "--epsilon", "8", "--runs", "8", "--steps", "2"]
    for repeat in ("0", "1"):
        out = ["--out", f"audits/{repeat}.json", "--repeat", repeat]
        assert main([*arguments(*few)[:-2], *few[-2:], *out]) == 0
    first, second = read_audits(prepared / "audits")
    assert second["key"] == first["key"] | {"repeat": 1}
    assert second["claimed_epsilon"] == first["claimed_epsilon"]
    assert second["checks"] != first["checks"]
    assert [row.repeat for row in audits_table([first, second]).rows] == [0, 1]
    assert [row.repeat for row in audits_table([first]).rows] == [None]
    assert main(arguments(*few, "--repeat", "-1")) == 1


def test_an_audit_of_what_was_not_prepared_names_the_command_that_does(
    prepared: Path, capsys
) -> None:
    for missing in ("splits/chains-s.public.0.parquet", "graphs/chains-s/graph.json"):
        (prepared / "results" / missing).unlink()
        assert main(arguments("--entry", "dp_mlp", "--epsilon", "8")) == 1
        message = capsys.readouterr().err
        tells(message, f"results/{missing}", "chains-s.public/dp_mlp/eps=8/0",
              "`dpgnn run quick -- --until split`")  # fmt: skip
    assert not (prepared / "audits").exists()


@pytest.mark.parametrize(
    ("method", "draw"),
    [("edgerand", "answers"), ("lapgraph", "largest_cells"), ("pertgraph", "answers")],
)
def test_an_audit_of_a_release_study_runs_the_draws_of_a_release(
    prepared: Path, monkeypatch: pytest.MonkeyPatch, method: str, draw: str
) -> None:
    entry = {"method": method, "mode": "sound", "privacy_unit": "edge", "relation": "add-remove"}
    study = TOY | {"randomness": "release", "entries": TOY["entries"] | {method: entry}}
    Path("config.yaml").write_text(yaml.safe_dump(study))
    drawn, real = [], getattr(exact_cells, draw)
    monkeypatch.setattr(exact_cells, draw, lambda *a, **k: drawn.append(1) or real(*a, **k))
    assert main(arguments("--entry", method, "--epsilon", "8", "--runs", "8")) == 0
    assert len(drawn) > 2 * 8
    (found,) = read_audits(prepared / "audits")
    assert found["outcome"] == "passed"
    assert main(arguments("--entry", method, "--epsilon", "8", "--one-run", "8")) == 4
    (found,) = read_audits(prepared / "audits")
    assert found["outcome"] == "not-run"
    tells(found["reason"], "clipped sums", "--one-run")


def test_attacks_on_the_same_runs_stand_beside_the_audit(prepared: Path, capsys) -> None:
    run = ["--run", "chains-s.public/dp_mlp/eps=8/0", "--attacks", "linkteller"]
    sizes = [
        "--sets",
        "unbalanced,held-out",
        "--nodes",
        "20",
        "--pairs",
        "20",
        "--fresh-pairs",
        "0",
    ]
    assert main(["attack", "--study", "config.yaml", *run, *sizes]) == 0
    capsys.readouterr()
    few = ["--entry", "dp_mlp", "--runs", "8", "--steps", "2"]
    assert main(arguments(*few, "--epsilon", "8")) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^audit of \S+: claimed epsilon \S+, proved \d", shown, re.MULTILINE)
    assert re.search(
        r"^LinkTeller, unbalanced +0 +0\.5 +- +- +not about the claim$", shown, re.MULTILINE
    )
    written = read_json(prepared / "audits" / "one.json")
    attacked = [item for item in written if item.get("kind") == "attack"]
    assert {item["attack"] for item in attacked} >= {"LinkTeller, unbalanced"}
    assert all(item["key"]["epsilon"] == "8" for item in attacked)
    # the report reads attacks where they stand, so it does not count them twice
    assert len(read_audits(prepared / "audits")) == len(written) - len(attacked) == 1
    # in the workflow either may be made first
    assert main(arguments(*few, "--epsilon", "8", "--no-attacks")) == 0
    assert read_json(prepared / "audits" / "one.json") == written[:1]
    # of another budget nothing was attacked
    assert main(arguments(*few, "--epsilon", "1")) == 0
    assert "attacks on its runs" not in capsys.readouterr().out


def test_accused_and_not_audited_entries_have_exit_codes_of_their_own(
    prepared: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpgnn.audits import entry_audit
    from dpgnn.audits.findings import Finding
    from dpgnn.audits.mechanics import Check

    wrong = Check(name="clipping", passed=False, p_value=0.0, found="norm 2 of 1")
    accused = Finding(mechanism="train", attack="two worlds", verdict=None, checks=(wrong,))
    missing = Finding(mechanism="other", attack="none", verdict=None, reason="no such loop")
    chosen = arguments("--entry", "dp_mlp", "--epsilon", "8")
    for findings, code in (((accused, missing), 3), ((missing,), 4)):
        monkeypatch.setattr(entry_audit, "audit", lambda request, f=findings: f)
        assert main(chosen) == code
        assert main([*chosen, "--exit-zero"]) == 0
    assert re.search(r"^other +not-run .*not run: no such loop$", capsys.readouterr().out, re.M)
    (found,) = read_audits(prepared / "audits")
    assert (found["outcome"], found["reason"]) == ("not-run", "no such loop")
    assert found["epsilon_lower_bound"] is None
    (row,) = audits_table([found]).rows
    assert row.outcome == "not-run"


def test_one_run_with_many_canaries(prepared: Path) -> None:
    few = ["--steps", "2", "--one-run", "8", "--level", "0.05"]
    assert main(arguments("--entry", "dp_mlp", "--epsilon", "8", *few)) == 0
    (found,) = read_audits(prepared / "audits")
    assert found["attack"] == "train: one run, 8 canaries"
    assert found["confidence"] == 0.95


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

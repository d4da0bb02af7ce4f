"""`dpgnn run`: which runs are chosen, and what they would cost."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from helpers import TOY, tells, write_study
from studies import BASE, known

from dpgnn.__main__ import main
from dpgnn.cli.report import describe
from dpgnn.cli.run import check_name, closing, runs_of
from dpgnn.records.info import write_info
from dpgnn.study.study import load_study


def test_a_cell_is_one_run_all_repeats_or_a_pattern(repository: Path) -> None:
    study = known(repository / "config.yaml")
    assert [key.repeat for key in runs_of(study, "digits.random/gap/eps=8")] == [0, 1, 2]
    assert [key.repeat for key in runs_of(study, "digits.random/gap/eps=8/1")] == [1]
    found = runs_of(study, "*/dp_mlp/eps=8")
    assert {key.dataset for key in found} == {"digits", "chains-s", "chains-50"}
    assert len(found) == 9
    with pytest.raises(ValueError, match="--cell must be planned by study quick"):
        runs_of(study, "digits.random/gap/eps=3")
    with pytest.raises(ValueError, match=r"did you mean digits\.random/dp_mlp/eps=8"):
        runs_of(study, "digits.random/dp_mpl/eps=8")


def test_an_estimate_counts_the_chosen_runs(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    assert main(["run", "quick", "--estimate", "--cell", "*/dp_mlp/eps=8"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "study quick, tier S: 9 runs"
    assert not any("besides" in line for line in rest)
    assert main(["run", "quick", "--estimate"]) == 0
    assert "72 runs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("drw.yaml", "study file must exist, got 'drw.yaml'; did you mean drw?"),
        (
            "nothere.yaml",
            "study file must exist, got 'nothere.yaml'; studies by name: quick, attacks,",
        ),
        ("confg.yaml", "study file must exist, got 'confg.yaml'; did you mean config.yaml?"),
        ("headtohed", "did you mean headtohead?"),
    ],
)
def test_a_study_that_is_not_there_is_named_with_its_neighbour(
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    says: str,
) -> None:
    monkeypatch.chdir(repository)
    assert main(["run", name, "--estimate"]) == 1
    assert says in capsys.readouterr().err


def test_a_data_set_belongs_to_a_table(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(repository)
    assert main(["run", "drw", "--dataset", "cora", "--estimate"]) == 1
    tells(capsys.readouterr().err, "--dataset must", "--table")


def test_the_help_names_every_study(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    words = capsys.readouterr().out.replace(",", " ").split()
    assert {path.stem for path in (repository / "workflow" / "studies").glob("*.yaml")} < {*words}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "foo"], "must be one of graphs, splits, prepared, runs, checks, or a file"),
        (["-n"], "dpgnn run: error: unrecognized arguments: -n; Snakemake's flags follow --"),
    ],
)
def test_a_wrong_flag_is_answered_in_a_line(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["run", "quick", *words])
    shown = capsys.readouterr().err
    assert says in shown
    assert shown.count("\n") == 1


@pytest.mark.parametrize("study", ["quick", "headtohead", "mine.yaml"])
def test_outside_a_checkout_the_error_says_where_to_go(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(json.dumps(BASE))
    assert main(["run", study]) == 1
    tells(capsys.readouterr().err, "go to a clone", "dpgnn.fit")
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.yaml"]


def test_a_gpu_that_is_not_there_is_refused_before_snakemake_starts(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    started: list[object] = []
    monkeypatch.chdir(repository)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("dpgnn.study.driver.run_snakemake", lambda *_, **__: started.append(0) or 1)
    assert main(["run", "quick", "--device", "cuda"]) == 1
    assert not started
    tells(capsys.readouterr().err, "--device must", "'cuda'", "--device cpu")
    # a cluster's nodes have their own, and a dry run makes nothing
    for words in (["--workflow-profile", "profiles/slurm"], ["-n"]):
        main(["run", "quick", "--device", "cuda", "--", *words])
    assert len(started) == 2


def test_a_study_without_tiers_has_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, TOY)
    for command in ("run", "share"):
        assert main([command, "config.yaml", "--tier", "M"]) == 1
        tells(capsys.readouterr().err, "--tier must", "be S", "quick", "'M'")
    for words in ([], ["--tier", "S"]):
        assert main(["run", "config.yaml", "--estimate", *words]) == 0


def test_a_study_does_not_replace_the_results_of_another_files_study(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, TOY)
    study, mine = load_study(Path("config.yaml")), Path("config.yaml")
    info = describe(study, mine)
    write_info(Path("results/studies/quick/tables/study.json"), info)
    check_name(study, mine)
    check_name(study, tmp_path / mine)
    other = Path(shutil.copy(mine, "other.yaml"))
    with pytest.raises(
        ValueError, match=r"name of other\.yaml must be another than that of config\.yaml"
    ):
        check_name(study, other)
    for text in ("name: [", "a list"):  # no study's file any more
        mine.write_text(text)
        check_name(study, other)
    mine.unlink()  # the file was renamed
    check_name(study, other)
    # a page's damaged description is made again by the run
    Path("results/studies/quick/tables/study.json").write_text("{")
    check_name(study, other)


def test_of_a_study_without_statements_on_accuracy_the_closing_says_no_score(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(tmp_path, TOY | {"accuracy": False})
    study = load_study(Path("config.yaml"))
    monkeypatch.setattr("dpgnn.records.frame.load_runs", lambda *_: pytest.fail("scores were read"))
    assert closing(study, Path("config.yaml")) == ["", "report: results/studies/quick/report.html"]

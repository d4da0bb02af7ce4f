from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dpgnn.__main__ import STAGES, _in_words, build_parser, main


@pytest.mark.parametrize("stage", STAGES)
def test_every_stage_has_help(stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args([stage, "--help"])
    assert stop.value.code == 0
    assert f"usage: dpgnn {stage}" in capsys.readouterr().out


def test_python_m_dpgnn_is_the_same_command(repository: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dpgnn", "--help"],
        capture_output=True, text=True, check=True, cwd=repository,
    )  # fmt: skip
    for stage in STAGES:
        assert re.search(rf"^    {stage} ", result.stdout, re.MULTILINE)


def test_a_wrong_input_is_one_line_and_exit_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "no-such-study", "--status"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("dpgnn run: error: study must be a YAML file or one of quick")
    assert error.count("\n") == 1


def test_a_place_that_cannot_be_written_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("")
    assert main(["data", "prepare", "digits", "--out", str(tmp_path / "taken" / "graph")]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"dpgnn data: error: folder {tmp_path / 'taken'} must be writable")


def test_an_error_of_the_system_names_the_file_without_its_number() -> None:
    error = FileNotFoundError(2, "No such file or directory", "/there")
    assert _in_words(error) == "/there: No such file or directory"
    assert _in_words(ValueError("as it is")) == "as it is"


@pytest.mark.parametrize("stage", ["train", "report"])
def test_a_study_is_named_or_is_a_file(
    stage: str,
    repository: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(repository)
    more = ["--run", "a"] if stage == "train" else []
    read = build_parser().parse_args([stage, "--study", "quick", *more])
    assert read.study == Path("config.yaml")
    read = build_parser().parse_args([stage, "--study", "none.yaml", *more])
    assert read.study == Path("none.yaml")
    with pytest.raises(SystemExit) as stop:
        build_parser().parse_args([stage, "--study", "qick", *more])
    assert stop.value.code == 2
    assert "did you mean quick?" in capsys.readouterr().err


def test_a_flag_that_cannot_be_read_is_one_line_and_exit_two(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["advise", "--nodes", "9", "--edges", "9", "--classes", "2", "--epsilon", "abc"])
    assert stop.value.code == 2
    assert capsys.readouterr().err == (
        "dpgnn advise: error: argument --epsilon: invalid float value: 'abc'; "
        "`dpgnn advise --help` lists what there is\n"
    )


def test_an_unknown_run_lists_what_the_study_has(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = str(repository / "config.yaml")
    wrong = {
        "digits.random/mlp/eps=2/0": "epsilon of mlp must be inf without privacy, got '2'",
        "digits.random/dp_mlp/eps=2.0/0": "epsilon must write each number in its shortest form",
        "digits.rnd/mlp/eps=inf/0": "unknown setting of digits 'rnd'; known: random",
        "nope.random/mlp/eps=inf/0": "unknown data set 'nope'; known: ",
        "digits.random/nope/eps=1/0": "unknown entry 'nope'; known: ",
        "digits": "must have the form DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT",
    }
    for run, message in wrong.items():
        assert main(["train", "--study", study, "--run", run]) == 1
        assert message in capsys.readouterr().err


def test_words_after_two_dashes_go_to_snakemake(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = {}

    def snakemake(path: Path, **rest: object) -> int:
        seen.update(rest)
        return 0

    monkeypatch.setattr("dpgnn.study.driver.run_snakemake", snakemake)
    assert (
        main(
            [
                "run",
                "dpar",
                "--tier",
                "S",
                "--target",
                "runs",
                "--",
                "--cores",
                "1",
                "--until",
                "a",
                "b",
            ]
        )
        == 0
    )
    assert seen["extra"] == ["--cores", "1", "--until", "a", "b"]
    assert (seen["tier"], seen["targets"]) == ("S", ["runs"])
    assert main(["run", "dpar"]) == 0
    assert seen["extra"] == []

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from studies import BASE, changed, workflow_of

from dpgnn.core.config import ConfigError
from dpgnn.data.datasets import check_known
from dpgnn.study.chunks import Chunk, rule_name
from dpgnn.study.workflow import REPORT_FOLDERS, Workflow


def test_tuned_entries_are_part_of_what_the_report_shows(tmp_path: Path) -> None:
    points = changed(entries__wide={"extends": "dp", "sweep": {"options.width": [4, 16]}})
    plain = workflow_of(tmp_path, points).presentation_json
    assert workflow_of(tmp_path, {**points, "tuned": ["dp"]}).presentation_json != plain
    assert workflow_of(tmp_path, {**points, "accuracy": False}).presentation_json != plain


def flags_of(chunk: Chunk) -> list[str]:
    return [flag.strip() for flag in chunk.run_flags.split("--run ") if flag]


@pytest.mark.parametrize("size", [2, 5, 9, 100])
def test_a_process_makes_runs_of_several_entries_and_each_run_once(
    tmp_path: Path, size: int
) -> None:
    found = workflow_of(tmp_path, changed(runs_per_job=size))
    flags = [flag for chunk in found.chunks for flag in flags_of(chunk)]
    assert sorted(flags) == sorted(key.folder for key in found.study.keys)
    for chunk in found.chunks:
        folders = [flag.split("/") for flag in flags_of(chunk)]
        assert len(folders) <= size
        pairs = {(folder[0], folder[1]) for folder in folders}
        for stated in (json.loads(chunk.run_json), json.loads(chunk.code)):
            assert {(place, name) for place in stated for name in stated[place]} == pairs
        for place, codes in json.loads(chunk.code).items():
            dataset = place.split(".")[0]
            assert codes == {name: found.method_code(name, dataset) for name in codes}
            assert dataset in chunk.datasets
        assert chunk.graphs == [path for name in chunk.datasets for path in found.graph_files(name)]


def test_what_is_left_over_of_small_graphs_shares_processes_and_large_graphs_stay_alone(
    tmp_path: Path,
) -> None:
    names = ("chains-s", "chains-m", "ogbn-products", "cora")
    datasets = {name: {"settings": ["public"]} for name in names}
    found = workflow_of(tmp_path, changed(datasets=datasets, tiers={}, runs_per_job=100))
    places = [{flag.split(".")[0] for flag in flags_of(chunk)} for chunk in found.chunks]
    assert sorted(map(sorted, places)) == [["chains-m", "chains-s", "cora"], ["ogbn-products"]]
    few = workflow_of(tmp_path, changed(datasets=datasets, tiers={}, runs_per_job=1))
    each = len(few.study.keys) // len(names)
    alone = workflow_of(tmp_path, changed(datasets=datasets, tiers={}, runs_per_job=each))
    assert all(len(chunk.datasets) == 1 for chunk in alone.chunks)
    assert len(alone.chunks) == len(names)


def test_a_workflow_that_is_asked_for_some_runs_has_these_and_no_others(tmp_path: Path) -> None:
    found = workflow_of(tmp_path, changed(runs_per_job=3))
    wanted = sorted(key.folder for key in found.study.keys)[1::3]
    (tmp_path / "asked.txt").write_text("\n".join(wanted))
    asked = Workflow(study_file=found.study_file, asked=str(tmp_path / "asked.txt"))
    assert sorted(flag for chunk in asked.chunks for flag in flags_of(chunk)) == wanted
    assert len(asked.records) == len(wanted)
    assert not {c.log for c in asked.chunks} & {c.log for c in found.chunks}
    (tmp_path / "asked.txt").write_text("digits.random/mlp/eps=inf/99\n")
    with pytest.raises(ConfigError, match=r"tier S: plans no run 'digits\.random/mlp/eps=inf/99'"):
        Workflow(study_file=found.study_file, asked=str(tmp_path / "asked.txt"))


def test_names_that_differ_in_a_sign_have_rules_of_their_own() -> None:
    names = [rule_name(f"toy/cora.{name}/chunk0") for name in ("a-b", "a_b", "a+b")]
    assert len(set(names)) == 3
    assert all(name.isidentifier() for name in names)


def test_a_study_file_has_one_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert workflow_of(tmp_path, BASE).study_file == "study.yaml"
    assert workflow_of(Path(), BASE).study_file == "study.yaml"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert workflow_of(tmp_path, BASE).study_file == str(tmp_path / "study.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "digit",
            r"^datasets\.digit: data set must be one of .*digits.*, got 'digit'; or a folder",
        ),
        ("synthetic-arixv", r"^datasets\.synthetic-arixv: unknown stand-in .*synthetic-arxiv"),
        (
            "facebook-Nowhere",
            r"^datasets\.facebook-Nowhere: unknown school .*'Nowhere'; .*Rutgers89",
        ),
    ],
)
def test_a_data_set_that_does_not_exist_stops_the_workflow(
    tmp_path: Path, name: str, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        workflow_of(tmp_path, changed(tiers={}, datasets={name: {"settings": ["public"]}}))


def test_every_preset_and_school_exists() -> None:
    for name in (
        "synthetic-arxiv",
        "synthetic-ppi",
        "facebook-Rutgers89",
        "facebook-Yale4",
        "cora",
    ):
        check_known(name)


def test_the_reports_code_hash_covers_templates_and_the_papers_numbers() -> None:
    kinds = [{path.suffix for path in folder.rglob("*")} for folder in REPORT_FOLDERS]
    assert ".html" in kinds[0]
    assert ".csv" in kinds[1]


def test_the_code_of_an_own_graph_is_that_of_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = Path("data/own/friends")
    folder.mkdir(parents=True)
    (folder / "nodes.csv").write_text("id,x,label\na,1,0\nb,2,1\n")
    (folder / "edges.csv").write_text("source,target\na,b\n")
    stated = {
        "name": "own", "epsilons": ["1"], "repeats": 1, "root_seed": 1,
        "datasets": {"friends": {"settings": ["random"]}}, "settings": {"random": {"kind": "random"}},
        "entries": {"mlp": {"method": "mlp", "mode": "nonprivate"}},
    }  # fmt: skip
    Path("study.yaml").write_text(yaml.safe_dump(stated))
    first = Workflow(study_file="study.yaml", tier=None).graph_code("friends")
    assert first == Workflow(study_file="study.yaml", tier=None).graph_code("friends")
    (folder / "edges.csv").write_text("source,target\nb,a\n")
    assert Workflow(study_file="study.yaml", tier=None).graph_code("friends") != first

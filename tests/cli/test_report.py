"""`dpgnn report` on real, tiny runs: from a study file to tables, figures and the page."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from dpgnn.cli import report
from dpgnn.core.storage import write_json

STUDY = """
name: tiny
title: A tiny study
repeats: 2
epsilons: ["1"]
baseline: mlp
datasets:
  chains-s: {settings: [public]}
settings:
  public: {kind: public}
entries:
  mlp: {method: mlp, mode: nonprivate, options: {hidden: [4], training: {num_epochs: 10}}}
  gcn: {method: gcn, mode: nonprivate, options: {hidden: [4], training: {num_epochs: 10}}, title: Graph net}
tiers:
  S: {repeats: 1}
"""


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    report.add_parser(parser.add_subparsers())
    return parser.parse_args(["report", *words])


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def make_runs(study: Path, results: Path, tier: str) -> None:
    """The stages before the report, as the workflow runs them."""
    from dpgnn.cli.train import train
    from dpgnn.core import seeds
    from dpgnn.core.paths import Paths
    from dpgnn.data import datasets
    from dpgnn.data.splits import make_split, write_split
    from dpgnn.study.study import load_study

    loaded, paths = load_study(study, tier), Paths(results=results)
    graph = datasets.load("chains-s", folder=results / "raw", root_seed=0)
    datasets.save_graph(graph, paths.graph("chains-s"))
    for key in loaded.keys:
        rng = seeds.child(0, "split", dataset=key.dataset, setting=key.setting, repeat=key.repeat)
        split = make_split(graph, loaded.config.settings[key.setting], rng=rng)
        path = paths.split(key.dataset, key.setting, key.repeat)
        write_split(path, split, num_nodes=graph.num_nodes)
        train(loaded, key, paths, work=results / "work")


def test_a_study_of_real_runs_becomes_tables_figures_and_pages(tmp_path: Path, study: Path) -> None:
    results = tmp_path / "results"
    make_runs(study, results, "M")
    args = parse("--study", str(study), "--tier", "M", "--results", str(results))
    assert args.func(args) == 0
    folder = results / "studies" / "tiny"
    summary = (folder / "tables" / "summary.csv").read_text(encoding="utf-8").splitlines()
    assert summary[0].startswith("dataset,setting,entry,label,mode")
    assert [line.split(",")[3] for line in summary[1:]] == ["MLP", "Graph net"]
    assert "4 of 4 planned runs (tier M)" in (folder / "report.html").read_text(encoding="utf-8")
    joined = parse("--join", "--results", str(results))
    assert joined.func(joined) == 0
    assert (results / "report.html").exists()


def test_runs_of_another_tier_are_not_reported(tmp_path: Path, study: Path) -> None:
    results = tmp_path / "results"
    make_runs(study, results, "M")
    args = parse("--study", str(study), "--tier", "S", "--results", str(results))
    assert args.func(args) == 0
    text = (results / "studies" / "tiny" / "tables" / "runs.csv").read_text(encoding="utf-8")
    assert len(text.splitlines()) == 3


def test_a_study_without_records_is_refused(tmp_path: Path, study: Path) -> None:
    args = parse("--study", str(study), "--results", str(tmp_path / "results"))
    with pytest.raises(ValueError, match=r"hold at least one planned record\.json"):
        args.func(args)


def test_a_damaged_record_is_named(tmp_path: Path, study: Path) -> None:
    folder = tmp_path / "studies" / "tiny" / "runs" / "chains-s.public" / "mlp" / "eps=inf" / "0"
    write_json(folder / "record.json", {"schema_version": 99})
    args = parse("--study", str(study), "--results", str(tmp_path))
    with pytest.raises(ValueError, match=r"record\.json"):
        args.func(args)


def test_either_a_study_or_join_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse()
    assert "--study" in capsys.readouterr().err


def test_the_parser_loads_nothing_heavy() -> None:
    code = (
        "import argparse, sys; from dpgnn.cli import report;"
        "report.add_parser(argparse.ArgumentParser().add_subparsers());"
        "heavy = {'torch', 'polars', 'matplotlib', 'jinja2', 'numpy'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

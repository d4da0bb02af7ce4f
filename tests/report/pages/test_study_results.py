"""What a report has of a study that makes no statement on accuracy."""

from __future__ import annotations

import re
from pathlib import Path

from made_runs import make_info, make_runs, write_runs

from dpgnn.core.storage import write_json
from dpgnn.report.pages.docs_page import write_docs
from dpgnn.report.pages.study_results import gather


def test_a_study_without_statements_on_accuracy_lists_scores_and_ranks_nothing(
    tmp_path: Path,
) -> None:
    runs = make_runs()
    write_runs(tmp_path, runs)
    said = gather(make_info(runs, baseline=""), tmp_path, tmp_path)
    silent = gather(make_info(runs, baseline="", accuracy=False), tmp_path, tmp_path)
    compared = ("rankings", "mean_ranks", "differences", "comparisons", "tuned_rankings")
    assert said.rankings.rows
    assert said.figures
    assert not silent.figures
    assert not any(getattr(silent, name).rows for name in compared)
    assert [row.mean for row in silent.scores.rows] == [row.mean for row in said.scores.rows]
    assert silent.claims.rows == said.claims.rows
    topics = {finding.topic for finding in silent.summary}
    assert "What was run" in topics
    assert not topics & {"Who leads", "Price of privacy", "Against the baseline"}


def test_its_page_tells_seconds_memory_and_where_claims_and_noise_stand(tmp_path: Path) -> None:
    runs = make_runs()
    write_runs(tmp_path / "reference" / "toy", runs)
    info = make_info(runs, baseline="", accuracy=False)
    found = gather(info, tmp_path, tmp_path / "reference" / "toy")
    write_docs([found], [info], tmp_path)
    page = (tmp_path / "results" / "toy.md").read_text(encoding="utf-8")
    # three repeats of 2, 3 and 4 seconds
    assert "| GAP | 3.0 | 3.0 |" in page
    assert "## Rankings" not in page
    assert "## Figures" not in page
    for name in re.findall(r"\]\(\.\./(reference/toy/tables/[a-z]+\.csv)\)", page):
        assert (tmp_path / name).exists(), name
    costs = (tmp_path / "reference" / "toy" / "tables" / "cost.csv").read_text(encoding="utf-8")
    assert costs.count("\n") == 13  # six entries on two graphs


def test_audits_and_attacks_of_another_configuration_are_not_shown(tmp_path: Path) -> None:
    runs = make_runs()
    write_runs(tmp_path, runs)
    run = next(run.record for run in runs if run.record.key["entry"] == "dp_mlp")
    key = {name: run.key[name] for name in ("dataset", "setting", "entry", "epsilon", "repeat")}
    audit = {
        "key": key,
        "mechanism": "train",
        "attack": "train: x",
        "epsilon_lower_bound": 0.5,
        "outcome": "passed",
    }
    attack = {"key": key, "claim": None, "results": [{"attack": "hub", "status": "not-available"}]}

    def shown(**stated: str) -> tuple[int, int]:
        write_json(tmp_path / "audits" / "a.json", [audit | stated])
        write_json(tmp_path / "attacks" / "a.json", attack | stated)
        found = gather(make_info(runs), tmp_path, tmp_path)
        rows = {table.name: len(table.rows) for table in found.further}
        return rows["audits"], rows["attacks"]

    assert shown(config_sha256=str(run.config_sha256)) == shown() == (1, 1)
    assert shown(config_sha256="0" * 64) == (0, 0)

"""Targets: every table and figure of a paper has a command, of a tier that has the paper's own places."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers import ROOT

from dpgnn.cli.report import describe
from dpgnn.results.targets import target_lines
from dpgnn.study import load_study


@pytest.fixture(scope="module")
def lines() -> dict[tuple[str, str], str]:
    """(first word of the paper, label) -> line."""
    infos = []
    for name in ("dpgnn", "caribou"):
        path = Path("workflow") / "studies" / f"{name}.yaml"
        infos.append(describe(load_study(ROOT / path), path, ROOT))
    further = {"caribou": [("paper-caribou-VII-X", "caribou VII to X: time and memory")]}
    found = {}
    for line in target_lines(infos, {}, further):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 4:
            label = cells[1].removeprefix("[").partition("]")[0].partition(" ")[0]
            found[cells[0].partition(" ")[0], label] = line
    return found


@pytest.mark.parametrize(
    ("paper", "label", "tier"),
    [
        ("DP-GNN", "T1", "L"),  # ogbn graphs and Reddit
        ("DP-GNN", "F2a", "L"),  # a stand-in is at hand, the paper's graph is not
        ("DP-GNN", "F2-here", "M"),
        ("CARIBOU", "mean-chains", "M"),
        ("CARIBOU", "mean", "L"),
    ],
)
def test_a_command_names_a_tier_that_has_the_places(
    lines: dict[tuple[str, str], str], paper: str, label: str, tier: str
) -> None:
    study = {"DP-GNN": "dpgnn", "CARIBOU": "caribou"}[paper]
    assert f"`.venv/bin/dpgnn run {study} --tier {tier}`" in lines[paper, label]


def test_tables_besides_values_have_their_line(lines: dict[tuple[str, str], str]) -> None:
    assert lines["CARIBOU", "VII-X"].split("|")[3].strip() == "time and memory"
    assert "(results/caribou.md#paper-caribou-VII-X)" in lines["CARIBOU", "VII-X"]
    assert "[XI](attacks.md)" in lines["CARIBOU", "XI"]
    assert (
        "`.venv/bin/dpgnn attack --study workflow/studies/attacks.yaml`" in lines["CARIBOU", "XI"]
    )

"""Targets: every table and figure of a paper has a command, of a tier that has the paper's own places."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from helpers import ROOT, tells
from studies import known

from dpgnn.cli.report import describe
from dpgnn.methods import TABLE
from dpgnn.report.pages.docs_index import PAGES, method_line
from dpgnn.report.paper.targets import target_lines


@pytest.fixture(scope="module")
def lines() -> dict[tuple[str, str], str]:
    """(first word of the paper, label) -> line."""
    infos = []
    for name in ("dpgnn", "caribou"):
        path = Path("workflow") / "studies" / f"{name}.yaml"
        infos.append(describe(known(ROOT / path), path, ROOT))
    further = {"caribou": [("paper-caribou-TVII", "caribou TVII: run time, edge level")]}
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
        ("CARIBOU", "TXIII-chains", "M"),
        ("CARIBOU", "TXIII", "L"),
    ],
)
def test_a_command_names_a_tier_that_has_the_places(
    lines: dict[tuple[str, str], str], paper: str, label: str, tier: str
) -> None:
    study = {"DP-GNN": "dpgnn", "CARIBOU": "caribou"}[paper]
    assert f"`.venv/bin/dpgnn run {study} --tier {tier}`" in lines[paper, label]


def test_tables_besides_values_have_their_line(lines: dict[tuple[str, str], str]) -> None:
    assert lines["CARIBOU", "TVII"].split("|")[3].strip() == "run time, edge level"
    assert "(results/caribou.md#paper-caribou-TVII)" in lines["CARIBOU", "TVII"]
    assert "[TXI](attacks.md)" in lines["CARIBOU", "TXI"]
    attack = "`.venv/bin/dpgnn attack --study workflow/studies/attacks.yaml`"
    assert attack in lines["CARIBOU", "TXI"]


def test_what_has_no_target_says_why_in_its_own_line(lines: dict[tuple[str, str], str]) -> None:
    tells(lines["CARIBOU", "TXIV"], "none", "Reddit2", "raw files")
    tells(lines["DP-GNN", "T8"], "none", "Table 8")
    names = [label for paper, label in lines if paper == "DP-GNN"]
    assert names[:9] == ["T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9"]
    assert names.index("F4") < names.index("F2-here")


def test_tables_of_options_lead_to_the_papers_values_and_to_our_file(
    lines: dict[tuple[str, str], str],
) -> None:
    with open(ROOT / "data" / "papers" / "paper_hparams.csv", encoding="utf-8", newline="") as file:
        stated = {(row["paper"], row["table"]) for row in csv.DictReader(file)}
    for table in ("T9", "T10", "T11", "T12"):
        assert ("dpgnn", table) in stated
        assert f"[{table}](../data/papers/paper_hparams.csv)" in lines["DP-GNN", table]
        assert "(../workflow/studies/dpgnn.yaml)" in lines["DP-GNN", table]
    assert "[T7](data_statistics.md#dpgnn)" in lines["DP-GNN", "T7"]


def test_every_page_of_a_method_belongs_to_its_methods() -> None:
    assert {page.stem for page in (ROOT / "docs" / "methods").glob("*.md")} == {*PAGES}
    assert {name for of in PAGES.values() for name in of} == {*TABLE} - {"mlp", "gcn", "pyg"}
    path = Path("workflow") / "studies" / "dpar.yaml"
    line = method_line([describe(known(ROOT / path), path, ROOT)], "../")
    assert "[dpar](../methods/dpar.md)" in line
    assert "[gap](../methods/gap.md)" in line
    assert "caribou" not in line
    assert method_line([]).count(".md)") == len(PAGES)

"""The last words on a small study and on one cell: numbers, what each protects, who may see an answer."""

from __future__ import annotations

import re
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from golden import assert_golden
from helpers import ROOT, numbers
from made_runs import write_runs

from dpgnn.cli.report import describe
from dpgnn.records.archive import read_archive, unpack, write_archive
from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.pages.closing import (
    _beside,
    cell_lines,
    cells_of_table,
    closing_lines,
    paper_command,
)
from dpgnn.study.study import load_study


def test_a_table_and_sentences(runs: list[Run], info: StudyInfo) -> None:
    lines = closing_lines(build_cells(runs, info))
    table = lines[1 : lines.index("", 1)]
    rows = [line.split() for line in table[:-1]]
    assert rows[0][:3] == ["alpha,", "3", "splits"]
    by_label = {row[0]: row[1:] for row in rows[1:]}
    assert by_label["GCN"][:4] == ["90.0", "90.0", "–", "nothing"]
    assert by_label["DP-MLP"][:3] == ["60.0", "70.0", "20.0"]
    assert by_label["GAP"][2:5] == ["8.0", "one", "edge"]
    assert numbers(table[-1]) == [8]
    assert max(map(len, lines)) < 80
    assert list(by_label)[:3] == ["MLP", "GCN", "GAP"]
    assert len([line for line in lines if line.startswith("- ")]) == 5
    assert_golden("closing.txt", "\n".join(lines) + "\n")


def test_a_private_entry_above_the_best_without_privacy_is_said_to_be_above_it(
    runs: list[Run], info: StudyInfo
) -> None:
    cells = [cell for cell in build_cells(runs, info) if cell.is_private or cell.entry == "mlp"]
    low = [
        replace(cell, scores=dict.fromkeys(cell.scores, 0.5)) if cell.entry == "mlp" else cell
        for cell in cells
    ]
    lines = " ".join(closing_lines(low))
    assert re.search(r"reaches [\d.]+ %, [\d.]+\s+above\s+that", lines)
    assert not re.search(r"-[\d.]+\s+below", lines)
    assert (_beside("4.1"), _beside("-4.1"), _beside("-0.0"), _beside("0.0")) == (
        "4.1 below that", "4.1 above that", "0.0 below that", "0.0 below that",
    )  # fmt: skip


def test_repeats_of_one_split_are_not_called_splits(runs: list[Run], info: StudyInfo) -> None:
    cells = [replace(cell, published_split=True) for cell in build_cells(runs, info)]
    assert closing_lines(cells)[1].startswith("alpha, 3 repeats of one split ")


def test_a_study_without_privacy_has_none(runs: list[Run], info: StudyInfo) -> None:
    cells = [cell for cell in build_cells(runs, info) if not cell.is_private]
    assert closing_lines(cells) == []


CAREFUL = "chains-s.public/dpdgc-ndp-paper/eps=8"


def test_ours_stands_beside_the_committed_one(
    runs: list[Run], info: StudyInfo, tmp_path: Path
) -> None:
    here, reference = tmp_path / "study", tmp_path / "reference"
    write_runs(here, runs)
    write_runs(reference / "toy", [run for run in runs if run.record.key["repeat"] < 2])
    run = next(name for name in info.planned if name.startswith("alpha.random/gap/eps=8/"))
    (line,) = cell_lines(info, [run], here, reference)
    cell, _, values = line.partition(": ")
    assert cell == "alpha.random/gap/eps=8"
    assert numbers(values) == [82.0, 1.0, 3, 81.5, 0.7, 2]  # ours and the committed: mean, std, n
    (line,) = cell_lines(info, [run], here, tmp_path / "none")
    assert numbers(line.partition(": ")[2]) == [82.0, 1.0, 3]


@pytest.fixture(scope="module")
def caribou(repository: Path) -> StudyInfo:
    path = Path("workflow/studies/caribou.yaml")
    return describe(load_study(repository / path, "M"), path, repository)


def test_a_papers_value_and_an_archive_stand_beside_ours(
    caribou: StudyInfo, repository: Path, tmp_path: Path
) -> None:
    texts = read_archive(repository / "docs" / "reference" / "caribou" / "runs.parquet")
    kept = {run: found for run, found in texts.items() if run.startswith(f"{CAREFUL}/")}
    write_archive(tmp_path / "reference" / "caribou" / "runs.parquet", kept)
    unpack(tmp_path / "reference" / "caribou" / "runs.parquet", tmp_path / "study" / "runs")
    (line,) = cell_lines(caribou, list(kept), tmp_path / "study", tmp_path / "reference")
    name, ours, paper, committed = line.replace(": ", ", ").split(", ")
    assert name == CAREFUL
    # the authors' log of DPDGC-NDP on Chain-S
    assert paper == "paper 48.1 (dpdgc-ndp)"
    assert ours.removeprefix("ours ") == committed.removeprefix("committed ")


def test_cells_beside_a_papers_value_come_last(
    caribou: StudyInfo, repository: Path, tmp_path: Path
) -> None:
    texts = read_archive(repository / "docs" / "reference" / "caribou" / "runs.parquet")
    kept = {run: found for run, found in texts.items() if run.startswith("chains-s.")}
    write_archive(tmp_path / "runs.parquet", kept)
    unpack(tmp_path / "runs.parquet", tmp_path / "study" / "runs")
    lines = cell_lines(caribou, list(kept), tmp_path / "study", tmp_path / "none")
    beside = [", paper " in line for line in lines]
    assert beside == sorted(beside)
    assert {*beside} == {False, True}


def test_the_cells_of_a_table(caribou: StudyInfo) -> None:
    cells = cells_of_table(caribou, "TXIII-chains", "chains-s")
    assert CAREFUL in cells
    assert {cell.split(".")[0] for cell in cells} == {"chains-s"}
    assert set(cells) < set(cells_of_table(caribou, "TXIII-chains"))
    with pytest.raises(ValueError, match=r"unknown --table 'TXIII-chain'; .*TXIII-chains"):
        cells_of_table(caribou, "TXIII-chain")
    with pytest.raises(ValueError, match=r"--dataset must be one of chains-l, .*, got 'cora'"):
        cells_of_table(caribou, "TXIII-chains", "cora")


def test_a_table_without_cells_in_a_tier_names_the_command_that_has_them() -> None:
    path = ROOT / "workflow" / "studies" / "drw.yaml"
    small = describe(load_study(path, "S"), path, ROOT)
    with pytest.raises(ValueError, match="`dpgnn run drw --tier M --table T1 --dataset cora` has"):
        cells_of_table(small, "T1", "cora")
    middle = cells_of_table(describe(load_study(path, "M"), path, ROOT), "T1", "cora")
    # its rows are chosen on validation nodes, so all points that they are chosen among are made
    assert {"cora.public/drw-1/eps=8", "cora.public/drw-1~*/eps=8"} < {*middle}


def test_a_tier_without_cells_of_the_paper_says_what_makes_some(caribou: StudyInfo) -> None:
    path = ROOT / "workflow" / "studies" / "drw.yaml"
    small, middle = (describe(load_study(path, tier), path, ROOT) for tier in "SM")
    found = paper_command(small, [middle])
    command = "`dpgnn run drw --tier M --table T1 --dataset cora`"
    assert command in found
    wanted = cells_of_table(middle, "T1", "cora")
    runs = [run for run in middle.planned for cell in wanted if fnmatchcase(run[:-2], cell)]
    assert f"({len(set(runs))} runs)" in found
    assert paper_command(caribou, []) == ""  # it has cells of its own
    assert paper_command(small, []) == ""


def test_a_study_without_a_paper_has_no_tables(info: StudyInfo) -> None:
    with pytest.raises(ValueError, match="--table must belong to a paper's study, got 'toy'"):
        cells_of_table(info, "T1")

"""The page of options from public graphs says what its tables say."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest

from dpgnn.report.pages.public_options import option_lines
from dpgnn.report.tables.table import signed

TABLES = Path("docs") / "reference" / "headtohead" / "tables"


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "results" / "options.md").read_text(encoding="utf-8")


def read(path: Path) -> list[dict[str, str]]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    return list(csv.DictReader(io.StringIO(text)))


def points(values: list[float]) -> str:
    return signed(100 * fmean(values))


def test_the_counts_of_the_page_are_those_of_the_table(page: str, repository: Path) -> None:
    rows = read(repository / TABLES / "copied.csv.gz")
    gains = [float(row["copied"]) - float(row["fixed"]) for row in rows]
    own = [float(row["tuned"]) - float(row["fixed"]) for row in rows]
    private = {row["entry"] for row in rows}
    over_all = [
        float(row["gain_mean"])
        for row in read(repository / TABLES / "tuned.csv")
        if row["entry"] in private
    ]
    for part in (
        f"Copied options gain {points(gains)} points in the mean and {signed(100 * median(gains))}",
        f"uncounted, {points(own)} and {signed(100 * median(own))} ({points(over_all)} in the mean",
        f"Of {len(rows):,} cells",
        f"above the fixed ones in {sum(gain > 0 for gain in gains):,} "
        f"(in {sum(gain > 0.01 for gain in gains):,} by more than a point)",
        f"below in {sum(gain < 0 for gain in gains):,} (in {sum(gain < -0.01 for gain in gains):,})",
        f"{len({row['dataset'] for row in rows})} graphs; {len({row['entry'] for row in rows})} entries",
    ):
        assert part in page
    counted = [float(row["copied"]) - float(row["accounted"]) for row in rows if row["accounted"]]
    assert f"Of {len(counted)} pairs of graph and entry" in page
    above, below = sum(gain > 0 for gain in counted), sum(gain < 0 for gain in counted)
    assert f"counted choice in {above} and below it in {below}" in page
    assert f"the mean difference is {points(counted)} points" in page


def test_each_entry_has_its_options_and_its_gain(page: str, repository: Path) -> None:
    lines = {
        line.split(" | ")[0].lstrip("| "): line
        for line in page.partition("## Options to copy")[2].splitlines()
    }
    for row in read(repository / TABLES / "options.csv"):
        name = row["label"] + ("" if row["setting"] == "whole" else f" (setting {row['setting']})")
        point = row["point"].replace("~", ", ").replace("num_", "")
        options = f"{point}: {signed(100 * float(row['gain_mean']))}"
        assert f" {options} |" in lines[name]
    for row in read(repository / TABLES / "copied-gains.csv"):
        name = row["label"] + ("" if row["setting"] == "whole" else f" (setting {row['setting']})")
        low, high = (signed(100 * float(row[end])) for end in ("gain_low", "gain_high"))
        gain = f"{signed(100 * float(row['gain_mean']))} ({low} to {high})"
        decided = row["verdict"] == "larger than the noise"
        assert f"| {f'**{gain}**' if decided else gain} |" in lines[name]


def test_a_study_that_tunes_nothing_says_so(documented: Any) -> None:
    found, docs = documented
    assert option_lines([found]) == ["No study tunes an entry on several graphs yet.", ""]
    assert (docs / "results" / "options.md").exists()

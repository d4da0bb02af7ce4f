"""The committed records are those of their list of checksums, which `sha256sum` reads too."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from dpgnn.__main__ import main
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.sums import SUMS, differences, recorded, write_sums

MOST_BYTES = 25_000_000  # of docs/reference


def test_the_committed_records_are_as_listed(repository: Path) -> None:
    reference = repository / "docs" / "reference"
    assert list(differences(reference)) == [], "after `dpgnn records pack`: `dpgnn records sums`"


def test_the_committed_records_and_tables_are_small(repository: Path) -> None:
    files = [path for path in (repository / "docs" / "reference").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= MOST_BYTES


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    for name in ("a/runs.parquet", "a/graphs/x/graph.json", "b/runs.parquet", "b/tables/t.csv"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    assert write_sums(tmp_path) == 3
    return tmp_path


def test_a_file_that_is_missing_changed_or_new_is_named(reference: Path) -> None:
    assert list(differences(reference)) == []
    (reference / "a" / "runs.parquet").write_text("other")
    (reference / "b" / "runs.parquet").unlink()
    (reference / "b" / "scores.parquet").write_text("new")
    (reference / "b" / "tables" / "t.csv").write_text("made again")
    assert [line.removeprefix(f"{reference}/") for line in differences(reference)] == [
        "a/runs.parquet: other bytes than SHA256SUMS says",
        "b/runs.parquet: missing",
        "b/scores.parquet: not in SHA256SUMS",
    ]


def test_packing_one_study_hides_no_damage_of_another(reference: Path) -> None:
    (reference / "a" / "runs.parquet").write_text("other")
    (reference / "b" / "runs.parquet").write_text("packed again")
    assert write_sums(reference, reference / "b") == 3
    (line,) = differences(reference)
    assert line.endswith("a/runs.parquet: other bytes than SHA256SUMS says")


@pytest.mark.skipif(not shutil.which("sha256sum"), reason="there is no sha256sum")
def test_sha256sum_reads_the_list(reference: Path) -> None:
    command = ["sha256sum", "--check", "--quiet", "--strict", SUMS]
    assert subprocess.run(command, cwd=reference).returncode == 0


def test_the_command_line_writes_and_checks(
    reference: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["records", "check", str(reference)]) == 0
    assert "3 files are as" in capsys.readouterr().err
    (reference / "a" / "runs.parquet").write_text("other")
    assert main(["records", "check", str(reference)]) == 1
    assert "a/runs.parquet: other bytes" in capsys.readouterr().out
    assert main(["records", "sums", str(reference)]) == 0
    assert main(["records", "check", str(reference)]) == 0


def test_a_folder_without_records_or_without_a_list_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert recorded(tmp_path) == []
    assert main(["records", "sums", str(tmp_path)]) == 1
    assert "must hold records" in capsys.readouterr().err
    with pytest.raises(DamagedFileError, match="does not exist"):
        list(differences(tmp_path))

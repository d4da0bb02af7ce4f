"""Whatever changes after it was made is found, named and made again, and what is whole stays."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers import run_tool, tells

RUN = "results/studies/quick/runs/chains-s.public/dp_mlp/eps=8/0"
OTHERS = (
    "results/studies/quick/runs/chains-s.public/dp_mlp/eps=1/0",
    "results/studies/quick/runs/chains-s.public/mlp/eps=inf/0",
)
GRAPH, SPLIT = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
TABLE = "results/studies/quick/tables/summary.csv"
# path, what happens to it, what `dpgnn verify` calls it
Damage = tuple[str, Callable[[Path], None], str]


def times(folder: Path) -> dict[str, int]:
    """When each file of the results was made."""
    found = (path for path in (folder / "results").rglob("[!.]*") if path.is_file())
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in found}


def flip(path: Path) -> None:
    """Change a byte in the middle; the time stays."""
    time, content = path.stat().st_mtime_ns, bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(time, time))


def truncate(path: Path) -> None:
    """Cut the second half off; the time is now."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def drop_last_line(path: Path) -> None:
    """A list that names fewer files; the time is now."""
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def garble(path: Path) -> None:
    """Other content; the time is now."""
    path.write_bytes(b"\xff" + os.urandom(64))


def dpgnn(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return run_tool(folder, "python", "-m", "dpgnn", *words, check=check)


def copy_of(toy: Path, into: Path) -> Path:
    """A copy of the toy study, times and second names kept."""
    subprocess.run(["cp", "-a", toy, into / "toy"], check=True)
    return into / "toy"


@pytest.fixture
def damaged(toy: Path, tmp_path: Path) -> Callable[..., Path]:
    """A copy of the toy study whose file was damaged in some way."""

    def made(path: str, how: Callable[[Path], None]) -> Path:
        folder = copy_of(toy, tmp_path)
        how(folder / path)
        return folder

    return made


def test_a_whole_study_is_whole_and_a_run_of_it_makes_nothing(toy: Path) -> None:
    found = dpgnn(toy, "verify", "quick")
    assert {line.split("  ")[0].strip() for line in found.stdout.splitlines()} == {"ok"}
    listed = {line[13:] for line in found.stdout.splitlines()}
    made = {path for path in times(toy) if not path.endswith(".sha256")}
    assert made - listed == set()
    before = times(toy)
    dpgnn(toy, "run", "quick", "--", "--cores", "1")
    assert times(toy) == before


@pytest.mark.parametrize(
    ("damages", "made"),
    [
        ([(SPLIT, truncate, "changed")], set()),
        ([(SPLIT, flip, "changed")], set()),
        ([(f"{GRAPH}/graph.json", flip, "changed")], set()),
        ([(f"{GRAPH}/edges.parquet", Path.unlink, "missing")], set()),
        (
            [
                (f"{RUN}/record.json", flip, "changed"),
                (f"{OTHERS[0]}/model.safetensors", flip, "changed"),
                (f"{OTHERS[1]}/history.parquet", Path.unlink, "missing"),
            ],
            {RUN, *OTHERS, "report"},
        ),
        (
            [
                (f"{RUN}/checksums.sha256", garble, "changed"),
                (f"{OTHERS[0]}/checksums.sha256", drop_last_line, "changed"),
            ],
            {RUN, OTHERS[0], "report"},
        ),
        (
            [
                (TABLE, Path.unlink, "missing"),
                ("results/studies/quick/figures", shutil.rmtree, "missing"),
            ],
            {"report"},
        ),
    ],
)
def test_what_is_damaged_is_named_and_made_again_alone(
    toy: Path, tmp_path: Path, damages: list[Damage], made: set[str]
) -> None:
    folder = copy_of(toy, tmp_path)
    for path, how, _ in damages:
        how(folder / path)
    found = dpgnn(folder, "verify", "quick", check=False)
    assert found.returncode == 1
    listed = {line[13:]: line[:13].strip() for line in found.stdout.splitlines()}
    bad = {path: state for path, state in listed.items() if state in ("changed", "missing")}
    for path, _, state in damages:
        assert {state} == {bad[name] for name in bad if name.startswith(path)}
    assert all(name.startswith(tuple(path for path, *_ in damages)) for name in bad)
    said = dpgnn(folder, "run", "quick", "--", "--cores", "1").stderr
    for path, _, state in damages:
        assert any(f"{state}: {name}; made again" in said for name in bad if name.startswith(path))
    assert dpgnn(folder, "verify", "quick").returncode == 0
    before, after = times(toy), times(folder)
    later = [name for name in after if name.startswith(("results/studies", "results/report"))]
    changed = {name for name in later if after[name] != before[name]}
    runs = (RUN, *OTHERS)
    assert {next((r for r in runs if name.startswith(r)), "report") for name in changed} == made
    for path, how, _ in damages:
        if (toy / path).is_file() and how not in (garble, drop_last_line):
            assert (folder / path).read_bytes() == (toy / path).read_bytes()


def test_snakemake_alone_makes_a_missing_history_again(damaged: Callable[..., Path]) -> None:
    folder = damaged(f"{RUN}/history.parquet", Path.unlink)
    run_tool(folder, "snakemake", "--cores", "1", "runs")
    assert (folder / RUN / "history.parquet").exists()


@pytest.mark.parametrize("path", [SPLIT, f"{RUN}/record.json", f"{RUN}/history.parquet"])
def test_a_job_that_reads_a_changed_file_names_it(damaged: Callable[..., Path], path: str) -> None:
    folder = damaged(path, flip)
    words = ["report", "--study", "config.yaml", "--out", "results/studies/quick"]
    if path == SPLIT:
        run = "chains-s.public/mlp/eps=inf/0"
        words = ["train", "--study", "config.yaml", "--run", run]
    found = dpgnn(folder, *words, check=False)
    assert found.returncode == 1
    tells(found.stderr, f"{path} must")


def test_records_without_checksums_are_read_and_said_to_have_none(
    damaged: Callable[..., Path],
) -> None:
    folder = damaged(f"{RUN}/checksums.sha256", Path.unlink)
    found = dpgnn(folder, "verify", "quick")
    lines = [line for line in found.stdout.splitlines() if line.startswith("no checksum")]
    assert {line[13:] for line in lines} == {
        f"{RUN}/{name}"
        for name in ("history.parquet", "model.safetensors", "record.json", "resources.json")
    }
    assert "4 no checksum" in found.stderr

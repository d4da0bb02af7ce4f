"""Damaged files of ours, bad raw files, bad places."""

# ruff: noqa: E501  a case of the table is easier to read as one line

from __future__ import annotations

import pickle
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from bad_inputs import MIRROR, OUT, Case, Hostile, check, empty_folder, file_after, half
from bad_inputs import prepare as raw

from dpgnn.__main__ import main
from dpgnn.data.raw.sources import source_of

__all__ = ["empty_folder"]


def graph(name: str = "chains-s") -> None:
    """A good graph folder at OUT."""
    assert main(["data", "prepare", name, "--out", str(OUT)]) == 0


def damaged(file: str, change: Callable[[bytes], bytes]) -> Callable[[], None]:
    return file_after(graph, OUT / file, change)


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


SPLIT_OUT = Path("results/splits/mine.s.0.parquet")


def split(*more: str) -> list[str]:
    axes = ["--dataset", "mine", "--setting", "s", "--repeat", "0", "--root-seed", "0"]
    return ["split", "--graph", str(OUT), *axes, "--out", str(SPLIT_OUT), *more]


def mirror_file(dataset: str, file: str, content: bytes) -> Callable[[], None]:
    """A raw file in the mirror folder."""

    def make() -> None:
        (raw,) = [raw for raw in source_of(dataset).files if raw.file == file]
        path = MIRROR / raw.mirror_path
        path.parent.mkdir(parents=True)
        path.write_bytes(content)

    return make


def cora_ml(content: bytes) -> Callable[[], None]:
    return mirror_file("cora_ml", "cora_ml.npz", content)


def unwritable() -> None:
    Path("results").write_text("a file where a folder is wanted")


def full_disk() -> None:
    """A disk of 64 kB; needs the right to mount."""
    OUT.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(OUT)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a small tmpfs")


CASES = {
    "truncated Parquet": Case(
        damaged("nodes.parquet", half), split(), ("nodes.parquet must have", "bytes, got", "delete the folder and rerun"), SPLIT_OUT
    ),
    "bit-flipped Parquet": Case(
        damaged("edges.parquet", flip), split(), ("edges.parquet must have sha256", "it was changed; delete"), SPLIT_OUT
    ),
    "graph.json cut": Case(damaged("graph.json", half), split(), ("graph.json must be as it was made", "`dpgnn run STUDY` makes it again"), SPLIT_OUT),
    "graph.json gone": Case(
        lambda: OUT.mkdir(parents=True), split(), ("graph.json does not exist; run the stage that makes it",), SPLIT_OUT
    ),
    "no public split": Case(
        lambda: graph("digits"), split("--kind", "public"), ("must be a kind it has, got 'public'; use random",), SPLIT_OUT
    ),
    "more per class than there are": Case(
        graph, split("--kind", "per_class", "--num-per-class", "25"), ("must be <= 24, the size of class 0, got 25; lower",), SPLIT_OUT
    ),
    "fractions that leave nothing": Case(
        graph, split("--train-fraction", ".9", "--val-fraction", ".1"), ("must be < 1, got 1.0; leave nodes to test on",), SPLIT_OUT
    ),
    "hostile raw pickle": Case(
        mirror_file("pubmed", "ind.pubmed.x", pickle.dumps(Hostile())), raw("pubmed"),
        ("ind.pubmed.x must name only", "got posix.mkdir; nothing of it was executed; fetch the file again"),
    ),
    "wrong checksum": Case(
        cora_ml(bytes(1620832)), raw("cora_ml"), ("cora_ml.npz must have sha256 ffbe4e64", "delete it and fetch it again")
    ),
    "raw file cut": Case(cora_ml(b"PK"), raw("cora_ml"), ("must have 1620832 bytes, got 2; delete it",)),
    "interrupted download": Case(lambda: None, raw("dblp"), ("could not be fetched", "bytes are kept and the next run resumes")),
    "a file to be placed by hand": Case(lambda: None, raw("ppi"), ("adj_full.npz of ppi must be placed by hand in one of",)),
    "unknown data set": Case(lambda: None, raw("coro"), ("data set must be one of", "got 'coro'; or a folder of your own graph")),
    "unknown preset": Case(lambda: None, raw("synthetic-cora"), ("unknown data set in sources.csv 'synthetic-cora'; known:",)),
    "unwritable folder": Case(
        unwritable, raw("chains-s"), ("results must be writable, got 'a file'", "choose a path without this file")
    ),
    "full disk": Case(
        full_disk, raw("digits"), ("parquet must be writable, got No space left on device; free some space",)
    ),
}  # fmt: skip


def test_there_are_many_cases():
    assert len(CASES) >= 16


@pytest.mark.parametrize("name", CASES)
def test_a_bad_input_gives_one_clear_error_and_leaves_nothing(name, empty_folder, capsys):
    check(CASES[name], capsys)

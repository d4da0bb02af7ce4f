"""What the tests of bad inputs share: a case, the check that every case must pass, the places it looks at.

Every case runs the command a user would run, in an empty folder, and then looks that nothing half
written is left and that nothing a hostile file holds was executed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dpgnn.__main__ import main

OUT = Path("results/graphs/mine")
OWN = Path("data/own/mine")
MIRROR = Path("mirror")


class Hostile:
    """Unpickled by a trusting reader, it makes a folder."""

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, ("executed",))


@dataclass(frozen=True)
class Case:
    """Files to make, the command to run, what the message must say, and where nothing may be left.

    A study goes on when one of its runs cannot be made, so such a run ends well (`status` 0) and its record
    says `failed` with the message.
    """

    make: Callable[[], None]
    command: list[str]
    says: tuple[str, ...]
    clean: Path = OUT
    status: int = 1
    marker: str = ": error: "


def prepare(name: str) -> list[str]:
    """The command that makes a graph of raw files or of a user's own."""
    return ["data", "prepare", name, "--out", str(OUT)]


def file_after(
    make: Callable[[], None], path: Path, change: Callable[[bytes], bytes]
) -> Callable[[], None]:
    """What `make` leaves, with the bytes of one file changed."""

    def changed() -> None:
        make()
        path.write_bytes(change(path.read_bytes()))

    return changed


def half(content: bytes) -> bytes:
    """The first half."""
    return content[: len(content) // 2]


@pytest.fixture
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty working folder, without a network."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPGNN_MIRROR", str(MIRROR))
    monkeypatch.delenv("DPGNN_TRACEBACK", raising=False)
    monkeypatch.setattr("dpgnn.data.raw.download._fetch_rest", _no_network)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    yield tmp_path
    if os.path.ismount(OUT):
        subprocess.run(["umount", str(OUT)], check=True)


def check(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    """The command gives one error that says what it must, and leaves every file as it was."""
    case.make()
    before = _fingerprints(case.clean)
    capsys.readouterr()
    assert main(case.command) == case.status
    message = capsys.readouterr().err
    errors = [line for line in message.splitlines() if case.marker in line]
    assert len(errors) == 1, message
    for part in case.says:
        assert part in message
    assert "Traceback" not in message
    assert _fingerprints(case.clean) == before
    assert not Path("executed").exists()


def _no_network(url: str, *args: Any, **kwargs: Any) -> None:
    raise OSError("the connection ended after 0 of 1 bytes")


def _fingerprints(place: Path) -> dict[str, str]:
    """sha256 of every file at or below a path."""
    files = [place] if place.is_file() else sorted(p for p in place.rglob("*") if p.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

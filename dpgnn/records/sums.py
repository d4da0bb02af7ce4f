"""SHA256SUMS: checksums of all committed records, in the form that `sha256sum --check` reads.

Listed are files that cannot be remade from the repository: records, audits, attacks, metadata of graphs.
Tables and pages are left out; `dpgnn report --docs` makes them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from dpgnn.core.checksums import read_checksums, write_checksums
from dpgnn.core.storage import sha256_file

SUMS = "SHA256SUMS"
KINDS = (".parquet", ".json", ".yaml")


def recorded(folder: Path) -> list[Path]:
    """The listed files below a folder, sorted."""
    return sorted(path for path in folder.rglob("*") if path.suffix in KINDS and path.is_file())


def write_sums(reference: Path, part: Path | None = None) -> int:
    """Write the list of a folder of records; returns how many files it names.

    Args:
        reference: docs/reference, for example.
        part: a folder below it; lines of other files are kept. None lists all files anew.
    """
    listed, files = reference / SUMS, recorded(part or reference)
    kept: dict[str, str] = {}
    if part is not None and listed.exists():
        others = {path: text for path, text in read_checksums(listed).items() if path.exists()}
        kept = {
            str(path.relative_to(reference)): text
            for path, text in others.items()
            if not path.is_relative_to(part)
        }
    write_checksums(listed, files, kept)
    return len(files) + len(kept)


def differences(reference: Path) -> Iterator[str]:
    """A line for each file that is missing, changed, or not listed.

    Raises:
        DamagedFileError: there is no list, or it is damaged.
    """
    wanted = read_checksums(reference / SUMS)
    for path, text in wanted.items():
        if not path.exists():
            yield f"{path}: missing"
        elif sha256_file(path) != text:
            yield f"{path}: other bytes than {SUMS} says"
    for path in recorded(reference):
        if path not in wanted:
            yield f"{path}: not in {SUMS}"

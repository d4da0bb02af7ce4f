"""Lists of checksums beside the files that a job makes, in the form that `sha256sum --check` reads.

`X.sha256` beside `X.parquet` or `X.json` lists what a job wrote of that name, `checksums.sha256` the files of
a folder that one job fills. A list is written last, or just before the file that marks completion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpgnn.core.storage import DamagedFileError, sha256_file, write_text

OF_FOLDER = "checksums.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def write_checksums(
    listed: Path, files: Iterable[Path], known: Mapping[str, str] | None = None
) -> None:
    """Write a list.

    Args:
        listed: the list's path; names are relative to its folder.
        files: files that are there.
        known: name -> sha256 of further files, such as files written after the list.
    """
    sums = {str(path.relative_to(listed.parent)): sha256_file(path) for path in files}
    sums |= known or {}
    write_text(listed, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def read_checksums(listed: Path) -> dict[Path, str]:
    """Path -> sha256 of the files of a list.

    Raises:
        DamagedFileError: it is missing, or not a list of checksums.
    """
    try:
        lines = listed.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise DamagedFileError(f"{listed} does not exist; run the stage that makes it") from None
    except ValueError as error:
        raise DamagedFileError(f"{listed} must be a list of checksums: {error}") from None
    found = [_LINE.fullmatch(line) for line in lines]
    if not lines or None in found:
        raise DamagedFileError(f"{listed} must be a list of checksums; delete it and rerun")
    return {listed.parent / line[2]: line[1] for line in found if line is not None}


def list_of(path: Path) -> Path:
    """The list that would name a file."""
    own = path.with_suffix(".sha256")
    return own if own.exists() else path.parent / OF_FOLDER


def check(path: Path) -> bool:
    """Compare the checksum of a file with the recorded one before the file is read.

    Returns:
        whether there was a checksum; files of older versions and of archives have none.

    Raises:
        DamagedFileError: the file is missing, or not the one that was made; names it and the remedy.
    """
    listed = list_of(path)
    wanted = read_checksums(listed).get(path) if listed.exists() else None
    if wanted is None:
        return False
    if not path.exists():
        raise DamagedFileError(f"{path} does not exist; run the stage that makes it")
    if sha256_file(path) != wanted:
        raise DamagedFileError(f"{path} must be as it was made, got other bytes; {REMEDY}")
    return True


REMEDY = "`dpgnn run STUDY` makes it again, `dpgnn verify STUDY` checks all files"

"""Copies of finished runs, used in place of running again."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from dpgnn.core.checks import fail
from dpgnn.core.checksums import check
from dpgnn.core.storage import DamagedFileError, atomic_write, read_json, write_json
from dpgnn.records.schema import Record, read_record
from dpgnn.run.ledger import entries
from dpgnn.run.record import OWN_ROWS, RUN_FILES

# beside a copy, and written after it: hash of its configuration, code and inputs
FINGERPRINT = "fingerprint.json"


def find_copy(folder: Path | None, fingerprint: str, *, only: bool = False) -> Record | None:
    """The record of the copy in `folder` if it has the same configuration, code and inputs.

    Args:
        folder: of the copy; None if there is none.
        fingerprint: hash of configuration, code and inputs.
        only: the run may not be repeated, so a damaged copy is an error; otherwise it is ignored.

    Raises:
        DamagedFileError: the only copy was damaged.
    """
    if folder is None or not (folder / FINGERPRINT).exists():
        return None
    try:
        if read_json(folder / FINGERPRINT) != fingerprint:
            return None
        for name in RUN_FILES:
            check(folder / name)
        return read_record(folder / RUN_FILES[-1])
    except DamagedFileError:
        if only:
            raise
        return None


def check_counted(out: Path, releases: Path) -> None:
    """Refuse to make and replace a release that the ledgers of `releases` do not count.

    Args:
        out: the run's folder in the results.
        releases: where releases are kept.

    Raises:
        ValueError: `out` holds a release that lies nowhere among the releases.
    """
    path = out / RUN_FILES[-1]
    earlier = read_record(path) if path.exists() else None
    if earlier is None or not earlier.claims or earlier.randomness["kind"] != "release":
        return
    kept = (entry.parent / RUN_FILES[-1] for entry in entries(releases))
    if earlier.status != "ok" or any(
        other.exists() and other.read_bytes() == path.read_bytes() for other in kept
    ):
        return
    remedy = (
        "put back the folder of releases that has it (or name it, `dpgnn train --releases`), or move the "
        "results away; another release adds its epsilon to it"
    )
    fail("results of a private run", f"be copies of releases in {releases}", str(out), remedy)


def check_not_released(folder: Path) -> None:
    """Refuse a run that was released before, with another configuration, code or graph.

    A folder of a failed run, left by an earlier version, is removed.

    Raises:
        ValueError: `folder` keeps a release; names its day and epsilon.
    """
    if not folder.exists():
        return
    path = folder / RUN_FILES[-1]
    earlier = read_record(path) if path.exists() else None
    if earlier is not None and earlier.status != "ok":
        shutil.rmtree(folder)
        return
    day = time.strftime("%Y-%m-%d", time.gmtime(folder.stat().st_mtime))
    spent = "" if earlier is None else f" with epsilon {earlier.budget['spent_epsilon']:.4g}"
    remedy = (
        "take that one; another adds its epsilon to it (to make it all the same, move the folder to "
        "another place in there, where the ledger counts it)"
    )
    fail("a private run", "be released once", f"a release of {day}{spent} in {folder}", remedy)


def keep_copy(out: Path, folder: Path | None, fingerprint: str) -> None:
    """Keep a copy of a run's files."""
    if folder is None:
        return
    (folder / FINGERPRINT).unlink(missing_ok=True)
    copy_run(out, folder, link=True)
    write_fingerprint(folder, fingerprint)


def write_fingerprint(folder: Path, fingerprint: str) -> None:
    """Record which run the files of a complete folder belong to; the fingerprint may reveal the inputs."""
    write_json(folder / FINGERPRINT, fingerprint)


def copy_run(source: Path, target: Path, *, link: bool = False) -> None:
    """Copy a run's files, the record last.

    Args:
        source, target: folders.
        link: use hard links if possible, so that a copy takes no space; the file's time becomes now.
    """
    (target / OWN_ROWS).unlink(missing_ok=True)
    if (source / OWN_ROWS).exists():
        with atomic_write(target / OWN_ROWS, owner_only=True) as file:
            file.write((source / OWN_ROWS).read_bytes())
    for name in RUN_FILES:
        if not (link and _linked(source / name, target / name)):
            with atomic_write(target / name) as file:
                file.write((source / name).read_bytes())


def _linked(source: Path, target: Path) -> bool:
    """Make a hard link, if the file system can."""
    target.parent.mkdir(parents=True, exist_ok=True)
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
        os.utime(target)  # Snakemake treats a result that is older than its inputs as stale
    except OSError:
        return False
    return True

"""Before a workflow starts, remakes changed files, and as little else as possible.

Snakemake compares times: it misses a change that keeps the file's time, and it repeats every run on a split
that was remade.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from dpgnn.core.checksums import read_checksums
from dpgnn.core.storage import DamagedFileError
from dpgnn.study.verify import Finding


def repair(findings: Sequence[Finding], *, root: Path, make: Callable[[list[str]], object]) -> None:
    """Remove damaged files, and remake graphs, splits and samples among them.

    Files with the same bytes as before get their old time, so nothing made from them is repeated.

    Args:
        findings: changed or missing files, each with its list of checksums, which may itself be damaged.
        root: the folder of the workflow.
        make: makes the given targets.
    """
    made: dict[Path, Path] = {}
    for found in findings:
        print(f"{found.state}: {found.path.relative_to(root)}; made again", file=sys.stderr)
        if found.group.is_data:
            made[found.group.listed] = found.group.files[0].relative_to(root)
    before = {listed: (_sums(listed), listed.stat().st_mtime_ns) for listed in made}
    for found in findings:  # Snakemake asks for the first file, and its job makes all of them
        for path in (found.path, found.group.files[0]):
            path.unlink(missing_ok=True)
    if not made:
        return
    make([str(path) for path in made.values()])
    for listed, (sums, time) in before.items():
        if sums and _sums(listed) == sums:
            for path in filter(Path.exists, (*sums, listed)):
                os.utime(path, ns=(time, time))


def _sums(listed: Path) -> dict[Path, str]:
    """The checksums of a list; {} if it cannot be read."""
    try:
        return read_checksums(listed)
    except DamagedFileError:
        return {}

"""Before a workflow starts: what is not the file that was made is made again, and as little else as can be.

Snakemake goes by times: it takes a file that was changed without a new time for whole, and after one split
was made again it makes every run on it again.
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
    """Remove damaged files, and make graphs, splits and samples among them again.

    Where the same bytes come back, they get their old time: nothing that was made from them is made again.

    Args:
        findings: files that are changed or missing, each with a list that can be read or is damaged itself.
        root: the folder of the workflow.
        make: makes the targets that it is given.
    """
    made: dict[Path, Path] = {}
    for found in findings:
        print(f"{found.state}: {found.path.relative_to(root)}; made again", file=sys.stderr)
        if found.group.is_data:
            made[found.group.listed] = found.group.files[0].relative_to(root)
    before = {listed: (_sums(listed), listed.stat().st_mtime_ns) for listed in made}
    for found in findings:  # the first file is one that Snakemake asks for, and its job makes all
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
    """What a list holds; {} where it cannot be read."""
    try:
        return read_checksums(listed)
    except DamagedFileError:
        return {}

"""The command that makes a run again; the one home of its form."""

from __future__ import annotations

import shlex

from dpgnn.checks import require
from dpgnn.results.info import StudyInfo


def rerun_command(study: StudyInfo, key: str) -> str:
    """A shell command, to be pasted in the repository's root, that reruns one run or one cell.

    Args:
        study: for its file, its tier and its planned runs.
        key: DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT; without /REPEAT for all repeats of the cell.

    Raises:
        ValueError: the study plans no such run.
    """
    planned = any(key in (name, name.rsplit("/", 1)[0]) for name in study.planned)
    require(planned, "run", f"be planned by study {study.name}, tier {study.tier}", key)
    path = study.config_path
    name = "quick" if path == "config.yaml" else path
    if path == f"workflow/studies/{study.name}.yaml":
        name = study.name
    return shlex.join([".venv/bin/dpgnn", "run", name, "--tier", study.tier, "--cell", key])

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
    keys = [name for name in study.planned if name == key or name.rsplit("/", 1)[0] == key]
    require(bool(keys), "run", f"be planned by study {study.name}, tier {study.tier}", key)
    targets = [f"results/studies/{study.name}/runs/{name}/record.json" for name in keys]
    settings = [f"study={study.config_path}", f"tier={study.tier}"]
    words = [".venv/bin/snakemake", "--force", "--config", *settings, "--", *targets]
    return " ".join(shlex.quote(word) for word in words)

"""Keeps copies of finished runs before Snakemake removes the results of a process that makes several.

A process keeps a copy of each run that it makes. Runs that came from elsewhere, by `dvc pull` or by hand,
have none, and one changed option would repeat every run of their process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from dpgnn.core.paths import FINISHED, Paths
from dpgnn.core.storage import sha256_json
from dpgnn.run.finished import keep_copy
from dpgnn.run.record import RUN_FILES
from dpgnn.run.specification import config_of
from dpgnn.study.study import RunKey, Study
from dpgnn.study.verify import is_whole, run_group
from dpgnn.study.wanted import Wanted


def keep_finished(study: Study, root: Path) -> list[RunKey]:
    """Keep a copy of each whole run that the study would make now as it is, unless its copy's folder exists.

    Guarantee: a copy's fingerprint is that of the inputs, configuration and code in the run's record, so
    another run never takes its place. Files keep their times.

    Args:
        study: whose runs; nothing is kept where every run has a process of its own, and of releases.
        root: the folder of the workflow.

    Returns:
        the runs with a new copy.
    """
    if study.config.runs_per_job == 1 or study.config.randomness == "release":
        return []
    wanted, kept = Wanted(study), []
    for key in study.keys:
        copy = root / "work" / FINISHED / study.name / key.folder
        out = root / Paths().run(study.name, key.folder)
        if copy.exists() or not (out / RUN_FILES[-1]).exists():
            continue
        if not is_whole(run_group(study.name, key, root)):
            continue
        record = json.loads((out / RUN_FILES[-1]).read_text(encoding="utf-8"))
        if wanted.made(record, key):
            times = {out / name: (out / name).stat() for name in RUN_FILES}
            keep_copy(out, copy, _fingerprint(record, wanted, key))
            for path, before in times.items():  # a link has the file's own times
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
            kept.append(key)
    return kept


def _fingerprint(record: dict[str, Any], wanted: Wanted, key: RunKey) -> str:
    """The fingerprint of a finished run of the study's configuration, see `Specification`."""
    stated = {"config": config_of(wanted.inputs(key)), "code": record["code_sha256"]}
    return sha256_json({**stated, "inputs": record["inputs"]})

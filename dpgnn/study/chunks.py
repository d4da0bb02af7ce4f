"""The runs that one process makes, and what its job reads and writes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpgnn.core.grouping import grouped
from dpgnn.core.storage import sha256_json
from dpgnn.study.study import RunKey, Study


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """Runs that one process makes (`runs_per_job` > 1).

    Attributes:
        rule: name of the Snakemake rule.
        datasets: data sets of the runs.
        run_json: everything configured that decides them, by data set and setting, and entry.
        code: hashes of the code that decides them, in the same order.
        graphs, splits, prepared, outputs: paths of all of them.
        run_flags: the command line's --run flags.
        log, benchmark: one of each for the process.
    """

    rule: str
    datasets: list[str]
    run_json: str
    code: str
    graphs: list[str]
    splits: list[str]
    prepared: list[str]
    outputs: list[str]
    run_flags: str
    log: str
    benchmark: str


def run_groups(study: Study, *, apart: bool = False) -> dict[str, list[RunKey]]:
    """Runs that one process makes, by the stem of its log below logs/train/ (see the key runs_per_job).

    A process makes runs on one data set and setting; the remaining runs on small graphs share processes.

    Args:
        study: whose runs.
        apart: the study holds only some of its runs, so its logs have other names.
    """
    from dpgnn.study.memory import is_small  # it imports the readers of users' graphs

    size = study.config.runs_per_job
    if size == 1:
        return {f"{study.name}/{key.folder}": [key] for key in study.keys}
    name = f"{study.name}/asked" if apart else study.name
    alike = grouped(study.keys, lambda key: f"{key.dataset}.{key.setting}")
    groups: dict[str, list[RunKey]] = {}
    left: dict[str, list[RunKey]] = {}
    for place, keys in alike.items():
        for number, first in enumerate(range(0, len(keys), size)):
            chunk = keys[first : first + size]
            shares = len(chunk) < size and is_small(chunk[0].dataset)
            (left if shares else groups)[f"{name}/{place}/chunk{number}"] = chunk
    for number, stems in enumerate(_filled(left, size)):
        stem = stems[0] if len(stems) == 1 else f"{name}/small/chunk{number}"
        groups[stem] = [key for each in stems for key in left[each]]
    return groups


def _filled(parts: Mapping[str, list[RunKey]], size: int) -> list[list[str]]:
    """Groups of parts by first fit, so that no process makes more than `size` runs."""
    shared: list[list[str]] = []
    for stem, keys in parts.items():
        for stems in shared:
            if sum(len(parts[each]) for each in stems) + len(keys) <= size:
                stems.append(stem)
                break
        else:
            shared.append([stem])
    return shared


def rule_name(stem: str) -> str:
    """The name of the rule that makes a group of runs; different stems have different names."""
    name = re.sub(r"\W", "_", stem)
    # dp_mlp and dp-mlp are two entries
    return f"train_{name}" + (f"_{sha256_json(stem)[:8]}" if name != stem else "")


def run_logs(study: Study) -> dict[RunKey, Path]:
    """The log of each run's process."""
    groups = run_groups(study).items()
    return {key: Path("logs/train") / f"{stem}.log" for stem, keys in groups for key in keys}

"""The command that makes a run again; the one home of its form."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from dpgnn.core.checks import require
from dpgnn.records.info import StudyInfo
from dpgnn.report.tables.table import CellRow, Row


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
    return _command(study, study.tier, key)


def _command(study: StudyInfo, tier: str, key: str) -> str:
    path = study.config_path
    name = "quick" if path == "config.yaml" else path
    if path == f"workflow/studies/{study.name}.yaml":
        name = study.name
    return shlex.join([".venv/bin/dpgnn", "run", name, "--tier", tier, "--cell", key])


def rerun_of_row(study: StudyInfo, row: CellRow | Row) -> str:
    """The command of the cell that a table's row is about; "" where it is about none.

    A row of a paper whose cell this tier leaves out has the command of tier L, the paper's whole grid.

    Args:
        study: the study.
        row: of one of our tables; or of a paper's, which names the cell by our_dataset, our_setting, ...
    """
    away = False
    if isinstance(row, Mapping):
        names = ("our_dataset", "our_setting", "entry", "our_epsilon")
        place, setting, entry, budget = (str(row.get(name, "")) for name in names)
        away = bool(setting) and str(row.get("reason", "")).startswith("not in tier")
    else:
        place, setting, entry, budget = row.dataset, row.setting, row.entry, row.epsilon
    # a row about an entry without privacy may state the other's budget
    for epsilon in (budget, "inf"):
        if (place, setting, entry, epsilon) in study.cell_order:
            return rerun_command(study, f"{place}.{setting}/{entry}/eps={epsilon}")
    return _command(study, "L", f"{place}.{setting}/{entry}/eps={budget}") if away else ""

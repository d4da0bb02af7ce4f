"""The command that reruns a run or a cell."""

from __future__ import annotations

import shlex

from dpgnn.core.checks import require
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.tables.table import CellRow


def rerun_command(study: StudyInfo, key: str) -> str:
    """A shell command that reruns one run or one cell; to be run in the repository's root.

    Args:
        study: for its file, its tier and its planned runs.
        key: DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT, or without /REPEAT for all repeats of the cell.

    Raises:
        ValueError: the study plans no such run.
    """
    require(key in study.names, "run", f"be planned by study {study.name}, tier {study.tier}", key)
    return _command(study, study.tier, key)


def _command(study: StudyInfo, tier: str, key: str) -> str:
    path = study.config_path
    name = "quick" if path == "config.yaml" else path
    if path == f"workflow/studies/{study.name}.yaml":
        name = study.name
    return shlex.join([".venv/bin/dpgnn", "run", name, "--tier", tier, "--cell", key])


def rerun_of_table(study: StudyInfo, name: str, dataset: str) -> str:
    """The command of all cells of a paper's table on one data set.

    Args:
        study: of the paper.
        name: the table's name, paper-PAPER-TABLE.
        dataset: one of ours.
    """
    table = name.removeprefix(f"paper-{study.paper}-")
    command = [".venv/bin/dpgnn", "run", study.name, "--tier", study.tier]
    return shlex.join([*command, "--table", table, "--dataset", dataset])


def rerun_of_row(study: StudyInfo, row: CellRow | PaperRow) -> str:
    """The command of a row's cell; "" if the row has none.

    If this tier leaves the cell out, the command is that of tier L, the paper's whole grid.
    """
    away = False
    if isinstance(row, PaperRow):
        place = (row.our_dataset or "", row.our_setting or "", row.entry or "")
        budget = row.our_epsilon or ""
        away = row.reason.startswith("not in tier")
    else:
        place, budget = (row.dataset, row.setting, row.entry), row.epsilon
    name = "{}.{}/{}".format(*place)
    # a row about an entry without privacy may state the other's budget
    for epsilon in (budget, "inf"):
        if (*place, epsilon) in study.cell_order:
            return rerun_command(study, f"{name}/eps={epsilon}")
    return _command(study, "L", f"{name}/eps={budget}") if away else ""

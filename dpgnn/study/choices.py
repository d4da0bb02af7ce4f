"""Which sweep point of a tuned entry runs on all repeats: STUDY.choices.csv, beside the study's file.

`tuned_on` of a study says on how many repeats every point of a tuned entry runs. `dpgnn records choose`
takes, of each cell, the point with the best mean on their validation nodes and writes it down; from then on
the study plans the remaining repeats of that point alone.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.config import ConfigError
from dpgnn.core.storage import write_text

COLUMNS = ("dataset", "setting", "epsilon", "entry", "point")
# (data set, setting, epsilon, tuned entry) -> its chosen point without the entry's name, "lr=0.1~num_hops=2"
Choices = Mapping[tuple[str, str, str, str], str]


def choices_path(study_file: Path) -> Path:
    """Where the choices of a study lie.

    Args:
        study_file: NAME.yaml.
    """
    return study_file.with_suffix(".choices.csv")


def read_choices(study_file: Path) -> dict[tuple[str, str, str, str], str]:
    """The choices of a study; none where no file says any.

    Raises:
        ConfigError: a file without the columns, or with a cell twice.
    """
    path = choices_path(study_file)
    if not path.exists():
        return {}
    rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
    found: dict[tuple[str, str, str, str], str] = {}
    remedy = "`dpgnn records choose` writes it"
    try:
        for row in rows:
            require(set(COLUMNS) <= set(row), str(path), f"have {COLUMNS}", tuple(row), remedy)
            dataset, setting, epsilon, entry, point = (row[name] for name in COLUMNS)
            cell = dataset, setting, epsilon, entry
            require(cell not in found, str(path), "hold each cell once", cell, remedy)
            found[cell] = point
    except ValueError as error:
        raise ConfigError(str(error)) from None
    return found


def write_choices(study_file: Path, choices: Choices) -> Path:
    """Write the choices of a study, sorted.

    Returns:
        the file.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([COLUMNS, *((*cell, point) for cell, point in sorted(choices.items()))])
    write_text(choices_path(study_file), text.getvalue())
    return choices_path(study_file)

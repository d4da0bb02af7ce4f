"""CARIBOU's tables that are not accuracies: noise against depth (IV), time and memory (VII to X)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any

from dpgnn.methods.caribou.depth import noise_per_sensitivity
from dpgnn.records.cells import Cell
from dpgnn.report.tables.table import Column, Table, columns_of
from dpgnn.report.tables.tables import mean_of
from dpgnn.report.tables.tops import DATASETS, FAMILIES

DEPTHS = (1, 2, 4, 8, 10, 15, 20)
CONTRACTIONS = (0.6, 0.7, 0.8, 0.9)
BUDGETS = (1.0, 4.0, 8.0)
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class RunCostRow:
    """Seconds and memory of one method on one data set; None where nobody measured."""

    dataset: Annotated[str, Column(header="Data set")]
    method: Annotated[str, Column(header="Method")]
    paper_seconds: Annotated[float | None, Column(header="Authors' seconds", kind="seconds")]
    our_seconds: Annotated[float | None, Column(header="Our seconds", kind="seconds")]
    our_memory: Annotated[float | None, Column(header="Our memory (MB)", kind="megabytes")]
    runs: Annotated[int, Column(header="Runs", kind="integer")]
    reason: Annotated[str, Column(header="Without records")]


def depth_table() -> Table:
    """Table IV: the noise K hops need, with contraction and without, from the formula.

    Its rows are mappings: a column stands for each constant of `CONTRACTIONS`, and no page reads them again.
    """
    rows = []
    for epsilon in BUDGETS:
        for num_hops in DEPTHS:
            row: dict[str, Any] = {"epsilon": f"{epsilon:g}", "num_hops": num_hops}
            for c in (*CONTRACTIONS, 1.0):
                row[f"c{c:g}"] = noise_per_sensitivity(num_hops, c, epsilon=epsilon, delta=DELTA)
            rows.append(row)
    columns = [Column(key=f"c{c:g}", header=f"c = {c:g}", kind="number") for c in CONTRACTIONS]
    return Table(
        name="paper-caribou-IV",
        title="caribou IV: noise against depth",
        caption=(
            f"Standard deviation of the noise over the sensitivity of one hop at delta {DELTA:g}, exact "
            "conversion. Plain composition is what GAP pays. No record is needed."
        ),
        columns=(
            Column(key="epsilon", header="ε", kind="epsilon"),
            Column(key="num_hops", header="Hops K", kind="integer"),
            *columns,
            Column(key="c1", header="plain composition", kind="number"),
        ),
        rows=rows,
    )


def cost_table(numbers: Sequence[Mapping[str, str]], cells: Sequence[Cell]) -> Table[RunCostRow]:
    """Tables VII to X: seconds and memory of a run, the authors' seconds beside ours.

    Args:
        numbers: rows of caribou_numbers.csv.
        cells: of the study, with the resources of their runs.
    """
    stated: dict[tuple[str, str], list[float]] = {}
    for row in numbers:
        if row["metric"] == "seconds_per_run_incl_startup" and row["degree"] in ("", "20"):
            name = DATASETS.get(row["dataset"], row["dataset"])
            stated.setdefault((name, row["method"]), []).append(float(row["value"]))
    own: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in cells:
        family = next((m for m, names in FAMILIES.items() if _is_of(cell.entry, names)), "")
        if family or "~" not in cell.entry:
            own.setdefault((cell.dataset, family, family or cell.label), []).append(cell)
    rows = []
    keys = [*own, *((d, m, m) for d, m in stated if (d, m, m) not in own and m in FAMILIES)]
    for dataset, family, name in sorted(keys):
        here = own.get((dataset, family, name), [])
        memory = [value for cell in here for value in cell.max_rss_mb]
        rows.append(
            RunCostRow(
                dataset=dataset,
                method=name,
                paper_seconds=mean_of(stated.get((dataset, family), [])),
                our_seconds=mean_of([value for cell in here for value in cell.seconds]),
                our_memory=max(memory, default=None),
                runs=sum(len(cell.runs) for cell in here),
                reason="" if here else "no run in this tier",
            )
        )
    return Table(
        name="paper-caribou-VII-X",
        title="caribou VII to X: time and memory",
        caption=(
            "Seconds of a run. Authors: their GPU, start of the program included, mean over budgets. Ours: "
            "one CPU thread, the start of Python left out, mean over runs; memory is the largest resident "
            "memory of the process. The authors' memory is not available. Sweeps are left out."
        ),
        columns=columns_of(RunCostRow),
        rows=rows,
        empty="No run has resources recorded.",
    )


def _is_of(entry: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(entry, pattern) for pattern in patterns)

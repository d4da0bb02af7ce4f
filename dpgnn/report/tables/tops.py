"""Published "top" accuracies beside honest selection, and what coin flips reach by the same selection.

A top is the largest test accuracy over configurations and repeats. Beside it stands the mean test accuracy
of the configuration that validates best, and the expected largest accuracy of as many fair coins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated

from dpgnn.methods.caribou.depth import best_of_coin_flips
from dpgnn.records.cells import Cell
from dpgnn.report.tables.table import Column, Table, columns_of

# the authors' method -> entries of workflow/studies/caribou.yaml that are its configurations
FAMILIES: dict[str, tuple[str, ...]] = {
    "caribou-edp": ("released-e*", "released~*"),
    "caribou-inf": ("released-inf",),
    "caribou-ndp": ("released-ndp-e*",),
    "gap-edp": ("gap-paper",),
    "gap-inf": ("gap-inf",),
    "gap-ndp": ("gap-ndp-paper",),
    "dpdgc-ndp": ("dpdgc-ndp-paper",),
    "sage-ndp": ("pertgraph-ndp-paper",),
    "mlp-dp": ("dp_mlp-paper",),
}
# the authors' data set -> ours, and the test nodes of the chains (two balanced classes, one label a chain)
DATASETS = {
    "chain-s": "chains-s", "chain-m": "chains-m", "chain-l": "chains-l", "chain-x": "chains-x",
    "facebook": "facebook-UIllinois20",
}  # fmt: skip
TEST_NODES = {"chains-s": 32, "chains-m": 40, "chains-l": 60, "chains-x": 100}


@dataclass(frozen=True, kw_only=True)
class TopRow:
    """One data set, method and budget: the authors' top, and ours where runs of the family are there."""

    dataset: Annotated[str, Column(header="Data set")]
    method: Annotated[str, Column(header="Authors' method")]
    epsilon: Annotated[str, Column(header="ε", kind="epsilon")]
    paper_top: Annotated[float, Column(header="Authors' top", kind="percent")]
    paper_draws: Annotated[int, Column(header="Draws", kind="integer")]
    paper_coins: Annotated[float | None, Column(header="Coins", kind="percent")] = None
    our_top: Annotated[float | None, Column(header="Our top", kind="percent")] = None
    our_draws: Annotated[int | None, Column(header="Our draws", kind="integer")] = None
    our_coins: Annotated[float | None, Column(header="Our coins", kind="percent")] = None
    honest: Annotated[float | None, Column(header="Chosen on validation", kind="percent")] = None
    configurations: Annotated[int | None, Column(header="Configurations", kind="integer")] = None
    entry: Annotated[str | None, Column(header="Chosen entry")] = None


def tops_table(numbers: Sequence[Mapping[str, str]], cells: Sequence[Cell]) -> Table[TopRow]:
    """One row for every data set, method and budget with a published top or with runs of ours.

    Args:
        numbers: rows of caribou_numbers.csv.
        cells: of the study; their validation scores choose, their test scores are shown.
    """
    rows = []
    for row in numbers:
        chosen = row["metric"] == "test_acc_top_single_run" and row["degree"] in ("", "20")
        if not (chosen and row["source_file"].startswith("SUMMARY") and row["method"] in FAMILIES):
            continue
        dataset = DATASETS.get(row["dataset"], row["dataset"])
        epsilon = "inf" if row["epsilon"] in ("", "inf") else f"{float(row['epsilon']):.10g}"
        draws = int(row["runs"])
        made = TopRow(
            dataset=dataset, method=row["method"], epsilon=epsilon,
            paper_top=float(row["value"]) / 100, paper_draws=draws, paper_coins=_coins(dataset, draws),
        )  # fmt: skip
        rows.append(_with_ours(made, cells))
    rows.sort(key=lambda row: (row.dataset, row.method, float(row.epsilon)))
    return Table(
        name="paper-caribou-tops",
        title="Top accuracies, honest selection, coin flips",
        caption=(
            "Accuracies in percent. Top: the largest test accuracy over configurations and repeats (draws), "
            "as published; ours the same way. Chosen on validation: mean test accuracy over repeats of the "
            "configuration with the best mean validation accuracy. Coins: the expected largest accuracy of "
            "as many runs that flip a fair coin for every test node; a coin per chain reaches 100. A top "
            "near its coins shows no signal."
        ),
        columns=columns_of(TopRow),
        rows=rows,
        empty="The authors' numbers hold no top accuracy.",
    )


def _coins(dataset: str, draws: int) -> float | None:
    """What the best of as many runs of fair coins reaches; None where test nodes are not counted."""
    nodes = TEST_NODES.get(dataset)
    return None if nodes is None else best_of_coin_flips(nodes, draws)


def _with_ours(row: TopRow, cells: Sequence[Cell]) -> TopRow:
    """The row with our top and our honest mean; as it is where no run of the family is there."""
    family = [
        cell
        for cell in cells
        if (cell.dataset, cell.epsilon) == (row.dataset, row.epsilon)
        and any(fnmatchcase(cell.entry, pattern) for pattern in FAMILIES[row.method])
    ]
    if not family:
        return row
    scores = [score for cell in family for score in cell.scores.values()]
    best = max(family, key=lambda cell: (cell.validation or 0.0, cell.entry))
    return replace(
        row,
        our_top=max(scores), our_draws=len(scores), our_coins=_coins(row.dataset, len(scores)),
        honest=best.interval["mean"], configurations=len(family), entry=best.entry,
    )  # fmt: skip

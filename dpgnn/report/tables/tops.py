"""Published "top" accuracies beside honest selection, and what coin flips reach by the same selection.

A top is the largest test accuracy over configurations and repeats. Beside it stands the mean test accuracy
of the configuration that validates best, and the expected largest accuracy of as many fair coins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from dpgnn.methods.caribou.depth import best_of_coin_flips
from dpgnn.records.cells import Cell
from dpgnn.report.tables.table import Column, Table

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


def tops_table(numbers: Sequence[Mapping[str, str]], cells: Sequence[Cell]) -> Table:
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
        made: dict[str, Any] = {"dataset": dataset, "method": row["method"], "epsilon": epsilon}
        made |= {"paper_top": float(row["value"]) / 100, "paper_draws": int(row["runs"])}
        if dataset in TEST_NODES:
            made["paper_coins"] = best_of_coin_flips(TEST_NODES[dataset], made["paper_draws"])
        rows.append(made | _ours(dataset, row["method"], epsilon, cells))
    rows.sort(key=lambda row: (row["dataset"], row["method"], float(row["epsilon"])))
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
        columns=(
            Column(key="dataset", header="Data set"),
            Column(key="method", header="Authors' method"),
            Column(key="epsilon", header="ε", kind="epsilon"),
            Column(key="paper_top", header="Authors' top", kind="percent"),
            Column(key="paper_draws", header="Draws", kind="integer"),
            Column(key="paper_coins", header="Coins", kind="percent"),
            Column(key="our_top", header="Our top", kind="percent"),
            Column(key="our_draws", header="Our draws", kind="integer"),
            Column(key="our_coins", header="Our coins", kind="percent"),
            Column(key="honest", header="Chosen on validation", kind="percent"),
            Column(key="configurations", header="Configurations", kind="integer"),
            Column(key="entry", header="Chosen entry"),
        ),
        rows=rows,
        empty="The authors' numbers hold no top accuracy.",
    )  # fmt: skip


def _ours(dataset: str, method: str, epsilon: str, cells: Sequence[Cell]) -> dict[str, Any]:
    """Our top and our honest mean; nothing where no run of the family is there."""
    family = [
        cell
        for cell in cells
        if (cell.dataset, cell.epsilon) == (dataset, epsilon)
        and any(fnmatchcase(cell.entry, pattern) for pattern in FAMILIES[method])
    ]
    if not family:
        return {}
    scores = [score for cell in family for score in cell.scores.values()]
    best = max(family, key=lambda cell: (cell.validation or 0.0, cell.entry))
    found: dict[str, Any] = {
        "our_top": max(scores), "our_draws": len(scores), "honest": best.interval["mean"],
        "configurations": len(family), "entry": best.entry,
    }  # fmt: skip
    if dataset in TEST_NODES:
        found["our_coins"] = best_of_coin_flips(TEST_NODES[dataset], len(scores))
    return found

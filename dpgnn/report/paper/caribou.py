"""CARIBOU's tables beside its means: tops (III, XII), noise against depth (IV), time (VII, VIII) and
memory (IX, X).

A top is the largest test accuracy over configurations and repeats. It is shown with the mean test accuracy of
the configuration with the best validation accuracy, and with the expected largest accuracy of equally many
runs that guess by fair coins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Any

from dpgnn.methods.caribou.depth import best_of_coin_flips, noise_per_sensitivity
from dpgnn.records.cells import Cell
from dpgnn.report.tables.table import Column, Table, columns_of
from dpgnn.report.tables.tables import mean_of

# the authors' method -> entries of workflow/studies/caribou.yaml that are its configurations
FAMILIES: dict[str, tuple[str, ...]] = {
    "caribou-edp": (
        "released-e*",
        "released~*",
        "released-c9~*",
        "released-map*",
        "released-k10~*",
        "logged-e*",
    ),
    "caribou-inf": ("released-inf", "released-c9-inf~*", "released-k10-inf~*", "logged-inf"),
    "caribou-ndp": ("released-ndp-e?", "released-ndp-e??"),
    "gap-edp": ("gap-paper", "gap-paper~*"),
    "gap-inf": ("gap-inf", "gap-paper-inf~*"),
    "gap-ndp": ("gap-ndp-paper",),
    "dpdgc-ndp": ("dpdgc-ndp-paper",),
    "sage-ndp": ("pertgraph-ndp-paper",),
    "mlp-dp": ("dp_mlp-paper",),
}
# Table XII: node level at another degree bound than Table III's 20, by the authors' scripts
OTHER_BOUND, OTHER_BOUNDS = "5", {"cora": "10", "pubmed": "10", "facebook-UIllinois20": "10"}
NODE_LEVEL = ("caribou-ndp", "gap-ndp", "dpdgc-ndp", "sage-ndp", "mlp-dp")
# the authors' data set -> ours, and the test nodes of the chains (two balanced classes, one label a chain)
DATASETS = {
    "chain-s": "chains-s", "chain-m": "chains-m", "chain-l": "chains-l", "chain-x": "chains-x",
    "facebook": "facebook-UIllinois20",
}  # fmt: skip
TEST_NODES = {"chains-s": 32, "chains-m": 40, "chains-l": 60, "chains-x": 100}


@dataclass(frozen=True, kw_only=True)
class TopRow:
    """One data set, method and budget: the authors' top, and ours if the family has runs."""

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


def tops_table(
    numbers: Sequence[Mapping[str, str]], cells: Sequence[Cell], *, other_bound: bool = False
) -> Table[TopRow]:
    """Table III (XII with `other_bound`): a row for every data set, method and budget with a published top.

    Args:
        numbers: rows of caribou_numbers.csv.
        cells: of the study; validation scores choose the configuration, test scores are shown.
        other_bound: only node level, at the degree bound of Table XII.
    """
    found = (_top_row(row, cells, other_bound) for row in numbers)
    rows = [row for row in found if row is not None]
    rows.sort(key=lambda row: (row.dataset, row.method, float(row.epsilon)))
    label = "TXII" if other_bound else "TIII"
    shown = (
        "node level, D = 5 (10 on Cora, PubMed, Facebook)"
        if other_bound
        else "D = 20 at node level"
    )
    return Table(
        name=f"paper-caribou-{label}",
        title=f"caribou {label}: top accuracies, honest selection, coin flips ({shown})",
        caption=(
            "Accuracies in percent. Top: the largest test accuracy over configurations and repeats (draws), "
            "as published; ours the same way. Chosen on validation: mean test accuracy over repeats of the "
            "configuration with the best mean validation accuracy. Coins: the expected largest accuracy of "
            "as many runs that flip a fair coin for every test node; a coin per chain reaches 100. A top "
            "near its coins shows no signal. A maximum of test scores estimates nothing, so no verdict."
        ),
        columns=columns_of(TopRow),
        rows=rows,
        empty="The authors' numbers hold no top accuracy.",
    )


def _top_row(row: Mapping[str, str], cells: Sequence[Cell], other_bound: bool) -> TopRow | None:
    """The authors' top beside ours; None if the row has no value of this table."""
    dataset = DATASETS.get(row["dataset"], row["dataset"])
    bound = OTHER_BOUNDS.get(dataset, OTHER_BOUND)
    wanted = (bound,) if other_bound else ("", "20")
    chosen = row["metric"] == "test_acc_top_single_run" and row["degree"] in wanted
    known = row["method"] in (NODE_LEVEL if other_bound else FAMILIES)
    if not (chosen and known and row["source_file"].startswith("SUMMARY")):
        return None
    epsilon = "inf" if row["epsilon"] in ("", "inf") else f"{float(row['epsilon']):.10g}"
    draws = int(row["runs"])
    made = TopRow(
        dataset=dataset, method=row["method"], epsilon=epsilon,
        paper_top=float(row["value"]) / 100, paper_draws=draws, paper_coins=_coins(dataset, draws),
    )  # fmt: skip
    patterns = FAMILIES[row["method"]]
    if other_bound:
        patterns = tuple(f"{pattern}~max_degree={bound}" for pattern in patterns)
    return _with_ours(made, cells, patterns)


@cache
def _coins(dataset: str, draws: int) -> float | None:
    """Expected best accuracy of equally many runs that guess by fair coins; None for unknown test nodes."""
    nodes = TEST_NODES.get(dataset)
    return None if nodes is None else best_of_coin_flips(nodes, draws)


def _with_ours(row: TopRow, cells: Sequence[Cell], patterns: Sequence[str]) -> TopRow:
    """The row with our top and our mean after validation; unchanged if the family has no run."""
    family = [
        cell
        for cell in cells
        if (cell.dataset, cell.epsilon) == (row.dataset, row.epsilon)
        and any(fnmatchcase(cell.entry, pattern) for pattern in patterns)
    ]
    if not family:
        return row
    scores = [score for cell in family for score in cell.scores.values()]
    best = max(family, key=lambda cell: (cell.validation or 0.0, cell.entry))
    return replace(
        row,
        our_top=max(scores), our_draws=len(scores), our_coins=_coins(row.dataset, len(scores)),
        honest=best.interval.mean, configurations=len(family), entry=best.entry,
    )  # fmt: skip


DEPTHS = (1, 2, 4, 8, 10, 15, 20)
CONTRACTIONS = (0.6, 0.7, 0.8, 0.9)
BUDGETS = (1.0, 4.0, 8.0)
DELTA = 1e-5


@dataclass(frozen=True, kw_only=True)
class RunTimeRow:
    """Seconds of one method on one data set; None if not measured."""

    dataset: Annotated[str, Column(header="Data set")]
    method: Annotated[str, Column(header="Method")]
    paper_seconds: Annotated[float | None, Column(header="Authors' seconds", kind="seconds")]
    our_seconds: Annotated[float | None, Column(header="Our seconds", kind="seconds")]
    runs: Annotated[int, Column(header="Runs", kind="integer")]
    reason: Annotated[str, Column(header="Without records")]


@dataclass(frozen=True, kw_only=True)
class RunMemoryRow:
    """Memory of one method on one data set; None if not measured."""

    dataset: Annotated[str, Column(header="Data set")]
    method: Annotated[str, Column(header="Method")]
    our_memory: Annotated[float | None, Column(header="Our memory (MB)", kind="megabytes")]
    runs: Annotated[int, Column(header="Runs", kind="integer")]
    reason: Annotated[str, Column(header="Without records")]


def depth_table() -> Table:
    """Table IV: the noise K hops need, with contraction and without, from the formula.

    Its rows are mappings with a column for each constant of `CONTRACTIONS`.
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
        name="paper-caribou-TIV",
        title="caribou TIV: noise against depth",
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


def cost_tables(
    numbers: Sequence[Mapping[str, str]], cells: Sequence[Cell]
) -> list[Table[RunTimeRow] | Table[RunMemoryRow]]:
    """Tables VII and VIII, seconds of a run at edge and node level, and IX and X, its memory.

    Methods without privacy are listed with the edge level.

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
    node_level = set[str]()
    for cell in cells:
        family = next((m for m, names in FAMILIES.items() if _is_of(cell.entry, names)), "")
        if family or "~" not in cell.entry:
            name = family or cell.label
            own.setdefault((cell.dataset, family, name), []).append(cell)
            unit = cell.runs[0].record.entry.get("privacy_unit")
            node_level |= {name} if unit not in (None, "edge") else set()
    node_level |= set(NODE_LEVEL)
    keys = [*own, *((d, m, m) for d, m in stated if (d, m, m) not in own and m in FAMILIES)]
    made: list[Table[RunTimeRow] | Table[RunMemoryRow]] = []
    for quantity, numbered in (("time", ("TVII", "TVIII")), ("memory", ("TIX", "TX"))):
        for name, level in zip(numbered, ("edge", "node")):
            chosen = sorted(key for key in keys if (key[2] in node_level) == (level == "node"))
            if quantity == "time":
                made.append(_time_table(name, level, chosen, own, stated))
            else:
                made.append(_memory_table(name, level, chosen, own))
    return made


Key = tuple[str, str, str]  # data set, the authors' method or "", name
Own = Mapping[Key, Sequence[Cell]]
NO_RUN = "no run in this tier"


def _time_table(
    name: str,
    level: str,
    keys: Sequence[Key],
    own: Own,
    stated: Mapping[tuple[str, str], list[float]],
) -> Table[RunTimeRow]:
    return Table(
        name=f"paper-caribou-{name}",
        title=f"caribou {name}: run time, {level} level",
        caption=(
            "Seconds of a run. Authors: their GPU, start of the program included, mean over budgets. Ours: "
            "one CPU thread, the start of Python left out, mean over runs. Sweeps that no method of the "
            "authors "
            "stands for are left out."
        ),
        columns=columns_of(RunTimeRow),
        rows=[
            RunTimeRow(
                dataset=key[0],
                method=key[2],
                paper_seconds=mean_of(stated.get(key[:2], [])),
                our_seconds=mean_of([s for cell in own.get(key, ()) for s in cell.seconds]),
                runs=sum(len(cell.runs) for cell in own.get(key, ())),
                reason="" if key in own else NO_RUN,
            )
            for key in keys
        ],
        empty="No run has resources recorded.",
    )


def _memory_table(name: str, level: str, keys: Sequence[Key], own: Own) -> Table[RunMemoryRow]:
    return Table(
        name=f"paper-caribou-{name}",
        title=f"caribou {name}: memory, {level} level",
        caption=(
            "The largest resident memory of the process of a run; many runs may share a process. The authors "
            "state the memory of their GPU, which is not available."
        ),
        columns=columns_of(RunMemoryRow),
        rows=[
            RunMemoryRow(
                dataset=key[0],
                method=key[2],
                our_memory=max(
                    (m for cell in own.get(key, ()) for m in cell.max_rss_mb), default=None
                ),
                runs=sum(len(cell.runs) for cell in own.get(key, ())),
                reason="" if key in own else NO_RUN,
            )
            for key in keys
        ],
        empty="No run has resources recorded.",
    )


def _is_of(entry: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(entry, pattern) for pattern in patterns)

"""docs/reference/cells.csv: every committed cell in one table, which the site's explorer reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated

from dpgnn import methods
from dpgnn.data import datasets
from dpgnn.data.raw.sources import read_sources
from dpgnn.records.cells import Cell
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.tables.table import Column, Table, columns_of


@dataclass(frozen=True, kw_only=True)
class ExplorerRow:
    """One cell with its claim; scores are fractions, intervals None with a single repeat.

    `edges` counts edges of the whole graph, undirected ones twice; None for a stand-in graph without a
    published count.
    """

    study: Annotated[str, Column(header="study")]
    dataset: Annotated[str, Column(header="graph")]
    setting: Annotated[str, Column(header="setting")]
    nodes: Annotated[int | None, Column(header="nodes", kind="integer")]
    edges: Annotated[int | None, Column(header="edges", kind="integer")]
    entry: Annotated[str, Column(header="entry")]
    label: Annotated[str, Column(header="method")]
    mode: Annotated[str, Column(header="mode")]
    unit: Annotated[str, Column(header="protects")]
    relation: Annotated[str, Column(header="neighbours")]
    degree_bound: Annotated[int | None, Column(header="degree bound", kind="integer")]
    answers: Annotated[str, Column(header="answers")]
    status: Annotated[str, Column(header="claim")]
    reads_edges: Annotated[bool, Column(header="reads edges")]
    epsilon: Annotated[str, Column(header="ε")]
    metric: Annotated[str, Column(header="metric")]
    mean: Annotated[float, Column(header="mean", kind="percent")]
    low: Annotated[float | None, Column(header="low", kind="percent")]
    high: Annotated[float | None, Column(header="high", kind="percent")]
    n: Annotated[int, Column(header="n", kind="integer")]
    majority: Annotated[float | None, Column(header="majority class", kind="percent")]


def explorer_table(found: Sequence[StudyResults]) -> Table[ExplorerRow]:
    """Every scored cell of the studies except points of sweeps, in the studies' order."""
    return Table(
        name="cells", title="Every cell", caption="", columns=columns_of(ExplorerRow),
        rows=list(_rows(found)),
    )  # fmt: skip


def _rows(found: Sequence[StudyResults]) -> Iterator[ExplorerRow]:
    for results in found:
        for cell in results.cells:
            if "~" not in cell.entry:
                yield _row(results.info.name, cell)


def _row(study: str, cell: Cell) -> ExplorerRow:
    facts, claim, interval = cell.runs[0].record.facts, cell.claim, cell.interval
    nodes = facts.get("num_nodes")
    return ExplorerRow(
        study=study, dataset=cell.dataset, setting=cell.setting,
        nodes=None if nodes is None else int(nodes), edges=_num_edges(cell.dataset),
        entry=cell.entry, label=cell.label, mode=cell.mode,
        unit=claim.privacy_unit if claim else "", relation=claim.relation if claim else "",
        degree_bound=claim.degree_bound if claim else None,
        answers=cell.answers if cell.is_private else "", status=claim.status if claim else "",
        reads_edges=methods.get(cell.method).uses_edges, epsilon=cell.epsilon, metric=cell.metric,
        mean=interval.mean, low=interval.low, high=interval.high, n=interval.n, majority=cell.majority,
    )  # fmt: skip


@cache
def _num_edges(dataset: str) -> int | None:
    """The published count: records of private runs hold no count that depends on the structure."""
    source = read_sources().get(dataset)
    if source is None or datasets.entry_of(dataset).raw_edges:
        return None
    return source.num_edges

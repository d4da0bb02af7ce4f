"""Differences behind a page's statements, each with the cells of its records; one CSV for each page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from dpgnn.records.cells import Cell
from dpgnn.report.statistics.pairs import Pair
from dpgnn.report.tables.table import Column, Table, columns_of


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """A difference behind a statement.

    Attributes:
        study: whose docs/reference/STUDY/runs.parquet has the records.
        statement: that counts it.
        dataset, setting, entry, epsilon: the cell; its runs are DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT. A
            tuned entry is named by its chosen point.
        reference, reference_epsilon: the cell that it is compared with.
        mean, low, high: entry minus reference with a 95 % interval, fractions; for a claim of a growing lead,
            that difference minus the one at the smallest epsilon.
        n: shared splits.
        verdict: after Holm's correction over the statement's pairs.
        detectable: the difference that would be decided with probability 0.8, a fraction.
    """

    study: Annotated[str, Column(header="Study")]
    statement: Annotated[str, Column(header="Statement")]
    dataset: Annotated[str, Column(header="Data set")]
    setting: Annotated[str, Column(header="Setting")]
    entry: Annotated[str, Column(header="Entry")]
    epsilon: Annotated[str, Column(header="ε", kind="epsilon")]
    reference: Annotated[str, Column(header="Against")]
    reference_epsilon: Annotated[str, Column(header="ε there", kind="epsilon")]
    mean: Annotated[float, Column(header="Difference", kind="points")]
    low: Annotated[float | None, Column(header="low", kind="points")]
    high: Annotated[float | None, Column(header="high", kind="points")]
    n: Annotated[int, Column(header="n", kind="integer")]
    verdict: Annotated[str, Column(header="Verdict")]
    detectable: Annotated[float | None, Column(header="Power", kind="points")]


def pair_row(study: str, statement: str, pair: Pair) -> PairRow:
    """A pair as a row."""
    return PairRow(
        study=study, statement=statement, dataset=pair.entry.dataset, setting=pair.entry.setting,
        entry=_entry_of(pair.entry), epsilon=pair.entry.epsilon, reference=_entry_of(pair.reference),
        reference_epsilon=pair.reference.epsilon, mean=pair.test.mean, low=pair.test.low,
        high=pair.test.high, n=pair.test.n, verdict=pair.verdict, detectable=pair.detectable,
    )  # fmt: skip


def _entry_of(cell: Cell) -> str:
    """The entry of a cell's runs."""
    return str(cell.runs[0].record.key["entry"])


def pairs_table(name: str, rows: Sequence[PairRow]) -> Table[PairRow]:
    """The differences behind the statements of a page."""
    return Table(
        name=name,
        title="The differences behind the statements",
        caption="At equal splits; corrected by Holm's method within a statement.",
        columns=columns_of(PairRow),
        rows=rows,
    )

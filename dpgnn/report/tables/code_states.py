"""Versions of the code that made the records: runs of each study by method and code hash."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

from dpgnn.records.frame import Run
from dpgnn.report.tables.table import Column, Table, columns_of


@dataclass(frozen=True, kw_only=True)
class CodeState:
    """Runs of one method in one study that the same code made.

    Attributes:
        study, method: whose runs.
        code_sha256: of their records.
        runs: how many.
        first, last: when the first and the last of them started, UTC; "" where it is not recorded.
    """

    study: Annotated[str, Column(header="Study")]
    method: Annotated[str, Column(header="Method")]
    code_sha256: Annotated[str, Column(header="Code")]
    runs: Annotated[int, Column(header="Runs", kind="integer")]
    first: Annotated[str, Column(header="First")]
    last: Annotated[str, Column(header="Last")]


def code_states(studies: Mapping[str, Sequence[Run]]) -> list[CodeState]:
    """A row for each study, method and code hash, by study, method and first start.

    Args:
        studies: name -> its runs.
    """
    rows = []
    for study, runs in studies.items():
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for run in runs:
            key = str(run.record.entry["method"]), run.record.code_sha256
            found[key].append(str(run.resources.get("started", "")))
        for (method, code), starts in found.items():
            known = sorted(filter(None, starts))
            rows.append(
                CodeState(
                    study=study, method=method, code_sha256=code, runs=len(starts),
                    first=known[0] if known else "", last=known[-1] if known else "",
                )
            )  # fmt: skip
    return sorted(rows, key=lambda row: (row.study, row.method, row.first, row.code_sha256))


def code_states_table(rows: Sequence[CodeState]) -> Table[CodeState]:
    """The rows as a table."""
    return Table(
        name="code_states",
        title="Which code made the records",
        caption="Runs by method and by the hash of the code that decided them.",
        columns=columns_of(CodeState),
        rows=rows,
    )


def told(rows: Sequence[CodeState], study: str) -> str:
    """The number of code versions behind a study's records, as text."""
    states: dict[str, int] = defaultdict(int)
    for row in rows:
        if row.study == study:
            states[row.method] += 1
    low, high = min(states.values(), default=0), max(states.values(), default=0)
    return f"{low}" if low == high else f"{low} to {high}"

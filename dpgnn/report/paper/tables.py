"""A paper's tables beside ours, by the map of `paper.map`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from dpgnn.core.checks import unknown
from dpgnn.core.config import ConfigError
from dpgnn.records.cells import Cell
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.map import (
    PaperMap,
    PaperTable,
    entry_pattern,
    rows_of,
)
from dpgnn.report.paper.rows import PaperRow, paper_row, row_matches, unscored_runs
from dpgnn.report.statistics.equivalence import MARGIN
from dpgnn.report.tables.table import Table, columns_of


def paper_tables(
    mapping: PaperMap,
    numbers: Sequence[Mapping[str, str]],
    cells: Sequence[Cell],
    runs: Sequence[Run],
    info: StudyInfo,
) -> list[Table[PaperRow]]:
    """One table per table of the paper: the paper's value, ours, the difference, a verdict.

    Every row of the paper is included; a row without our value gives the reason.

    Raises:
        ConfigError: the map names an entry or a column that does not exist, or a table finds no row.
    """
    _check(mapping, numbers, info)
    tables, unscored = [], unscored_runs(runs)
    for name, stated in mapping.tables.items():
        rows = [row for row in rows_of(stated, numbers) if row_matches(row, stated.where)]
        if not rows:
            source = stated.source or mapping.source
            raise ConfigError(f"tables.{name}.where matches no row of {source}")
        widths = {row.get("width", "") for row in rows}
        rounding = _rounding([row.get(mapping.value, "") for row in rows]) * stated.scale
        made = [
            replace(
                paper_row(row, stated, mapping, cells, unscored, info, rounding),
                detail=_detail(row, stated, with_width=len(widths) > 1),
            )
            for row in rows
        ]
        tables.append(_table(name, stated, mapping, made))
    return tables


def values_first(table: Table[PaperRow]) -> Table[PaperRow]:
    """Rows with our value first; data sets and methods in the paper's order, budgets by size."""
    datasets = list(dict.fromkeys(row.dataset for row in table.rows))
    methods = list(dict.fromkeys(row.method for row in table.rows))

    def place(row: PaperRow) -> tuple[bool, int, int, float]:
        empty = row.verdict == "not available"
        epsilon = float(row.epsilon or "inf")
        return empty, datasets.index(row.dataset), methods.index(row.method), epsilon

    return replace(table, rows=sorted(table.rows, key=place))


def _table(
    name: str, stated: PaperTable, mapping: PaperMap, rows: list[PaperRow]
) -> Table[PaperRow]:
    counts = {word: sum(row.verdict == word for row in rows) for word in
              ("same", "different", "undecided", "not available")}  # fmt: skip
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return Table(
        name=f"paper-{mapping.paper}-{name}",
        title=f"{mapping.paper} {name}: {stated.title}".rstrip(": "),
        caption=(
            f"Values in percent; {mapping.stated_as} beside ours, difference in points (ours minus "
            f"{mapping.stated_as}). {listed} of {len(rows)} values. Same: the 90 % interval of the "
            f"difference "
            f"lies within {100 * MARGIN:g} points (two one-sided t tests on the standard errors of both "
            f"means); "
            "different: it lies beyond; undecided: neither, with the number of repeats of ours that "
            "would decide "
            f"it. {_behind(mapping, stated)} Majority class: the share of the largest class among the "
            "test nodes."
        ),
        columns=[
            replace(column, header=mapping.stated_as.capitalize())
            if column.key == "paper_mean"
            else column
            for column in columns_of(PaperRow)
        ],
        rows=rows,
        reproduces=stated.reproduces,
    )  # fmt: skip


def _behind(mapping: PaperMap, stated: PaperTable) -> str:
    """What is known about the runs behind the stated values."""
    if mapping.runs:
        number = "their number of runs is stated with each"
    elif mapping.repeats:
        number = f"they are means of {mapping.repeats} runs"
    else:
        number = "how many runs they are means of is not stated, so each is taken for one run"
    own = stated.spread or mapping.spread
    spread = "" if own else "; their spread is not stated, and taken to be ours"
    return f"Of the stated values {number}{spread}."


def _check(mapping: PaperMap, numbers: Sequence[Mapping[str, str]], info: StudyInfo) -> None:
    for name, table in mapping.tables.items():
        stated = rows_of(table, numbers)
        columns = set(stated[0]) if stated else set()
        wanted = {mapping.value, *filter(None, [table.spread or mapping.spread])}
        for where in (table.where, *(rule.where for rule in table.rules)):
            wanted |= set(where)
        wanted |= set(table.apart)
        for position, rule in enumerate(table.rules):
            path = f"tables.{name}.rules.{position}"
            if bool(rule.entry) + bool(rule.select) + bool(rule.unavailable) != 1:
                raise ConfigError(f"{path} must state one of entry, select or unavailable")
            entries = {*info.entry_order, *info.other_entries}
            for key in ("select", "alternatives"):
                for pattern in getattr(rule, key):
                    if not any(fnmatchcase(entry, pattern) for entry in entries):
                        raise ConfigError(f"{path}.{key}: {pattern!r} matches no entry")
            if rule.pooled and not rule.select:
                raise ConfigError(f"{path}.pooled needs select, which names the grid")
            wanted |= set(re.findall(r"\{(\w+)\}", rule.entry))
            named = entry_pattern(rule.entry)
            if rule.entry and not any(fnmatchcase(entry, named) for entry in entries):
                raise ConfigError(f"{path}.entry: {unknown('entry', rule.entry, entries)}")
        if missing := sorted(wanted - columns):
            source = table.source or mapping.source
            raise ConfigError(f"{source} has no column {', '.join(missing)}")


def _rounding(texts: Sequence[str]) -> float:
    """Half a unit of the last decimal of the longest value, since a CSV may lose trailing zeros."""
    decimals = [len(text.strip().partition(".")[2]) for text in texts if text.strip()]
    return 0.5 * 10.0 ** -max(decimals, default=0)


def _detail(row: Mapping[str, str], stated: PaperTable, *, with_width: bool) -> str:
    """What distinguishes rows of one data set, method and budget."""
    parts = (
        [row.get("setting", "")] if isinstance(stated.where.get("setting"), (list, tuple)) else []
    )
    if row.get("layers"):
        parts.append(f"{row['layers']} layers" if row["layers"] != "1" else "1 layer")
    if with_width and row.get("width"):
        parts.append(f"width {row['width']}")
    parts += [f"{words}{row[column]}" for column, words in stated.apart.items() if row[column]]
    return ", ".join(filter(None, parts))

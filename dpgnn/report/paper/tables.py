"""A paper's tables beside ours, through the map of `paper.map` that says which row is which entry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any

from dpgnn.core.config import ConfigError
from dpgnn.records.cells import Cell
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.map import (
    PaperMap,
    PaperRule,
    PaperTable,
    entry_for,
    entry_pattern,
    rows_of,
)
from dpgnn.report.statistics.differences import differing_options
from dpgnn.report.statistics.equivalence import MARGIN, Spread, equivalence
from dpgnn.report.tables.table import DASH, Column, Table, columns_of
from dpgnn.training.evaluation import Interval, mean_interval

ONE_REPEAT = "one repeat"  # why nothing is decided
MOST_TESTS = 3  # runs that a reason names


def _paper_text(row: PaperRow) -> str:
    return _mean_std(row.paper_mean, row.paper_std)


def _our_text(row: PaperRow) -> str:
    return _mean_std(row.our_mean, row.our_std)


def _budget(row: PaperRow) -> str:
    return row.epsilon or DASH


@dataclass(frozen=True, kw_only=True)
class PaperRow:
    """A value of a paper beside ours.

    Attributes:
        dataset, method, detail, epsilon: as the paper names them.
        paper_mean, paper_std, our_mean, ..., difference: fractions; ours are None where there is no cell.
        difference_low, difference_high: the 90 % interval of the difference of the two means.
        verdict: same, different or undecided, see `equivalence`; "not available".
        needed: how many repeats of ours would decide an undecided one.
        majority: mean share of the largest class among the test nodes.
        reason: why there is none, or what may explain a difference and whether a run tests it.
        entry, our_dataset, our_setting, our_epsilon: the cell that the map names.
        candidates: entries that it was chosen among.
        paper_n: runs behind the paper's mean; None where it is not stated.
        rounding: the most that the paper's value was rounded by.
        resolution: the smallest step of our score.
    """

    dataset: Annotated[str, Column(header="Data set")]
    method: Annotated[str, Column(header="Method")]
    detail: Annotated[str, Column(header="Variant")]
    epsilon: Annotated[str, Column(header="ε", show=_budget)]
    paper_mean: Annotated[float | None, Column(header="Paper", kind="percent", show=_paper_text)]
    paper_std: Annotated[float | None, Column(header="paper_std", form="csv")]
    our_mean: Annotated[float | None, Column(header="Ours", kind="percent", show=_our_text)] = None
    our_std: Annotated[float | None, Column(header="std", form="csv")] = None
    our_low: Annotated[float | None, Column(header="low", form="csv")] = None
    our_high: Annotated[float | None, Column(header="high", form="csv")] = None
    our_n: Annotated[int | None, Column(header="n", kind="integer")] = None
    difference: Annotated[float | None, Column(header="Difference", kind="points")] = None
    difference_low: Annotated[float | None, Column(header="difference_low", form="csv")] = None
    difference_high: Annotated[float | None, Column(header="difference_high", form="csv")] = None
    verdict: Annotated[str, Column(header="Verdict")] = "not available"
    needed: Annotated[str, Column(header="Repeats that would decide", form="screen")] = ""
    majority: Annotated[float | None, Column(header="Majority class", kind="percent")] = None
    reason: Annotated[str, Column(header="Reason or ambiguity", form="screen")] = ""
    entry: Annotated[str | None, Column(header="Our entry", form="screen")] = None
    candidates: Annotated[int | None, Column(header="chosen on validation among", form="csv")] = (
        None
    )
    our_dataset: Annotated[str | None, Column(header="our_dataset", form="csv")] = None
    our_setting: Annotated[str | None, Column(header="our_setting", form="csv")] = None
    our_epsilon: Annotated[str | None, Column(header="our_epsilon", form="csv")] = None
    paper_n: Annotated[int | None, Column(header="paper_n", form="csv")] = None
    rounding: float
    resolution: float = 0.0


def paper_tables(
    mapping: PaperMap,
    numbers: Sequence[Mapping[str, str]],
    cells: Sequence[Cell],
    runs: Sequence[Run],
    info: StudyInfo,
) -> list[Table[PaperRow]]:
    """One table per table of the paper: the paper's value, ours, the difference, a verdict.

    Every row of the paper is there; one without a value of ours says why.

    Raises:
        ConfigError: the map names an entry or a column that does not exist, or a table finds no row.
    """
    _check(mapping, numbers, info)
    tables = []
    for name, stated in mapping.tables.items():
        rows = [row for row in rows_of(mapping, stated, numbers) if row_matches(row, stated.where)]
        if not rows:
            source = stated.source or mapping.source
            raise ConfigError(f"tables.{name}.where matches no row of {source}")
        widths = {row.get("width", "") for row in rows}
        rounding = _rounding([row.get(mapping.value, "") for row in rows]) * stated.scale
        made = [
            replace(
                _row(row, stated, mapping, cells, runs, info, rounding),
                detail=_detail(row, stated, with_width=len(widths) > 1),
            )
            for row in rows
        ]
        tables.append(_table(name, stated, mapping, made))
    return tables


def values_first(table: Table[PaperRow]) -> Table[PaperRow]:
    """Rows with a value of ours first; data sets and methods as the paper has them, budgets by size."""
    datasets = list(dict.fromkeys(row.dataset for row in table.rows))
    methods = list(dict.fromkeys(row.method for row in table.rows))

    def place(row: PaperRow) -> tuple[bool, int, int, float]:
        empty = row.verdict == "not available"
        epsilon = float(row.epsilon or "inf")
        return empty, datasets.index(row.dataset), methods.index(row.method), epsilon

    return replace(table, rows=sorted(table.rows, key=place))


def _row(
    row: Mapping[str, str],
    stated: PaperTable,
    mapping: PaperMap,
    cells: Sequence[Cell],
    runs: Sequence[Run],
    info: StudyInfo,
    rounding: float,
) -> PaperRow:
    made = _stated(row, stated, mapping, rounding)
    rule = next((rule for rule in stated.rules if row_matches(row, rule.where)), None)
    name = row.get("dataset", "")
    if rule is None:
        return replace(made, reason="no entry of this study stands for it")
    if name in stated.unavailable or rule.unavailable:
        return replace(made, reason=stated.unavailable.get(name) or rule.unavailable)
    mapped, _, own = stated.datasets.get(name, name).partition(".")
    place = (mapped, rule.setting or own or stated.setting)
    epsilon = rule.epsilon or _epsilon(row.get("epsilon", ""))
    there = [c for c in cells if (c.dataset, c.setting, c.epsilon) == (*place, epsilon)]
    entry = entry_for(rule.entry, row)
    grid: list[Cell] = []
    if rule.pooled:
        entry = rule.select[0]
        grid = [c for c in there if any(fnmatchcase(c.entry, item) for item in rule.select)]
        cell = grid[0] if grid else None
    elif rule.select:
        cell, candidates = _selected(rule.select, there)
        made = replace(made, candidates=candidates)
        entry = cell.entry if cell is not None else rule.select[0]
    else:
        cell = next((c for c in there if c.entry == entry), None)
    made = replace(
        made, entry=entry, our_dataset=place[0], our_setting=place[1], our_epsilon=epsilon
    )
    if cell is None:
        return replace(
            made, reason=_why_missing((*place, entry, epsilon), runs, info, mapping.absent)
        )
    if made.paper_mean is None:
        return replace(made, reason="no value is stated")
    return _beside(made, made.paper_mean, grid or [cell], there, rule, stated)


def _stated(
    row: Mapping[str, str], stated: PaperTable, mapping: PaperMap, rounding: float
) -> PaperRow:
    """What the paper says."""
    spread = stated.spread or mapping.spread
    return PaperRow(
        dataset=row.get("dataset", ""), method=row.get("method", ""), detail="",
        epsilon=row.get("epsilon", ""), rounding=rounding,
        paper_mean=_number(row, mapping.value, stated.scale),
        paper_std=_number(row, spread, stated.scale) if spread else None,
        paper_n=int(row[mapping.runs]) if mapping.runs and row[mapping.runs] else mapping.repeats,
    )  # fmt: skip


def _beside(
    made: PaperRow,
    paper: float,
    cells: Sequence[Cell],
    there: Sequence[Cell],
    rule: PaperRule,
    stated: PaperTable,
) -> PaperRow:
    """The row with the value of our cell, or of all runs of a grid, and what may explain a difference."""
    ours, cell = _scores(cells, stated), cells[0]
    made = replace(
        made,
        our_mean=ours.mean,
        our_std=ours.std,
        our_low=ours.low,
        our_high=ours.high,
        our_n=ours.n,
        majority=cell.majority,
        resolution=cell.resolution,
    )
    made = _with_verdict(made, paper, ours)
    if made.verdict == "different":
        return replace(made, reason=_explained(made, cell, there, rule, stated))
    if made.verdict == "undecided" and made.our_n == 1:
        return replace(made, reason=ONE_REPEAT)
    return made


def _scores(cells: Sequence[Cell], stated: PaperTable) -> Interval:
    metric = stated.metric or cells[0].metric
    return mean_interval(
        [float(run.record.metrics["test"][metric]) for cell in cells for run in cell.runs]
    )


def _with_verdict(row: PaperRow, paper: float, ours: Interval) -> PaperRow:
    """The row with ours minus the paper's value, whether they are the same, and what would decide it."""
    difference = ours.mean - paper
    found = equivalence(
        difference,
        Spread(std=ours.std, n=ours.n),
        Spread(std=row.paper_std, n=row.paper_n),
        rounding=row.rounding,
        resolution=row.resolution,
    )
    needed = "" if found.needed is None else str(found.needed)
    if found.verdict == "undecided" and found.low is not None and not needed:
        needed = "none up to 1,000"
    return replace(
        row, difference=difference, difference_low=found.low, difference_high=found.high,
        verdict=found.verdict, needed=needed,
    )  # fmt: skip


def _explained(
    row: PaperRow, cell: Cell, there: Sequence[Cell], rule: PaperRule, stated: PaperTable
) -> str:
    """What may explain a difference: the runs that test it, and what no run tests.

    A run tests a reading where it differs from ours in one option: the option, and what it changes.
    """
    parts = []
    tests = [
        (other, differing_options(cell, other))
        for other in there
        if other.entry != row.entry
        and any(fnmatchcase(other.entry, pattern) for pattern in rule.alternatives)
    ]
    single = [(other, options[0]) for other, options in tests if len(options) == 1]
    moved = [
        (_scores([other], stated).mean - (row.our_mean or 0.0), other, option)
        for other, option in single
    ]
    moved.sort(
        key=lambda item: abs((row.difference or 0.0) + item[0])
    )  # the nearest to the paper first
    told = [
        f"{option} = {_option(other, option)} ({other.entry}): {_points(change)}"
        for change, other, option in moved[:MOST_TESTS]
    ]
    if told:
        more = f", of {len(moved)} tested" if len(moved) > len(told) else ""
        parts.append(f"tested, one option changed: {'; '.join(told)}{more}")
    if rule.note:
        parts.append(f"untested: {rule.note}")
    return "; ".join(parts) or "untested: no reason known"


def _points(change: float) -> str:
    sign = "\u2212" if change < 0 else "+"
    return f"{sign}{abs(100 * change):.1f} points"


def _option(cell: Cell, path: str) -> Any:
    value: Any = cell.runs[0].record.entry.get("options", {})
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _selected(patterns: Sequence[str], cells: Sequence[Cell]) -> tuple[Cell | None, int]:
    """The cell with the best mean validation score among those whose entries match, and their number."""
    scored = [
        (cell.validation, cell)
        for cell in cells
        if any(fnmatchcase(cell.entry, pattern) for pattern in patterns)
        and cell.validation is not None
    ]
    if not scored:
        return None, 0
    return max(scored, key=lambda pair: (pair[0], pair[1].entry))[1], len(scored)


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
    """What is known of the runs behind the stated values."""
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
        stated = rows_of(mapping, table, numbers)
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
                known = ", ".join(sorted(entries))
                raise ConfigError(f"{path}.entry: unknown entry {rule.entry!r}; known: {known}")
        if unknown := sorted(wanted - columns):
            source = table.source or mapping.source
            raise ConfigError(f"{source} has no column {', '.join(unknown)}")


def row_matches(row: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    """Whether a row of a paper's numbers has what a map asks for."""
    for column, wanted in where.items():
        allowed = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        if row.get(column, "") not in {"" if value is None else str(value) for value in allowed}:
            return False
    return True


def _number(row: Mapping[str, str], column: str, scale: float) -> float | None:
    text = row.get(column, "").strip()
    if not text:
        return None
    try:
        return float(text) * scale
    except ValueError:
        raise ConfigError(
            f"{column} must be a number, got {text!r} in the row {dict(row)}"
        ) from None


def _rounding(texts: Sequence[str]) -> float:
    """Half a unit of the last decimal of the value with most of them: a CSV may lose trailing zeros."""
    decimals = [len(text.strip().partition(".")[2]) for text in texts if text.strip()]
    return 0.5 * 10.0 ** -max(decimals, default=0)


def _epsilon(text: str) -> str:
    return f"{float(text):.10g}" if text.strip() else "inf"


def _detail(row: Mapping[str, str], stated: PaperTable, *, with_width: bool) -> str:
    """What tells apart rows of one data set, method and budget."""
    parts = (
        [row.get("setting", "")] if isinstance(stated.where.get("setting"), (list, tuple)) else []
    )
    if row.get("layers"):
        parts.append(f"{row['layers']} layers" if row["layers"] != "1" else "1 layer")
    if with_width and row.get("width"):
        parts.append(f"width {row['width']}")
    parts += [f"{words}{row[column]}" for column, words in stated.apart.items() if row[column]]
    return ", ".join(filter(None, parts))


def _why_missing(
    key: tuple[str, str, str, str],
    runs: Sequence[Run],
    info: StudyInfo,
    absent: Mapping[str, str],
) -> str:
    dataset, setting, entry, epsilon = key
    for run in runs:
        stated = tuple(run.record.key[name] for name in ("dataset", "setting", "entry", "epsilon"))
        if stated == key and run.record.status != "ok":
            return f"{run.record.status}: {run.record.reason}"
    if key in info.cell_order:
        return "planned, not run yet"
    missing = f"not in tier {info.tier}: {dataset}.{setting}/{entry}/eps={epsilon}"
    return f"{missing}; {absent[dataset]}" if dataset in absent else missing


def _mean_std(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if std is not None else "")

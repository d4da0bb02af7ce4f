"""A paper's tables beside ours, through the map of `paper.map` that says which row is which entry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Any

from dpgnn.core.config import ConfigError
from dpgnn.records.cells import Cell
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.map import PaperMap, PaperRule, PaperTable
from dpgnn.report.tables.table import DASH, Column, Table, columns_of
from dpgnn.training.evaluation import Interval, mean_interval

ONE_REPEAT = "one repeat"  # why no spread is known, where none is stated either


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
        reason: why there is none, or what may explain a difference.
        entry, our_dataset, our_setting, our_epsilon: the cell that the map names.
        candidates: entries that it was chosen among.
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
    verdict: Annotated[str, Column(header="Verdict")] = "not available"
    reason: Annotated[str, Column(header="Reason or ambiguity")] = ""
    entry: Annotated[str | None, Column(header="Our entry")] = None
    candidates: Annotated[int | None, Column(header="chosen on validation among", form="csv")] = (
        None
    )
    our_dataset: Annotated[str | None, Column(header="our_dataset", form="csv")] = None
    our_setting: Annotated[str | None, Column(header="our_setting", form="csv")] = None
    our_epsilon: Annotated[str | None, Column(header="our_epsilon", form="csv")] = None
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
        rows = [row for row in numbers if row_matches(row, stated.where)]
        if not rows:
            raise ConfigError(f"tables.{name}.where matches no row of {mapping.source}")
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


def verdict_of(
    difference: float,
    ours_std: float | None,
    paper_std: float | None,
    rounding: float = 0.0,
    resolution: float = 0.0,
) -> str:
    """Whether ours lies within the spread of the paper's value.

    Within: |difference| <= max(2 sqrt(s_ours^2 + s_paper^2), t) + r with the standard deviations of single
    runs (a missing one is taken to be as large as the other), t one test node, the smallest step of our
    score (runs that agree may hide a spread below it), and r the most that the paper's value was rounded by.
    """
    known = [std for std in (ours_std, paper_std) if std is not None]
    if not known:
        return "no spread known"
    ours, paper = (known * 2)[:2]
    spread = max(2 * math.hypot(ours, paper), resolution)
    within = abs(difference) <= spread + rounding + 1e-12
    return "within spread" if within else "outside"


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
    if rule.select:
        cell, candidates = _selected(rule.select, there)
        made = replace(made, candidates=candidates)
    else:
        cell = next((c for c in there if c.entry == rule.entry), None)
    entry = rule.entry or (cell.entry if cell is not None else rule.select[0])
    made = replace(
        made, entry=entry, our_dataset=place[0], our_setting=place[1], our_epsilon=epsilon
    )
    if cell is None:
        return replace(
            made, reason=_why_missing((*place, entry, epsilon), runs, info, mapping.absent)
        )
    if made.paper_mean is None:
        return replace(made, reason="no value is stated")
    return _beside(made, made.paper_mean, cell, there, rule, stated)


def _stated(
    row: Mapping[str, str], stated: PaperTable, mapping: PaperMap, rounding: float
) -> PaperRow:
    """What the paper says."""
    return PaperRow(
        dataset=row.get("dataset", ""), method=row.get("method", ""), detail="",
        epsilon=row.get("epsilon", ""), rounding=rounding,
        paper_mean=_number(row, mapping.value, stated.scale),
        paper_std=_number(row, mapping.spread, stated.scale) if mapping.spread else None,
    )  # fmt: skip


def _beside(
    made: PaperRow,
    paper: float,
    cell: Cell,
    there: Sequence[Cell],
    rule: PaperRule,
    stated: PaperTable,
) -> PaperRow:
    """The row with the value of our cell, the verdict and what may explain a difference."""
    ours = _scores(cell, stated)
    made = replace(
        made,
        our_mean=ours.mean, our_std=ours.std, our_low=ours.low, our_high=ours.high, our_n=ours.n,
        resolution=cell.resolution,
    )  # fmt: skip
    difference, verdict = _compared(made, paper, ours)
    made = replace(made, difference=difference, verdict=verdict)
    if verdict == "no spread known":
        return replace(made, reason="; ".join(filter(None, [ONE_REPEAT, rule.note])))
    if verdict == "outside":
        others = [
            other
            for other in there
            if other.entry != made.entry
            and any(fnmatchcase(other.entry, pattern) for pattern in rule.alternatives)
        ]
        closing = _closing(made, paper, others, stated)
        return replace(made, reason="; ".join(filter(None, [rule.note, closing])))
    return made


def _scores(cell: Cell, stated: PaperTable) -> Interval:
    metric = stated.metric or cell.metric
    return mean_interval([float(run.record.metrics["test"][metric]) for run in cell.runs])


def _compared(row: PaperRow, paper: float, ours: Interval) -> tuple[float, str]:
    """Ours minus the paper's value, and its verdict."""
    difference = ours.mean - paper
    allowed = (row.rounding, row.resolution)
    return difference, verdict_of(difference, ours.std, row.paper_std, *allowed)


def _closing(row: PaperRow, paper: float, others: Sequence[Cell], stated: PaperTable) -> str:
    """Which other readings of the paper come within the spread of its value, of those that ran.

    Only readings nearer to the value than ours count: a wide spread of its own makes none an explanation.
    """
    if not others:
        return ""
    scored = {other.entry: _scores(other, stated) for other in others}
    means = {
        name: ours
        for name, ours in scored.items()
        if abs(ours.mean - paper) < abs(row.difference or 0.0)
    }
    if not means:
        return f"no other reading that ran comes nearer (of {len(scored)})"
    closing = [
        f"{name} ({100 * ours.mean:.1f})"
        for name, ours in means.items()
        if _compared(row, paper, ours)[1] == "within spread"
    ]
    if closing:
        return f"within spread with {', '.join(closing)}"
    nearest = min(means, key=lambda name: abs(means[name].mean - paper))
    return (
        f"no other reading that ran closes it (nearest {nearest}, "
        f"{100 * means[nearest].mean:.1f}, of {len(scored)})"
    )


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
              ("within spread", "outside", "no spread known", "not available")}  # fmt: skip
    listed = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return Table(
        name=f"paper-{mapping.paper}-{name}",
        title=f"{mapping.paper} {name}: {stated.title}".rstrip(": "),
        caption=(
            f"Values in percent; {mapping.stated_as} beside ours, difference in points (ours minus "
            f"{mapping.stated_as}). {listed} of {len(rows)} values. Within spread: the difference is at most "
            "twice the two standard deviations of single runs added in quadrature (a missing one is taken to "
            "be as large as the other) but no less than one test node of ours, and what the stated value was "
            "rounded by. No "
            "spread known: one repeat of ours, and none is stated."
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


def _check(mapping: PaperMap, numbers: Sequence[Mapping[str, str]], info: StudyInfo) -> None:
    columns = set(numbers[0]) if numbers else set()
    wanted = {mapping.value, *filter(None, [mapping.spread])}
    for name, table in mapping.tables.items():
        for where in (table.where, *(rule.where for rule in table.rules)):
            wanted |= set(where)
        for position, rule in enumerate(table.rules):
            path = f"tables.{name}.rules.{position}"
            if bool(rule.entry) + bool(rule.select) + bool(rule.unavailable) != 1:
                raise ConfigError(f"{path} must state one of entry, select or unavailable")
            entries = {*info.entry_order, *info.other_entries}
            for key in ("select", "alternatives"):
                for pattern in getattr(rule, key):
                    if not any(fnmatchcase(entry, pattern) for entry in entries):
                        raise ConfigError(f"{path}.{key}: {pattern!r} matches no entry")
            if rule.entry and rule.entry not in entries:
                known = ", ".join(sorted(entries))
                raise ConfigError(f"{path}.entry: unknown entry {rule.entry!r}; known: {known}")
    if unknown := sorted(wanted - columns):
        raise ConfigError(f"{mapping.source} has no column {', '.join(unknown)}")


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

"""A value of a paper beside ours: our cell, the verdict, and what may explain a difference."""

from __future__ import annotations

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
)
from dpgnn.report.statistics.differences import differing_options
from dpgnn.report.statistics.equivalence import Spread, equivalence
from dpgnn.report.tables.table import DASH, Column
from dpgnn.training.evaluation import Interval, mean_interval

ONE_REPEAT = "one repeat"  # why nothing is decided
MOST_TESTS = 3  # number of runs that a reason names
CELL = ("dataset", "setting", "entry", "epsilon")
CellKey = tuple[str, str, str, str]


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
        needed: number of our repeats that would decide an undecided value.
        majority: mean share of the largest class among the test nodes.
        reason: why our value is missing, or what may explain a difference and whether a run tests it.
        entry, our_dataset, our_setting, our_epsilon: the cell that the map names.
        candidates: the entries that it was chosen from.
        paper_n: runs behind the paper's mean; None where it is not stated.
        rounding: largest rounding error of the paper's value.
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


def paper_row(
    row: Mapping[str, str],
    stated: PaperTable,
    mapping: PaperMap,
    cells: Sequence[Cell],
    unscored: Mapping[CellKey, Run],
    info: StudyInfo,
    rounding: float,
) -> PaperRow:
    """A row of the paper's numbers beside the cell that the map names, or the reason why there is none.

    Args:
        row: of the paper's numbers, column -> text.
        stated, mapping: the table's part of the map, and the map.
        cells, unscored, info: of the study; see `unscored_runs`.
        rounding: largest rounding error of the paper's value, a fraction.
    """
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
    entry, candidates, grid = _standing(rule, row, there)
    made = replace(
        made, entry=entry, candidates=candidates, our_dataset=place[0], our_setting=place[1],
        our_epsilon=epsilon,
    )  # fmt: skip
    if not grid:
        return replace(
            made, reason=_why_missing((*place, entry, epsilon), unscored, info, mapping.absent)
        )
    if made.paper_mean is None:
        return replace(made, reason="no value is stated")
    return _beside(made, made.paper_mean, grid, there, rule, stated)


def _standing(
    rule: PaperRule, row: Mapping[str, str], there: Sequence[Cell]
) -> tuple[str, int | None, list[Cell]]:
    """The entry of a row, the number of its candidates, and its cells: one, or a pooled grid."""
    if rule.pooled:
        grid = [c for c in there if any(fnmatchcase(c.entry, item) for item in rule.select)]
        return rule.select[0], None, grid
    if rule.select:
        cell, candidates = _selected(rule.select, there)
        return (
            (rule.select[0], candidates, []) if cell is None else (cell.entry, candidates, [cell])
        )
    entry = entry_for(rule.entry, row)
    return entry, None, [c for c in there if c.entry == entry][:1]


def _stated(
    row: Mapping[str, str], stated: PaperTable, mapping: PaperMap, rounding: float
) -> PaperRow:
    """The row with the paper's value only."""
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
    """The row with the difference (ours minus the paper's), its verdict and the repeats needed."""
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
    """What may explain a difference, with the runs that test it.

    A run tests an explanation if it differs from ours in one option; the text gives the option and the
    change.
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
    """The cell with the best mean validation score among the matching entries, and their number."""
    scored = [
        (cell.validation, cell)
        for cell in cells
        if any(fnmatchcase(cell.entry, pattern) for pattern in patterns)
        and cell.validation is not None
    ]
    if not scored:
        return None, 0
    return max(scored, key=lambda pair: (pair[0], pair[1].entry))[1], len(scored)


def row_matches(row: Mapping[str, str], where: Mapping[str, Any]) -> bool:
    """Whether a row of a paper's numbers matches the map's `where`."""
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


def _epsilon(text: str) -> str:
    return f"{float(text):.10g}" if text.strip() else "inf"


def unscored_runs(runs: Sequence[Run]) -> dict[CellKey, Run]:
    """For each cell with a run without a result, the first such run."""
    found: dict[CellKey, Run] = {}
    for run in runs:
        if run.record.status != "ok":
            dataset, setting, entry, epsilon = (run.record.key[name] for name in CELL)
            found.setdefault((dataset, setting, entry, epsilon), run)
    return found


def _why_missing(
    key: CellKey,
    unscored: Mapping[CellKey, Run],
    info: StudyInfo,
    absent: Mapping[str, str],
) -> str:
    dataset, setting, entry, epsilon = key
    if key in unscored:
        record = unscored[key].record
        return f"{record.status}: {record.reason}"
    if key in info.cell_order:
        return "planned, not run yet"
    missing = f"not in tier {info.tier}: {dataset}.{setting}/{entry}/eps={epsilon}"
    return f"{missing}; {absent[dataset]}" if dataset in absent else missing


def _mean_std(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "–"
    return f"{100 * mean:.1f}" + (f" ± {100 * std:.1f}" if std is not None else "")

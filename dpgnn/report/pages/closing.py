"""The last lines that `dpgnn run` prints.

For a small study: what each entry protects, its accuracy and its cost. For a cell: our value, the paper's and
the committed one.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from dpgnn import methods
from dpgnn.core.checks import one_of, require
from dpgnn.core.storage import read_json
from dpgnn.core.wording import aligned, count
from dpgnn.records.archive import RUNS, read_archive
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import load_runs
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.map import load_map, read_numbers
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.paper.tables import paper_tables
from dpgnn.report.statistics.ranking import ANSWERS_TO
from dpgnn.report.statistics.words import PROTECTED
from dpgnn.report.tables.table import epsilon_text
from dpgnn.training.evaluation import Interval, mean_interval

WIDTH = 79  # letters of a terminal's line
MOST_RUNS = 500  # reading more takes longer than a person waits


def closing_lines(cells: Sequence[Cell]) -> list[str]:
    """A table of the data set with the most entries, and up to five sentences on it.

    Args:
        cells: of the study; shown are those of one place at the smallest and the largest budget.
    """
    private = [cell for cell in cells if cell.is_private and cell.claim is not None]
    if not private:
        return []
    place = max(
        dict.fromkeys(cell.place for cell in cells),
        key=lambda place: len({cell.entry for cell in private if cell.place == place}),
    )
    here = [cell for cell in cells if cell.place == place]
    budgets = sorted({cell.epsilon for cell in private if cell.place == place}, key=float)
    free = [cell for cell in here if not cell.is_private]
    covered = [cell for cell in private if cell.place == place]
    lines = ["", *_table(place[0], free, covered, budgets), ""]
    for sentence in _sentences(free, covered, budgets):
        lines += textwrap.wrap(f"- {sentence}", WIDTH, subsequent_indent="  ")
    return lines


def _table(
    dataset: str, free: Sequence[Cell], private: Sequence[Cell], budgets: Sequence[str]
) -> list[str]:
    shown = list(dict.fromkeys((budgets[0], budgets[-1])))
    n = private[0].interval.n
    runs = f"{count(n, 'repeat')} of one split" if private[0].published_split else count(n, "split")
    head = f"{dataset}, {runs}"
    names = [f"ε = {epsilon_text(budget)}" for budget in shown]
    rows = [[head, *names, "cost", "protects", "answers to"]]
    rows += [[cell.label, *[_percent(cell)] * len(shown), "–", "nothing", "–"] for cell in free]
    for entry in sorted(
        {cell.entry for cell in private}, key=lambda e: -_mean(private, e, budgets[-1])
    ):
        found = {cell.epsilon: cell for cell in private if cell.entry == entry}
        first = next(iter(found.values()))
        rows.append([
            first.label, *(_percent(found[e]) if e in found else "–" for e in shown),
            _cost(free, found[budgets[-1]]) if free and budgets[-1] in found else "–",
            _protects(first), ANSWERS_TO[first.answers],
        ])  # fmt: skip
    lines = aligned(rows)
    if free:
        best = max(free, key=_score).label
        lines.append(f"accuracy in %; cost: points below {best} without privacy, at {names[-1]}")
    return lines


def _cost(free: Sequence[Cell], cell: Cell) -> str:
    """Percentage points below the best entry without privacy."""
    return f"{100 * (max(map(_score, free)) - _score(cell)):.1f}"


def _beside(cost: str) -> str:
    """A cost in words: "4.1 below that", or above it where the private entry scores higher."""
    return f"{cost.lstrip('-')} {'above' if cost.startswith('-') and float(cost) else 'below'} that"


def _sentences(free: Sequence[Cell], private: Sequence[Cell], budgets: Sequence[str]) -> list[str]:
    last = [cell for cell in private if cell.epsilon == budgets[-1]]
    given = sorted((cell for cell in last if cell.answers != "none"), key=_score, reverse=True)
    found = []
    if len(free) > 1:
        best, *_, worst = sorted(free, key=_score, reverse=True)
        found.append(
            f"Without privacy {best.label} reaches {_percent(best)} % and {worst.label} {_percent(worst)} %."
        )
    told: set[str] = set()
    for cell in given:
        protects = _protects(cell)
        if protects in told:
            continue
        told.add(protects)
        edges = "" if methods.get(cell.method).uses_edges else ", which reads no edge,"
        lost = f", {_beside(_cost(free, cell))}" if free else ""
        found.append(
            f"With {protects} protected at ε = {epsilon_text(budgets[-1])}, {cell.label}{edges} "
            f"reaches {_percent(cell)} %{lost}."
        )
    for cell in sorted(last, key=_score, reverse=True):
        if cell.answers == "none":
            found.append(
                f"{cell.label} may be shown, but not its answers: they read other nodes' data, which no "
                "claim covers."
            )
            break
    found.append("The report has intervals, and says which differences are larger than the noise.")
    return found[:5]


def _protects(cell: Cell) -> str:
    assert cell.claim is not None
    return PROTECTED[cell.claim.privacy_unit]


def _score(cell: Cell) -> float:
    return cell.interval.mean


def _mean(cells: Sequence[Cell], entry: str, epsilon: str) -> float:
    return max((_score(c) for c in cells if (c.entry, c.epsilon) == (entry, epsilon)), default=0.0)


def _percent(cell: Cell) -> str:
    return f"{100 * _score(cell):.1f}"


def cells_of_table(info: StudyInfo, name: str, dataset: str = "") -> list[str]:
    """The cells that belong to a table of the study's paper, as patterns DATASET.SETTING/ENTRY/eps=EPSILON.

    Args:
        info: the study, of the tier that is run.
        name: the table's name in the paper's map, such as T1.
        dataset: one of our data sets; "" for all.

    Raises:
        ValueError: no such table or data set, or none of its cells is planned.
    """
    require(bool(info.paper), "--table", "belong to a paper's study", info.name)
    one_of("--table", name, load_map(info.paper).tables)
    found = _patterns_of(info, name)
    here = [cell for cell in found if not dataset or cell.split(".")[0] == dataset]
    known = ", ".join(dict.fromkeys(cell.split(".")[0] for cell in found))
    require(bool(here), "--dataset", f"be one of {known} for table {name}", dataset)
    planned = {folder.rsplit("/", 1)[0] for folder in info.planned}
    wanted = [cell for cell in here if any(fnmatchcase(key, cell) for key in planned)]
    of_it = f"--table {name}" + (f" --dataset {dataset}" if dataset else "")
    larger = "M" if info.tier == "S" else "L"
    remedy = f"`dpgnn run {info.name} --tier {larger} {of_it}` has more of its cells"
    require(
        bool(wanted),
        f"table {name} {dataset}".strip(),
        f"have cells in tier {info.tier}",
        0,
        remedy,
    )
    return wanted


def paper_command(info: StudyInfo, larger: Iterable[StudyInfo]) -> str:
    """A command that fills cells of the paper's tables, if this tier has none of them; "" if it has some.

    Args:
        info: the study, of the tier that was run.
        larger: the same study of larger tiers, the smallest first.

    Returns:
        a sentence with a command for the data set of the first table that has planned cells.
    """
    if not info.paper or any(_planned_of(info, name) for name in load_map(info.paper).tables):
        return ""
    for other in larger:
        for name in load_map(info.paper).tables:
            if cells := _planned_of(other, name):
                dataset = cells[0].split(".")[0]
                here = {cell for cell in cells if cell.startswith(f"{dataset}.")}
                number = sum(run.rpartition("/")[0] in here for run in other.planned)
                return (
                    f"This tier has no cell of the paper's tables; `dpgnn run {info.name} --tier "
                    f"{other.tier} --table {name} --dataset {dataset}` makes those of table {name} there "
                    f"({number} runs)."
                )
    return ""


def _planned_of(info: StudyInfo, name: str) -> list[str]:
    """Planned cells of a table of the study's paper, with all points that one is chosen from."""
    wanted = _patterns_of(info, name)
    planned = dict.fromkeys(run.rpartition("/")[0] for run in info.planned)
    return [cell for cell in planned if any(fnmatchcase(cell, pattern) for pattern in wanted)]


def cell_lines(info: StudyInfo, runs: Sequence[str], results: Path, reference: Path) -> list[str]:
    """A line for each cell: ours with its spread, the paper's value, the committed mean.

    Cells with a paper's value come last, where they stay visible in a terminal.

    Args:
        info: the study.
        runs: names of runs; each of their cells is shown with all its recorded repeats.
        results: the folder of the study's results.
        reference: docs/reference.
    """
    wanted = {run.rsplit("/", 1)[0] for run in runs}
    planned = [run for run in info.planned if run.rsplit("/", 1)[0] in wanted]
    cells = build_cells(load_runs(results / "runs", planned), info)
    papers = _paper_rows(info, cells) if info.paper else []
    kept = _committed(reference / info.name, planned)
    lines: dict[bool, list[str]] = {False: [], True: []}
    for cell in cells:
        name = _name(cell)
        parts = [f"ours {_text(cell.interval)}"]
        values = {_paper(row): None for row in papers if _is_beside(row, cell)}
        parts += [f"paper {value}" for value in values]
        scores = [kept[run] for run in planned if run.startswith(f"{name}/") and run in kept]
        if scores:
            parts.append(
                f"committed {_text(mean_interval([score[cell.metric] for score in scores]))}"
            )
        lines[bool(values)].append(f"{name}: {', '.join(parts)}")
    return lines[False] + lines[True]


def _paper_rows(info: StudyInfo, cells: Sequence[Cell], name: str = "") -> list[PaperRow]:
    mapping = load_map(info.paper)
    tables = paper_tables(mapping, read_numbers(mapping.source), cells, [], info)
    chosen = [t for t in tables if not name or t.name == f"paper-{mapping.paper}-{name}"]
    return [row for table in chosen for row in table.rows]


def _is_beside(row: PaperRow, cell: Cell) -> bool:
    key = (row.our_dataset, row.our_setting, row.entry, row.our_epsilon)
    return (
        key == (cell.dataset, cell.setting, cell.entry, cell.epsilon) and row.our_mean is not None
    )


def _patterns_of(info: StudyInfo, name: str) -> list[str]:
    """Patterns of a table's cells; for a cell chosen on validation, of all its candidates."""
    rules = [rule for rule in load_map(info.paper).tables[name].rules if rule.select]
    among = {rule.select[0]: rule.select for rule in rules}
    return list(
        dict.fromkeys(
            f"{row.our_dataset}.{row.our_setting}/{entry}/eps={row.our_epsilon}"
            for row in _paper_rows(info, [], name)
            if row.our_dataset and row.entry
            for entry in among.get(row.entry, [row.entry])
        )
    )


def _name(cell: Cell) -> str:
    return f"{cell.dataset}.{cell.setting}/{cell.entry}/eps={cell.epsilon}"


def _paper(row: PaperRow) -> str:
    spread = "" if row.paper_std is None else f" ± {100 * row.paper_std:.1f}"
    return f"{100 * (row.paper_mean or 0.0):.1f}{spread} ({' '.join(filter(None, [row.method, row.detail]))})"


def _text(found: Interval) -> str:
    spread = "" if found.std is None else f" ± {100 * found.std:.1f}"
    return f"{100 * found.mean:.1f}{spread} (n {found.n})"


def _committed(folder: Path, runs: Iterable[str]) -> dict[str, dict[str, float]]:
    """Run -> test metrics of its committed record, for runs that have one."""
    if (folder / RUNS).exists():
        texts = read_archive(folder / RUNS)
        records = {run: json.loads(texts[run][0]) for run in runs if run in texts}
    else:
        paths = {run: folder / "runs" / run / "record.json" for run in runs}
        records = {run: read_json(path) for run, path in paths.items() if path.exists()}
    return {
        run: record["metrics"]["test"]
        for run, record in records.items()
        if record["status"] == "ok"
    }

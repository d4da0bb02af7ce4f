"""Everything that a report shows of one study, computed once from its records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dpgnn.core.checks import require
from dpgnn.core.paths import Paths
from dpgnn.records.archive import RUNS
from dpgnn.records.attacks import KEY, AttackResult, read_attacks
from dpgnn.records.cells import Cell, build_cells
from dpgnn.records.frame import Run, load_runs
from dpgnn.records.info import StudyInfo
from dpgnn.report.figures import figure_data, figures
from dpgnn.report.figures.attack_figure import draw_attacks
from dpgnn.report.figures.charts import Chart, accuracy_chart, class_chart, training_chart
from dpgnn.report.figures.drawing import Picture
from dpgnn.report.figures.parts import in_rows
from dpgnn.report.pages.findings import Finding, findings
from dpgnn.report.paper import drawn as paper_drawn
from dpgnn.report.paper.figures import FigureRow
from dpgnn.report.paper.map import load_map, read_numbers
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.paper.tables import paper_tables, values_first
from dpgnn.report.statistics import comparisons
from dpgnn.report.statistics.differences import differences
from dpgnn.report.statistics.ranking import rankings, refusals
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.statistics.words import Protection, protections
from dpgnn.report.tables import comparisons_table, run_tables, tables, tuning
from dpgnn.report.tables.attacks import as_audits, attacks_table
from dpgnn.report.tables.claims_table import audits_table, claims_table, read_audits
from dpgnn.report.tables.code_states import CodeState, code_states
from dpgnn.report.tables.copied import CopiedRow, GainRow, OptionRow, copied_tables, gains_table
from dpgnn.report.tables.mean_ranks import mean_rank_rows, mean_ranks_table
from dpgnn.report.tables.rows import (
    ClaimRow,
    ComparisonRow,
    DifferenceRow,
    MeanRankRow,
    RankingRow,
    RefusalRow,
    StatusRow,
    SummaryRow,
    TunedRow,
)
from dpgnn.report.tables.run_tables import plans_table
from dpgnn.report.tables.table import Table
from dpgnn.report.tables.tuned_ranks import TunedRankRow, tuned_ranks_table


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """A study's results, ready to be written.

    Attributes:
        info: the study.
        runs: the planned runs that have a record.
        cells: scored cells, in the study's order.
        tuned_cells: tuned entries, with the scores of the points that were chosen.
        summary: the findings at the top of the page.
        protection: what each entry protects.
        scores, comparisons, rankings, mean_ranks, refusals, tuned, tuned_comparisons, tuned_rankings,
            tuned_ranks, copied, options, gains, differences, claims, status: the tables that pages also read.
        further: the other tables.
        paper_figures: figures of the study's paper, drawn or not.
        papers: one table per table of the study's paper.
        figures: printed and interactive form of each figure.
    """

    info: StudyInfo
    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    summary: tuple[Finding, ...]
    protection: tuple[Protection, ...]
    scores: Table[SummaryRow]
    comparisons: Table[ComparisonRow]
    rankings: Table[RankingRow]
    mean_ranks: Table[MeanRankRow]
    refusals: Table[RefusalRow]
    tuned: Table[TunedRow]
    tuned_cells: tuple[Cell, ...]
    tuned_comparisons: Table[ComparisonRow]
    tuned_rankings: Table[RankingRow]
    tuned_ranks: Table[TunedRankRow]
    copied: Table[CopiedRow]
    options: Table[OptionRow]
    gains: Table[GainRow]
    differences: Table[DifferenceRow]
    claims: Table[ClaimRow]
    status: Table[StatusRow]
    further: tuple[Table, ...]
    paper_figures: tuple[FigureRow, ...]
    papers: tuple[Table[PaperRow], ...]
    figures: tuple[tuple[Picture, Chart | None], ...]

    @property
    def tables(self) -> dict[str, Table]:
        """All tables but the paper's, by name."""
        read: tuple[Table, ...] = (
            self.scores, self.comparisons, self.rankings, self.mean_ranks, self.refusals, self.tuned,
            self.tuned_comparisons, self.tuned_rankings, self.tuned_ranks, self.copied, self.options,
            self.gains, self.differences, self.claims, self.status,
        )  # fmt: skip
        return {table.name: table for table in (*read, *self.further)}

    @property
    def versions(self) -> dict[str, str]:
        """Package -> version; several where runs differ."""
        found: dict[str, set[str]] = {}
        for run in self.runs:
            for name, version in run.record.versions.items():
                found.setdefault(name, set()).add(version)
        return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

    @cached_property
    def code_states(self) -> list[CodeState]:
        """The versions of the code that made the records."""
        return code_states({self.info.name: self.runs})

    @property
    def started(self) -> tuple[str, str] | None:
        """Start of the first and the last run; None if not recorded."""
        times = sorted(
            str(run.resources["started"]) for run in self.runs if run.resources.get("started")
        )
        return (times[0], times[-1]) if times else None


def has_records(info: StudyInfo, results: Path) -> bool:
    """Whether a planned run of a study has a record, as a file or in an archive."""
    folder = Paths(results=results).study(info.name)
    files = (folder / "runs" / name / "record.json" for name in info.planned)
    return (folder / RUNS).exists() or any(path.exists() for path in files)


def gather(
    info: StudyInfo, results: Path, folder: Path | None = None, *, curves: bool = True
) -> StudyResults:
    """Read a study's records and make all its tables and figures.

    Args:
        info: the study; its planned runs are read, others on disk are left alone.
        results: the root of results.
        folder: where the study's runs/ and audits/ lie; None is its folder below `results`.
        curves: also draw recall by class and training curves, which take longest.

    Raises:
        ValueError: there is no record at all, or a record or an audit is damaged.
    """
    paths = Paths(results=results)
    folder = folder or paths.study(info.name)
    runs = load_runs(folder / "runs", info.planned)
    remedy = f"run `dpgnn run {info.config_path} --tier {info.tier}` first"
    require(bool(runs), f"{folder / 'runs'}", "hold at least one planned record.json", 0, remedy)
    audits, attacked = _tested(folder, runs)
    return _results(info, paths, runs, audits, attacked, curves=curves)


def _tested(folder: Path, runs: Sequence[Run]) -> tuple[list[dict[str, Any]], list[AttackResult]]:
    """Audits and attacks of the runs' configurations; files of others may lie beside them.

    Files before 2026-12 do not say of which configuration they are.
    """
    made = {
        (*(str(run.record.key[name]) for name in KEY), run.record.key["repeat"]): run.record.config_sha256
        for run in runs
    }  # fmt: skip
    audits = [
        (audit, (*(str(audit["key"][name]) for name in KEY), audit["key"].get("repeat", 0)))
        for audit in read_audits(folder / "audits")
    ]
    attacked = read_attacks(folder / "attacks")
    return (
        [audit for audit, place in audits if audit.get("config_sha256") in (None, made.get(place))],
        [r for r in attacked if r.config_sha256 in (None, made.get((*r.place, r.repeat or 0)))],
    )


def _results(
    info: StudyInfo,
    paths: Paths,
    runs: Sequence[Run],
    audits: Sequence[Mapping[str, Any]],
    attacked: Sequence[AttackResult],
    *,
    curves: bool,
) -> StudyResults:
    """Tables and figures of the study; each statistic is computed once."""
    cells, released = build_cells(runs, info), build_cells(runs, info, released=True)
    compared = cells if info.accuracy else []
    stated = figure_data.plotted(compared)
    ranked, refused = rankings(stated), refusals(stated)
    ranking_table, tuned = tables.rankings_table(ranked), tuning.tuned_cells(compared, info)
    asked, chosen = comparisons.compared(compared, info), [item.cell for item in tuned]
    copied, options = copied_tables(compared, info)
    paired = differences(compared, info, asked)
    papers = _papers(cells, runs, info)
    drawn, listed = paper_drawn.paper_figures(info, cells, paths)
    on_real = on_real_graphs_if_any(asked, lambda item: item.entry.dataset)
    summary = findings(
        info, runs, cells, rankings=ranked, refusals=refused, differences=paired, papers=papers,
        asked=comparisons_table.sentences(on_real),
    )  # fmt: skip
    of_runs = _run_tables(info, paths, runs, cells, released)
    pictures = ((picture, None) for picture in draw_attacks(attacked, info))
    claiming = [*cells, *released]
    return StudyResults(
        info=info, runs=tuple(runs), cells=tuple(cells), summary=tuple(summary),
        protection=tuple(protections(claiming)),
        scores=tables.summary_table(cells, info),
        comparisons=comparisons_table.comparisons_table(asked),
        rankings=ranking_table,
        mean_ranks=mean_ranks_table(mean_rank_rows(ranking_table.rows)),
        refusals=tables.refusals_table(refused),
        tuned=tuning.tuned_table(tuned, info.tuned_on),
        tuned_cells=tuple(chosen),
        tuned_comparisons=comparisons_table.comparisons_table(
            comparisons.compared(chosen, info), tuned=True
        ),
        tuned_rankings=tuning.tuned_rankings_table(rankings(chosen)),
        tuned_ranks=tuned_ranks_table(tuned, compared),
        copied=copied, options=options, gains=gains_table(copied.rows),
        differences=tables.differences_table(paired, info),
        claims=claims_table(claiming, [*audits, *as_audits(attacked)]),
        status=run_tables.status_table(runs, info),
        further=(audits_table(audits, cells), attacks_table(attacked, cells), *of_runs, *listed,
                 *paper_drawn.further_tables(info, cells)),
        paper_figures=tuple(row for table in listed for row in table.rows),
        papers=tuple(papers),
        figures=(*_figures(stated, len(cells), ranked, info, curves=curves), *drawn, *pictures),
    )  # fmt: skip


def _run_tables(
    info: StudyInfo,
    paths: Paths,
    runs: Sequence[Run],
    cells: Sequence[Cell],
    released: Sequence[Cell],
) -> Iterator[Table]:
    """Tables of cost, graphs, runs, and plans of releases, which have no score."""
    yield run_tables.cost_table(cells)
    yield run_tables.datasets_table(runs, paths)
    yield run_tables.runs_table(runs)
    stated = released if info.accuracy else [*cells, *released]
    if stated:
        yield plans_table(stated)


def _papers(cells: Sequence[Cell], runs: Sequence[Run], info: StudyInfo) -> list[Table[PaperRow]]:
    """The paper's tables beside ours; none for a study of no paper."""
    if not info.paper:
        return []
    mapping = load_map(info.paper)
    made = paper_tables(mapping, read_numbers(mapping.source), cells, runs, info)
    return [values_first(table) for table in made]


def _figures(
    shown: Sequence[Cell], num_cells: int, ranked: Any, info: StudyInfo, *, curves: bool
) -> list[tuple[Picture, Chart]]:
    """Figures of the cells that are drawn, out of `num_cells`."""
    if not shown:
        return []
    found = [
        (figures.draw_accuracy(figure, info), accuracy_chart(figure, info))
        for figure in figure_data.accuracy_figures(shown, ranked)
    ]
    for of_classes in in_rows(figure_data.class_curves(shown)) if curves else ():
        found.append((figures.draw_classes(of_classes, info), class_chart(of_classes, info)))
    for of_training in in_rows(figure_data.training_curves(shown)) if curves else ():
        found.append((figures.draw_training(of_training, info), training_chart(of_training, info)))
    if len(shown) < num_cells:
        note = " Entries made by a sweep stand in the tables only."
        found = [(replace(picture, caption=picture.caption + note), c) for picture, c in found]
    return found

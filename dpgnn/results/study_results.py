"""Everything a report shows of one study, made once from its records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgnn.checks import require
from dpgnn.paths import Paths
from dpgnn.results import figure_data, figures, tables
from dpgnn.results.cells import Cell, build_cells
from dpgnn.results.charts import Chart, accuracy_chart, class_chart, training_chart
from dpgnn.results.claims_table import audits_table, claims_table, read_audits
from dpgnn.results.differences import differences
from dpgnn.results.figures import Picture
from dpgnn.results.findings import Finding, findings
from dpgnn.results.frame import Run, load_runs, to_frame
from dpgnn.results.info import StudyInfo
from dpgnn.results.paper import load_map, paper_tables, read_numbers
from dpgnn.results.ranking import rankings, refusals
from dpgnn.results.table import Column, Table
from dpgnn.results.words import Protection, protections
from dpgnn.storage import read_json


@dataclass(frozen=True, kw_only=True)
class StudyResults:
    """A study's results, ready to be written.

    Attributes:
        info: the study.
        runs: the planned runs that have a record.
        cells: scored cells, in the study's order.
        summary: what stands at the top of the page.
        protection: what each entry protects.
        tables: by name.
        papers: one table per table of the study's paper.
        figures: printed and interactive form of each figure.
    """

    info: StudyInfo
    runs: tuple[Run, ...]
    cells: tuple[Cell, ...]
    summary: tuple[Finding, ...]
    protection: tuple[Protection, ...]
    tables: Mapping[str, Table]
    papers: tuple[Table, ...]
    figures: tuple[tuple[Picture, Chart], ...]

    @property
    def versions(self) -> dict[str, str]:
        """Package -> version; several where runs differ."""
        found: dict[str, set[str]] = {}
        for run in self.runs:
            for name, version in run.record.versions.items():
                found.setdefault(name, set()).add(version)
        return {name: ", ".join(sorted(versions)) for name, versions in sorted(found.items())}

    @property
    def started(self) -> tuple[str, str] | None:
        """When the first and the last run started; None where it is not recorded."""
        times = sorted(
            str(run.resources["started"]) for run in self.runs if run.resources.get("started")
        )
        return (times[0], times[-1]) if times else None


def gather(info: StudyInfo, results: Path) -> StudyResults:
    """Read a study's records and make all its tables and figures.

    Args:
        info: the study; its planned runs are read, others on disk are left alone.
        results: the root of results.

    Raises:
        ValueError: there is no record at all, or a record or an audit is damaged.
    """
    paths = Paths(results=results)
    folder = paths.study(info.name)
    runs = load_runs(folder / "runs", info.planned)
    remedy = f"run `dpgnn run {info.config_path} --tier {info.tier}` first"
    require(bool(runs), f"{folder / 'runs'}", "hold at least one planned record.json", 0, remedy)
    cells = build_cells(runs, info)
    ranked, refused = rankings(cells), refusals(cells)
    paired = differences(cells, info)
    audits = read_audits(folder / "audits")
    made = [
        tables.summary_table(cells, info),
        tables.rankings_table(ranked),
        tables.refusals_table(refused),
        tables.differences_table(paired, info),
        claims_table(cells, audits),
        audits_table(audits),
        tables.status_table(runs, info),
        tables.cost_table(cells, info),
        datasets_table(runs, paths),
        runs_table(runs),
    ]
    papers: list[Table] = []
    if info.paper:
        mapping = load_map(info.paper)
        papers = paper_tables(mapping, read_numbers(mapping.source), cells, runs, info)
    return StudyResults(
        info=info,
        runs=tuple(runs),
        cells=tuple(cells),
        summary=tuple(
            findings(
                info,
                runs,
                cells,
                rankings=ranked,
                refusals=refused,
                differences=paired,
                papers=papers,
            )
        ),
        protection=tuple(protections(cells)),
        tables={table.name: table for table in made},
        papers=tuple(papers),
        figures=tuple(_figures(cells, ranked, info)),
    )


def datasets_table(runs: Sequence[Run], paths: Paths) -> Table:
    """The graphs a study used, with counts, licence and where they come from."""
    rows = []
    for name in dict.fromkeys(str(run.record.key["dataset"]) for run in runs):
        path = paths.graph(name) / "graph.json"
        meta = read_json(path) if path.exists() else {}
        origin = meta.get("provenance", {})
        here = [run for run in runs if run.record.key["dataset"] == name]
        facts: Mapping[str, Any] = next((run.record.facts for run in here if run.record.facts), {})
        sizes = {run.record.facts.get("num_train") for run in here if run.record.facts}
        tests = {m["test"]["num_nodes"] for run in here if (m := run.record.metrics).get("test")}
        row = {"dataset": name, "task": meta.get("task", facts.get("task"))}
        for count in ("num_nodes", "num_edges", "num_features", "num_classes"):
            row[count] = meta.get(count, facts.get(count))
        row |= {"num_train": _range(sizes), "num_test": _range(tests)}
        row |= {"version": origin.get("version"), "licence": origin.get("licence")}
        rows.append(row | {"citation": origin.get("citation")})
    return Table(
        name="datasets",
        title="Data sets",
        caption="Counts of the graphs as they were used; an undirected edge counts twice.",
        columns=(
            Column(key="dataset", header="Data set"),
            Column(key="num_nodes", header="Nodes", kind="integer"),
            Column(key="num_edges", header="Directed edges", kind="integer"),
            Column(key="num_features", header="Features", kind="integer"),
            Column(key="num_classes", header="Classes", kind="integer"),
            Column(key="task", header="Task"),
            Column(key="num_train", header="Training nodes"),
            Column(key="num_test", header="Test nodes"),
            Column(key="version", header="Version"),
            Column(key="licence", header="Licence"),
            Column(key="citation", header="Citation key"),
        ),
        rows=rows,
    )


def runs_table(runs: Sequence[Run]) -> Table:
    """Every run as one row; written as a file, not shown on the page."""
    frame = to_frame(runs)
    columns = [Column(key=name, header=name) for name in frame.columns]
    return Table(
        name="runs",
        title="All runs",
        caption="One row per run, with everything the other tables are made from.",
        columns=columns,
        rows=frame.to_dicts(),
    )


def _figures(cells: Sequence[Cell], ranked: Any, info: StudyInfo) -> list[tuple[Picture, Chart]]:
    if not cells:
        return []
    found = [
        (figures.draw_accuracy(figure, info), accuracy_chart(figure, info))
        for figure in figure_data.accuracy_figures(cells, ranked)
    ]
    classes = figure_data.class_curves(cells)
    found.append((figures.draw_classes(classes, info), class_chart(classes, info)))
    curves = figure_data.training_curves(cells)
    if curves:
        found.append((figures.draw_training(curves, info), training_chart(curves, info)))
    return found


def _range(values: set[Any]) -> str:
    known = sorted(int(value) for value in values if value is not None)
    if not known:
        return ""
    return str(known[0]) if known[0] == known[-1] else f"{known[0]} to {known[-1]}"

"""Tables of runs: runs without a result, time and memory, data sets, plans, all runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from dpgnn.core.checksums import check
from dpgnn.core.grouping import grouped
from dpgnn.core.paths import Paths
from dpgnn.core.storage import read_json
from dpgnn.records.cells import Cell
from dpgnn.records.frame import Run, to_frame
from dpgnn.records.info import StudyInfo
from dpgnn.report.tables.rows import CostRow, PlanRow, StatusRow
from dpgnn.report.tables.table import Column, Table, columns_of
from dpgnn.report.tables.tables import mean_of

COUNTS = ("num_nodes", "num_edges", "num_features", "num_classes")


@dataclass(frozen=True, kw_only=True)
class DatasetRow:
    """One graph as it was used; None if neither its file nor a record has the value."""

    dataset: Annotated[str, Column(header="Data set")]
    num_nodes: Annotated[int | None, Column(header="Nodes", kind="integer")]
    num_edges: Annotated[int | None, Column(header="Directed edges", kind="integer")]
    num_features: Annotated[int | None, Column(header="Features", kind="integer")]
    num_classes: Annotated[int | None, Column(header="Classes", kind="integer")]
    task: Annotated[str | None, Column(header="Task")]
    num_train: Annotated[str, Column(header="Training nodes")]
    num_test: Annotated[str, Column(header="Test nodes")]
    version: Annotated[str | None, Column(header="Version")]
    licence: Annotated[str | None, Column(header="Licence")]
    citation: Annotated[str | None, Column(header="Citation key")]


def status_table(runs: Sequence[Run], info: StudyInfo) -> Table[StatusRow]:
    """Every planned run without a score: failed, not available, not run, or released without metrics."""
    by_name = {run.name: run for run in runs}
    found: dict[tuple[str, str, str, str, str, str], list[str]] = {}
    for folder in info.planned:
        place, entry, epsilon, repeat = folder.split("/")
        status, reason = _status(by_name.get(folder))
        if status != "ok":
            dataset, setting = place.split(".", 1)
            key = (dataset, setting, entry, epsilon.removeprefix("eps="), status, reason)
            found.setdefault(key, []).append(repeat)
    rows = [
        StatusRow(
            dataset=dataset, setting=setting, entry=entry, label=info.labels.get(entry, entry),
            epsilon=epsilon, repeats=", ".join(repeats), status=status, reason=reason,
        )
        for (dataset, setting, entry, epsilon, status, reason), repeats in found.items()
    ]  # fmt: skip
    return Table(
        name="status",
        title="Runs without a result",
        caption=(
            f"{len(info.planned)} runs are planned; these have no score. Failed: the run ended in an error. "
            "Not available: data or code is not available here. Not run: there is no record."
        ),
        columns=columns_of(StatusRow),
        rows=rows,
        empty=_all_done(runs, info),
    )


def _all_done(runs: Sequence[Run], info: StudyInfo) -> str:
    if any(run.is_unscored_release for run in runs):
        return f"All {len(info.planned)} planned runs were made; releases have no scores."
    return f"All {len(info.planned)} planned runs have a score."


def cost_table(cells: Sequence[Cell]) -> Table[CostRow]:
    """Seconds and memory by data set and entry; none of a release, for they follow its private data."""
    rows = []
    shown = [cell for cell in cells if not any(run.is_release for run in cell.runs)]
    for members in grouped(shown, lambda cell: (cell.place, cell.entry)).values():
        seconds = [value for cell in members for value in cell.seconds]
        memory = [value for cell in members for value in cell.max_rss_mb]
        devices = {str(run.resources.get("device", "")) for cell in members for run in cell.runs}
        threads = {run.record.num_threads for cell in members for run in cell.runs}
        first = members[0]
        rows.append(CostRow(
            dataset=first.dataset, setting=first.setting, entry=first.entry, label=first.label,
            runs=sum(len(cell.runs) for cell in members),
            mean_seconds=mean_of(seconds), max_seconds=max(seconds, default=None),
            total_seconds=sum(seconds) if seconds else None,
            max_rss_mb=max(memory, default=None),
            device=", ".join(sorted(filter(None, devices))),
            threads=", ".join(str(number) for number in sorted(threads)),
        ))  # fmt: skip
    return Table(
        name="cost",
        title="Time and memory",
        caption=(
            "Wall-clock seconds of one run without the start of Python, and the largest resident memory of "
            "the process in megabytes (a process that makes several runs counts its largest)."
        ),
        columns=columns_of(CostRow),
        rows=rows,
        empty="No run has resources recorded, or all are releases: what one took follows its private data.",
    )


def datasets_table(runs: Sequence[Run], paths: Paths) -> Table[DatasetRow]:
    """The graphs that a study used, with counts, licence and source."""
    rows = []
    for name in dict.fromkeys(str(run.record.key["dataset"]) for run in runs):
        path = paths.graph(name) / "graph.json"
        meta = read_json(path) if check(path) or path.exists() else {}
        origin = meta.get("provenance", {})
        here = [run for run in runs if run.record.key["dataset"] == name]
        known = [run.record.facts for run in here if run.record.facts]
        counted = [facts for facts in known if not facts.get("public_population")]
        facts: Mapping[str, Any] = next(iter(counted or known), {})
        tests = {m["test"]["num_nodes"] for run in here if (m := run.record.metrics).get("test")}
        # a release whose sizes are declared tells those, and no number of edges
        released = any(run.is_release for run in here)
        hidden = released and bool(known) and not counted
        told: dict[str, Any] = {
            count: facts.get(count) if hidden else meta.get(count, facts.get(count))
            for count in (*COUNTS, "task")
        }
        cited: dict[str, Any] = {
            part: origin.get(part) for part in ("version", "licence", "citation")
        }
        rows.append(
            DatasetRow(
                dataset=name, num_train=_training(known), num_test=_range(tests), **told, **cited
            )
        )
    return Table(
        name="datasets",
        title="Data sets",
        caption="Counts of the graphs as they were used; an undirected edge counts twice.",
        columns=columns_of(DatasetRow),
        rows=rows,
    )


def runs_table(runs: Sequence[Run]) -> Table:
    """Every run as one row; written as a file, not shown on the page.

    Its rows are mappings, because options of the runs are columns.
    """
    # what differs between executions is in the cost table only
    frame = to_frame(runs).drop("seconds", "max_rss_mb", "device", "started")
    columns = [Column(key=name, header=name) for name in frame.columns]
    return Table(
        name="runs",
        title="All runs",
        caption="One row per run, with everything the other tables but the cost table are made from.",
        columns=columns,
        rows=frame.to_dicts(),
    )


def _status(run: Run | None) -> tuple[str, str]:
    if run is None:
        return "not run", ""
    if run.record.status == "ok" and not run.record.metrics.get("test"):
        return "released", "a release does not show metrics"
    return run.record.status, run.record.reason


def _training(known: Sequence[Mapping[str, Any]]) -> str:
    """Counted numbers of training nodes; declared ones only where there are no others."""
    counted = _range({f.get("num_train") for f in known if not f.get("public_population")})
    declared = _range({f.get("num_train") for f in known if f.get("public_population")})
    return counted or (f"{declared} (declared)" if declared else "")


def _range(values: set[Any]) -> str:
    known = sorted(int(value) for value in values if value is not None)
    if not known:
        return ""
    return str(known[0]) if known[0] == known[-1] else f"{known[0]} to {known[-1]}"


def plans_table(cells: Sequence[Cell]) -> Table[PlanRow]:
    """The mechanisms of cells; all repeats have the plan of the first."""
    rows = [
        PlanRow(
            dataset=cell.dataset, setting=cell.setting, entry=cell.entry, label=cell.label,
            epsilon=cell.epsilon, mechanism=mechanism["name"], event=_events(mechanism["event"]),
            noise_stddev=mechanism["noise_stddev"], sensitivity=mechanism["sensitivity"],
            num_steps=mechanism["num_steps"],
        )
        for cell in cells
        if cell.is_private
        for mechanism in cell.runs[0].record.plan.get("mechanisms", ())
    ]  # fmt: skip
    return Table(
        name="plans",
        title="What was done to private data",
        caption=(
            "Each mechanism, fixed from public facts before training: the standard deviation of "
            "its noise, the sensitivity of the noisy sum, and the number of steps."
        ),
        columns=columns_of(PlanRow),
        rows=rows,
        empty="No run was a private release.",
    )


def _events(event: dict[str, object]) -> str:
    """The types of an event's parts."""
    parts = event.get("parts")
    if not isinstance(parts, list):
        return str(event["type"])
    return ", ".join(f"{count} x {_events(part)}" for part, count in parts)

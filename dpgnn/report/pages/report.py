"""One self-contained page per study, and one that joins the studies; they work offline.

The page's content security policy forbids every request, and every script and style but the page's own. A
mistake then shows as a missing part, and never reveals to anyone that the page is read.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import sys
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import is_number_text, require
from dpgnn.core.checksums import OF_FOLDER, write_checksums
from dpgnn.core.storage import write_json, write_text
from dpgnn.records.cells import Cell
from dpgnn.records.info import StudyInfo, read_info, write_info
from dpgnn.report.figures import vega
from dpgnn.report.figures.charts import Chart
from dpgnn.report.figures.drawing import Picture, write_picture
from dpgnn.report.pages.page_form import Form, forms
from dpgnn.report.pages.rerun import rerun_command, rerun_of_row
from dpgnn.report.pages.study_results import StudyResults, gather, has_records
from dpgnn.report.statistics.words import setting_words
from dpgnn.report.tables.comparisons_table import by_question
from dpgnn.report.tables.rows import SummaryRow
from dpgnn.report.tables.table import (
    CellRow,
    Column,
    epsilon_text,
    format_value,
    to_csv,
    write_table,
)

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parents[1] / "templates"
MAX_BYTES = 15_000_000
# the head's script: sections are folded only with JavaScript, which can unfold them
FIRST = 'document.documentElement.classList.add("js");'


def to_stderr(line: str) -> None:
    """Print a warning on standard error."""
    print(line, file=sys.stderr)


def write_study(
    info: StudyInfo, results: Path, out: Path, warn: Callable[[str], None] = to_stderr
) -> StudyResults:
    """Make a study's tables/, figures/, report.html and metrics.json below `out`.

    Args:
        info, results: the study, and the root of results.
        out: the folder.
        warn: called with one line on what a large study's page leaves out.

    Raises:
        ValueError: no record, or a damaged one.
    """
    found = gather(info, results)
    for name in ("tables", "figures"):  # a study without scores has no figure
        (out / name).mkdir(parents=True, exist_ok=True)
    write_info(out / "tables" / "study.json", info)
    for table in (*found.tables.values(), *found.papers):
        if table.name == "runs":  # too wide to read; a file for other programs
            write_text(out / "tables" / "runs.csv", to_csv(table))
        else:
            write_table(out / "tables", table)
    for picture, _ in found.figures:
        write_picture(out / "figures", picture)
    write_json(out / "metrics.json", metrics_of(found.cells))
    write_text(out / "report.html", page([found], lambda line: warn(f"{out}/report.html: {line}")))
    files = [path for name in ("tables", "figures") for path in (out / name).glob("[!.]*")]
    write_checksums(out / OF_FOLDER, [out / "report.html", out / "metrics.json", *files])
    return found


def metrics_of(cells: Sequence[Cell]) -> dict[str, Any]:
    """Mean test score of every cell, for `dvc metrics diff`: place -> entry -> budget -> score."""
    found: dict[str, Any] = {}
    for cell in cells:
        place = found.setdefault(f"{cell.dataset}.{cell.setting}", {})
        scores = {cell.metric: cell.interval.mean, "n": len(cell.scores)}
        place.setdefault(cell.entry, {})[f"eps={cell.epsilon}"] = scores
    return found


def write_joined(results: Path, out: Path, warn: Callable[[str], None] = to_stderr) -> list[str]:
    """Make the page that joins all studies whose own report was made; returns their names.

    `warn` is called with one line on what a large page leaves out.

    A study whose records are gone is left out, and `warn` is told, so that it does not keep the others from
    their page.

    Raises:
        ValueError: there is none.
    """
    paths = sorted((results / "studies").glob("*/tables/study.json"))
    remedy = "run `dpgnn report --study CONFIG --out results/studies/STUDY` first"
    require(bool(paths), str(results / "studies"), "hold the report of a study", 0, remedy)
    found = []
    for path in paths:
        info = read_info(path)
        if has_records(info, results):
            found.append(gather(info, results))
        else:
            warn(f"{out}: leaves out study {info.name}, whose records are gone")
    require(bool(found), str(results / "studies"), "hold the records of a study", 0)
    write_text(out, page(found, lambda line: warn(f"{out}: {line}")))
    write_checksums(out.with_suffix(".sha256"), [out])
    return [item.info.name for item in found]


def page(studies: Sequence[StudyResults], warn: Callable[[str], None] = to_stderr) -> str:
    """The HTML of one study or of several joined.

    A page that would exceed 15 MB takes the first smaller form that fits, see `page_form.forms`, and says at
    its top and to `warn` what it leaves out. The smallest form is taken at any size.
    """
    candidates = forms(joined=len(studies) > 1)
    rendered = cache(lambda number: _render(studies, candidates[number]))

    def fits(number: int) -> bool:
        return len(rendered(number).encode()) <= MAX_BYTES

    # each form is smaller than the one before, so few are rendered
    first = 0 if fits(0) else bisect_left(range(len(candidates) - 1), True, lo=1, key=fits)
    if candidates[first].words:
        warn(candidates[first].words)
    return rendered(first)


@dataclass(frozen=True, kw_only=True)
class CellView:
    """A row of the table of all cells, with its details.

    Attributes:
        row: of the table of scores.
        difference, verdict: of the cell against the baseline; None without such a comparison.
        words: the claims in words.
        options: the entry's, as JSON; "" where the page leaves them out.
        rerun: the command that reruns the cell.
        scores: by repeat, in percent.
    """

    row: SummaryRow
    difference: float | None
    verdict: str | None
    words: tuple[str, ...]
    options: str
    rerun: str
    scores: str


def cell_rows(results: StudyResults, form: Form) -> list[CellView]:
    """The rows of the table of all cells."""
    baseline = results.info.labels.get(results.info.baseline)
    against = {_key(row): row for row in results.differences.rows if row.reference == baseline}
    scores = {_key(row): row for row in results.scores.rows}
    rows = []
    for cell in _listed(results, form):
        found = against.get(_key(cell))
        options = cell.runs[0].record.entry.get("options", {})
        key = f"{cell.dataset}.{cell.setting}/{cell.entry}/eps={cell.epsilon}"
        rows.append(CellView(
            row=scores[_key(cell)],
            difference=found.mean if found else None,
            verdict=found.verdict if found else None,
            words=tuple(cell.words),
            options="" if form.cells == "short" else json.dumps(options, sort_keys=True),
            rerun=rerun_command(results.info, key),
            scores=", ".join(f"{100 * score:.2f}" for score in cell.scores.values()),
        ))  # fmt: skip
    return rows


def _key(row: CellRow) -> tuple[str, str, str, str]:
    return row.dataset, row.setting, row.entry, row.epsilon


def _listed(results: StudyResults, form: Form) -> list[Cell]:
    """The cells in the table of all cells; none if it is left out."""
    if form.brief or (form.cells == "limited" and not form.has_room(len(results.cells))):
        return []
    return [cell for cell in results.cells if form.cells != "short" or "~" not in cell.entry]


def _render(studies: Sequence[StudyResults], form: Form) -> str:
    template = _environment().get_template("page.html")
    joined = len(studies) > 1
    title = "dpgnn: all studies" if joined else studies[0].info.title or studies[0].info.name
    return template.render(
        title=title,
        joined=joined,
        brief=form.brief,
        left_out=form.words,
        studies=[_view(item, form, joined=joined) for item in studies],
        policy=content_policy(),
        css=_asset("report.css"),
        first=FIRST,
        script=_asset("report.js"),
        bundle=_bundle(),
    )


@cache
def content_policy() -> str:
    """The page's content security policy: no request, and only scripts and styles with these hashes."""
    scripts = " ".join(map(_source_hash, (FIRST, _bundle(), _asset("report.js"))))
    style = _source_hash(_asset("report.css"))
    return (
        f"default-src 'none'; img-src data: blob:; style-src {style}; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'"
    )


def _source_hash(text: str) -> str:
    """The hash of an element's content, as the policy writes it."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _view(results: StudyResults, form: Form, *, joined: bool) -> dict[str, Any]:
    shown = [
        table
        for name, table in results.tables.items()
        if name not in ("runs", "summary") and (table.rows or name in ("status", "rankings"))
    ]
    return {
        "id": results.info.name,
        "info": results.info,
        "results": results,
        # beside the page stand a study's files; a joined page stands above them
        "folder": f"studies/{results.info.name}/" if joined else "",
        "max_rows": form.max_rows,
        "cells": cell_rows(results, form),
        "short_cells": form.cells == "short",
        "tables": {table.name: table for table in shown},
        "asked": by_question(results.comparisons),
        "figures": [
            _figure_view(results.info.name, picture, chart, form)
            for picture, chart in results.figures
        ],
        "baseline": results.info.labels.get(results.info.baseline, ""),
        "filters": {
            name: list(dict.fromkeys(getattr(cell, name) for cell in _listed(results, form)))
            for name in ("dataset", "label", "epsilon", "mode")
        },
    }


def _figure_view(study: str, picture: Picture, chart: Chart | None, form: Form) -> dict[str, Any]:
    spec, linked = None, form.is_linked(picture.name)
    if chart is not None and form.is_live(picture.name) and not linked:
        spec = {"panels": [vega.compact(panel) for _, panel in chart.panels]}
    return {
        "id": f"{study}-{picture.name}",
        "picture": picture,
        "chart": chart,
        "spec": None if spec is None else _script_json(spec),
        "source": ""
        if linked
        else "data:image/svg+xml;base64," + base64.b64encode(picture.svg).decode(),
    }


def _script_json(value: Any) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def sort_value(row: Any, column: Column) -> str:
    """The sort key of a cell: a number as it is, text in lower case."""
    value = column.value(row)
    if value is None or value == "":
        return ""
    if column.kind == "text":
        return column.text(row).lower()
    return (
        repr(float(value)) if not isinstance(value, str) or is_number_text(value) else value.lower()
    )


@cache
def _asset(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script; the same bytes for one version of vl-convert.

    Bundling takes more than a second, so the script is kept beside the byte code, with its own hash.
    """
    from importlib.metadata import version

    import vl_convert

    kept = Path(__file__).parent / "__pycache__" / f"vega-{version('vl-convert-python')}.js"
    with contextlib.suppress(OSError, ValueError):
        sha256, text = kept.read_text(encoding="utf-8").split("\n", 1)
        if hashlib.sha256(text.encode()).hexdigest() == sha256:
            return text
    text = vl_convert.javascript_bundle()  # type: ignore[call-arg]
    assert "</script" not in text
    with contextlib.suppress(
        OSError
    ):  # the package's folder is read-only, so the bundle is made each time
        write_text(kept, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
    return text


@cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"epsilon": epsilon_text, "format": format_value}
    environment.globals |= {"sort_value": sort_value, "setting_words": setting_words}
    environment.globals["rerun_of_row"] = rerun_of_row
    return environment

"""The page: one file, nothing asked of the net, every cell with its rerun command."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers import tells

from dpgnn.core.storage import DamagedFileError, write_json
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo, read_info, write_info
from dpgnn.report.pages import report
from dpgnn.report.pages.page_form import Form, forms
from dpgnn.report.pages.report import MAX_BYTES, sort_value, write_joined, write_study
from dpgnn.report.pages.rerun import rerun_command
from dpgnn.report.pages.study_results import StudyResults, gather
from dpgnn.report.tables.table import Column


class Page(HTMLParser):
    """Collects what the tests ask about."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.references: list[str] = []
        self.tags: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append(tag)
        if values.get("id"):
            self.ids.append(str(values["id"]))
        if tag == "a":
            self.links.append(str(values.get("href")))
        if tag == "img":
            self.images.append(values)
        for name in ("src", "href", "srcset", "action", "data"):
            if tag != "a" and values.get(name):
                self.references.append(str(values[name]))


@pytest.fixture(scope="module")
def text(written: Path) -> str:
    return (written / "studies" / "toy" / "report.html").read_text(encoding="utf-8")


def test_the_page_refers_to_nothing_outside_itself(text: str) -> None:
    page = Page(text)
    assert page.references
    assert all(reference.startswith("data:") for reference in page.references)
    assert "@import" not in text
    assert "url(" not in report._asset("report.css")


def test_the_policy_names_every_script_and_style_of_the_page_by_its_hash_and_allows_no_other(
    text: str,
) -> None:
    policy = html.unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    rules = {name: values for name, *values in map(str.split, policy.split(";"))}
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == ["'none'"]
    for element, rule in (("style", "style-src"), ('script(?: type="module")?', "script-src")):
        contents = re.findall(rf"<{element}>(.*?)</s(?:cript|tyle)>", text, re.DOTALL)
        hashes = [hashlib.sha256(content.encode()).digest() for content in contents]
        assert rules[rule] == [f"'sha256-{base64.b64encode(found).decode()}'" for found in hashes]
    assert " style=" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)


def test_the_page_is_small_and_ids_and_anchors_fit(text: str) -> None:
    page = Page(text)
    assert len(text.encode()) < MAX_BYTES
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links if link.startswith("#")} <= set(page.ids)


def test_the_page_has_landmarks_captions_and_alternative_texts(text: str) -> None:
    page = Page(text)
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert page.tags.count(tag) == 1, tag
    assert page.tags.count("caption") == page.tags.count("table")
    assert len(page.images) == 5
    assert all(image.get("alt") for image in page.images)
    assert '<html lang="en">' in text


def test_every_cell_has_its_row_and_its_rerun_command(text: str, info: StudyInfo) -> None:
    commands = re.findall(r"<pre tabindex=\"0\"><code>(\.venv/bin/dpgnn run [^<]*)</code>", text)
    assert len(commands) == 20
    for folder in info.planned:
        assert any(command.endswith(f"--cell {folder.rsplit('/', 1)[0]}") for command in commands)


def test_the_page_states_claims_versions_data_and_the_studys_file(text: str) -> None:
    for expected in (
        "-differential privacy for one node with all its edges.",
        "that a neighbour&#39;s record still mentions the node",
        "breaks the stated guarantee",
        "torch 2.13.0",
        "name: toy",
        "Root seed",
        "edges between the parts are dropped",
    ):
        assert expected in text, expected


def test_the_summary_is_made_from_the_numbers(text: str) -> None:
    plain = re.sub(r"<[^>]+>", " ", text)
    assert re.search(r"60 of 60 .*tier S.* 2 data sets .* 6 entries", plain)
    assert re.search(r"12 of 16 private cells", plain)


def test_the_same_records_give_the_same_bytes(written: Path, tmp_path: Path) -> None:
    info = read_info(written / "studies" / "toy" / "tables" / "study.json")
    write_study(info, written, tmp_path)
    for path in sorted(tmp_path.rglob("*")):
        if path.is_file():
            first = written / "studies" / "toy" / path.relative_to(tmp_path)
            assert first.read_bytes() == path.read_bytes(), path.name


def test_tables_and_figures_are_written_beside_the_page(written: Path) -> None:
    folder = written / "studies" / "toy"
    tables = {path.name for path in (folder / "tables").iterdir()}
    for name in ("summary", "rankings", "differences", "claims", "status", "cost", "datasets"):
        assert {f"{name}.csv", f"{name}.md", f"{name}.tex"} <= tables
    assert {"runs.csv", "study.json"} <= tables
    suffixes = {path.suffix for path in (folder / "figures").iterdir()}
    assert suffixes == {".pdf", ".png", ".svg"}


def test_the_joined_page_holds_every_study_once(written: Path) -> None:
    text = (written / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert {"toy", "toy2", "toy-cells", "toy2-cells"} <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    anchors = {link.removeprefix("#") for link in page.links if link.startswith("#")}
    assert anchors <= set(page.ids)
    outside = [link for link in page.links if not link.startswith("#")]
    assert outside == ["studies/toy/report.html", "studies/toy2/report.html"]
    assert all((written / link).exists() for link in outside)


def gather_as(found: StudyResults, name: str) -> StudyResults:
    """The same results under another study's name."""
    return replace(found, info=replace(found.info, name=name))


def page_of(runs: list[Run], info: StudyInfo, results: Path) -> str:
    for run in runs:
        write_json(results / "studies" / "toy" / "runs" / run.name / "record.json", run.record)
    return report.page([gather(info, results)])


def test_values_of_a_study_cannot_break_the_page(
    few_runs: list[Run], info: StudyInfo, tmp_path: Path
) -> None:
    tags = []
    for title in ("plain", "</script><img src=x onerror=alert(1)>"):
        entries = tuple(replace(e, title=title) if e.name == "gap" else e for e in info.entries)
        evil = replace(info, entries=entries, title=title, config_text=title)
        tags.append(Page(page_of(few_runs, evil, tmp_path)).tags)
    assert tags[0] == tags[1]


def test_failed_runs_are_counted_and_explained(
    few_runs: list[Run], info: StudyInfo, tmp_path: Path
) -> None:
    changed = [
        replace(run, record=replace(run.record, status="failed", reason="plan: 1 < 2", metrics={}))
        if run.record.key["entry"] == "gap"
        else run
        for run in few_runs
    ]
    info = replace(info, planned=tuple(run.name for run in few_runs))
    text = page_of(changed, info, tmp_path)
    tells(text, "6 failed", "status table")
    assert "plan: 1 &lt; 2" in text


def test_a_study_without_records_is_an_error_that_says_what_to_do(
    info: StudyInfo, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"at least one planned record\.json.*dpgnn run toy\.yaml"):
        write_study(info, tmp_path, tmp_path / "out")
    with pytest.raises(ValueError, match="hold the report of a study"):
        write_joined(tmp_path, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_study_whose_records_are_gone_does_not_keep_the_others_from_the_joined_page(
    written: Path, info: StudyInfo, tmp_path: Path
) -> None:
    root = Path(shutil.copytree(written, tmp_path / "results"))
    home = next((root / "studies").iterdir())
    gone = Path(shutil.copytree(home, root / "studies" / "gone"))
    shutil.rmtree(gone / "runs")
    write_info(gone / "tables" / "study.json", replace(info, name="gone"))
    said: list[str] = []
    others = sorted(path.name for path in (root / "studies").iterdir() if path.name != "gone")
    assert write_joined(root, root / "report.html", said.append) == others
    assert any("leaves out study gone" in line for line in said)


def test_a_damaged_description_is_named(tmp_path: Path) -> None:
    path = tmp_path / "studies" / "toy" / "tables" / "study.json"
    write_json(path, {"name": "toy"})
    with pytest.raises(DamagedFileError, match=r"study\.json"):
        write_joined(tmp_path, tmp_path / "report.html")


def test_a_page_that_would_be_too_large_gives_up_interactive_curves_first(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gather(read_info(written / "studies" / "toy2" / "tables" / "study.json"), written)
    whole = report.page([found])
    monkeypatch.setattr(report, "MAX_BYTES", len(whole.encode()) - 1)
    smaller = report.page([found])
    assert 'id="toy2-training-curves"' in smaller
    assert "toy2-training-curves-spec" not in smaller
    limit = len(smaller.encode()) + 100_000
    monkeypatch.setattr(report, "MAX_BYTES", limit)
    joined = report.page([found, gather_as(found, "toy3")])
    assert "studies/toy3/report.html#toy3-cells" in joined
    assert Page(joined).tags.count("table") == 0


def test_a_page_of_any_size_is_written_with_its_long_tables_linked(
    written: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = read_info(written / "studies" / "toy" / "tables" / "study.json")
    monkeypatch.setattr(report, "MAX_BYTES", 1000)
    said: list[str] = []
    write_study(info, written, tmp_path, said.append)
    (line,) = said
    assert line.startswith(f"{tmp_path}/report.html: to keep the page small, figures are shown in")
    tells(line, "20 rows", "CSV")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    tells(text, "figures", "printed form", "training-")
    page = Page(text)
    # 22 differences are linked, the 20 cells stand on the page; no figure is interactive
    assert "tables/differences.csv" in page.links
    assert 'id="toy-cells-table"' in text
    assert "toy-class-accuracy-spec" not in text
    assert "figures/class-accuracy.svg" in page.links
    for link in page.links:
        where = link.startswith("#") and link.removeprefix("#") in page.ids
        assert where or (tmp_path / link).exists(), link
    assert (tmp_path / "metrics.json").exists()


@pytest.mark.parametrize("limit", range(10))
@pytest.mark.parametrize("joined", [False, True])
def test_the_first_form_that_fits_is_taken(
    monkeypatch: pytest.MonkeyPatch, limit: int, joined: bool
) -> None:
    own = forms(joined=joined)
    sizes = {form: len(own) - number for number, form in enumerate(own)}
    drawn: list[Form] = []

    def render(studies: object, form: Form) -> str:
        drawn.append(form)
        return "x" * sizes[form]

    monkeypatch.setattr(report, "MAX_BYTES", limit)
    monkeypatch.setattr(report, "_render", render)
    said: list[str] = []
    taken = own[max(0, len(own) - max(limit, 1))]
    assert len(report.page([None] * (1 + joined), said.append)) == sizes[taken]  # type: ignore[list-item]
    assert said == ([taken.words] if taken.words else [])
    assert len(drawn) == len(set(drawn)) <= 5
    assert len(drawn) == 1 or taken != own[0]


def test_the_table_of_all_cells_is_given_up_last() -> None:
    own = forms(joined=False)
    assert own[0] == Form()
    assert own[0].words == ""
    stages = ["whole", "short", "limited"]
    for before, after in itertools.pairwise(own):
        assert set(before.linked) <= set(after.linked)
        assert not (before.max_rows and not after.max_rows)
        assert stages.index(before.cells) <= stages.index(after.cells)
        # it is not shortened before other tables have given way
        assert after.cells == "whole" or before.max_rows is not None
    kept = [form for form in own if form.max_rows == 1000 and form.cells != "limited"]
    tables = "tables of more than 1000 rows, but for that of all cells, are linked as CSV files"
    whole = (
        f"to keep the page small, training-curves and class-accuracy are linked as files; {tables}"
    )
    short = f"{whole}; all cells stand without options, and without the points of sweeps"
    assert [form.words for form in kept] == [whole, short]
    assert own[-1].cells == "limited"
    assert not own[-1].has_room(21)


def test_short_cells_have_neither_options_nor_points_of_sweeps(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gather(read_info(written / "studies" / "toy" / "tables" / "study.json"), written)
    point = replace(found.cells[0], entry=f"{found.cells[0].entry}~lr=1")
    more, short = replace(found, cells=[point, *found.cells]), Form(cells="short")
    assert report.cell_rows(more, short) == report.cell_rows(found, short)
    assert len(report.cell_rows(found, short)) == len(found.cells)
    monkeypatch.setattr(report, "forms", lambda *, joined: [short])
    text = report.page([found], lambda line: None)
    assert 'id="toy-cells-table"' in text
    assert "<strong>Options.</strong>" not in text
    assert "<strong>Rerun this cell</strong>" in text
    assert "tables/summary.csv" in Page(text).links
    assert "<strong>Options.</strong>" in (written / "studies" / "toy" / "report.html").read_text()


def test_all_cells_are_linked_where_they_are_too_many(
    written: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gather(read_info(written / "studies" / "toy" / "tables" / "study.json"), written)
    smallest = Form(printed=None, max_rows=19, cells="limited")
    monkeypatch.setattr(report, "forms", lambda *, joined: [replace(smallest, brief=joined)])
    text = report.page([found], lambda line: None)
    assert 'id="toy-cells-table"' not in text
    assert 'left out to keep this page small: <a href="tables/summary.csv">' in text
    asked = replace(found.differences, name="comparisons-1")
    several = [replace(found, papers=(asked,)), gather_as(found, "toy2")]
    joined = Page(report.page(several, lambda line: None))
    assert "studies/toy/tables/comparisons.csv" in joined.links


def test_a_rerun_command_names_one_run_or_all_repeats_of_a_cell(info: StudyInfo) -> None:
    cell = "alpha.random/dp_mlp/eps=8"
    one = rerun_command(info, f"{cell}/1")
    assert one == f".venv/bin/dpgnn run toy.yaml --tier S --cell {cell}/1"
    own = replace(info, config_path="workflow/studies/toy.yaml")
    assert rerun_command(own, cell) == f".venv/bin/dpgnn run toy --tier S --cell {cell}"
    with pytest.raises(ValueError, match="be planned by study toy"):
        rerun_command(info, "alpha.random/dp_mlp/eps=3")


def test_columns_sort_by_numbers_where_they_are_numbers() -> None:
    epsilon = Column(key="epsilon", header="ε", kind="epsilon")
    assert [sort_value({"epsilon": text}, epsilon) for text in ("8", "inf")] == ["8.0", "inf"]
    name = Column(key="name", header="Name")
    assert sort_value({"name": "GCN"}, name) == "gcn"
    assert sort_value({"name": None}, name) == ""
    interval = Column(key="low", header="95 % interval", kind="points", show=lambda row: "−2 to 10")
    assert sort_value({"low": -0.02, "high": 0.1}, interval) == "-0.02"


def test_every_interval_can_be_sorted(text: str) -> None:
    cell = r'<td data-label="95 % interval" data-sort="([^"]*)"[^>]*>(?:<strong>)?([^<]*)<'
    found = re.findall(cell, text)
    assert len(found) > 40
    assert {bool(value) == (shown.strip() != "–") for value, shown in found} == {True}

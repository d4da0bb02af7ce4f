"""Tables in LaTeX fit a page: by their layout, and by what pdflatex says of every one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dpgnn.report.tables.latex import NARROWEST, Cell, latex_text, longtable

OVERFULL = 10.0  # points that nobody sees


def table(heads: Sequence[str], *rows: Sequence[str], numbers: Sequence[bool] | None = None) -> str:
    is_number = numbers or [False] * len(heads)
    body = [[Cell(text=text) for text in row] for row in rows]
    return longtable(name="toy", caption="C", heads=heads, is_number=is_number, rows=body)


def test_a_narrow_table_has_plain_columns() -> None:
    assert r"\begin{longtable}{lr}" in table(["a", "b"], ["x", "1"], numbers=[False, True])


def test_the_widest_text_of_a_wide_table_becomes_a_paragraph_that_breaks() -> None:
    text = table(
        ["Entry", "Method", "Why"], ["a_b", "GAP", "word " * 60 + "released_c9~num_hops=15"]
    )
    (width,) = re.findall(r"\{ll>\{\\raggedright\\arraybackslash\}p\{(\d+)pt\}\}", text)
    assert NARROWEST < int(width) < 440
    assert r"released\_\allowbreak{}c9\textasciitilde{}\allowbreak{}num" in text
    assert r"a\_b &" in text  # a column that need not break does not


def test_a_header_wider_than_its_column_stands_on_several_lines() -> None:
    text = table(["Chosen on validation", "n"], ["61.7", "50"])
    assert r"\begin{tabular}[b]{@{}l@{}}Chosen on\\validation\end{tabular} & n \\" in text


def test_letters_are_smaller_where_numbers_alone_would_be_too_wide() -> None:
    heads = [f"number {place}" for place in range(12)]
    text = table(heads, ["0.123456"] * 12, numbers=[True] * 12)
    assert text.startswith(r"\begingroup\scriptsize")


def test_every_letter_of_the_committed_tables_is_one_that_latex_knows(repository: Path) -> None:
    folder = repository / "docs" / "reference"
    read = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.rglob("paper-*.csv")))
    assert {
        letter for letter in latex_text("".join(sorted(set(read)))) if ord(letter) > 127
    } == set()


def compiled(tables: Sequence[Path], folder: Path) -> dict[str, str]:
    """Table -> what is wrong with it, of all tables in one document."""
    document = folder / "all.tex"
    parts = [rf"\typeout{{TABLE {path.name}}}\input{{{path}}}\clearpage" for path in tables]
    document.write_text(
        "\\documentclass[a4paper]{article}\n\\usepackage[T1]{fontenc}\n\\usepackage[margin=2.5cm]{geometry}\n"
        "\\usepackage{array,booktabs,longtable}\n\\begin{document}\n"
        + "\n".join(parts)
        + "\n\\end{document}\n",
        encoding="utf-8",
    )
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", document.name]
    for _ in range(2):  # longtable learns its widths in the first
        subprocess.run(command, cwd=folder, capture_output=True)
    log = (folder / "all.log").read_text(encoding="utf-8", errors="replace")
    wrong, name = {}, ""
    for line in log.splitlines():
        if line.startswith("TABLE "):
            name = line.removeprefix("TABLE ")
        found = re.match(r"Overfull \\hbox \(([\d.]+)pt", line)
        if line.startswith("! ") or (found and float(found[1]) > OVERFULL):
            wrong.setdefault(name, line)
    assert wrong or (folder / "all.pdf").exists()
    return wrong


needs_latex = pytest.mark.skipif(not shutil.which("pdflatex"), reason="pdflatex is not installed")


@pytest.mark.slow
@needs_latex
def test_every_committed_table_fits_a_page(repository: Path, tmp_path: Path) -> None:
    tables = sorted((repository / "docs" / "reference").rglob("*.tex"))
    assert len(tables) > 40
    assert compiled(tables, tmp_path) == {}


@pytest.mark.slow
@needs_latex
def test_every_table_of_a_studys_report_fits_a_page(written: Path, tmp_path: Path) -> None:
    tables = sorted((written / "studies").rglob("*.tex"))
    assert len(tables) > 10
    assert compiled(tables, tmp_path) == {}


@pytest.mark.slow
@needs_latex
def test_a_table_that_does_not_fit_and_one_that_is_wrong_are_found(tmp_path: Path) -> None:
    for name, cell in (("wide", "n" * 300), ("wrong", r"\nosuchcommand")):
        path = tmp_path / f"{name}.tex"
        path.write_text(rf"\begin{{longtable}}{{l}} {cell} \\ \end{{longtable}}")
        (found,) = compiled([path], tmp_path)
        assert found == path.name

"""What the build does to tables and to the pages' policies, on small pages."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sphinx", reason="the site's packages (envs/docs.lock) are not installed")

from bs4 import BeautifulSoup

from docs.site.policy import policy_of, write_policies
from docs.site.tables import with_labels


def table(*rows: list[str]) -> str:
    head, *body = (
        "".join(f"<{tag}>{text}</{tag}>" for text in row)
        for tag, row in zip(["th", *["td"] * len(rows)], rows)
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody><tr>{'</tr><tr>'.join(body)}</tr></tbody></table>"


def test_cells_of_a_wide_table_know_their_column_and_their_place() -> None:
    heads = ["ε", "cora", "photo", "what", "next", "edges"]
    page = with_labels(table(heads, ["1", "77.5±1.6", "93.6±0.5", "word " * 20, "GAP", "yes"]))
    cells = BeautifulSoup(page, "html.parser").select("td")
    assert [cell["data-label"] for cell in cells] == heads
    assert [cell["class"][-1] for cell in cells] == ["line", "half", "half", "long", "half", "half"]
    assert {cell["role"] for cell in cells} == {"cell"}


def test_a_short_value_that_nothing_stands_beside_takes_the_line() -> None:
    page = with_labels(table(["a", "b", "c", "d"], ["x", "1", "2", "3" * 30]))
    cells = BeautifulSoup(page, "html.parser").select("td")
    assert [cell["class"][-1] for cell in cells] == ["line", "half", "half", "line"]
    page = with_labels(table(["a", "b", "d", "c"], ["x", "1", "3" * 30, "2"]))
    cells = BeautifulSoup(page, "html.parser").select("td")
    assert [cell["class"][-1] for cell in cells] == ["line", "line", "line", "line"]


def test_a_narrow_table_and_a_page_without_one_stay_as_they_are() -> None:
    assert "cards" not in with_labels(table(["ε", "n"], ["1", "10"]))
    assert with_labels("<p>&nbsp;a < b</p>") == "<p>&nbsp;a < b</p>"


def test_a_policy_names_the_pages_own_scripts_and_is_written_once(tmp_path: Path) -> None:
    page = '<meta charset="utf-8" /><script>a()</script><script src="b.js"></script>'
    (tmp_path / "a.html").write_text(page)
    write_policies(tmp_path)
    once = (tmp_path / "a.html").read_text()
    # printf 'a()' | openssl dgst -sha256 -binary | base64
    assert once.count("'sha256-") == 1
    assert "'sha256-qVpDBgj7bpq5hMAcGp3AOc79J3Y1Z4HvySTwKrWDoy4='" in once
    assert "unsafe-inline" not in policy_of(page).split("style-src")[0]
    write_policies(tmp_path)
    assert (tmp_path / "a.html").read_text() == once

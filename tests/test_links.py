"""Every link of the README and of docs leads somewhere: files, folders, anchors, pictures."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.DOTALL | re.MULTILINE)


def pages(repository: Path) -> list[Path]:
    found = [repository / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*found, *sorted(of_docs(repository))]


def of_docs(repository: Path) -> set[Path]:
    """The pages of docs; those that stand on the site alone have a test of their own."""
    docs = repository.resolve() / "docs"
    left_out = {"tables", "site", "_build"}
    return {page for page in docs.rglob("*.md") if not left_out & {*page.relative_to(docs).parts}}


def slug(heading: str) -> str:
    """The anchor a heading gets on code hosts."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading.strip()).lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(path: Path) -> frozenset[str]:
    text = path.read_text(encoding="utf-8")
    found = set(re.findall(r'id="([^"]+)"', text))
    seen: dict[str, int] = {}
    for heading in re.findall(
        r"^#{1,6} (.+)$", re.sub(r"^```.*?^```", "", text, flags=re.S | re.M), re.M
    ):
        name = slug(heading)
        count = seen[name] = seen.get(name, -1) + 1
        found.add(f"{name}-{count}" if count else name)
    return frozenset(found)


def broken(path: Path) -> list[str]:
    text = CODE.sub("", path.read_text(encoding="utf-8"))
    wrong = []
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists() or (anchor and file.suffix == ".md" and anchor not in anchors(file)):
            wrong.append(target)
    return wrong


def reached(start: Path) -> set[Path]:
    """The Markdown files that links lead to from one, itself among them."""
    found, left = {start}, [start]
    while left:
        page = left.pop()
        for target in LINK.findall(CODE.sub("", page.read_text(encoding="utf-8"))):
            file = (page.parent / target.partition("#")[0]).resolve()
            file = file / "README.md" if file.is_dir() else file  # shown below a folder's files
            if file.suffix == ".md" and file.exists() and file not in found:
                found.add(file)
                left.append(file)
    return found


def test_every_page_of_docs_is_reached_from_the_readme(repository: Path) -> None:
    docs = repository.resolve() / "docs"
    lost = of_docs(repository) - reached(repository.resolve() / "README.md")
    assert not {str(page.relative_to(docs)) for page in lost}


def test_a_page_that_no_link_leads_to_is_seen(tmp_path: Path) -> None:
    texts = {
        "README": "[a](a.md#x) `[b](b.md)`", "a": "[c](c.md) [d](d)", "b": "", "c": "[a](a.md)",
        "d/README": "",
    }  # fmt: skip
    (tmp_path / "d").mkdir()
    for name, text in texts.items():
        (tmp_path / f"{name}.md").write_text(text, encoding="utf-8")
    start = tmp_path.resolve()
    names = {str(page.relative_to(start)) for page in reached(start / "README.md")}
    assert names == {"README.md", "a.md", "c.md", "d/README.md"}


def test_every_link_leads_somewhere(repository: Path) -> None:
    wrong = {str(p): found for p in pages(repository) if (found := broken(p))}
    assert not wrong


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[a](#a-heading) [b](#b) [c](other.md) `[d](x.md)`\n", encoding="utf-8"
    )
    assert broken(page) == ["#b", "other.md"]


@pytest.mark.parametrize("paper", ["dpgnn", "drw", "dpar", "caribou"])
def test_a_table_is_three_clicks_from_the_readme(repository: Path, paper: str) -> None:
    readme = (repository / "README.md").read_text(encoding="utf-8")
    assert "(docs/results.md)" in readme  # first click
    text = (repository / "docs" / "results.md").read_text(encoding="utf-8")
    assert "(results/papers.md)" in text  # second click
    text = (repository / "docs" / "results" / "papers.md").read_text(encoding="utf-8")
    assert re.search(rf"`\.venv/bin/dpgnn run {paper} --tier [ML]`", text)
    targets = re.findall(rf"\]\(({paper}\.md#paper-{paper}-[^)]+)\)", text)  # third click
    assert targets
    linked = 0
    for target in targets:
        name, _, anchor = target.partition("#")
        page = repository / "docs" / "results" / name
        assert anchor in anchors(page)
        for link in re.findall(
            r"\]\((\.\./reference/[^)]+-commands\.txt)\)", page.read_text("utf-8")
        ):
            # a cell's own command: of tier L where tier M leaves the paper's data set out
            commands = (page.parent / link).read_text(encoding="utf-8")
            assert re.search(rf"\.venv/bin/dpgnn run {paper} --tier [ML] --cell ", commands)
            linked += 1
    assert linked

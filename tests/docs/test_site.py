"""The site builds without a warning from the committed pages, and every link of it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="the site's packages (envs/docs.lock) are not installed")


class Html(HTMLParser):
    """What a page offers (ids) and asks for (links, pictures, scripts, styles)."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        loads = tag in ("img", "script", "iframe", "source")
        if loads or (tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload")):
            self.loads += [given[name] for name in ("src", "href") if given.get(name)]


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Html]:
    left_out = ("_static", "_sources", "_modules")
    return {
        path: Html(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if path.relative_to(site).parts[0] not in left_out
    }


def _broken(pages: dict[Path, Html]) -> Iterator[str]:
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            parts = urlsplit(link)
            if parts.scheme or link.startswith("data:"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            asked = parts.fragment if target in pages else ""
            if not target.is_file() or (asked and asked not in pages[target].ids):
                yield f"{path.name}: {link}"


def test_every_link_of_the_site_leads_somewhere(pages: dict[Path, Html]) -> None:
    assert len(pages) > 40
    assert list(_broken({path.resolve(): page for path, page in pages.items()})) == []


def test_the_front_page_leads_to_its_doors(pages: dict[Path, Html], site: Path) -> None:
    doors = {f"notebooks/{name}.html" for name in ("reproduce", "compare", "releasing")}
    front = site / "index.html"
    assert {*doors, "choose.html", "results.html", "explorer.html"} <= {*pages[front].links}
    body = front.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    assert {*doors, "choose.html", "results.html", "explorer.html"} <= {*Html(body).links}
    assert ".md" not in body


def test_a_link_of_a_page_that_leads_nowhere_ends_the_build(tmp_path: Path) -> None:
    from docs.site.stage import stage

    own = tmp_path / "docs" / "site" / "pages"
    own.mkdir(parents=True)
    (own / "index.md").write_text("# A page\n\n[one](choose.md)\n")
    for name in ("CONTRIBUTING.md", "CHANGELOG.md", "docs/choose.md"):
        (tmp_path / name).write_text("# A page\n")
    with pytest.raises(FileNotFoundError, match=r"index\.md: the link choose\.md leads nowhere"):
        stage(tmp_path / "out", tmp_path)


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    page = tmp_path.resolve() / "a.html"
    page.write_text(
        '<a href="#x">x</a><a href="b.html">b</a><img src="c.png"><h1 id="y"></h1><a href="#y">'
    )
    assert list(_broken({page: Html(page.read_text())})) == [
        "a.html: #x", "a.html: b.html", "a.html: c.png",
    ]  # fmt: skip


def test_no_page_loads_anything_from_the_net(pages: dict[Path, Html], site: Path) -> None:
    for path, page in pages.items():
        assert [load for load in page.loads if urlsplit(load).netloc] == [], path
    for style in (site / "_static").rglob("*.css"):
        text = style.read_text(encoding="utf-8", errors="replace")
        assert not re.search(r"(?:@import|url\()\s*[\"']?(?:https?:)?//", text), style


def test_reference_pages_have_every_command_option_and_public_name(site: Path) -> None:
    import dataclasses

    import dpgnn
    from dpgnn import methods
    from dpgnn.__main__ import STAGES

    texts = {
        name: (site / "code" / f"{name}.html").read_text(encoding="utf-8")
        for name in ("cli", "options", "api")
    }
    for stage in STAGES:
        assert f'id="dpgnn-{stage}"' in texts["cli"]
    for name in methods.TABLE:
        for field in dataclasses.fields(methods.get(name).config):
            assert f">{field.name}</span>" in texts["options"], (name, field.name)
    for name in dpgnn.__all__:
        assert name.startswith("_") or f"dpgnn.{name}" in texts["api"]


def test_a_warning_fails_the_build(tmp_path: Path, repository: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# A page\n\n[nowhere](#no-such-label)\n")
    command = [
        sys.executable, "-m", "sphinx", "-W", "-q", "-c", str(repository / "docs" / "site"),
        str(source), str(tmp_path / "html"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode != 0
    assert "no-such-label" in done.stderr

"""The site's sources: the Markdown of docs, with links that Sphinx can follow, below docs/_build/source.

Pages are written for code hosts, where a link may lead to any file of the repository. On the site an anchor
becomes a label, another page of the repository its copy, a file a download, and a folder its path in words.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
ANCHOR = re.compile(r'^<a id="([^"]+)"></a>$', re.MULTILINE)
CODE = re.compile(r"(^```.*?^```$|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
# pages outside docs, and where they stand on the site
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LEFT_OUT = ("reference/*/tables/*",)
OWN = ("site", "_build")  # folders of docs that the site is made with
DISPLAY_ONLY = "```mermaid"  # drawn by code hosts; here a list of arrows


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of the site.

    Attributes:
        source: the file in the repository.
        place: its path below the site's sources.
    """

    source: Path
    place: Path


def pages(repository: Path = REPOSITORY) -> list[Page]:
    """Every page of the repository that stands on the site, without those that the build makes."""
    docs = repository / "docs"
    found = []
    for source in sorted([*docs.rglob("*.md"), *docs.rglob("*.ipynb")]):
        place = source.relative_to(docs)
        if place.parts[0] not in OWN and not any(place.match(pattern) for pattern in LEFT_OUT):
            found.append(Page(source=source, place=place))
    own = docs / "site" / "pages"
    found += [Page(source=p, place=p.relative_to(own)) for p in sorted(own.rglob("*.md"))]
    found += [
        Page(source=repository / name, place=Path(place))
        for name, place in OUTSIDE.items()
        if name != "README.md"
    ]
    return found


def stage(out: Path, repository: Path = REPOSITORY) -> list[Path]:
    """Write the sources that come from committed files; returns them.

    A file whose content did not change keeps its time, so that Sphinx reads changed pages alone.
    """
    listed = pages(repository)
    places = {page.source.resolve(): page.place for page in listed}
    places[(repository / "README.md").resolve()] = Path("index.md")
    written = []
    for page in listed:
        text = page.source.read_text(encoding="utf-8")
        if page.source.suffix == ".md":
            text = _rewritten(text, page, places, repository)
            if page.place == Path("index.md"):
                text = text.replace("OTHERS", "\n".join(_unlisted(text, listed)))
        elif "../" in text:  # links of notebooks are written for code hosts as well
            text = text.replace("docs/accounting.md", "accounting.md")
        written.append(write(out / page.place, text))
    for picture in sorted(
        [*(repository / "docs").rglob("*.png"), *(repository / "docs").rglob("*.svg")]
    ):
        place = picture.relative_to(repository / "docs")
        if place.parts[0] in OWN:
            continue
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.stat().st_mtime < picture.stat().st_mtime:
            shutil.copy2(picture, target)
        written.append(target)
    return written


def _unlisted(index: str, listed: list[Page]) -> list[str]:
    """Pages at the top of docs that the front page does not list yet, so that a new page is found."""
    names = [page.place.stem for page in listed if page.place.parent == Path(".")]
    known = {*index.split(), "index"}
    return sorted(name for name in names if name not in known)


def write(path: Path, text: str) -> Path:
    """Write a source unless it stands there already."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def remove_stale(out: Path, kept: list[Path]) -> None:
    """Remove sources of an earlier build that no page makes any more."""
    wanted = {path.resolve() for path in kept}
    for path in list(out.rglob("*")):
        if path.is_file() and path.resolve() not in wanted:
            path.unlink()


def label(place: Path, anchor: str) -> str:
    """The label on the whole site of an anchor of one page."""
    return f"{place.with_suffix('').as_posix().replace('/', '-')}--{anchor}".lower()


@cache
def _anchors(path: Path) -> frozenset[str]:
    return frozenset(ANCHOR.findall(path.read_text(encoding="utf-8")))


def _rewritten(text: str, page: Page, places: dict[Path, Path], repository: Path) -> str:
    text = text.replace(DISPLAY_ONLY, "```text")
    parts = []
    for part, is_code in _split(text):
        if not is_code:
            part = ANCHOR.sub(lambda found: f"({label(page.place, found[1])})=", part)
            part = LINK.sub(lambda found: _link(found, page, places, repository), part)
        parts.append(part)
    return "".join(parts)


def _split(text: str) -> Iterator[tuple[str, bool]]:
    """Text and code in turn."""
    for number, part in enumerate(CODE.split(text)):
        yield part, bool(number % 2)


def _link(found: re.Match[str], page: Page, places: dict[Path, Path], repository: Path) -> str:
    mark, words, target, title = found.groups()
    if LINK.search(words):  # a picture that is a link
        words = LINK.sub(lambda inner: _link(inner, page, places, repository), words)
    if re.match(r"[a-z]+:", target):
        return f"{mark}[{words}]({target}{title})"
    name, _, anchor = target.partition("#")
    file = (page.source.parent / name).resolve() if name else page.source.resolve()
    if file.is_dir() and (file / "README.md") in places:
        file = file / "README.md"
    if file in places:
        if anchor and file.suffix == ".md" and anchor in _anchors(file):
            return f"[{words}](#{label(places[file], anchor)})"
        if not name:
            return found[0]
        to = os.path.relpath(places[file], page.place.parent)
        return f"[{words}]({to}{'#' + anchor if anchor else ''}{title})"
    if not file.exists():
        raise FileNotFoundError(
            f"{page.source.relative_to(repository)}: the link {target} leads nowhere; give the way from the "
            "page's own folder"
        )
    if mark:
        path = os.path.relpath(file.relative_to(repository / "docs"), page.place.parent)
        return f"{mark}[{words}]({path}{title})"
    if not file.is_file() or file.suffix == ".md":
        path = os.path.relpath(file, repository)
        return words if words.strip("`") == path else f"{words} (`{path}`)"
    place = Path("files") / file.relative_to(repository)
    _copied(file, place)
    return f"[{words}]({os.path.relpath(place, page.place.parent)})"


_FILES: dict[Path, Path] = {}


def _copied(file: Path, place: Path) -> None:
    _FILES[place] = file


def copy_linked(out: Path) -> list[Path]:
    """Copy the files of the repository that pages link to; returns the copies."""
    copies = []
    for place, file in _FILES.items():
        target = out / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != file.read_bytes():
            shutil.copyfile(file, target)
        copies.append(target)
    return copies

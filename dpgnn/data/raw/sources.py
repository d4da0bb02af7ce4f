"""data/sources.csv: address, checksum, licence and published counts of each raw file."""

from __future__ import annotations

import csv
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dpgnn.core.checks import fail, one_of, require
from dpgnn.core.grouping import grouped

PER_FILE = ("file", "mirror_path", "url", "sha256")
TERMS = ("licence", "redistribute", "citation")
COUNTS = ("num_nodes", "num_edges", "num_features", "num_classes")
COLUMNS = ("name", "version", *PER_FILE, "bytes", *TERMS, *COUNTS)


@dataclass(frozen=True, kw_only=True)
class RawFile:
    """One file of a data set.

    Attributes:
        file: its name in the format's own words.
        mirror_path: its path below a mirror folder and below data/raw.
        url: its address; "" if it must be placed by hand.
        sha256: 64 hexadecimal digits; "" if no trusted source has published it.
        num_bytes: its size; None when unknown.
    """

    file: str
    mirror_path: str
    url: str
    sha256: str
    num_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Source:
    """One data set: its files, terms, citation, and published counts.

    Attributes:
        num_edges: directed edges of the loaded graph, or raw edges if the loader says so; None if not
            published.
        redistribute: "yes", "no" or "unclear": whether the raw files may be redistributed.
        citation: keys of data/citations.bib, separated by spaces.
    """

    name: str
    version: str
    files: tuple[RawFile, ...]
    licence: str
    redistribute: str
    citation: str
    num_nodes: int | None
    num_edges: int | None
    num_features: int | None
    num_classes: int | None

    def counts(self) -> dict[str, int]:
        """The published counts, by the attribute of Graph."""
        stated = {name: getattr(self, name) for name in COUNTS}
        return {name: value for name, value in stated.items() if value is not None}


def data_folder() -> Path:
    """The repository's data/ folder: beside the package, or in the working folder.

    Raises:
        FileNotFoundError: neither holds sources.csv.
    """
    for folder in (Path(__file__).resolve().parents[3] / "data", Path("data").resolve()):
        if (folder / "sources.csv").exists():
            return folder
    raise FileNotFoundError("data/sources.csv must lie beside the package or in the working folder")


@cache
def read_sources(path: Path | None = None) -> dict[str, Source]:
    """All data sets of sources.csv by name.

    Raises:
        ValueError: a column is missing, or a count is not a number; names the line.
    """
    path = path or data_folder() / "sources.csv"
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in COLUMNS if name not in (reader.fieldnames or ())]
        if missing:
            fail(str(path), f"have the columns {', '.join(COLUMNS)}", f"no {', '.join(missing)}")
        rows = grouped(reader, lambda row: row["name"])
    return {name: _source(path, name, lines) for name, lines in rows.items()}


def source_of(name: str) -> Source:
    """The row of one data set.

    Raises:
        ValueError: the name is not in sources.csv; lists those that are.
    """
    sources = read_sources()
    family = name.partition("-")[0] + "-*"
    if name not in sources and family in sources:
        return _member(sources[family], name)
    return sources[one_of("data set in sources.csv", name, sources)]


def _member(family: Source, name: str) -> Source:
    """A row `facebook-*` covers every school; the star is the part of the name after the dash."""
    member = name.partition("-")[2]
    require(member.isalnum(), "data set", f"be {family.name} with letters and digits", name)
    files = tuple(
        replace(
            raw,
            file=raw.file.replace("*", member),
            mirror_path=raw.mirror_path.replace("*", member),
            url=raw.url.replace("*", member),
        )
        for raw in family.files
    )
    return replace(family, name=name, files=files)


def _source(path: Path, name: str, rows: list[dict[str, str]]) -> Source:
    first = rows[0]

    def number(row: dict[str, str], column: str) -> int | None:
        text = row[column].strip()
        if text and not text.isdigit():
            fail(f"{path}: {column} of {name}", "be a whole number or empty", text)
        return int(text) if text else None

    files = tuple(
        RawFile(**{column: row[column] for column in PER_FILE}, num_bytes=number(row, "bytes"))
        for row in rows
        if row["file"]
    )
    stated: dict[str, Any] = {column: first[column] for column in ("version", *TERMS)}
    stated |= {column: number(first, column) for column in COUNTS}
    return Source(name=name, files=files, **stated)

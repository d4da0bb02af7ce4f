"""A sample as a data set of Parquet files: parts in order, each with statistics and a checksum."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checksums import OF_FOLDER, check, write_checksums
from dpgnn.core.storage import (
    DamagedFileError,
    read_json,
    read_parquet,
    sha256_file,
    write_json,
    write_parquet,
)

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "dataset.json"
KINDS = ("subgraphs", "partition", "rows")


@dataclass(frozen=True, kw_only=True)
class PartFacts:
    """Statistics of one part; sensitive.

    Attributes:
        name: of the file.
        rows: of the table.
        first, last: smallest and largest value of the first column, None without rows.
        entries: by list column, values in all its lists.
        longest: by list column, its longest list.
        bytes, sha256: of the file.
    """

    name: str
    rows: int
    first: int | None
    last: int | None
    entries: Mapping[str, int]
    longest: Mapping[str, int]
    bytes: int
    sha256: str


def write_part(path: Path, table: pa.Table) -> PartFacts:
    """Write one part; the first column is an integer, others are integers, numbers or lists of them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    write_parquet(path, table)
    entries, longest = {}, {}
    for name in table.column_names:
        if pa.types.is_large_list(table.schema.field(name).type):
            lengths = pc.list_value_length(table[name])
            entries[name] = pc.sum(lengths).as_py() or 0
            longest[name] = pc.max(lengths).as_py() or 0
    ends = pc.min_max(table.column(0)).as_py() if table.num_rows else {"min": None, "max": None}
    return PartFacts(
        name=path.name, rows=table.num_rows, first=ends["min"], last=ends["max"], entries=entries,
        longest=longest, bytes=path.stat().st_size, sha256=sha256_file(path),
    )  # fmt: skip


def finish(folder: Path, kind: str, facts: Mapping[str, Any], parts: list[PartFacts]) -> None:
    """Mark the data set as complete: write the list of checksums, then the manifest."""
    write_checksums(folder / OF_FOLDER, [], {part.name: part.sha256 for part in parts})
    content = {"kind": kind, **facts, "parts": [asdict(part) for part in parts]}
    write_json(folder / MANIFEST, content)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a data set.

    Raises:
        DamagedFileError: it is missing or invalid.
    """
    found = read_json(folder / MANIFEST)
    if not isinstance(found, dict) or found.get("kind") not in KINDS or "parts" not in found:
        raise DamagedFileError(f"{folder / MANIFEST} must describe a sample; delete it and rerun")
    return found


def tables(folder: Path) -> Iterator[pa.Table]:
    """The parts in order, each checked against its checksum before reading.

    Raises:
        DamagedFileError: a part is missing or was changed.
    """
    for part in read_manifest(folder)["parts"]:
        check(folder / part["name"])
        yield read_parquet(folder / part["name"])


def whole(folder: Path) -> pa.Table:
    """All parts as one table."""
    import pyarrow as pa

    return pa.concat_tables(list(tables(folder))).combine_chunks()

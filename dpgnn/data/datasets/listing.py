"""The lines of `dpgnn data list`: data sets that are present or can be fetched, with licences."""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.wording import aligned
from dpgnn.data.datasets import OWN_FOLDER, listed
from dpgnn.data.raw.files import RawFiles
from dpgnn.data.raw.sources import Source, read_sources

HEADER = ("data set", "available", "MB", "nodes", "arcs", "features", "classes", "licence")


def list_datasets(raw_folder: Path, own_folder: Path = OWN_FOLDER) -> list[str]:
    """Aligned lines: a header, data sets of data/sources.csv, users' graphs, those with a taken name last.

    Args:
        raw_folder: where fetched files are kept; mirror folders come from DPGNN_MIRROR.
        own_folder: a user's own graphs, one folder each.
    """
    sources = read_sources()
    rows: list[tuple[str, ...]] = [HEADER]
    taken: list[Path] = []
    rows += [_row(sources[name], raw_folder) for name in sorted(sources)]
    if own_folder.is_dir():
        own = sorted(path.name for path in own_folder.iterdir() if path.is_dir())
        rows += [(name, "here", *"-----", "your own") for name in own if not listed(name)]
        taken = [own_folder / name for name in own if listed(name)]
    lines = aligned(rows)
    lines.append(
        "arcs: both directions of each edge; * as its raw file counts, often each edge once"
    )
    return lines + [
        f"{path} cannot be used: the name is taken; rename the folder" for path in taken
    ]


def _row(source: Source, raw_folder: Path) -> tuple[str, ...]:
    files = RawFiles(source=source, folder=raw_folder)
    missing = files.missing()
    if source.name.endswith("-*"):
        state = "by name"
    elif not source.files:
        state = "made here"
    elif not missing:
        state = "here"
    elif all(raw.url for raw in missing):
        state = "would be fetched"
    else:
        state = "place by hand"
    sizes = [raw.num_bytes for raw in source.files]
    megabytes = f"{sum(filter(None, sizes)) / 1e6:.1f}" if sizes and all(sizes) else "-"
    counts = (source.num_nodes, source.num_edges, source.num_features, source.num_classes)
    shown = ["-" if count is None else str(count) for count in counts]
    entry = listed(source.name)
    if source.num_edges is not None and entry is not None and entry.raw_edges:
        shown[1] += "*"
    return (source.name, state, megabytes, *shown, source.licence)

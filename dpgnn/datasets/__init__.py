"""Raw files -> Graph. One file per source, one line per data set in the table below.

To add a data set: a loader file, its rows in data/sources.csv, its BibTeX in data/citations.bib and
one line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.checks import fail
from dpgnn.datasets.graph_files import read_graph, save_graph

if TYPE_CHECKING:
    from dpgnn.graph import Graph

__all__ = ["TABLE", "entry_of", "load", "provenance", "read_graph", "save_graph"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """Where a data set's loader is, and what must be said of the graph.

    Attributes:
        module: below dpgnn.datasets; its `load(name, files, root_seed)` returns the Graph.
        caveats: caveat ids that any claim on this graph carries.
    """

    module: str
    caveats: tuple[str, ...] = ()


TABLE: Mapping[str, Entry] = {
    "chains-50": Entry(module="chains"),
    "chains-l": Entry(module="chains"),
    "chains-m": Entry(module="chains"),
    "chains-s": Entry(module="chains"),
    "chains-x": Entry(module="chains"),
    "citeseer": Entry(module="planetoid"),
    "computers": Entry(module="npz_graphs"),
    "cora": Entry(module="planetoid"),
    "cora_ml": Entry(module="npz_graphs"),
    "cs": Entry(module="npz_graphs"),
    "dblp": Entry(module="npz_graphs"),
    "digits": Entry(module="digits", caveats=("preprocessing",)),
    "photo": Entry(module="npz_graphs"),
    "physics": Entry(module="npz_graphs"),
    "pubmed": Entry(module="planetoid"),
}


def entry_of(name: str) -> Entry:
    """The table's entry for a data set.

    Raises:
        ValueError: the name is unknown; lists what exists.
    """
    if name not in TABLE:
        fail("data set", f"be one of {', '.join(TABLE)}", name, "or an own graph, see docs/data.md")
    return TABLE[name]


def load(name: str, *, folder: Path, root_seed: int) -> Graph:
    """Load a data set from raw files, fetching those that are not here.

    Args:
        name: a name of the table.
        folder: where raw files are kept (data/raw); mirror folders come from DPGNN_MIRROR.
        root_seed: used by synthetic data sets only.

    Returns:
        a validated graph whose counts are the published ones.

    Raises:
        ValueError: unknown name, damaged file, or counts other than the published ones.
        OSError: a raw file is not here and could not be fetched.
    """
    from dpgnn.datasets.raw_files import RawFiles
    from dpgnn.datasets.sources import source_of

    entry = entry_of(name)
    source = source_of(name)
    make: Callable[..., Graph] = importlib.import_module(f"dpgnn.datasets.{entry.module}").load
    graph = make(name, RawFiles(source=source, folder=Path(folder)), root_seed)
    for count, published in source.counts().items():
        found = getattr(graph, count)
        if found != published:
            fail(
                f"{name}: {count}",
                f"be {published}, the published number",
                found,
                "the raw file is another version; compare it with data/sources.csv",
            )
    return graph


def provenance(name: str) -> dict[str, Any]:
    """Origin, licence, citation, caveats and raw checksums of a data set, for graph.json."""
    from dpgnn.datasets.sources import source_of

    source = source_of(name)
    return {
        "origin": [raw.url or raw.mirror_path for raw in source.files] or ["made by dpgnn"],
        "version": source.version,
        "licence": source.licence,
        "redistribute": source.redistribute,
        "citation": source.citation,
        "caveats": list(entry_of(name).caveats),
        "raw_sha256": {raw.file: raw.sha256 for raw in source.files},
    }

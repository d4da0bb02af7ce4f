"""Raw files -> Graph. One file per source, one line per data set in the table below.

To add a data set: a loader file, its rows in data/sources.csv, its BibTeX in data/citations.bib and
one line here.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import fail
from dpgnn.core.checksums import OF_FOLDER
from dpgnn.core.storage import UNFINISHED
from dpgnn.data.files.graph_files import FILES, read_graph, save_graph, was_cut_short
from dpgnn.data.files.streaming import DEFAULT_MEMORY_BYTES

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.raw.files import RawFiles
    from dpgnn.data.raw.sources import Source

__all__ = ["TABLE", "entry_of", "load", "prepare", "provenance", "read_graph", "save_graph"]

RAW_FOLDER = Path("data/raw")
OWN_FOLDER = Path("data/own")  # a user's own graphs, a folder for each


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A data set's loader and the caveats of its graph.

    Attributes:
        module: below dpgnn.data.datasets; it has either `load(name, files, root_seed) -> Graph`, or
            `pieces(name, files, root_seed) -> Pieces` for a graph that can be streamed.
        raw_edges: sources.csv counts the raw file's edges, which the loader checks itself.
        caveats: caveat ids of every claim on this graph.
        edge_caveats: further caveats for methods that read edges.
    """

    module: str
    raw_edges: bool = False
    caveats: tuple[str, ...] = ()
    edge_caveats: tuple[str, ...] = ()


# NAME-* matches every name with this prefix
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
    "digits": Entry(module="digits", edge_caveats=("preprocessing",)),
    "facebook-*": Entry(module="facebook100", caveats=("preprocessing",)),
    "flickr": Entry(module="graphsaint", raw_edges=True),
    "ogbn-arxiv": Entry(module="ogb", raw_edges=True),
    "ogbn-mag": Entry(module="ogb", raw_edges=True),
    "ogbn-products": Entry(module="ogb", raw_edges=True),
    "photo": Entry(module="npz_graphs"),
    "physics": Entry(module="npz_graphs"),
    "ppi": Entry(module="graphsaint", raw_edges=True),
    "pubmed": Entry(module="planetoid"),
    "reddit": Entry(module="reddit"),
    "reddit-dpar": Entry(module="reddit", caveats=("preprocessing",)),
    "reddit2": Entry(module="graphsaint", raw_edges=True),
    "synthetic-*": Entry(module="synthetic"),
}


OWN = Entry(module="custom")


def is_stand_in(name: str) -> bool:
    """Whether a data set is a stand-in: drawn at random in the shape of a real one.

    Args:
        name: of a data set.
    """
    return name.startswith("synthetic-")


def is_drawn(name: str) -> bool:
    """Whether a data set is drawn at random: a stand-in, or the chains of CARIBOU's paper.

    Args:
        name: of a data set.
    """
    return is_stand_in(name) or name.startswith("chains-")


def listed(name: str) -> Entry | None:
    """The table's entry for a data set; None for a name that is not in it, such as a user's own graph.

    Args:
        name: of a data set.
    """
    return TABLE.get(name) or TABLE.get(name.partition("-")[0] + "-*")


def entry_of(name: str, *, own_folder: Path = OWN_FOLDER) -> Entry:
    """The table's entry for a data set, or OWN for a user's own graph.

    Args:
        name: of the table, such as `cora` or `facebook-Rutgers89`, or of a folder of the user's.
        own_folder: folder of users' graphs.

    Raises:
        ValueError: the name is unknown (lists what exists), or a user's graph has a name of the table.
    """
    found, own = listed(name), Path(own_folder) / name
    if found is not None:
        # otherwise one of the two would be used silently
        if own.is_dir():
            fail(str(own), "have a name of its own", name, "rename the folder: the name is taken")
        return found
    if own.is_dir():
        return OWN
    remedy = f"or a folder of your own graph: {own}, see docs/data.md"
    graphs = Path(own_folder).iterdir() if Path(own_folder).is_dir() else ()
    known = [*TABLE, *sorted(path.name for path in graphs if path.is_dir())]
    fail("data set", f"be one of {', '.join(known)}", name, remedy)


def is_streamed(name: str) -> bool:
    """Whether a data set of the table is streamed and never held as a whole.

    Args:
        name: of the table.
    """
    return hasattr(importlib.import_module(home_of(entry_of(name))), "pieces")


def home_of(entry: Entry) -> str:
    """The full name of the module that reads a data set.

    Args:
        entry: a row of the table.
    """
    return "dpgnn.data.custom.read" if entry is OWN else f"dpgnn.data.datasets.{entry.module}"


def check_known(name: str, *, own_folder: Path = OWN_FOLDER) -> None:
    """Check that a data set exists, including members of families such as facebook-*.

    Args:
        name: of a data set.
        own_folder: where own graphs lie.

    Raises:
        ValueError: it does not exist; lists those that do.
    """
    from dpgnn.core.checks import one_of
    from dpgnn.data.datasets.schools import SCHOOLS
    from dpgnn.data.raw.sources import read_sources

    entry_of(name, own_folder=own_folder)
    family, _, member = name.partition("-")
    if is_stand_in(name):
        one_of("stand-in", name, (known for known in read_sources() if is_stand_in(known)))
    elif name not in TABLE and family == "facebook":
        one_of("school of facebook-*", member, SCHOOLS)


def check_out(out: Path, source: Path) -> None:
    """Refuse to write a graph over anything but an earlier copy of it.

    Args:
        out: the folder to write a graph to.
        source: the folder of a user's own graph of that name; it need not exist.

    Raises:
        ValueError: `out` is the source, or holds files but no graph.json; leftovers of a killed write do not
            count, because the next write removes them.
    """
    remedy = "say a folder of its own, such as results/graphs/NAME"
    if out.resolve() == source.resolve():
        fail("--out", "not be the folder of the graph's own files", str(out), remedy)
    held = (path.name for path in out.iterdir()) if out.is_dir() else iter(())
    kept = sorted(name for name in held if not UNFINISHED.fullmatch(name))
    if (
        kept
        and "graph.json" not in kept
        and not (set(kept) <= {*FILES, OF_FOLDER} and was_cut_short(out))
    ):
        shown = f"{str(out)!r} with {kept[0]}"
        raise ValueError(f"--out must be a new or empty folder or a graph's, got {shown}; {remedy}")


def load(
    name: str, *, root_seed: int, folder: Path = RAW_FOLDER, own_folder: Path = OWN_FOLDER
) -> Graph:
    """Load a data set from raw files, fetching missing ones.

    Args:
        name: a name of the table, or of a folder below `own_folder`.
        root_seed: used by synthetic data sets only.
        folder: of raw files; mirror folders come from DPGNN_MIRROR.
        own_folder: a user's own graphs, a folder for each.

    Returns:
        a validated graph with the published counts.

    Raises:
        ValueError: unknown name, damaged file, or counts other than the published ones.
        OSError: a raw file is missing and could not be fetched.
    """
    from dpgnn.data.custom import read as custom
    from dpgnn.data.files import pieces

    if entry_of(name, own_folder=own_folder) is OWN:
        return custom.load_folder(Path(own_folder) / name, name)
    module, files = _open(name, Path(folder))
    with files.accepted():
        if hasattr(module, "pieces"):
            graph = pieces.collect(module.pieces(name, files, root_seed))
        else:
            graph = module.load(name, files, root_seed)
        found = {count: getattr(graph, count) for count in files.source.counts()}
        _check_counts(name, found, files.source)
    return graph


def prepare(
    name: str,
    out: Path,
    *,
    folder: Path,
    root_seed: int,
    own_folder: Path = OWN_FOLDER,
    memory_bytes: int = DEFAULT_MEMORY_BYTES,
) -> dict[str, Any]:
    """Write a data set as a graph folder; large ones are streamed in bounded memory.

    Args:
        name, folder, root_seed, own_folder: as for `load`.
        out: the graph's folder, usually results/graphs/NAME.
        memory_bytes: for sorting the edges of a streamed graph.

    Returns:
        what graph.json holds.

    Raises:
        ValueError, OSError: as `load`, or as `check_out`; `out` is then empty.
    """
    from dpgnn.data.custom import stream as custom_stream
    from dpgnn.data.custom.options import read_options
    from dpgnn.data.files import pieces

    check_out(Path(out), Path(own_folder) / name)
    if entry_of(name, own_folder=own_folder) is OWN:
        own = Path(own_folder) / name
        if custom_stream.is_large(own):
            found = custom_stream.pieces(own, name, read_options(own))
            stated = own_provenance(own)
            return pieces.write(found, Path(out), provenance=stated, memory_bytes=memory_bytes)
        graph = load(name, folder=folder, root_seed=root_seed, own_folder=own_folder)
        return save_graph(graph, out, provenance=own_provenance(own))
    module, files = _open(name, Path(folder))
    if not hasattr(module, "pieces"):
        graph = load(name, folder=folder, root_seed=root_seed)
        return save_graph(graph, out, provenance=provenance(name, folder))
    with files.accepted():
        found = module.pieces(name, files, root_seed)
        stated = provenance(name, folder)
        return pieces.write(found, Path(out), provenance=stated, memory_bytes=memory_bytes)


def _open(name: str, folder: Path) -> tuple[Any, RawFiles]:
    """The loader's module and the data set's raw files."""
    from dpgnn.data.raw.files import RawFiles
    from dpgnn.data.raw.sources import source_of

    entry = entry_of(name)
    module = importlib.import_module(home_of(entry))
    return module, RawFiles(source=source_of(name), folder=folder)


def _check_counts(name: str, found: Mapping[str, int], source: Source) -> None:
    for count, published in source.counts().items():
        if count == "num_edges" and entry_of(name).raw_edges:
            continue
        if found[count] != published:
            fail(
                f"{name}: {count}",
                f"be {published}, the published number",
                found[count],
                "the raw file is another version; compare it with data/sources.csv",
            )


def own_fingerprint(name: str, own_folder: Path = OWN_FOLDER) -> str:
    """A hash of the files of a user's own graph; "" for a data set of the table.

    Args:
        name: of an own graph.
        own_folder: where own graphs lie.

    Raises:
        ValueError: the name is unknown, or graph.yaml is wrong.
    """
    from dpgnn.core.storage import sha256_json

    if entry_of(name, own_folder=own_folder) is not OWN:
        return ""
    return sha256_json(own_provenance(Path(own_folder) / name))


def own_provenance(folder: Path) -> dict[str, Any]:
    """Provenance of a user's own graph for graph.json: checksums of its files, and public names.

    Args:
        folder: of an own graph.

    Raises:
        ValueError: graph.yaml is wrong.
    """
    from dpgnn.core.storage import sha256_file
    from dpgnn.data.custom.options import read_options

    files = sorted(path for path in folder.iterdir() if path.is_file())
    options = read_options(folder)
    return {
        "origin": ["own graph"],
        "caveats": list(options.caveats),
        **({"names": options.public_names} if options.public_names else {}),
        **({"public_ids": True} if options.public_ids else {}),
        "raw_sha256": {path.name: sha256_file(path) for path in files},
    }


def provenance(name: str, folder: Path = RAW_FOLDER) -> dict[str, Any]:
    """Origin, licence, citation, caveats and raw checksums of a data set, for graph.json.

    An unpublished checksum is taken from the file in `folder` or a mirror folder.

    Args:
        name: of a data set.
        folder: of the raw files.

    Raises:
        ValueError: the name is unknown.
    """
    from dpgnn.core.storage import sha256_file

    _, files = _open(name, Path(folder))
    source = files.source
    found = {raw.file: files.find(raw) for raw in source.files if not raw.sha256}
    return {
        "origin": [raw.url or raw.mirror_path for raw in source.files] or ["made by dpgnn"],
        "version": source.version,
        "licence": source.licence,
        "redistribute": source.redistribute,
        "citation": source.citation,
        "caveats": list(entry_of(name).caveats),
        "edge_caveats": list(entry_of(name).edge_caveats),
        "raw_sha256": {raw.file: raw.sha256 for raw in source.files}
        | {file: sha256_file(path) if path else "" for file, path in found.items()},
    }

"""The model of a finished run of a study."""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.checksums import check
from dpgnn.core.storage import sha256_file
from dpgnn.data.custom.read import NODE_TABLES, node_ids
from dpgnn.data.datasets import OWN_FOLDER
from dpgnn.data.files.graph_files import read_meta
from dpgnn.records.schema import read_record
from dpgnn.release.bundle import OWN_ROWS, STATE, read_tensors
from dpgnn.release.model import Model
from dpgnn.release.released import Names


def model_of_run(folder: Path, names: Names) -> Model:
    """A model from the files of a run, each compared with its checksum.

    Guarantee: the model is the one that the run released, under the claims of its record; nothing is fitted.

    Args:
        folder: results/studies/STUDY/runs/DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT.
        names: of classes and features that may be published.

    Raises:
        ValueError: the run is not done or has no model, a file was changed, or the number of names is not
            that of the model's classes or features.
    """
    remedy = "`dpgnn run` makes it"
    require((folder / "record.json").exists(), f"run {folder}", "be done", "no record", remedy)
    for name in ("record.json", STATE):
        check(folder / name)
    record = read_record(folder / "record.json")
    done = f"{record.status}: {record.reason}"
    require(record.status == "ok", f"run {folder}", "have a model", done)
    for kind, number in (("classes", "num_classes"), ("features", "num_features")):
        given, wanted = len(getattr(names, kind)), record.facts[number]
        require(given in (0, wanted), f"--{kind}", f"be {wanted} names", given)
    kept = folder / OWN_ROWS
    if kept.exists():
        check(kept)
    return Model(
        record=record,
        state=read_tensors(folder / STATE),
        kept=read_tensors(kept) if kept.exists() else {},
        names=names,
    )


def ids_are_public(graph: Path) -> bool:
    """Whether graph.yaml of the graph in results/graphs/NAME declares ids public; False if it is missing.

    Args:
        graph: results/graphs/NAME.

    Raises:
        DamagedFileError: graph.json is damaged.
    """
    known = (graph / "graph.json").exists()
    return known and bool(read_meta(graph)["provenance"].get("public_ids"))


def is_directed(graph: Path) -> bool:
    """Whether edges of the graph in results/graphs/NAME are directed, as its owner states.

    Args:
        graph: results/graphs/NAME.

    Raises:
        DamagedFileError: graph.json is missing or damaged.
    """
    return bool(read_meta(graph)["directed"])


def declared_names(graph: Path) -> Names:
    """The names that the owner of a graph declared public in graph.yaml; none if the graph is missing.

    Guarantee: only names that the owner declared public.

    Args:
        graph: results/graphs/NAME.

    Raises:
        DamagedFileError: graph.json was changed.
    """
    if not (graph / "graph.json").exists():
        return Names()
    stated = read_meta(graph).get("provenance", {}).get("names", {})
    return Names(
        classes=tuple(stated.get("classes", ())), features=tuple(stated.get("features", ()))
    )


def own_ids(graph: Path, own_folder: Path = OWN_FOLDER) -> tuple[str, ...]:
    """The ids of a user's graph, in the order of its nodes; none for other graphs.

    Guarantee: none: the ids are private unless graph.yaml declares them public.

    Args:
        graph: results/graphs/NAME.
        own_folder: contains the folder NAME with the tables that the graph was made from.

    Raises:
        ValueError: the table of nodes is not the one that the graph was made from.
    """
    if not (graph / "graph.json").exists():
        return ()
    stated = read_meta(graph)
    known = stated["provenance"].get("raw_sha256", {})
    path = own_folder / stated["name"] / next((n for n in NODE_TABLES if n in known), "")
    if stated["provenance"].get("origin") != ["own graph"] or path.name not in known:
        return ()
    same = path.is_file() and sha256_file(path) == known[path.name]
    remedy = (
        "the model answers about its nodes by their ids; `dpgnn run` makes graph and model anew"
    )
    require(same, str(path), "be the table that the graph was made from", "another or none", remedy)
    return node_ids(path)

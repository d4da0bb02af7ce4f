"""The model of a finished run of a study."""

from __future__ import annotations

from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.checksums import check
from dpgnn.data.files.graph_files import read_meta
from dpgnn.records.schema import read_record
from dpgnn.release.bundle import OWN_ROWS, STATE, read_tensors
from dpgnn.release.model import Model
from dpgnn.release.released import Names


def model_of_run(folder: Path, names: Names) -> Model:
    """A model from the files of a run, each compared with its checksum.

    Args:
        folder: results/studies/STUDY/runs/DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT.
        names: of classes and features that may be published.

    Raises:
        ValueError: the run is not done or has no model, a file was changed, or the model has another number
            of classes or features.
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
    return Model(
        record=record,
        state=read_tensors(folder / STATE),
        kept=read_tensors(kept) if kept.exists() else {},
        names=names,
    )


def declared_names(graph: Path) -> Names:
    """The names that the owner of a graph declared public in graph.yaml; none where the graph is not here.

    Args:
        graph: results/graphs/NAME.

    Raises:
        DamagedFileError: graph.json was changed.
    """
    if not (graph / "graph.json").exists():
        return Names()
    stated = read_meta(graph).get("provenance", {}).get("names", {})
    return Names(**{kind: tuple(names) for kind, names in stated.items()})

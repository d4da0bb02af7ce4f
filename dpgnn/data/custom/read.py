"""A user's own graph: a folder of CSV, Parquet, npz or saved PyG files in the schema of docs/data.md.

The folder holds one of: nodes.csv with edges.csv; nodes.parquet with edges.parquet; graph.npz;
graph.pt; and, optionally, graph.yaml with what is known in advance and public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpgnn.core import config
from dpgnn.core.checks import at_least, fail, one_of, require
from dpgnn.data.custom import arrays as custom_arrays
from dpgnn.data.custom import tables as custom_tables
from dpgnn.data.custom.checks import (
    check_edges,
    check_features,
    check_labels,
    check_parts,
    check_unlabelled,
)
from dpgnn.data.custom.raw_graph import Problems, RawGraph
from dpgnn.data.datasets.edges import clean_edges
from dpgnn.data.graph import Graph, Task

SHOWN_PROBLEMS = 20
MAX_CLASSES = 1_000_000  # a model has a column of weights for each


@dataclass(frozen=True, kw_only=True)
class Options:
    """graph.yaml: what the owner states of the graph; public, so it may stand in a plan.

    Attributes:
        task: multiclass, or multilabel with 0/1 columns label_0, label_1, ...
        num_classes: number of classes; counted from the labels when it is not stated, which looks
            at private data: claims then carry the caveat `preprocessing`.
        classes: names of the classes in order, when labels are texts; needed where `num_classes` is stated,
            because names that are numbered as they are found depend on every node's.
        directed: edges run from source to target only; otherwise reverse edges are added.
        drop_self_loops: leave self-loops out instead of refusing them.
        drop_duplicates: keep the first of equal edges instead of refusing them.
    """

    task: Task = "multiclass"
    num_classes: int | None = None
    classes: tuple[str, ...] = ()
    directed: bool = False
    drop_self_loops: bool = False
    drop_duplicates: bool = False

    def __post_init__(self) -> None:
        one_of("task", self.task, ("multiclass", "multilabel"))
        if self.num_classes is not None:
            at_least("num_classes", self.num_classes, 2)
            rule = f"be <= {MAX_CLASSES}"
            require(self.num_classes <= MAX_CLASSES, "num_classes", rule, self.num_classes)
        rule, remedy = "have different names", "name each class once"
        distinct = len(set(self.classes)) == len(self.classes)
        require(distinct, "classes", rule, list(self.classes), remedy)
        if self.classes and self.num_classes is not None:
            rule = f"be {len(self.classes)}, the number of `classes`"
            require(self.num_classes == len(self.classes), "num_classes", rule, self.num_classes)

    @property
    def stated_classes(self) -> int | None:
        """The number of classes, as far as it is stated."""
        return len(self.classes) or self.num_classes


READERS: dict[str, Callable[[Path, Options, Problems], RawGraph]] = {
    "nodes.csv": custom_tables.read_tables,
    "nodes.parquet": custom_tables.read_tables,
    "graph.npz": custom_arrays.read_npz_graph,
    "graph.pt": custom_arrays.read_pyg,
}


def load_folder(folder: Path, name: str) -> Graph:
    """Read a user's own graph.

    Raises:
        ValueError: anything wrong with it; the message lists up to 20 problems.
    """
    graph, problems = read_folder(folder, name)
    if graph is None:
        shown = "\n  ".join(problems[:SHOWN_PROBLEMS])
        more = len(problems) - SHOWN_PROBLEMS
        rest = f"\n  and {more} more; `dpgnn data validate {folder}` shows all" if more > 0 else ""
        raise ValueError(
            f"{folder} must be a valid graph, got {len(problems)} problems:\n  {shown}{rest}"
        )
    return graph


def read_folder(folder: Path, name: str) -> tuple[Graph | None, list[str]]:
    """The graph, or None and everything that is wrong with it."""
    problems = Problems()
    graph = None
    with problems.caught():
        options = read_options(folder)
        raw = READERS[graph_file(folder).name](graph_file(folder), options, problems)
        graph = _build(name, raw, options, problems)
    return (None if problems.texts else graph), problems.texts


def graph_file(folder: Path) -> Path:
    """The file that decides the format.

    Raises:
        ValueError: none of the four, or more than one.
    """
    found = [name for name in READERS if (folder / name).exists()]
    if len(found) != 1:
        fail(str(folder), f"hold one of {', '.join(READERS)}", found or "none", "see docs/data.md")
    return folder / found[0]


def read_options(folder: Path) -> Options:
    """graph.yaml, or the defaults without one.

    Raises:
        ConfigError: an unknown key, a wrong type or an impossible value.
    """
    path = folder / "graph.yaml"
    if not path.exists():
        return Options()
    try:
        values = config.parse_yaml(path.read_text(encoding="utf-8"), str(path))
    except UnicodeDecodeError as error:
        fail(str(path), "be YAML", str(error))
    return config.read(Options, values or {}, str(path))


def caveats_of(folder: Path) -> tuple[str, ...]:
    """`preprocessing` when the number of classes is counted from private labels."""
    return () if read_options(folder).stated_classes else ("preprocessing",)


def _build(name: str, raw: RawGraph, options: Options, problems: Problems) -> Graph | None:
    """Check labels, edges and splits; then make the Graph."""
    num_classes = 0
    if raw.x is not None:
        check_features(raw, raw.x, problems)
    if raw.y is not None:
        num_classes = check_labels(raw, raw.y, options, problems)
        check_unlabelled(raw, raw.y, problems)
    if raw.codes is not None:
        check_parts(raw.where, set(raw.codes.tolist()), problems)
    if raw.source is not None and raw.target is not None:
        check_edges(raw, raw.source, raw.target, options, problems)
    if problems.texts:
        return None
    assert raw.source is not None
    assert raw.target is not None
    assert raw.y is not None
    edges = clean_edges(raw.source, raw.target, raw.num_nodes, undirected=not options.directed)
    splits = {}
    if raw.codes is not None:
        parts = {"train": 0, "val": 1, "test": 2}
        splits["public"] = {p: np.flatnonzero(raw.codes == code) for p, code in parts.items()}
    return Graph(
        name=name,
        x=raw.x,
        edge_index=edges,
        y=raw.y,
        num_classes=num_classes,
        task=options.task,
        directed=options.directed,
        splits=splits,
    )

"""graph.yaml: what the owner states about a graph, and the file of its folder that holds the graph."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpgnn.core import config
from dpgnn.core.checks import at_least, fail, one_of, require
from dpgnn.core.paths import regular
from dpgnn.core.yaml_text import read_yaml
from dpgnn.data.graph import Task

FORMATS = ("nodes.csv", "nodes.parquet", "graph.npz", "graph.pt")
# a model has weights for each feature and class
MAX_CLASSES = 1_000_000
MAX_FEATURES = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Options:
    """graph.yaml: what the owner states about the graph; public, so plans may use it.

    Attributes:
        task: multiclass, or multilabel with 0/1 columns label_0, label_1, ...
        num_classes: number of classes; if not stated, it is counted from private labels, and claims carry the
            caveat `preprocessing`.
        classes: names of the classes in order, if labels are texts; required if `num_classes` is stated,
            because numbering names as they occur depends on every node's label.
        features: names of the feature columns in order, if they may be published with a model.
        public_ids: the ids of the nodes may be published with a model, which reveals who is in the graph.
        directed: edges run from source to target only; otherwise reverse edges are added.
        drop_self_loops: drop self-loops instead of refusing them.
        drop_duplicates: keep the first of equal edges instead of refusing them.
    """

    task: Task = "multiclass"
    num_classes: int | None = None
    classes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    public_ids: bool = False
    directed: bool = False
    drop_self_loops: bool = False
    drop_duplicates: bool = False

    def __post_init__(self) -> None:
        one_of("task", self.task, ("multiclass", "multilabel"))
        if self.num_classes is not None:
            at_least("num_classes", self.num_classes, 2)
            rule = f"be <= {MAX_CLASSES}"
            require(self.num_classes <= MAX_CLASSES, "num_classes", rule, self.num_classes)
        for name, remedy in (("classes", "name each class once"), ("features", "name each once")):
            names = getattr(self, name)
            distinct = len(set(names)) == len(names)
            require(distinct, name, "have different names", list(names), remedy)
        padded = [name for name in self.classes if name != name.strip()]
        require(not padded, "classes", "have no blanks around a name", padded, "labels have none")
        if self.classes and self.num_classes is not None:
            rule = f"be {len(self.classes)}, the number of `classes`"
            require(self.num_classes == len(self.classes), "num_classes", rule, self.num_classes)

    @property
    def stated_classes(self) -> int | None:
        """The number of classes, if stated."""
        return len(self.classes) or self.num_classes

    @property
    def caveats(self) -> tuple[str, ...]:
        """`preprocessing` if the number of classes is counted from private labels."""
        return () if self.stated_classes else ("preprocessing",)

    @property
    def public_names(self) -> dict[str, list[str]]:
        """Names of classes and features, which may be published with a model."""
        stated = {"classes": self.classes, "features": self.features}
        return {kind: list(names) for kind, names in stated.items() if names}


def graph_file(folder: Path) -> Path:
    """The file that decides the format.

    Raises:
        ValueError: there is none of the four, or more than one, or it is not a regular file.
    """
    found = [name for name in FORMATS if (folder / name).exists()]
    if len(found) != 1:
        fail(str(folder), f"hold one of {', '.join(FORMATS)}", found or "none", "see docs/data.md")
    return regular(folder / found[0])


def read_options(folder: Path) -> Options:
    """graph.yaml, or the defaults without one.

    Raises:
        ConfigError: an unknown key, a wrong type or an impossible value.
    """
    path = regular(folder / "graph.yaml")
    values = read_yaml(path) if path.exists() else {}
    return config.read(Options, values or {}, str(path))

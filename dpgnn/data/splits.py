"""Graph -> Split: training, validation and test nodes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.core.checks import at_least, fail, one_of, require
from dpgnn.core.checksums import check
from dpgnn.core.storage import (
    DamagedFileError,
    column_of,
    parquet_metadata,
    read_parquet,
    values_of,
    write_parquet,
)
from dpgnn.core.wording import listed
from dpgnn.data import recipes
from dpgnn.data.recipes import labelled_nodes
from dpgnn.data.truncation import truncate

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph

Kind = Literal["public", "random", "coins", "per_class", "clustered", "caribou", "membership"]
KINDS = ("public", "random", "coins", "per_class", "clustered", "caribou", "membership")
LOOKING_KINDS = ("clustered", "per_class", "membership")  # at edges, or at the class of each node
REMEDIES: Mapping[Kind, str] = {
    "public": "name nodes of each part in the column `split`, or use kind random",
    "random": "change train_fraction and val_fraction, or give it a column `split` and use kind public",
    "coins": "change train_fraction and val_fraction, or give it a column `split` and use kind public",
    "per_class": "lower num_per_class or num_val",
    "clustered": "change train_fraction and val_fraction, or use kind random",
    "caribou": "lower min_class_size, or use kind random",
    "membership": "lower num_per_class",
}
# kinds that read a key; every kind reads the others
READ_BY: Mapping[str, tuple[Kind, ...]] = {
    "train_fraction": ("random", "coins", "clustered"),
    "val_fraction": ("random", "coins", "clustered"),
    "num_per_class": ("per_class", "membership"),
    "num_val": ("per_class",),
    "num_test": ("per_class", "membership"),
}
NO_NODES = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class SplitConfig:
    """One setting of a study.

    Attributes:
        kind: "public" (the publisher's own), "random" (fractions of all labelled nodes), "coins" (each
            labelled node by its own coin), "per_class" (`num_per_class` training nodes a class, then
            `num_val` and `num_test`), "clustered" (whole communities packed into the fractions, as DP-GNN's
            ogbn-arxiv-clustered), "caribou" (CARIBOU's fixed 70/10/20 split) or "membership" (the target half
            of G-MIA's). "clustered" reads private edges, "per_class" and "membership" private labels: claims
            then carry the caveat `preprocessing`. Under add-remove all but "public" and "coins" move other
            nodes with the one that is added, and claims of a release carry it too.
        inductive: True drops every edge whose ends lie in different parts (the disjoint setting);
            False trains and evaluates on the whole graph (transductive).
        train_fraction, val_fraction: of the labelled nodes, for "random" and "clustered", probabilities for
            "coins"; the rest is test.
        num_per_class: training nodes of each class, for "per_class" and "membership".
        num_val, num_test: sizes for "per_class"; num_test 0 takes all the rest. For "membership"
            num_test is the number of nodes left out of training that the attack is tested on.
        min_class_size: members of smaller classes leave the graph after the split is drawn; 0 keeps all. It
            reads private labels, so claims carry the caveat `preprocessing`.
        drop_isolated: nodes without an edge leave the graph after the split is drawn.
        max_degree: each node keeps at most this many edges by a fixed public rule (`data.truncation`), so
            that a declared degree bound holds; 0 keeps all. Claims are then about the truncated graph and
            carry the caveat `preprocessing`. Undirected graphs only.
    """

    kind: Kind = "random"
    inductive: bool = False
    train_fraction: float = 0.6
    val_fraction: float = 0.2
    num_per_class: int = 20
    num_val: int = 500
    num_test: int = 0
    min_class_size: int = 0
    drop_isolated: bool = False
    max_degree: int = 0

    def __post_init__(self) -> None:
        one_of("kind of split", self.kind, KINDS)
        total = self.train_fraction + self.val_fraction
        require(0 < self.train_fraction < 1, "train_fraction", "be in (0, 1)", self.train_fraction)
        require(0 <= self.val_fraction < 1, "val_fraction", "be in [0, 1)", self.val_fraction)
        require(
            total < 1, "train_fraction + val_fraction", "be < 1", total, "leave nodes to test on"
        )
        at_least("num_per_class", self.num_per_class, 1)
        at_least("num_val", self.num_val, 0)
        at_least("num_test", self.num_test, 0)
        at_least("min_class_size", self.min_class_size, 0)
        at_least("max_degree", self.max_degree, 0)

    @property
    def stated(self) -> dict[str, Any]:
        """The fields as a mapping, without `max_degree` if it is 0.

        Hashes of configurations use this, so the option does not change older hashes.
        """
        fields = asdict(self)
        return fields if self.max_degree else {k: v for k, v in fields.items() if k != "max_degree"}

    @property
    def sizes(self) -> recipes.Sizes:
        """(per class, validation, test), for the recipes."""
        return self.num_per_class, self.num_val, self.num_test

    @property
    def has_validation(self) -> bool:
        """Whether nodes are left for validation; of a publisher's split only its file tells, so True."""
        if self.kind in READ_BY["val_fraction"]:
            return self.val_fraction > 0
        return {"per_class": self.num_val, "membership": 0}.get(self.kind, 1) > 0

    @property
    def caveats(self) -> tuple[str, ...]:
        """Caveat ids of claims on such a split, for recipes that read private labels or edges."""
        looks = self.kind in LOOKING_KINDS or self.min_class_size > 0 or self.drop_isolated
        looks = looks or self.max_degree > 0
        return ("preprocessing",) if looks else ()

    @property
    def keeps_others(self) -> bool:
        """Whether a node that comes, goes or loses its label leaves every other node in its part."""
        return self.kind in ("public", "coins")

    @property
    def reads_edges(self) -> bool:
        """Whether drawing the split reads edges."""
        return self.kind == "clustered" or self.drop_isolated


def check_read(stated: Mapping[str, Any], path: str) -> None:
    """Refuse keys of a setting that its kind does not read, such as sizes where the kind was forgotten.

    Args:
        stated: the setting as a study states it; one that states the kind and all sizes is a whole
            configuration, as `SplitConfig.stated` gives it, and is taken.
        path: where it stands, for the message.

    Raises:
        ValueError: names the key and the kinds that read it.
    """
    kind = stated.get("kind", SplitConfig.kind)
    if kind not in KINDS or {"kind", *READ_BY} <= stated.keys():
        return
    for key in stated:
        kinds = READ_BY.get(key, KINDS)
        given = f"kind is {kind}" + ("" if "kind" in stated else ", since none is stated")
        require(kind in kinds, f"{path}.{key}", "be left out, or be read by the kind", stated[key],
                f"{key} is read by {listed(kinds)} only, {given}")  # fmt: skip


# the settings of the papers by name; ogbn and Reddit have a public split
PAPER_SETTINGS: Mapping[str, SplitConfig] = {
    "dpgnn-transductive": SplitConfig(kind="public"),
    "dpgnn-disjoint": SplitConfig(kind="public", inductive=True),
    "dpgnn-clustered": SplitConfig(
        kind="clustered", inductive=True, train_fraction=0.67, val_fraction=0.18
    ),
    "drw-transductive": SplitConfig(kind="public"),
    "drw-inductive": SplitConfig(kind="public", inductive=True),
    "dpar": SplitConfig(kind="random", inductive=True, train_fraction=0.8, val_fraction=0.0),
    "caribou": SplitConfig(kind="caribou", min_class_size=50, drop_isolated=True),
    "caribou-facebook": SplitConfig(kind="caribou", min_class_size=1000, drop_isolated=True),
    "gmia-cora": SplitConfig(kind="membership", inductive=True, num_per_class=90, num_test=630),
    "gmia-citeseer": SplitConfig(
        kind="membership", inductive=True, num_per_class=100, num_test=600
    ),
    "gmia-pubmed": SplitConfig(
        kind="membership", inductive=True, num_per_class=1500, num_test=4500
    ),
    "gmia-flickr": SplitConfig(
        kind="membership", inductive=True, num_per_class=1500, num_test=10500
    ),
    "gmia-reddit": SplitConfig(
        kind="membership", inductive=True, num_per_class=500, num_test=20500
    ),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Split:
    """Disjoint int64 node positions, sorted. Membership is public in every claim of this project.

    Attributes:
        train_idx, val_idx, test_idx: int64, shape (num,), ascending.
        inductive: True if edges between parts are dropped, in training and in evaluation.
        dropped_idx: nodes that the setting removes: they have no part and no edge.
        max_degree: largest number of edges that each node keeps; 0 keeps all.
    """

    train_idx: np.ndarray
    val_idx: np.ndarray
    test_idx: np.ndarray
    inductive: bool
    dropped_idx: np.ndarray = field(default_factory=lambda: NO_NODES)
    max_degree: int = 0

    def __post_init__(self) -> None:
        parts = np.concatenate([self.train_idx, self.val_idx, self.test_idx, self.dropped_idx])
        is_once = len(np.unique(parts)) == len(parts)
        require(is_once, "split", "have disjoint parts", "a node in two parts")
        at_least("split: number of training nodes", len(self.train_idx), 1)
        at_least("split: number of test nodes", len(self.test_idx), 1)
        for idx in (self.train_idx, self.val_idx, self.test_idx, self.dropped_idx):
            idx.setflags(write=False)

    def part_of(self, num_nodes: int) -> np.ndarray:
        """int8, shape (num_nodes,): 0 train, 1 val, 2 test, -1 in no part, -2 taken out.

        Args:
            num_nodes: of the graph.
        """
        part = np.full(num_nodes, -1, dtype=np.int8)
        part[self.dropped_idx] = -2
        for code, idx in enumerate((self.train_idx, self.val_idx, self.test_idx)):
            part[idx] = code
        return part


def make_split(graph: Graph, config: SplitConfig, *, rng: np.random.Generator) -> Split:
    """Draw a split by the recipe in `config`.

    Args:
        graph: only labelled nodes enter a part. Features are not read; edges only by "clustered" and
            `drop_isolated`.
        config: the recipe.
        rng: used by "random", "coins", "per_class" and "membership"; "public", "clustered" and "caribou" draw
            nothing from it, so their repeats share one split.

    Returns:
        the parts, ascending; membership is public in every claim.

    Raises:
        ValueError: the graph has no public split, a class has too few labelled nodes, or `max_degree` is set
            for a directed graph.
    """
    if config.max_degree:
        _refuse_directed(graph, config.max_degree)
    if config.kind == "public":
        if "public" not in graph.splits:
            fail(f"split of {graph.name}", "be a kind it has", "public", "use random or per_class")
        public = graph.splits["public"]
        parts = public["train"], public.get("val", NO_NODES), public["test"]
    elif config.kind == "coins":
        parts = recipes.coins(graph, config.train_fraction, config.val_fraction, rng=rng)
    elif config.kind == "random":
        order = rng.permutation(labelled_nodes(graph))
        parts = recipes.cut(order, config.train_fraction, config.val_fraction)
    elif config.kind == "clustered":
        parts = recipes.clustered(graph, config.train_fraction, config.val_fraction)
    elif config.kind == "caribou":
        parts = recipes.caribou(graph)
    elif config.kind == "per_class":
        parts = recipes.per_class(graph, config.sizes, rng=rng)
    else:
        return membership_splits(graph, config, rng=rng)[0]
    return _split(graph, config, parts)


def membership_splits(
    graph: Graph, config: SplitConfig, *, rng: np.random.Generator
) -> tuple[Split, Split]:
    """G-MIA's target and shadow split, disjoint; the first is what kind "membership" draws.

    Each trains on `num_per_class` nodes of every class and tests the attack on `num_test` nodes that it
    was not trained on.

    Args:
        graph: the full graph.
        config: kind membership, sizes.
        rng: the stream of the split.

    Raises:
        ValueError: a class has fewer than 2 * num_per_class nodes, or too few nodes remain.

    Source: Olatunji et al. (2021), arXiv:2101.06570, setting TSTF.
    """
    at_least(f"split of {graph.name}: num_test", config.num_test, 1)
    target, shadow = recipes.membership(graph, config.sizes, rng=rng)
    return _split(graph, config, target), _split(graph, config, shadow)


def edges_in_setting(graph: Graph, split: Split) -> np.ndarray:
    """edge_index seen in the split's setting: all edges, or only those inside one part.

    Edges of removed nodes are left out in both. The rest is truncated to the split's `max_degree`, if it has
    one.

    Args:
        graph: the whole graph.
        split: the parts, and whether training sees the other parts.

    Returns:
        int64, shape (2, num_kept); node ids are the graph's.

    Raises:
        ValueError: `max_degree` is set for a directed graph.
    """
    if split.max_degree:
        _refuse_directed(graph, split.max_degree)
    edges = graph.edge_index
    if split.inductive or len(split.dropped_idx):
        part = split.part_of(graph.num_nodes)
        source, target = part[edges[0]], part[edges[1]]
        if split.inductive:
            edges = edges[:, (source == target) & (source >= 0)]
        else:
            edges = edges[:, (source > -2) & (target > -2)]
    return truncate(edges, graph.num_nodes, split.max_degree) if split.max_degree else edges


def write_split(
    path: str | os.PathLike[str],
    split: Split,
    *,
    num_nodes: int,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Write a split atomically: one int8 column `part` (0 train, 1 val, 2 test, -1 none, -2 out).

    Args:
        path: usually results/splits/DATASET.SETTING.REPEAT.parquet.
        split: the parts.
        num_nodes: of the graph, one row each.
        metadata: stored with the column: dataset, setting, repeat, recipe, the graph's hash.
    """
    import pyarrow as pa

    table = pa.table({"part": column_of(split.part_of(num_nodes))})
    stated: dict[str, Any] = {**(metadata or {}), "inductive": split.inductive}
    if split.max_degree:
        stated["max_degree"] = split.max_degree
    write_parquet(path, table, metadata=stated)


def read_split(path: str | os.PathLike[str], *, num_nodes: int | None = None) -> Split:
    """Read a split that `write_split` wrote.

    Args:
        path: the file.
        num_nodes: if given, the file must have that many rows.

    Raises:
        DamagedFileError: missing, damaged, changed, or of another graph.
    """
    check(Path(path))
    part = values_of(read_parquet(path, ["part"])["part"])
    metadata = parquet_metadata(path)
    if "inductive" not in metadata or not np.isin(part, (-2, -1, 0, 1, 2)).all():
        raise DamagedFileError(f"{path} must be a split of dpgnn; delete it and run `dpgnn split`")
    if num_nodes is not None and len(part) != num_nodes:
        raise DamagedFileError(
            f"{path} must have {num_nodes} rows, one a node, got {len(part)}; it belongs to another "
            "graph: delete it and run `dpgnn split`"
        )
    train, val, test, dropped = (np.flatnonzero(part == code) for code in (0, 1, 2, -2))
    return Split(
        train_idx=train, val_idx=val, test_idx=test, inductive=bool(metadata["inductive"]),
        dropped_idx=dropped, max_degree=int(metadata.get("max_degree", 0)),
    )  # fmt: skip


def _refuse_directed(graph: Graph, max_degree: int) -> None:
    """Refuse `max_degree` for a directed graph, which would gain edges: both directions are kept."""
    rule, remedy = "be 0 for a directed graph", "bound its degrees in the method's options instead"
    require(not graph.directed, f"split of {graph.name}: max_degree", rule, max_degree, remedy)


def _split(graph: Graph, config: SplitConfig, parts: recipes.Parts) -> Split:
    """The parts without the removed nodes."""
    dropped = recipes.dropped_nodes(
        graph, min_class_size=config.min_class_size, drop_isolated=config.drop_isolated
    )
    train, val, test = (np.sort(part[~np.isin(part, dropped)]) for part in parts)
    labelled = len(labelled_nodes(graph))
    for name, part in (("training", train), ("test", test)):
        what = f"split of {graph.name}, kind {config.kind}: number of {name} nodes"
        remedy = f"{labelled} of its nodes have a label: {REMEDIES[config.kind]}"
        at_least(what, len(part), 1, remedy)
    return Split(
        train_idx=train, val_idx=val, test_idx=test, inductive=config.inductive, dropped_idx=dropped,
        max_degree=config.max_degree,
    )  # fmt: skip

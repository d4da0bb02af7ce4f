"""What a method gets: the entry, public facts, and the prepared sample."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.core.checks import require

if TYPE_CHECKING:
    import pyarrow as pa

    from dpgnn.accountants.population import PublicPopulation
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

Mode = Literal["nonprivate", "published", "sound"]
MODES = ("nonprivate", "published", "sound")


@dataclass(frozen=True, kw_only=True)
class Support:
    """A pair of privacy unit and neighbouring relation a method can be run under."""

    privacy_unit: str
    relation: str


def pairs(unit: str, *relations: str) -> tuple[Support, ...]:
    """The unit under each of the relations, in this order.

    Args:
        unit: privacy unit.
        relations: add-remove, replace-one, null-one.
    """
    return tuple(Support(privacy_unit=unit, relation=relation) for relation in relations)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A line of a study: a method with everything that defines it.

    Attributes:
        name: the entry's name, the workflow's wildcard.
        method: name in the table of methods.
        mode: nonprivate, published or sound.
        privacy_unit: what one neighbour differs in; None without privacy.
        relation: how (add-remove, replace-one, null-one); None without privacy.
        options: the method's own frozen configuration.
    """

    name: str
    method: str
    mode: Mode
    privacy_unit: str | None
    relation: str | None
    options: Any


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Public facts a plan may read; declared, never measured on what they protect.

    Attributes:
        num_nodes: nodes of the graph (N).
        num_train: training nodes; membership of the split is public.
        num_features: columns of x.
        num_classes: classes or labels.
        task: "multiclass" or "multilabel".
        declared: num_nodes and num_train are a declared population, not counted on the graph.
        structure: facts that depend on the structure (number of subgraphs M, ...); a plan that reads one
            may only claim a unit under which the structure is public, and the record says so.
    """

    num_nodes: int
    num_train: int
    num_features: int
    num_classes: int
    task: str
    declared: bool = False
    structure: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = self.task in ("multiclass", "multilabel")
        require(known, "task", "be multiclass or multilabel", self.task)

    def recorded(self) -> dict[str, Any]:
        """The facts as the record holds them."""
        plain = {
            name: getattr(self, name)
            for name in ("num_nodes", "num_train", "num_features", "num_classes", "task")
        }
        declared = {"public_population": True} if self.declared else {}
        return plain | declared | {"depends_on_structure": dict(self.structure)}


@dataclass(frozen=True, kw_only=True)
class SamplerSpec:
    """Which prepared sample an entry needs; entries with equal specs share one file.

    Attributes:
        name: the sampler's name, first part of the file's name.
        params: every parameter that decides the sample.
    """

    name: str
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """SAMPLER-HASH8, the file's stem."""
        from dpgnn.core.storage import sha256_json

        return f"{self.name}-{sha256_json({'name': self.name, 'params': self.params})[:8]}"


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A prepared sample: as sensitive as the graph, never noised.

    Attributes:
        kind: subgraphs, partition, rows or edges (the columns are those of DESIGN).
        table: the sample.
        facts: public facts a plan may read, and those that depend on the structure under `structure`.
        diagnostics: counts for people; sensitive, kept in another file and never read by a plan.
    """

    kind: str
    table: pa.Table
    facts: Mapping[str, Any] = field(default_factory=dict)
    diagnostics: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StoredSample(Prepared):
    """A prepared sample whose rows stay in their file; `table` is empty.

    Attributes:
        file: Parquet, checked against its sha256.
        sha256: of the file.
        place: folder for what is made of it, as sensitive as the graph.
    """

    file: Path
    sha256: str
    place: Path


def facts_of(
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    population: PublicPopulation | None = None,
) -> Facts:
    """The public facts a plan may read; a declared population stands in place of what can be counted.

    Guarantee: public facts only: sizes that the claim names as public, a declared population where there is
    one, and what is marked `depends_on: structure`.

    Args:
        graph, split: of the run.
        prepared: the sample, if the method has one.
        population: declared numbers of nodes; None counts them.

    Source: docs/accounting.md, theorem 14.
    """
    return Facts(
        num_nodes=graph.num_nodes if population is None else population.nodes,
        num_train=len(split.train_idx) if population is None else population.training,
        declared=population is not None,
        num_features=graph.num_features,
        num_classes=graph.num_classes,
        task=graph.task,
        structure={} if prepared is None else dict(prepared.facts),
    )

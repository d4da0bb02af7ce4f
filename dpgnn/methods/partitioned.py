"""`Method.prepare` over partitions of a graph, with the same result on any number of machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.core.checks import fail, require
from dpgnn.methods.base import Prepared, SamplerSpec

if TYPE_CHECKING:
    from dpgnn.data.splits import Split
    from dpgnn.samplers.partitioned.sample import Place


def prepare(place: Place, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """The result of `Method.prepare` for this spec, from partitions; the data set stays in `place.out`.

    Guarantee: none by itself; table and facts are bit for bit those of one machine, so the sampler's promise
    holds. As sensitive as the graph.

    Args:
        place: partitions of the graph in the split's setting, folder and scheduler.
        split: training nodes; public.
        spec: of a sampler that can run over partitions.
        rng: the sampler's stream.

    Raises:
        ValueError: the sampler cannot run over partitions.
        DamagedFileError, BusyError, OSError: as `samplers.partitioned.sample.sample_trees`.
    """
    remedy = f"one of {', '.join(FORMS)} has; leave --dask out for others"
    if spec.name not in FORMS:
        fail("sampler with --dask", "have a form over partitions", spec.name, remedy)
    return FORMS[spec.name](place, split, spec, rng)


def setting_of(split: Split, num_nodes: int) -> tuple[np.ndarray, bool] | None:
    """Codes of nodes and whether arcs between parts are dropped; None if all arcs are kept.

    Args:
        split: of the graph.
        num_nodes: of the graph.

    Raises:
        ValueError: the split has `max_degree`, which needs all edges at once.
    """
    remedy = "leave --dask out for this setting"
    require(not split.max_degree, "max_degree with --dask", "be 0", split.max_degree, remedy)
    if split.inductive or len(split.dropped_idx):
        return split.part_of(num_nodes), split.inductive
    return None


def _trees(place: Place, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    from dpgnn.methods.dp_gnn.options import sampler_from_spec
    from dpgnn.methods.dp_gnn.sample import prepared_from
    from dpgnn.samplers.own_list import OwnList
    from dpgnn.samplers.partitioned import parts, sample
    from dpgnn.samplers.stable import Stable
    from dpgnn.samplers.subgraphs import from_table

    sampler = sampler_from_spec(spec.name, spec.params)
    assert isinstance(sampler, (OwnList, Stable))
    manifest = sample.sample_trees(place, sampler, split.train_idx, rng)
    bound = sampler.promise.max_occurrences
    drawn = from_table(parts.whole(place.out), max_occurrences=bound)
    return prepared_from(
        sampler.promise, drawn, place.num_nodes, num_arcs=int(manifest["num_arcs"])
    )


def _chains(place: Place, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Chains of the training nodes only, because others have no list."""
    from dpgnn.methods.drw.fit import prepared_chains
    from dpgnn.samplers.partitioned import parts, sample
    from dpgnn.samplers.subgraphs import from_table
    from dpgnn.samplers.walks import record_chains

    sampler = record_chains(spec.params["length"])
    members = np.zeros(place.num_nodes, dtype=bool)
    members[split.train_idx] = True
    sample.sample_trees(place, sampler, split.train_idx, rng, present=members)
    bound = sampler.promise.max_occurrences
    return prepared_chains(from_table(parts.whole(place.out), max_occurrences=bound))


def _walks(place: Place, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    from dpgnn.methods.drw.fit import prepared_walks
    from dpgnn.samplers.partitioned import parts, sample
    from dpgnn.samplers.walks import Walks, partition_from_table

    directed = bool(place.partitions.graph["directed"])
    sampler = Walks(**spec.params)
    sample.sample_partition(place, sampler, split.train_idx, rng, mirrored=directed)
    return prepared_walks(partition_from_table(parts.whole(place.out)))


def _rows(place: Place, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    from dpgnn.methods.dpar.options import DPARConfig
    from dpgnn.methods.dpar.rows import Members, drawn_nodes, prepared_from, row_options
    from dpgnn.samplers.partitioned import parts, sample
    from dpgnn.samplers.rows import rows_from_table

    config = DPARConfig(**spec.params)
    nodes = drawn_nodes(split, config, rng=rng)
    directed = bool(place.partitions.graph["directed"])
    sample.sample_appr(
        place, nodes, config.vectors_of(len(nodes)), row_options(config), mirrored=directed
    )
    rows = rows_from_table(parts.whole(place.out), num_nodes=len(nodes))
    return prepared_from(Members(nodes=nodes, exact=rows.matrix()))


Form = Callable[["Place", "Split", SamplerSpec, np.random.Generator], Prepared]
FORMS: dict[str, Form] = {
    "own_list": _trees,
    "stable": _trees,
    "record-chains": _chains,
    "walks": _walks,
    "appr": _rows,
}

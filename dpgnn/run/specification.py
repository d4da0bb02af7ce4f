"""The specification of a run: its inputs, and everything that identifies it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.population import check_delta
from dpgnn.core.code_hash import code_sha256
from dpgnn.core.config import stated
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import sha256_json
from dpgnn.data.files.content import structure_hash
from dpgnn.methods.base import Entry, Method, Performance, Prepared

if TYPE_CHECKING:
    from dpgnn.accountants.population import PublicPopulation
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split

# code besides the method's own that decides a record; a split says which edges are kept
RUN_MODULES = ("dpgnn.run.execute", "dpgnn.training.evaluation", "dpgnn.data.splits")


@dataclass(frozen=True, kw_only=True)
class RunInputs:
    """What one run reads, already loaded.

    Attributes:
        key: study, dataset, setting, entry, epsilon (text), repeat.
        entry: the entry for this data set.
        epsilon: the target; math.inf without privacy.
        delta: a number, or "auto" (see `resolve_delta`).
        graph: its edges are those of the setting.
        split: the training, validation and test nodes.
        prepared: the prepared sample, or None.
        hashes: sha256 of graph, split and prepared sample.
        structure_sha256: hash of features and edges of the whole graph, for its ledger; "" takes that of
            `graph`.
        caveats: caveats of every claim, from the preprocessing of graph and split.
        edge_caveats: caveats for methods that read edges.
        population: declared numbers of nodes, if the entry's plan reads them in place of the graph's.
        repeats_paper: the study reproduces a paper, whose delta may exceed 1 / (number of units).
        root_seed, randomness: of the study.
        performance: speed settings.
    """

    key: Mapping[str, Any]
    entry: Entry
    epsilon: float
    delta: float | str
    graph: Graph
    split: Split
    prepared: Prepared | None
    hashes: Mapping[str, Any]
    caveats: tuple[str, ...] = ()
    edge_caveats: tuple[str, ...] = ()
    population: PublicPopulation | None = None
    repeats_paper: bool = False
    root_seed: int = 0
    randomness: Any = "study"
    performance: Performance = Performance()
    structure_sha256: str = ""


@dataclass(frozen=True, kw_only=True)
class Specification:
    """A run with everything resolved.

    Attributes:
        inputs: its inputs; the graph as the method gets it (`Method.sees`).
        method: the entry's method.
        delta: a number in (0, 1).
        streams: the run's named random streams.
        config_sha256, code_sha256: hashes of its configuration and of the code that decides its record.
        fingerprint: hash of configuration, code and inputs; equal only for the same run.
    """

    inputs: RunInputs
    method: Method
    delta: float
    streams: Streams
    config_sha256: str
    code_sha256: str
    fingerprint: str

    @property
    def is_private_release(self) -> bool:
        """Whether repeating the run would be another release of the same data."""
        return self.inputs.randomness == "release" and self.inputs.entry.mode != "nonprivate"


def specify(inputs: RunInputs) -> Specification:
    """Resolve a run's delta, streams and hashes, and give its method the graph that it may see.

    Args:
        inputs: what the run reads.

    Returns:
        the run, and what identifies it.
    """
    method, config = methods.get(inputs.entry.method), config_of(inputs)
    code = entry_code(inputs.entry)
    structure = inputs.structure_sha256
    # of the whole graph, with edges that the method does not see
    if inputs.randomness == "release" and not structure:
        structure = structure_hash(inputs.graph)
    return Specification(
        inputs=dataclasses.replace(
            inputs, graph=method.sees(inputs.graph), structure_sha256=structure
        ),
        method=method,
        delta=resolve_delta(
            inputs.delta, inputs.entry.privacy_unit, inputs.graph, inputs.population
        ),
        streams=Streams(
            root_seed=inputs.root_seed,
            axes={k: v for k, v in inputs.key.items() if k != "study"},
            randomness=inputs.randomness,
        ),
        config_sha256=sha256_json(config),
        code_sha256=code,
        fingerprint=sha256_json({"config": config, "code": code, "inputs": inputs.hashes}),
    )


def resolve_delta(
    delta: float | str,
    privacy_unit: str | None,
    graph: Graph,
    population: PublicPopulation | None = None,
) -> float:
    """The delta of a run.

    "auto" is 1 / (10 * num_nodes) for the node units, and 10^-(digits of the number of edges + 1) for
    edges, so that only the order of magnitude of the number of edges is taken as public.

    Args:
        delta: "auto" or a number in (0, 1).
        privacy_unit: of the entry; None counts as a node unit.
        graph: for its public size.
        population: read in place of the graph's size.
    """
    if not isinstance(delta, str):
        return float(delta)
    if privacy_unit == "edge":
        return 10.0 ** -(len(str(max(graph.num_edges, 1))) + 1)
    return 1.0 / (10 * (graph.num_nodes if population is None else population.nodes))


def checked_delta(inputs: RunInputs) -> float:
    """`resolve_delta` of a run, for audits and attacks, which plan it too.

    Guarantee: below 1 / (number of nodes); see `population.check_delta`.

    Args:
        inputs: what the run reads.

    Returns:
        in (0, 1).

    Raises:
        ValueError: a private entry's delta is 1 / (number of nodes) or more.
    """
    delta = resolve_delta(inputs.delta, inputs.entry.privacy_unit, inputs.graph, inputs.population)
    num_nodes = inputs.graph.num_nodes if inputs.population is None else inputs.population.nodes
    check_run_delta(inputs, delta, num_nodes)
    return delta


def check_run_delta(inputs: RunInputs, delta: float, num_nodes: int) -> None:
    """Refuse a stated delta that is too large, see `check_delta`; a paper's own delta may be repeated."""
    if inputs.delta != "auto" and not inputs.repeats_paper and inputs.entry.mode != "nonprivate":
        check_delta(delta, num_nodes)


def config_of(inputs: RunInputs) -> dict[str, Any]:
    """The configuration of a run, whose hash is in the record."""
    return {
        "key": dict(inputs.key),
        "entry": stated(inputs.entry),
        "epsilon": inputs.epsilon,
        "delta": inputs.delta,
        "root_seed": inputs.root_seed,
        "randomness": inputs.randomness,
        "num_threads": inputs.performance.num_threads,
        **processes_of(inputs.performance),
        **population_of(inputs.population),
    }


def method_code(method: str) -> str:
    """Hash of the code that decides the records of a method of the table."""
    return code_sha256(methods.TABLE[method], *RUN_MODULES)


def entry_code(entry: Entry) -> str:
    """Hash of the code that decides the records of an entry, including the user's own code."""
    return methods.get(entry.method).with_outside(method_code(entry.method), entry)


def recorded_inputs(inputs: RunInputs) -> dict[str, Any]:
    """Hashes of the inputs for the record; none in a release, where they would tell graphs apart."""
    return dict(inputs.hashes) if inputs.randomness == "study" else {}


def population_of(population: PublicPopulation | None) -> dict[str, Any]:
    """A declared population as a configuration holds it; {} without one."""
    if population is None:
        return {}
    return {"public_population": dataclasses.asdict(population)}


def processes_of(performance: Performance) -> dict[str, int]:
    """The number of processes, if more than one, which changes the order of sums."""
    return {"num_processes": performance.num_processes} if performance.num_processes > 1 else {}

"""The inputs of a `fit`'s run: entry, graph, split, sample, population."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.population import PublicPopulation, reads_population
from dpgnn.core import config as strict
from dpgnn.core import seeds
from dpgnn.core.checks import at_least, require
from dpgnn.methods.base import Entry, Performance, Prepared
from dpgnn.release.certificate import LARGEST
from dpgnn.release.data import read_data
from dpgnn.release.released import Names
from dpgnn.run.account import nested
from dpgnn.run.specification import RunInputs

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.entry import Mode

SETTING = "given"


def module_named(module: Any, arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options that state a module: the class's name and arguments, and the hash of one in memory.

    Args:
        module: a torch.nn.Module, its class, or `package.module:Class`; None for none.
        arguments: of the class.

    Raises:
        ValueError: it is not a module, or arguments are given with an instance.
    """
    if module is None:
        require(arguments is None, "module_options", "stand beside `module`", arguments)
        return {}
    stated = {} if arguments is None else {"module_options": dict(arguments)}
    if isinstance(module, str):
        return {"module": module, **stated}
    if isinstance(module, type):
        return {"module": f"{module.__module__}:{module.__qualname__}", **stated}
    from dpgnn.models.modules import given, name_of

    require(arguments is None, "module_options", "be left out with a module that is made", arguments,
            "hand over the class, or the module alone")  # fmt: skip
    return {"module_given": given(module), "module": name_of(module)}


def inputs_of(
    data: Any,
    *,
    method: str,
    epsilon: float,
    delta: float | None,
    unit: str | None,
    relation: str | None,
    mode: Mode,
    population: int | tuple[int, int] | None,
    num_classes: int | None,
    classes: Sequence[str],
    features: Sequence[str],
    directed_graph: bool,
    seed: int | None,
    name: str,
    performance: Performance,
    options: dict[str, Any],
) -> tuple[RunInputs, Names]:
    """The inputs of a `fit`'s run, and the names that it may publish.

    Guarantee: the data are used only in the run; which nodes are training nodes is public.

    Args:
        data: a PyG `Data`, as for `fit`.
        method, epsilon, delta, unit, relation, mode, population, num_classes, classes, features,
            directed_graph, seed, name, options: as for `fit`.
        performance: device and threads; decide no guarantee.

    Raises:
        ValueError: as for `fit`.
    """
    names = Names(classes=tuple(classes), features=tuple(features))
    entry = entry_of(method, mode, unit, relation, options)
    if num_classes is None:
        num_classes = len(classes) or None
    given = read_data(data, name=name, num_classes=num_classes, directed=directed_graph)
    graph, split = given.graph, given.split
    _check_names(names, graph)
    if seed is not None:
        at_least("seed", seed, 0)
        require(
            seed <= LARGEST, "seed", f"be <= {LARGEST}", seed, "readers of JSON round larger ones"
        )
    key = {
        "study": "api", "dataset": name, "setting": SETTING, "entry": entry.name,
        "epsilon": f"{epsilon:g}" if mode != "nonprivate" else "inf", "repeat": 0,
    }  # fmt: skip
    root = 0 if seed is None else int(seed)
    return RunInputs(
        key=key,
        entry=entry,
        epsilon=float(epsilon) if mode != "nonprivate" else math.inf,
        delta="auto" if delta is None else delta,
        graph=graph,
        split=split,
        prepared=_sample(entry, graph, split, key, root),
        hashes={},
        caveats=given.caveats,
        population=_population(entry, population),
        root_seed=root,
        randomness="release" if seed is None else "study",
        performance=performance,
    ), names


def _check_names(names: Names, graph: Graph) -> None:
    for kind, number in (("classes", graph.num_classes), ("features", graph.num_features)):
        count = len(getattr(names, kind))
        require(count in (0, number), f"names of {kind}", f"be {number} names", count)


def entry_of(
    method: str, mode: Mode, unit: str | None, relation: str | None, options: dict[str, Any]
) -> Entry:
    """The entry; unit and relation default to the method's first.

    Args:
        method: a name of the table.
        mode: sound, published or nonprivate.
        unit, relation: None takes the method's first.
        options: the method's own.

    Raises:
        ValueError: the method does not support them, or an option is wrong.
    """
    found = methods.get(method)
    for name in ("module", "module_options"):
        remedy = "only dp_gnn takes a module in place of its network"
        takes = name in {field.name for field in fields(found.config)}
        require(takes or name not in options, name, f"be left out with method {method}",
                options.get(name), remedy)  # fmt: skip
    private = mode != "nonprivate"
    pairs = [pair for pair in found.supports if unit in (None, pair.privacy_unit)]
    if private and pairs:
        unit = unit or pairs[0].privacy_unit
        relation = relation or pairs[0].relation
    entry = Entry(
        name=method,
        method=method,
        mode=mode,
        privacy_unit=unit if private else None,
        relation=relation if private else None,
        options=strict.read(found.config, nested(options)),
    )
    found.check_entry(entry, method)
    return entry


def _sample(
    entry: Entry, graph: Graph, split: Split, key: dict[str, Any], root_seed: int
) -> Prepared | None:
    """The prepared sample of the entry, drawn as in the stage `prepare`."""
    method = methods.get(entry.method)
    spec = method.sampler(entry)
    if spec is None or method.prepare is None:
        return None
    axes = {name: key[name] for name in ("dataset", "setting", "repeat")}
    return method.prepare(
        graph, split, spec, seeds.child(root_seed, "sampler", **axes, sampler=spec.label)
    )


def _population(entry: Entry, stated: int | tuple[int, int] | None) -> PublicPopulation | None:
    if stated is None:
        return None
    pair = (stated, stated) if isinstance(stated, int) else stated
    rule = "be a number, or two: nodes and training nodes"
    require(isinstance(pair, tuple) and len(pair) == 2, "population", rule, stated)
    nodes, training = pair
    declared = PublicPopulation(nodes=nodes, training=training)
    reads = reads_population(entry.mode, entry.privacy_unit, entry.relation)
    return declared if reads else None

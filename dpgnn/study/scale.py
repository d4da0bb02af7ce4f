"""Cost of a large graph: steps, noise, hours and gigabytes, from public sizes and measured rates.

Only `data/scale.yaml` is read. Quantities without a measured rate are stated as unknown.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgnn.core.checks import at_least, fail, positive, require
from dpgnn.core.yaml_text import read_yaml
from dpgnn.data.raw.sources import data_folder
from dpgnn.methods.base import Facts
from dpgnn.run.account import Answer, Question, answer
from dpgnn.study.bounds import with_features_on_disk

GB, HOUR = 1e9, 3600.0
NODES = 8
PIECE = 1 << 16  # roots of one piece of a sample


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A run to be estimated.

    Attributes:
        graph: name in data/scale.yaml.
        epsilon: budget of a sound claim for node-record, add-remove.
        delta: failure probability; None is 1 / (10 x training nodes).
        epochs: passes over the training nodes; steps follow.
        batch_size: expected roots of a step.
        max_degree, num_hops: of the own-list sampler.
        cores: of one machine, each as fast as the measured thread.
        network_gbit: assumed speed between machines, gigabits a second.
    """

    graph: str
    epsilon: float = 8.0
    delta: float | None = None
    epochs: int = 20
    batch_size: int = 10_000
    max_degree: int = 7
    num_hops: int = 1
    cores: int = 32
    network_gbit: float = 10.0

    def __post_init__(self) -> None:
        positive("--epsilon", self.epsilon)
        for name in ("epochs", "batch_size", "max_degree", "cores"):
            at_least(f"--{name.replace('_', '-')}", getattr(self, name), 1)
        at_least("--num-hops", self.num_hops, 1)
        positive("--network-gbit", self.network_gbit)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A row of an estimate: hours or gigabytes on one machine and on eight, None where unknown."""

    what: str
    unit: str
    one: float | None
    eight: float | None
    how: str


def known(path: Path | None = None) -> Mapping[str, Any]:
    """Graphs and rates.

    Args:
        path: of the file; None is data/scale.yaml.
    """
    found: Mapping[str, Any] = read_yaml(path or data_folder() / "scale.yaml")
    return found


def plan_of(asked: Asked, graph: Mapping[str, Any]) -> tuple[int, float, Answer]:
    """Steps, delta, and DP-GNN's own plan for them.

    Guarantee: the plan is that of a sound run for unit node-record and relation add-remove; no data is read.

    Args:
        asked: epsilon, epochs, batch and sampler.
        graph: public sizes.

    Raises:
        ValueError: the batch is larger than the training nodes, or nothing meets the budget.
    """
    num_train = int(graph["num_train"])
    rule = f"be at most the training nodes, {num_train}"
    require(asked.batch_size <= num_train, "--batch-size", rule, asked.batch_size)
    steps = math.ceil(asked.epochs * num_train / asked.batch_size)
    delta = asked.delta if asked.delta is not None else 1 / (10 * num_train)
    question = Question(
        method="dp_gnn", delta=delta, target_epsilon=asked.epsilon, num_steps=steps,
        facts=Facts(
            num_nodes=num_train, num_train=num_train, num_features=int(graph["num_features"]),
            num_classes=int(graph["num_classes"]), task="multiclass",
        ),
        options={
            "sampler": "own_list", "max_degree": asked.max_degree, "num_hops": asked.num_hops,
            "training.expected_batch_size": asked.batch_size,
        },
    )  # fmt: skip
    return steps, delta, answer(question)


def estimate(asked: Asked, path: Path | None = None) -> str:
    """The estimate in words and a table.

    Args:
        asked: graph, budget, sampler and machines.
        path: as for `known`.

    Returns:
        text for a terminal.

    Raises:
        ValueError: the graph is not in the file, or as `plan_of`.
    """
    facts = known(path)
    if asked.graph not in facts["graphs"]:
        names = ", ".join(sorted(facts["graphs"]))
        fail("graph", f"be one of {names}", asked.graph, "add its sizes to data/scale.yaml")
    graph, rates = facts["graphs"][asked.graph], facts["rates"]
    steps, delta, found = plan_of(asked, graph)
    rows = max_rows(asked, graph)
    noise = float(found.shown.details["noise_multiplier"])
    lines = [*_hours(asked, graph, rates, steps, rows), *_sizes(graph, rates, rows)]
    head = [
        f"{asked.graph}: {graph['num_nodes']:,} nodes, {graph['num_arcs']:,} arcs, "
        f"{graph['num_features']} features, {graph['num_train']:,} training nodes",
        f"  ({graph['source']})",
        f"DP-GNN, own lists, K = {asked.max_degree}, r = {asked.num_hops}: {steps:,} steps of "
        f"{asked.batch_size:,} roots ({asked.epochs} epochs), noise multiplier {noise:.4g}, "
        f"epsilon {asked.epsilon:g} at delta {delta:.3g} for node-record, add-remove",
        f"machines of {asked.cores} cores, each as fast as the measured thread, and a network of "
        f"{asked.network_gbit:g} Gbit/s: both assumed",
        "",
        f"{'':<34}{'one machine':>14}{'eight':>14}   how",
    ]
    table = [
        f"{f'{line.what}, {line.unit}':<34}{_shown(line.one):>14}{_shown(line.eight):>14}   {line.how}"
        for line in lines
    ]
    foot = ["", "one GPU: not measured, so not estimated. Accuracy is not predicted."]
    return "\n".join([*head, *table, *foot])


def max_rows(asked: Asked, graph: Mapping[str, Any]) -> float:
    """Rows of a root's tree, by the mean degree at each hop.

    Guarantee: none; it decides no noise.
    """
    degree = graph["num_arcs"] / graph["num_nodes"]
    return float(sum(degree**hop for hop in range(asked.num_hops + 1)))


def _hours(
    asked: Asked, graph: Mapping[str, Any], rates: Mapping[str, Any], steps: int, rows: float
) -> list[Line]:
    arcs, cores = graph["num_arcs"], asked.cores
    found = []
    for what, rate, work, spread in (
        ("raw arcs to graph", "graph_arcs", arcs, False),
        (
            "raw features to graph",
            "graph_numbers",
            graph["num_nodes"] * graph["num_features"],
            False,
        ),
        ("graph to partitions", "partition_arcs", arcs, True),
        ("own-list sample", "sample_arcs", arcs, True),
    ):
        one = _hours_of(rates, rate, work, cores if spread else 1)
        eight = one / NODES if spread and one is not None else one
        words = "shared out by Dask" if spread else "one process, one thread"
        found.append(Line(what=what, unit="h", one=one, eight=eight, how=_from(rates, rate, words)))
    step = rates.get("step_rows")
    if step is None:
        return [*found, Line(what="training", unit="h", one=None, eight=None, how="not measured")]
    wide = graph["num_features"] / step["num_features"]
    work = steps * asked.batch_size * rows * wide / step["value"] / HOUR
    sums = 2 * NODES * 4 * step["num_parameters"] * wide * 8 / (asked.network_gbit * 1e9)
    how = _from(
        rates, "step_rows", f"{rows:.1f} rows a root, time as rows x features: both assumed"
    )
    eight = work / cores / NODES + steps * sums / HOUR
    return [*found, Line(what="training", unit="h", one=work / cores, eight=eight, how=how)]


def _sizes(graph: Mapping[str, Any], rates: Mapping[str, Any], rows: float) -> list[Line]:
    nodes, arcs = graph["num_nodes"], graph["num_arcs"]
    features = nodes * graph["num_features"] * graph["bytes_a_number"] / GB
    disk = rates.get("graph_bytes")
    trees = graph["num_train"] * rows
    found = [
        Line(what="features on disk", unit="GB", one=features, eight=features, how="uncompressed"),
        Line(
            what="arcs on disk", unit="GB", one=None if disk is None else arcs * disk["value"] / GB,
            eight=None if disk is None else arcs * disk["value"] / GB,
            how=_from(rates, "graph_bytes", "edges.parquet"),
        ),
    ]  # fmt: skip
    gathered = trees * graph["num_features"] * 4 / GB
    held = (nodes * graph["num_features"] * 4 + arcs * 16 + trees * 24) / GB
    piece = math.ceil(min(graph["num_train"], PIECE) * rows)
    bound = with_features_on_disk(graph, graph["num_train"], piece) / GB
    return [
        *found,
        Line(what="features that trees read", unit="GB", one=gathered, eight=gathered / NODES,
             how="at most, if each root's rows were distinct; a batch reads its own"),
        Line(what="memory of training", unit="GB", one=held, eight=held,
             how="each process holds all features (float32), arcs and trees"),
        Line(what="the same with --memory", unit="GB", one=bound, eight=bound,
             how="features, arcs and trees on disk; each process holds labels"),
    ]  # fmt: skip


def _hours_of(rates: Mapping[str, Any], name: str, work: float, cores: int) -> float | None:
    rate = rates.get(name)
    return None if rate is None else work / rate["value"] / cores / HOUR


def _from(rates: Mapping[str, Any], name: str, words: str) -> str:
    rate = rates.get(name)
    if rate is None:
        return "not measured"
    return f"{words}; {rate['value']:,.4g} {rate['unit']} ({rate['measured']})"


def _shown(value: float | None) -> str:
    if value is None:
        return "unknown"
    return f"{value:.2g}" if value < 1 else f"{value:.3g}" if value < 1000 else f"{value:,.0f}"

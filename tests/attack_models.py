"""Small fitted models for the tests of attacks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from helpers import two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.attacks.queries import fitted_run
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split, SplitConfig, make_split
from dpgnn.methods.base import Entry
from dpgnn.methods.queries import FittedRun

SHORT = {"training": {"num_epochs": 30}, "encoder_training": {"num_epochs": 10}, "hidden": 8}
STAGES = {
    "max_degree": 40,
    "encoder": {"batch_size": 10, "num_epochs": 3},
    "head": {"batch_size": 10, "num_epochs": 3},
}


def useless_deviation(num_members: int, num_others: int) -> float:
    """Standard deviation of the AUC of scores that know nothing (Mann-Whitney's U over the pairs)."""
    return math.sqrt((num_members + num_others + 1) / (12 * num_members * num_others))


def largest_deviation(num_members: int, num_others: int) -> float:
    """An AUC's standard deviation is at most this: it is below sqrt(AUC (1 - AUC) / smaller group)."""
    return 0.5 / math.sqrt(min(num_members, num_others))


def allowed_auc(epsilon: float) -> float:
    """Largest expected AUC under TPR <= e^epsilon FPR and its mirror image: e^epsilon / (1 + e^epsilon).

    The curve of both lines encloses with the axes the area 1 / (1 + e^epsilon) of missed pairs.
    """
    return 1 / (1 + math.exp(-epsilon))


def fitted(
    method: str,
    *,
    mode: str = "nonprivate",
    unit: str | None = None,
    relation: str | None = None,
    epsilon: float = 4.0,
    options: dict[str, Any] | None = None,
    graph: Graph | None = None,
    split: Split | None = None,
) -> FittedRun:
    """A method fitted on a small graph."""
    known = methods.get(method)
    entry = Entry(
        name=method, method=method, mode=mode, privacy_unit=unit, relation=relation,  # type: ignore[arg-type]
        options=strict.read(known.config, options or {}),
    )  # fmt: skip
    known.check_entry(entry, method)
    graph = graph or two_community_graph(60)
    split = split or make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    spec, prepared = known.sampler(entry), None
    if spec is not None:
        assert known.prepare is not None
        prepared = known.prepare(graph, split, spec, np.random.default_rng(0))
    budget = Budget(epsilon=epsilon if mode != "nonprivate" else math.inf, delta=1e-3)
    streams = Streams(root_seed=1, axes={"test": 0})
    return fitted_run(entry, graph, split, prepared, budget, streams)

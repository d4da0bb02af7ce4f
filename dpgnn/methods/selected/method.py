"""A method whose options are chosen privately on validation nodes, with the choice inside the claim.

K runs of a base method are made, each of a candidate drawn uniformly and scored by its noisy number of right
answers on validation nodes; the best is released. K is random. See docs/methods/selected.md.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Plan
from dpgnn.methods.base import (
    Asked,
    Degrees,
    Entry,
    Facts,
    Fitted,
    Method,
    PlannedRun,
    Prediction,
    Prepared,
    SamplerSpec,
    pairs,
)
from dpgnn.methods.queries import Queries
from dpgnn.methods.selected.options import SelectedConfig, base_of, candidates, check
from dpgnn.methods.selected.plan import SelectedPlan, plan

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.releases import Release

BASE = "base"


def sampler(entry: Entry) -> SamplerSpec | None:
    """The sample that all candidates read, with the name of the method that makes it."""
    found = base_of(entry).sampler(candidates(entry)[0])
    if found is None:
        return None
    return replace(found, params={**found.params, BASE: entry.options.base})


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """The base method's sample."""
    params = dict(spec.params)
    base = methods.get(params.pop(BASE))
    assert base.prepare is not None
    return base.prepare(graph, split, replace(spec, params=params), rng)


def fit(run: PlannedRun) -> Fitted:
    """Make the runs and keep the best.

    Guarantee: as `plan`; nothing of the other runs is kept.
    """
    from dpgnn.methods.selected.fit import fit_best

    assert isinstance(run.plan, SelectedPlan)
    return fit_best(run, run.plan)


def predict(entry: Entry, fitted: Fitted, graph: Graph, node_idx: np.ndarray) -> Prediction:
    """The base method's answers with the options that were chosen.

    Guarantee: as the base method's.

    Args:
        entry, fitted, graph, node_idx: as for `Method.predict`.

    Source: docs/accounting.md, theorem 19, and "Answers, and who may see them".
    """
    from dpgnn.methods.selected.fit import CHOSEN

    base = base_of(entry)
    state = {name: value for name, value in fitted.state.items() if name != CHOSEN}
    candidate = candidates(entry)[int(fitted.state[CHOSEN])]
    return base.predict(candidate, replace(fitted, state=state), base.sees(graph), node_idx)


def check_sizes(entry: Entry, facts: Facts) -> None:
    """Check the public sizes against every candidate."""
    for candidate in candidates(entry):
        base_of(entry).check_sizes(candidate, facts)


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy score, and the releases of every method that can be a base."""
    from dpgnn.methods.selected.fit import noisy_score

    known = (methods.get(name) for name in methods.TABLE if name != METHOD.name)
    of_bases = {
        release.name: release
        for base in known
        if base.score is not None
        for release in base.releases()
    }
    return (noisy_score, *of_bases.values())


def outside_code(entry: Entry) -> str:
    """Hash of the base method's code."""
    from dpgnn.core.code_hash import code_sha256

    base = base_of(entry)
    return base.with_outside(code_sha256(methods.TABLE[base.name]), candidates(entry)[0])


def degrees(entry: Entry) -> Degrees:
    """The base method's."""
    return base_of(entry).degrees(candidates(entry)[0])


def inner(entry: Entry, plan: Plan) -> tuple[tuple[Entry, Plan], ...]:
    """Every candidate with the base method's part of its plan, for audits."""
    from dpgnn.methods.selected.fit import without_score

    assert isinstance(plan, SelectedPlan)
    return tuple(
        (candidate, replace(run, mechanisms=without_score(run.mechanisms)))
        for candidate, run in zip(candidates(entry), plan.runs, strict=True)
    )


def _asked(entry: Entry) -> tuple[Queries, Entry]:
    """How the base method answers queries, and a candidate."""
    queries = base_of(entry).queries
    assert queries is not None
    return queries, candidates(entry)[0]


def _why_not(entry: Entry) -> str:
    queries, candidate = _asked(entry)
    if queries.noise(candidate) != "none" or queries.reads_sample(candidate):
        return "which of its runs was chosen is not kept, and so neither is the run's noise"
    return queries.why_not_other_features(candidate)


def _why_not_graph(entry: Entry) -> str:
    queries, candidate = _asked(entry)
    return _why_not(entry) or queries.why_not_other_graph(candidate)


# where DP-MLP, the example, does not go
_EPOCHS = {"num_epochs": 5}
_ON_EDGES = {
    "base": "gap",
    "base_options": {"head": {"hidden": 8, "encoder_training": _EPOCHS, "training": _EPOCHS}},
    "candidates": [{"num_hops": 1}, {"num_hops": 2}],
}
_STEPS: dict[str, Any] = {"width": 8, "max_degree": 3, "training": {"expected_batch_size": 10}}
_ON_SUBGRAPHS: dict[str, Any] = {
    "base": "dp_gnn",
    "base_options": _STEPS,
    "candidates": [{"training.num_steps": 5}, {"training.num_steps": 8}],
}
_ON_BOUNDED = {**_ON_SUBGRAPHS, "base_options": {**_STEPS, "degree_bound": 40}}

METHOD = Method(
    name="selected",
    title="Selected",
    config=SelectedConfig,
    source="Papernot and Steinke (2022), arXiv:2110.03620; docs/accounting.md, theorem 19",
    modes=("sound",),
    supports=(
        *pairs("node", "add-remove", "replace-one", "null-one"),
        *pairs("node-record", "add-remove", "replace-one", "null-one"),
        *pairs("node-features", "replace-one"),
        *pairs("node-bounded", "add-remove", "replace-one", "null-one"),
        *pairs("edge", "add-remove"),
    ),
    sampler=sampler,
    prepare=prepare,
    plan=plan,
    fit=fit,
    predict=predict,
    check=check,
    check_sizes=check_sizes,
    fixed_sizes=lambda entry: base_of(entry).fixed_sizes(candidates(entry)[0]),
    outside_code=outside_code,
    releases=releases,
    inner=inner,
    queries=Queries(why_not_other_features=_why_not, why_not_other_graph=_why_not_graph),
    degrees=degrees,
    counts_own_roots=True,
    list_owner="source",
    shows_nodes=lambda entry: base_of(entry).shows_nodes(candidates(entry)[0]),
    # the candidate is part of a run's output; boards of votes as votes states them
    state={
        "weights": ("chosen", "module.*"),
        "weights+predictions": ("chosen",),
        "noisy-state": ("chosen", "board", "second", "voters", "scale", "shares"),
    },
    asked=Asked(),
    example={
        "base": "dp_mlp",
        "base_options": {"width": 8, "training": {"num_steps": 10, "expected_batch_size": 10}},
        "candidates": [
            {"training.optimizer.lr": 0.01},
            {"training.optimizer.lr": 0.1, "training.num_steps": 5},
        ],
    },
    more_examples=(_ON_EDGES, _ON_SUBGRAPHS, _ON_BOUNDED),
)

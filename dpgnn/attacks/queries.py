"""Queries of a fitted model: on its own graph, on other features, or on another graph.

Everything that depends on the method comes from `Method.queries`; a query that it does not state is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from dpgnn import methods
from dpgnn.accountants.plan import Ledger
from dpgnn.core.checks import fail, require
from dpgnn.core.storage import Store
from dpgnn.methods.base import Context, Fitted, PlannedRun, facts_of
from dpgnn.methods.queries import FittedRun, Queries, Query

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Budget
    from dpgnn.accountants.population import PublicPopulation
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Entry, Prepared

Noise = Literal["frozen", "fresh"]


def fitted_run(
    entry: Entry,
    graph: Graph,
    split: Split,
    prepared: Prepared | None,
    budget: Budget,
    streams: Streams,
    *,
    state: Mapping[str, Tensor] | None = None,
    label: str = "run",
    population: PublicPopulation | None = None,
) -> FittedRun:
    """A fitted run for attacks.

    Args:
        entry, graph, split, prepared, budget, streams: of the run.
        state: its tensors; None fits the entry, {} leaves them out for attacks that read none. An entry whose
            answers read more than a model holds is fitted too.
        label: prefix of progress lines.
        population: declared numbers of nodes of the run's plan.

    Raises:
        ValueError: the entry cannot be planned or fitted.
    """
    method = methods.get(entry.method)
    plan = method.plan(entry, facts_of(graph, split, prepared, population), budget)
    made = Fitted(state=state or {})
    if state is None or (state and method.queries is not None and method.queries.reads_kept(entry)):
        context = Context(ledger=Ledger(plan), streams=streams, store=Store(None), label=label)
        made = method.fit(PlannedRun(
            entry=entry, graph=method.sees(graph), split=split, prepared=prepared, plan=plan,
            context=context,
        ))  # fmt: skip
    return FittedRun(
        entry=entry, state=made.state, kept=made.kept, graph=graph, split=split, prepared=prepared,
        plan=plan, streams=streams, leaks=method.leaks,
    )  # fmt: skip


def prepared_for(entry: Entry, graph: Graph, split: Split, streams: Streams) -> Prepared | None:
    """The prepared sample of a graph, if the entry needs one, drawn from the streams."""
    method = methods.get(entry.method)
    spec = method.sampler(entry)
    if spec is None:
        return None
    assert method.prepare is not None
    return method.prepare(graph, split, spec, streams.numpy("sampler"))


def queries_of(run: FittedRun) -> Queries:
    """The method's statement on queries.

    Raises:
        ValueError: it has none.
    """
    method = methods.get(run.entry.method)
    if method.queries is None:
        fail(f"queries of method {method.name}", "be stated", None, "set `Method.queries`")
    return method.queries


def has_noise(run: FittedRun) -> bool:
    """Whether answers have noise that a query could draw anew."""
    return queries_of(run).noise(run.entry) == "answers"


def why_not_other_features(run: FittedRun) -> str:
    """Why the model cannot be queried with other features; "" if it can."""
    reason = queries_of(run).why_not_other_features(run.entry)
    if not reason and run.streams.randomness != "study" and has_noise(run):
        return "a release keeps no seed of its noise, so its draws cannot be repeated"
    return reason


def why_not_other_graph(run: FittedRun) -> str:
    """Why the model cannot be queried on a graph with other nodes; "" if it can."""
    return queries_of(run).why_not_other_graph(run.entry)


def ask(
    run: FittedRun,
    graph: Graph,
    *,
    noise: Noise = "frozen",
    number: int = 0,
    prepared: Prepared | None = None,
) -> np.ndarray:
    """Logits of every node of `graph`: float64, shape (num_nodes, num_classes).

    Args:
        run: the model.
        graph: features and edges of the query.
        noise: frozen or fresh; on a graph with another number of nodes it must be fresh.
        number: names the fresh draws.
        prepared: the prepared sample of `graph` if answers read one; None takes that of the fit.

    Raises:
        ValueError: the model cannot be queried, or frozen noise is asked for on another graph.
    """
    reason = why_not_other_features(run)
    require(not reason, f"{run.entry.name}: queries", "be answerable", reason)
    frozen = noise == "frozen"
    if frozen and has_noise(run) and graph.num_nodes != run.graph.num_nodes:
        fail("noise", "be fresh on a graph of other nodes", noise)
    answer = queries_of(run).answer
    if answer is None:
        method = methods.get(run.entry.method)
        everyone = np.arange(graph.num_nodes)
        fitted = Fitted(state=dict(run.state))
        logits = method.predict(run.entry, fitted, method.sees(graph), everyone).logits
    else:
        streams = run.streams if frozen else run.fresh(number)
        sample = prepared or run.prepared
        logits = answer(run, Query(graph=graph, streams=streams, frozen=frozen, prepared=sample))
    return np.asarray(logits.detach().cpu().double().numpy())


def with_features(graph: Graph, rows: np.ndarray, values: Any) -> Graph:
    """The graph with other features at some nodes; CSR stays CSR."""
    if sp.issparse(graph.x):
        place = np.arange(graph.num_nodes)
        place[rows] = graph.num_nodes + np.arange(len(rows))
        both = sp.vstack([graph.x, sp.csr_array(values)], format="csr")
        return dataclasses.replace(graph, x=sp.csr_array(both[place]).astype(np.float32))
    dense = np.array(graph.x)
    dense[rows] = values.toarray() if sp.issparse(values) else values
    return dataclasses.replace(graph, x=dense)

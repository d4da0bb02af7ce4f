"""PertGraph: GraphSAGE on a graph perturbed by asymmetric randomised response (edge level).

Most cells of an adjacency are 0, so plain randomised response adds far too many edges. PertGraph keeps an
answered 1 with a further probability q, chosen from a noisy density so that the number of edges stays about
the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.core.checks import at_least, open_probability, require
from dpgnn.methods.base import Asked, Context, Entry, Facts, Fitted, Method, PlannedRun, Support
from dpgnn.methods.pertgraph.queries import QUERIES
from dpgnn.methods.queries import Leaks
from dpgnn.methods.scores import by_unit
from dpgnn.methods.shared.aggregate_answers import answer
from dpgnn.methods.shared.head_options import HeadConfig
from dpgnn.methods.shared.noisy_graph import num_cells
from dpgnn.methods.shared.noisy_graph_plan import (
    laplace_mechanism,
    pure_claim,
    require_private,
    response_mechanism,
    truthful,
)
from dpgnn.methods.tensors import Tensors, Trained, of_module

if TYPE_CHECKING:
    import scipy.sparse as sp

    from dpgnn.accountants.claims import Claim
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.queries import FittedRun
    from dpgnn.methods.releases import Release

DENSITY, EDGES = "density", "edges"


@dataclass(frozen=True, kw_only=True)
class PertGraphConfig:
    """Options of PertGraph; every value is public.

    Attributes:
        density_share: share of epsilon for the density, in [2^-20, 1); this leaves room for rounding in a
            release.
        block_rows: published mode: the density is estimated for blocks of this many rows.
        num_hops: SAGE layers.
        head: base stack, head stack and their training; encoder_layers counts the base stack.
    """

    density_share: float = 0.1
    block_rows: int = 500
    num_hops: int = 1
    head: HeadConfig = HeadConfig()

    def __post_init__(self) -> None:
        open_probability("density_share", self.density_share)
        require(self.density_share >= 2.0**-20, "density_share", "be >= 2^-20", self.density_share)
        at_least("block_rows", self.block_rows, 1)
        at_least("num_hops", self.num_hops, 1)
        at_least("head.encoder_layers", self.head.encoder_layers, 1)


def plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """A noisy density, then randomised response thinned by it.

    Guarantee (sound): unit edge, add-remove, pure epsilon. The density of undirected pairs moves by
    1/(N(N-1)/2) for one edge, and its Laplace noise has that over its share of epsilon as scale. A pair is
    answered truthfully with probability p = e^e/(1+e^e), and an answered 1 is kept with probability q, which
    is post-processing of the answer and the density. Public: node ids, features, labels, options.

    Published: both directions are answered, each with the whole share, and the density of a block of rows
    gets noise of scale 1/(N^2 e): one undirected edge costs twice the answer, and moves two densities by
    1/(rows N) each. The second claim counts that.

    Source: SAGE-EDP in Sajadmanesh et al. (2023), its baselines.
    """
    config: PertGraphConfig = entry.options
    require_private(budget)
    for_density = config.density_share * budget.epsilon
    for_edges = budget.epsilon - for_density
    truth, lie = truthful(for_edges)
    response = response_mechanism(
        EDGES, one_if_one=truth, one_if_zero=lie, details={"directions": 1}
    )
    if entry.mode == "sound":
        unit = 1 / max(num_cells(facts.num_nodes), 1)
        density = laplace_mechanism(DENSITY, scale=unit / for_density, sensitivity=unit)
        return _plan(facts, (density, response), pure_claim(entry, epsilon=budget.epsilon))
    spent = published_spends(facts.num_nodes, config.block_rows, for_density, for_edges)
    density = laplace_mechanism(
        DENSITY, scale=1 / (facts.num_nodes**2 * for_density), sensitivity=facts.num_nodes**-2.0
    )
    caveats = ("two-directions-perturbed", "density-noise-scale")
    stated = pure_claim(entry, epsilon=budget.epsilon, caveats=caveats)
    true = pure_claim(entry, epsilon=spent, status="proved")
    return _plan(facts, (density, response), stated, true)


def _plan(facts: Facts, mechanisms: tuple[Mechanism, ...], *claims: Claim) -> Plan:
    return Plan(mechanisms=mechanisms, claims=claims, facts=facts.recorded())


def published_spends(
    num_nodes: int, block_rows: int, for_density: float, for_edges: float
) -> float:
    """Pure epsilon of the published scheme for one undirected edge: both answers and both densities.

    The edge (u, v) stands in row u and in row v; the density of a block of r rows moves by 1/(r N) for each,
    under Laplace noise of scale 1/(N^2 for_density). The worst edge has both rows in the smallest block, or
    one in it and one in another when it has a single row.
    """
    full, rest = divmod(num_nodes, block_rows)
    sizes = [block_rows] * min(full, 2) + ([rest] if rest else [])
    smallest = min(sizes)
    both = [smallest, smallest] if smallest > 1 or len(sizes) == 1 else sorted(sizes)[:2]
    densities = sum(num_nodes * for_density / rows for rows in both)
    return 2 * for_edges + densities


def fit(run: PlannedRun) -> Fitted:
    """Perturb the edges once, train on the result.

    Guarantee: edges enter only through the planned mechanisms.
    """
    from dpgnn.methods.pertgraph.network import SumSage
    from dpgnn.methods.shared.graph_training import as_operator, train_on
    from dpgnn.models.inputs import as_input

    config: PertGraphConfig = run.entry.options
    for name in (DENSITY, EDGES):
        run.context.ledger.enter(name)
    adjacency = _perturbed(run.entry, run.graph, run.plan, run.context)
    operator, x = as_operator(adjacency), as_input(run.graph.x)
    generator = run.context.streams.torch("weights")
    model = SumSage(config, run.graph, dropout=config.head.dropout, generator=generator)
    return train_on(run, model, lambda masks: model(x, operator, masks), config.head.training)


def noisy_edges(run: FittedRun, graph: Graph, streams: Streams) -> sp.csr_array:
    """The perturbed adjacency of a run's plan on given streams; as published it is not symmetric."""
    return _perturbed(run.entry, graph, run.plan, Context.of_streams(run.plan, streams))


def _perturbed(entry: Entry, graph: Graph, plan: Plan, context: Context) -> sp.csr_array:
    make = undirected_answers if entry.mode == "sound" else directed_answers
    return make(
        graph,
        plan.mechanism(DENSITY).details["scale"],
        plan.mechanism(EDGES).event.one_if_one,  # type: ignore[attr-defined]
        block_rows=entry.options.block_rows,
        context=context,
    )


def undirected_answers(
    graph: Graph, scale: float, truth: float, *, block_rows: int, context: Context
) -> sp.csr_array:
    """Each undirected pair answered once; symmetric 0/1."""
    from dpgnn.methods.shared.noisy_graph import keep_density, noisy_density, randomized_response
    from dpgnn.methods.shared.undirected import symmetric_adjacency, undirected_pairs

    streams = context.streams
    pairs = undirected_pairs(graph.edge_index, graph.num_nodes)
    density = noisy_density(
        pairs.shape[1], num_cells(graph.num_nodes), scale,
        rng=streams.numpy("laplace"), exactly=streams.is_secret("laplace"),
    )  # fmt: skip
    answers = randomized_response(
        pairs, graph.num_nodes, one_if_one=truth, one_if_zero=1 - truth,
        keep=keep_density(density, truth),
        rng=streams.numpy("response"), exactly=streams.is_secret("response"),
    )  # fmt: skip
    return symmetric_adjacency(answers, graph.num_nodes)


def directed_answers(
    graph: Graph, scale: float, truth: float, *, block_rows: int, context: Context
) -> sp.csr_array:
    """As published: each direction is answered by itself, with a density for each block of rows."""
    from dpgnn.methods.shared.noisy_graph import block_response
    from dpgnn.methods.shared.undirected import adjacency_of

    return block_response(
        adjacency_of(graph),
        scale=scale,
        truth=truth,
        block_rows=block_rows,
        noise_rng=context.streams.numpy("laplace"),
        rng=context.streams.numpy("response"),
        exactly=context.streams.is_secret("response"),
    )


def releases() -> tuple[Release[..., Any], ...]:
    """The noisy density, and the thinned answers; as published, answers of both directions."""
    from dpgnn.methods.shared.noisy_graph import block_response, keep_density, randomized_response

    return (keep_density, randomized_response, block_response)


def tensors(trained: Trained) -> Tensors:
    """The network and the answers."""
    import torch

    from dpgnn.methods.pertgraph.network import SumSage

    config, sizes = trained.entry.options, trained.sizes
    model = SumSage(config, sizes, dropout=0.0, generator=torch.Generator())
    return Tensors(state=of_module(model) | trained.released_answers)


METHOD = Method(
    name="pertgraph",
    title="PertGraph",
    config=PertGraphConfig,
    source="SAGE-EDP in Sajadmanesh et al. (2023), arXiv:2203.00949",
    modes=("published", "sound"),
    supports=(Support(privacy_unit="edge", relation="add-remove"),),
    plan=plan,
    fit=fit,
    asked=Asked(flags={"density-share": "density_share"}),
    predict=answer,
    score=by_unit,
    tensors=tensors,
    queries=QUERIES,
    leaks=Leaks(noisy_edges=noisy_edges),
    releases=releases,
    example={"head": {"hidden": 8, "training": {"num_epochs": 5}}},
    citation="sajadmanesh2023gap",
)

"""DPAR's first stage: the subsample, its exact PageRank rows, and their private versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dpgnn.core.exact_selection import largest_with_gumbel
from dpgnn.core.rounded_noise import LAPLACE, LONGER, add_rounded
from dpgnn.methods.base import PlannedRun, Prepared, SamplerSpec
from dpgnn.methods.dpar.clipped_rows import MEASURES, capped, dense_row, shortened
from dpgnn.methods.dpar.options import PRIVATE_ROWS, DPARConfig, resolved
from dpgnn.methods.releases import release
from dpgnn.samplers.adjacency import induced_adjacency
from dpgnn.samplers.appr import approximate_pagerank
from dpgnn.samplers.rows import cap_columns, clip_columns, rows_from_table, rows_of, top_k

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """The subsample and its exact rows; as sensitive as the graph.

    Attributes:
        nodes: int64, shape (N,), global ids in shuffled order; the first M have a vector.
        exact: CSR, shape (M, N), float64: APPR of the first M over the positions in `nodes`.
    """

    nodes: np.ndarray
    exact: sp.csr_array


def sampler(entry: Entry) -> SamplerSpec | None:
    """The subsample with its exact rows; None if the subsample must be secret (drawn in `fit`)."""
    config = resolved(entry)
    if config.amplification == "correct":
        return None
    params = {
        "subsample_rate": config.subsample_rate,
        "num_vectors": config.num_vectors,
        "alpha": config.alpha,
        "rho": config.rho,
        "gamma": config.gamma,
        "solver": config.solver,
    }
    return SamplerSpec(name="appr", params=params)


def prepare(graph: Graph, split: Split, spec: SamplerSpec, rng: np.random.Generator) -> Prepared:
    """Draw the subsample and compute its first rows, without noise or cost.

    Sizes depend only on the number of training nodes. Without amplification, the nodes of the subsample are
    public.
    """
    config = DPARConfig(**spec.params)
    return prepared_from(draw_members(graph, split, config, rng=rng))


def prepared_from(members: Members) -> Prepared:
    """A drawn subsample in its stored form: a row for each member, empty for those without a vector."""
    rest = len(members.nodes) - members.exact.shape[0]
    empty = sp.csr_array((rest, len(members.nodes)))
    rows = rows_of(sp.csr_array(sp.vstack([members.exact, empty])), members.nodes)
    sizes = np.diff(members.exact.indptr)
    return Prepared(
        kind="rows",
        table=rows.to_table(),
        diagnostics={"entries_per_vector": {"mean": float(sizes.mean()), "max": int(sizes.max())}},
    )


def draw_members(
    graph: Graph, split: Split, config: DPARConfig, *, rng: np.random.Generator
) -> Members:
    """A uniform subset of ceil(q' n_train) training nodes, shuffled, and the rows of its first M.

    Args:
        config: with subsample_rate given.
        rng: secret where amplification is claimed.
    """
    nodes = drawn_nodes(split, config, rng=rng)
    local = np.full(graph.num_nodes, -1, dtype=np.int64)
    local[nodes] = np.arange(len(nodes))
    edges = local[graph.edge_index]
    edges = edges[:, (edges >= 0).all(axis=0)]
    if graph.directed:
        edges = np.unique(np.concatenate([edges, edges[::-1]], axis=1), axis=1)
    adjacency = induced_adjacency(
        np.ascontiguousarray(edges), num_nodes=len(nodes), node_idx=np.arange(len(nodes))
    )
    roots = np.arange(config.vectors_of(len(nodes)))
    rows = approximate_pagerank(adjacency, roots, **row_options(config))
    return Members(nodes=nodes, exact=rows.matrix())


def drawn_nodes(split: Split, config: DPARConfig, *, rng: np.random.Generator) -> np.ndarray:
    """The subsample, shuffled; the first draw of `draw_members`."""
    order = rng.permutation(split.train_idx)
    return order[: config.num_members(len(order))]


def row_options(config: DPARConfig) -> dict[str, Any]:
    """Options of `approximate_pagerank`."""
    return {
        "alpha": config.alpha,
        "rho": config.rho,
        "gamma": config.gamma,
        "solver": config.solver,
    }


def members_of(run: PlannedRun) -> Members:
    """The prepared subsample, or a secret one from the stream `batches`."""
    config = resolved(run.entry)
    if run.prepared is None:
        return draw_members(
            run.graph,
            run.split,
            config,
            rng=run.context.streams.numpy("batches", stage="subsample"),
        )
    table = run.prepared.table
    num_members = table.num_rows
    exact = rows_from_table(table, num_nodes=num_members).matrix()
    nodes = table.column("root").to_numpy().astype(np.int64)
    return Members(nodes=nodes, exact=exact[: config.vectors_of(num_members)])


@release(MEASURES)
def vectors(config: DPARConfig, exact: sp.csr_array, context: Context) -> sp.csr_array:
    """The M rows for training: private, or those of a control.

    Guarantee: em0, em1 and gm run the planned mechanisms `select`, `weigh` and `perturb`, one draw for
    each vector; what they return is their output and post-processing of it. Neighbouring
    graphs differ in one node's edges and features; N, M and which nodes have a vector are public.

    Args:
        config: resolved options.
        exact: CSR, shape (M, N): exact APPR.
        context: ledger and the streams gumbel, laplace and noise.

    Returns:
        CSR, shape (M, N), float64.
    """
    num_vectors, num_members = exact.shape
    k = min(config.top_k, num_members)
    if config.rows in PRIVATE_ROWS:
        return _private(config, exact, k, context)
    if config.rows == "none":
        return sp.csr_array(sp.eye_array(num_vectors, num_members))
    if config.rows == "random":
        rng = context.streams.numpy("random-rows")
        chosen = np.argsort(rng.random((num_vectors, num_members)), axis=1)[:, :k]
        return _matrix(chosen, np.full(chosen.shape, 1.0 / k), num_members)
    kept = top_k(rows_of(exact, np.arange(num_vectors)), k).matrix()
    if config.rows == "true":
        kept.data[:] = 1.0 / k
    return kept


def _private(config: DPARConfig, exact: sp.csr_array, k: int, context: Context) -> sp.csr_array:
    num_vectors, num_members = exact.shape
    if config.rows == "gm":
        planned = context.ledger.enter("perturb")
        rng = context.streams.numpy("noise", stage="perturb")
        chosen, values = select_gaussian(
            exact, config.max_vector_norm, planned.noise_stddev, k, rng=rng,
            rounded=context.streams.is_secret("noise"),
        )  # fmt: skip
        return _matrix(chosen, values, num_members)
    planned = context.ledger.enter("select")
    rng = context.streams.numpy("gumbel", stage="select")
    chosen = select_gumbel(
        exact, config.max_entry, planned.details["scale"], k, rng=rng,
        exactly=context.streams.is_secret("gumbel"),
    )  # fmt: skip
    values = np.full(chosen.shape, 1.0 / k)
    if config.rows == "em1":
        planned = context.ledger.enter("weigh")
        rng = context.streams.numpy("laplace", stage="weigh")
        chosen_entries = exact[np.repeat(np.arange(num_vectors), k), chosen.ravel()]
        clipped = capped(chosen_entries, config.max_entry)
        scale, clipped = planned.details["scale"], np.asarray(clipped).reshape(chosen.shape)
        if context.streams.is_secret("laplace"):
            values = add_rounded(clipped, scale * LONGER, rng=rng, law=LAPLACE)
        else:
            values = clipped + rng.laplace(0.0, scale, chosen.shape)
    return _matrix(chosen, values, num_members)


def select_gumbel(
    exact: sp.csr_array,
    max_entry: float,
    scale: float,
    k: int,
    *,
    rng: np.random.Generator,
    exactly: bool = False,
) -> np.ndarray:
    """The k largest entries of each row after clipping to [0, max_entry] and Gumbel noise.

    Guarantee: one draw per row is `GumbelTopK(scale, max_entry, k)`: replacing a node moves each clipped
    entry by at most max_entry, and every node is a candidate in both graphs.

    Args:
        exactly: not affected by rounding, see `core.exact_selection`; for releases.

    Returns:
        int64, shape (num_rows, k), largest first.

    Source: Zhang et al., DPAR, Algorithm 1 (DP-APPR-EM); Durfee and Rogers (2019) for the noise.
    """
    chosen = np.empty((exact.shape[0], k), dtype=np.int64)
    for row in range(exact.shape[0]):
        scores = capped(dense_row(exact, row), max_entry)
        if exactly:
            chosen[row] = largest_with_gumbel(scores, scale, k, rng=rng)
        else:
            scores += rng.gumbel(0.0, scale, len(scores))
            chosen[row] = _largest(scores, k)
    return chosen


def select_gaussian(
    exact: sp.csr_array,
    max_norm: float,
    noise_stddev: float,
    k: int,
    *,
    rng: np.random.Generator,
    rounded: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """Rows scaled to norm <= max_norm, noised in every entry; their k largest entries.

    Guarantee: one draw per row is a Gaussian release. Both rows are nonnegative with norm <= max_norm,
    so they differ by at most sqrt(2) max_norm.

    Args:
        rounded: add noise on a public grid, for releases; it is larger by 2^-30, which exceeds the rounding
            error of a row's norm.

    Returns:
        positions int64 and values float64, both of shape (num_rows, k).

    Source: Zhang et al., DPAR, Algorithm 3 (DP-APPR-GM).
    """
    chosen = np.empty((exact.shape[0], k), dtype=np.int64)
    values = np.empty(chosen.shape)
    for row in range(exact.shape[0]):
        scores = shortened(dense_row(exact, row), max_norm)
        if rounded:
            scores = add_rounded(scores, noise_stddev * LONGER, rng=rng)
        else:
            scores += rng.normal(0.0, noise_stddev, len(scores))
        chosen[row] = _largest(scores, k)
        values[row] = scores[chosen[row]]
    return chosen, values


def weights_of_roots(
    config: DPARConfig,
    rows: sp.csr_array,
    num_members: int,
    *,
    sound: bool,
    key: np.random.Generator,
) -> sp.csr_array:
    """Pi: the weights with which every root reads the nodes of the subsample.

    The M rows, then identity rows for the others (`roots: all`); columns are bounded in L1 norm, and in sound
    mode at most `column_cap` of the M rows contain a node. All of this is post-processing of the rows.

    Args:
        rows: CSR, shape (M, N).
        key: public priorities of the column cap.

    Returns:
        CSR, shape (num_roots, N), float64.
    """
    num_vectors = rows.shape[0]
    if sound:
        capped = cap_columns(rows_of(rows, np.arange(num_vectors)), config.column_cap, rng=key)
        rows = capped.matrix()
    if config.roots == "all":
        others = sp.eye_array(num_members, format="csr")[num_vectors:]
        rows = sp.csr_array(sp.vstack([rows, others]))
    whole = clip_columns(
        rows_of(rows, np.arange(rows.shape[0])), config.max_column_norm,
        rescale=config.rescale_columns,
    )  # fmt: skip
    return whole.matrix()


def _largest(scores: np.ndarray, k: int) -> np.ndarray:
    top = np.argpartition(-scores, k - 1)[:k]
    return top[np.argsort(-scores[top])]


def _matrix(chosen: np.ndarray, values: np.ndarray, num_members: int) -> Any:
    pointer = np.arange(len(chosen) + 1) * chosen.shape[1]
    shape = (len(chosen), num_members)
    return sp.csr_array((values.ravel(), chosen.ravel(), pointer), shape=shape)

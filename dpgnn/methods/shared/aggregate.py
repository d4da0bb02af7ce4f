"""Aggregation over a private graph with noise: row maps, the contractive iteration, the hops of GAP.

Arrays are float64 and shape (num_nodes, width). Every function that adds noise takes its standard deviation
and draws; its "Guarantee" names what it releases. Sums are in floating point, which claims state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import at_least, non_negative, open_probability, probability, require
from dpgnn.methods.releases import (
    Arguments,
    Draw,
    RoundedDraw,
    Where,
    common_rows,
    gaussian,
    noised,
    release,
    rows_with_room,
    summable,
)
from dpgnn.methods.shared.undirected import degrees

_ROWS_AT_ONCE = 1024  # of a residual: with wide features an array of all rows takes gigabytes


def unit_rows(x: np.ndarray) -> np.ndarray:
    """Each row divided by its L2 norm; zero rows stay zero."""
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    return np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)


def empty_rows(x: np.ndarray) -> np.ndarray:
    """bool, shape (num_rows,): rows of zeros."""
    return np.asarray(~x.any(axis=1))


def project_rows(x: np.ndarray) -> np.ndarray:
    """Projection of each row on the unit ball: h / max(1, ||h||)."""
    return x / np.maximum(1.0, np.linalg.norm(x, axis=1, keepdims=True))


def symmetric_operator(adjacency: sp.csr_array, *, padding: int = 1) -> sp.csr_array:
    """D^-1/2 (A + W) D^-1/2 with self-loops W_ii = max(1, padding - d_i) and D the row sums of A + W.

    padding 1 is the normalisation of graph convolutional networks (one self-loop). The spectral norm is at
    most 1, because D holds the row sums of a symmetric non-negative matrix.

    Args:
        adjacency: symmetric 0/1 with zero diagonal, float64.
        padding: M >= 1, a public constant.
    """
    at_least("padding", padding, 1)
    degree = degrees(adjacency)
    loops = np.maximum(1, padding - degree).astype(np.float64)
    return _normalized(adjacency + sp.diags_array(loops), degree + loops)


def operator_without_self_loops(adjacency: sp.csr_array) -> sp.csr_array:
    """D^-1/2 A D^-1/2; rows of nodes without neighbours are zero."""
    return _normalized(adjacency, degrees(adjacency).astype(np.float64))


def _normalized(weights: sp.csr_array, row_sums: np.ndarray) -> sp.csr_array:
    scale = np.zeros_like(row_sums)
    np.divide(1.0, np.sqrt(row_sums), out=scale, where=row_sums > 0)
    diagonal = sp.diags_array(scale)
    return sp.csr_array(diagonal @ weights @ diagonal)


@dataclass(frozen=True, kw_only=True)
class ContractiveLayer:
    """phi(X) = c (a1 A^ X + (1 - a1) mean over nodes of X) + beta X0.

    Attributes:
        contraction: c in (0, 1); phi is c-Lipschitz in the Frobenius norm when ||A^|| <= 1.
        alpha1: a1 in [0, 1].
        beta: weight of the residual, >= 0.
    """

    contraction: float
    alpha1: float
    beta: float

    def __post_init__(self) -> None:
        open_probability("contraction", self.contraction)
        probability("alpha1", self.alpha1)
        non_negative("beta", self.beta)

    def __call__(self, operator: sp.csr_array, x: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """One layer; `residual` is X0."""
        mixed = operator @ x
        mixed *= self.alpha1
        if self.alpha1 < 1:
            mixed += (1 - self.alpha1) * x.mean(axis=0)
        return self._with_residual(mixed, residual)

    def feature_mean(
        self, operator: sp.csr_array, x: np.ndarray, residual: np.ndarray
    ) -> np.ndarray:
        """The released code's noise-free layer, with the mean over the columns of each row instead."""
        mixed = operator @ x
        mixed *= self.alpha1
        mixed += (1 - self.alpha1) * x.mean(axis=1, keepdims=True)
        return self._with_residual(mixed, residual)

    def _with_residual(self, mixed: np.ndarray, residual: np.ndarray) -> np.ndarray:
        """c mixed + beta X0 in the memory of `mixed`; the released code's are as large as all features."""
        mixed *= self.contraction
        for start in range(0, len(mixed), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            mixed[rows] += self.beta * residual[rows]
        return mixed


def _starts(
    first: Arguments, second: Arguments, where: Where
) -> Iterable[tuple[Arguments, Arguments]]:
    """The run's own initial rows, and unit rows that are equal in both worlds."""
    yield first, second
    if "x0" in first:
        for seed in (0, 1):
            rows = common_rows(first["x0"].shape, where, seed)
            a, b = (unit_rows(side) for side in rows)
            if where.absent:
                b[where.own] = 0.0
            yield {**first, "x0": a}, {**second, "x0": b}


HOPS = {"aggregate": gaussian(_starts)}


@release(HOPS)
def contractive_iteration(
    layer: ContractiveLayer,
    operator: sp.csr_array,
    x0: np.ndarray,
    *,
    num_hops: int,
    noise_stddev: float,
    draw: Draw,
    emptied: np.ndarray | None = None,
    own_rows: bool = False,
) -> np.ndarray:
    """PCMP: X_k = Proj(phi(X_{k-1}) + N(0, noise_stddev^2)), k = 1..K; only X_K is returned.

    Guarantee: with s the layer's sensitivity in the given norm, X_K is mu-GDP with mu = s/noise_stddev
    sqrt(K_eff(K, c)) (accountants.gdp.effective_hops), provided that no state before the last leaves this
    function in any form. No state is stored: an interrupted run starts again at hop 1, with fresh noise.

    Args:
        layer: phi.
        operator: A^, spectral norm at most 1.
        x0: rows in the unit ball; start and residual.
        num_hops: K.
        noise_stddev: per coordinate and hop; 0 without privacy.
        draw: standard normal noise of a step.
        emptied: bool, shape (num_nodes,): nodes without features, at node level; neighbours read 0 for them.
            Must not depend on edges. None at edge level.
        own_rows: whether the release includes a changed node's own row: states are then also projected before
            the noise, and rows of emptied nodes get noise around 0.

    Source: CARIBOU, Algorithm 1.
    """
    at_least("num_hops", num_hops, 1)
    _check_unit_rows(x0)
    require(not own_rows or emptied is not None, "emptied", "be given with own_rows", None)
    x = x0
    for hop in range(1, num_hops + 1):
        x = layer(operator, x, x0)
        noisy = partial(noised, noise_stddev=noise_stddev, draw=draw, step=hop)
        x = end_of_hop(x, noisy if noise_stddev > 0 else None, emptied=emptied, own_rows=own_rows)
    return x


def end_of_hop(
    x: np.ndarray,
    noisy: Callable[[np.ndarray], np.ndarray] | None,
    *,
    emptied: np.ndarray | None,
    own_rows: bool,
) -> np.ndarray:
    """The steps after the layer in a hop of `contractive_iteration`, row by row; `noisy` adds noise."""
    if own_rows:
        x = project_rows(x)
        x[emptied] = 0.0
    x = project_rows(x if noisy is None else noisy(x))
    if emptied is not None and not own_rows:
        x[emptied] = 0.0
    return x


@release(HOPS)
def released_code_iteration(
    layer: ContractiveLayer,
    operator: sp.csr_array,
    raw: np.ndarray,
    *,
    num_hops: int,
    noise_stddev: float,
    draw: Draw,
    noise_free_layer: bool,
) -> np.ndarray:
    """The released code's iteration: after each noisy hop, also the last, one more layer without noise.

    Guarantee: none with `noise_free_layer`: the result is a noise-free function of the private edges
    (caveat unnoised-last-layer; tests/soundness). Without that layer only the projection after the last hop
    is missing, which is post-processing.

    Args:
        raw: features without normalisation; the initial rows are normalised, the residual is not.
        noise_free_layer: False omits the additional layer.
        layer, operator, num_hops, noise_stddev, draw: as for `contractive_iteration`.
    """
    at_least("num_hops", num_hops, 1)
    x = unit_rows(raw)
    for hop in range(1, num_hops + 1):
        x = layer(operator, x, raw)
        if noise_stddev > 0:
            x = noised(x, noise_stddev, draw, hop)
        if hop < num_hops:
            x = project_rows(x)
        if noise_free_layer:
            x = layer.feature_mean(operator, x, raw)
    return x


@release(HOPS)
def noisy_sums(
    adjacency: sp.csr_array,
    x0: np.ndarray,
    *,
    num_hops: int,
    noise_stddev: float,
    draw: Draw,
    normalize: Callable[[np.ndarray], np.ndarray] = unit_rows,
) -> list[np.ndarray]:
    """GAP's hops: X_k = normalize(A X_{k-1} + N(0, noise_stddev^2)); X_1..X_K are returned.

    Guarantee: rows of X_{k-1} have norm at most 1, so a hop is a Gaussian release whose sensitivity is
    that of A in rows (sqrt 2 for one undirected edge); K adaptive hops compose.

    Args:
        adjacency: entry [v, u] is the weight with which v reads u; float64 CSR.
        x0: rows in the unit ball.
        num_hops, noise_stddev, draw: as for `contractive_iteration`.
        normalize: maps rows into the unit ball.

    Source: Sajadmanesh et al. (2023), arXiv:2203.00949, private multi-hop aggregation (PMA).
    """
    at_least("num_hops", num_hops, 1)
    _check_unit_rows(x0)
    states, x = [], x0
    for hop in range(1, num_hops + 1):
        exact = isinstance(draw, RoundedDraw)
        x = adjacency @ (summable(x, rows_with_room(len(x))) if exact else x)
        if noise_stddev > 0:
            x = noised(x, noise_stddev, draw, hop)
        x = normalize(x)
        states.append(x)
    return states


def column_scaled_rows(x: np.ndarray) -> np.ndarray:
    """The normalisation of CARIBOU's re-implementation of GAP, weaker than GAP's own.

    Columns are divided by min(5, their L2 norm), all entries by the smallest max(1, ||row||), then each
    row by its L1 norm. Rows keep an L2 norm of at most 1, so the sensitivity stays valid.
    """
    norms = np.minimum(5.0, np.linalg.norm(x, axis=0))
    x = np.divide(x, norms, out=np.zeros_like(x), where=norms > 0)
    x = x / np.maximum(1.0, np.linalg.norm(x, axis=1)).min()
    totals = np.abs(x).sum(axis=1, keepdims=True)
    return np.divide(x, totals, out=np.zeros_like(x), where=totals > 0)


def _check_unit_rows(x: np.ndarray) -> None:
    norms = np.linalg.norm(x, axis=1)
    inside = bool(np.isfinite(norms).all() and (norms <= 1 + 1e-9).all())
    require(inside, "rows of x0", "lie in the unit ball", "a longer one", "use unit_rows")

"""Sensitivity of one contractive layer between neighbouring graphs: sound and published bounds.

One layer is phi(X) = c (a1 A^ X + a2 mean(X)) + beta X0, rows of X in the unit ball. All values are changes
of the operator part in units of c a1, unless a function says "layer". Degrees count neighbours, the self-loop
not included. g(d) = 1/sqrt(d+1) - 1/sqrt(d+2) is what an entry of row u loses, up to the other end's factor,
when u's degree grows from d to d + 1.

Source: CARIBOU, Theorems 4 and 5; proofs of the sound bounds below; brute force over all small graphs in
tests/methods/caribou/test_sensitivity.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from dpgnn.core.checks import at_least, require

# terms of the row bounds fall from here on: d g(d) has its maximum at 3 (published as 3/2 - 3/sqrt 5)
_FALLING_FROM = 3


def _g(degree: int) -> float:
    return 1 / math.sqrt(degree + 1) - 1 / math.sqrt(degree + 2)


def edge_operator_sensitivity(minimum_degree: int = 0) -> float:
    """S(m): sup ||(A^ - A^') X||_F for one undirected edge, symmetric normalisation with self-loops.

    Guarantee: holds for all graphs whose degrees are at least m in both worlds (m = 0 assumes nothing and
    gives sqrt 2), and all X with rows in the unit ball.

    Proof. Insert (u, v); d_u, d_v are the degrees before; a neighbour has degree >= m~ = max(m, 1).
    Row s in {u, v}: the diagonal entry falls by 1/((d_s+1)(d_s+2)); each of d_s entries to old neighbours
    falls by at most g(d_s)/sqrt(m~+1); the new entry is 1/sqrt((d_u+2)(d_v+2)). The sum bounds the row's
    change, as rows of X have norm at most 1. The row of an old neighbour w changes in its entries to u and
    v only: squared by at most (g(d_u) [w~u] + g(d_v) [w~v])^2/(m~+1) <= 2 (g(d_u)^2 [w~u] + g(d_v)^2
    [w~v])/(m~+1); summed over w: 2 (d_u g(d_u)^2 + d_v g(d_v)^2)/(m~+1). No other entry changes. Rows are
    orthogonal blocks, so squares add up. d g(d) and 1/((d+1)(d+2)) fall for d >= 3, d g(d)^2 for d >= 1 and
    the new entry always, so the maximum over d_u, d_v >= m is attained at degrees in m..max(m, 3). []
    """
    at_least("minimum_degree", minimum_degree, 0)
    neighbour = max(minimum_degree, 1) + 1

    def squared(this: int, other: int) -> float:
        new = 1 / math.sqrt((this + 2) * (other + 2))
        row = 1 / ((this + 1) * (this + 2)) + this * _g(this) / math.sqrt(neighbour) + new
        return row * row + 2 * this * _g(this) ** 2 / neighbour

    return _largest(squared, range(minimum_degree, max(minimum_degree, _FALLING_FROM) + 1))


def padded_edge_operator_sensitivity(padding: int) -> float:
    """sup ||(A^ - A^') X||_F for one undirected edge when self-loops pad every degree up to a public M.

    The self-loop of node i has weight max(1, M - d_i), so its row sum is D_i = max(M, d_i + 1).

    Guarantee: holds for all graphs; equals 2 sqrt(2)/M for M >= 2.

    Proof. Insert (u, v). If d_s <= M - 2 nothing but the self-loop changes: D_s stays M, the diagonal entry
    falls by 1/M, the new entry is at most 1/M. If d_s >= M - 1, D_s grows from d_s + 1 to d_s + 2: as in
    `edge_operator_sensitivity` with D >= M for all other nodes; the terms fall for d_s >= 3. Squares of
    rows add up; the neighbours' rows count for the second kind only. []
    """
    at_least("padding", padding, 2)

    def squared(this: int, other: int) -> float:
        after = max(padding, this + 2)
        new = 1 / math.sqrt(after * max(padding, other + 2))
        if this <= padding - 2:
            return (1 / padding + new) ** 2
        row = 1 / ((this + 1) * (this + 2)) + this * _g(this) / math.sqrt(padding) + new
        return row * row + 2 * this * _g(this) ** 2 / padding

    degrees = {max(padding - 2, 0), *range(padding - 1, max(padding - 1, _FALLING_FROM) + 1)}
    return _largest(squared, sorted(degrees))


def edge_operator_sensitivity_without_self_loops(minimum_degree: int = 0) -> float:
    """The same bound for D^-1/2 A D^-1/2 without self-loops, the operator of the released code.

    Guarantee: as `edge_operator_sensitivity`; degrees count before the edge is inserted.

    Proof. As there, without the diagonal entry, with d in place of d + 1: entries to old neighbours fall by
    h(d)/sqrt(m~), h(d) = 1/sqrt(d) - 1/sqrt(d+1), and the new entry is 1/sqrt((d_u+1)(d_v+1)). The row of
    a node without neighbours is 0, so the first edge adds the new entry alone. d h(d) and d h(d)^2 fall
    for d >= 1. []
    """
    at_least("minimum_degree", minimum_degree, 0)
    neighbour = max(minimum_degree, 1)

    def squared(this: int, other: int) -> float:
        new = 1 / math.sqrt((this + 1) * (other + 1))
        if this == 0:
            return new * new
        loss = 1 / math.sqrt(this) - 1 / math.sqrt(this + 1)
        row = this * loss / math.sqrt(neighbour) + new
        return row * row + 2 * this * loss * loss / neighbour

    return _largest(squared, range(minimum_degree, max(minimum_degree, _FALLING_FROM) + 1))


def node_operator_sensitivity(max_degree: int, minimum_degree: int = 0) -> float:
    """B: sup of the change of all rows but u's when node u loses all its edges, with self-loops.

    Guarantee: holds for all graphs whose degrees are at most D, and at least m in both worlds but for u;
    X with rows in the unit ball; rows v != u, Frobenius norm.

    Proof. Let A^' be the operator without u's edges and d' the degrees there. On the nodes other than u,
    A^ = S A^' S with S = diag(s), s_v = sqrt((d'_v+1)/(d'_v+2)) for v in N(u) and 1 otherwise; column u of
    A^ adds 1/sqrt((d_v+1)(d_u+1)) for v in N(u). So the change is (I-S) A^' X + S A^' (I-S) X - a_u x_u.
    First term: at most D rows, each at most (1-s(d')) R(d'), where R(d) = 1/(d+1) + d/sqrt((d+1)(m~+1)) with
    m~ = max(m, 1) bounds the sum of a row. Second: ||S A^'|| <= 1 and (I-S) X has at most D rows of norm
    <= 1 - s(m). Third: d_u/((d_u+1)(m+2)) < 1/(m+2) squared, as a neighbour of u had degree >= m + 1. []
    """
    at_least("max_degree", max_degree, 1)
    at_least("minimum_degree", minimum_degree, 0)
    rule = f"be <= max_degree = {max_degree}"
    require(minimum_degree <= max_degree, "minimum_degree", rule, minimum_degree)
    neighbour = max(minimum_degree, 1) + 1

    def shrink(degree: int) -> float:
        return 1 - math.sqrt((degree + 1) / (degree + 2))

    def row_sum(degree: int) -> float:
        return 1 / (degree + 1) + degree / math.sqrt((degree + 1) * neighbour)

    # a neighbour of u keeps at most D - 1 of its D edges
    remaining = range(minimum_degree, max(max_degree, minimum_degree + 1))
    first = max(shrink(degree) * row_sum(degree) for degree in remaining)
    root = math.sqrt(max_degree)
    return root * first + root * shrink(minimum_degree) + 1 / math.sqrt(minimum_degree + 2)


def node_layer_sensitivity(
    contraction: float,
    alpha1: float,
    *,
    max_degree: int,
    num_nodes: int,
    minimum_degree: int = 0,
    own_row: bool,
) -> float:
    """Delta of one layer when a node is emptied (features, label, edges), degrees at most D.

    Guarantee: relation null-one in the class of graphs with degrees <= D; num_nodes N is a public constant.
    `own_row=False` is the change of all rows but the node's own, for releases from which its own row is
    absent: c a1 B + c a2/sqrt(N). `own_row=True` counts it, for a layer that projects on the unit ball
    before the noise and sets the rows of emptied nodes to 0: sqrt(1 + (c a1 B + c a2/sqrt(N))^2).

    Proof. Rows v != u: the operator part is `node_operator_sensitivity`; beta x0_v is the same in both; the
    mean differs by at most 1/N in every row (u's row may be 0 in one world), together 1/sqrt(N). The
    projection of a row is 1-Lipschitz. Row u: projected it has norm at most 1, and 0 when emptied. []

    The published text has no own row beyond "1" before the projection and other factors elsewhere.
    """
    at_least("num_nodes", num_nodes, 1)
    mixing = contraction * alpha1 * node_operator_sensitivity(max_degree, minimum_degree)
    others = mixing + contraction * (1 - alpha1) / math.sqrt(num_nodes)
    return math.hypot(1.0, others) if own_row else others


def published_c(minimum_degree: int) -> float:
    """C(D) of Theorem 4: the largest d/sqrt(d+1) - d/sqrt(d+2) over d >= D, 0.1584 rounded for D <= 3."""
    if minimum_degree <= 3:
        return 0.1584
    return minimum_degree / math.sqrt(minimum_degree + 1) - minimum_degree / math.sqrt(
        minimum_degree + 2
    )


def published_edge_sensitivity(minimum_degree: int, *, last_term: str = "code") -> float:
    """Theorem 4's constant in units of c a1.

    Args:
        minimum_degree: D, measured on the private graph in the publication.
        last_term: "code" has 1/sqrt((D+1)(D+2)) for the new entry, "proof" the 1/(D+2) of the proof's text.

    The first is at least S(D) with self-loops, so it is valid there; the second is too small for D = 2..10,
    and without self-loops both are too small for D >= 1.
    """
    d = minimum_degree
    last = 1 / math.sqrt((d + 1) * (d + 2)) if last_term == "code" else 1 / (d + 2)
    return math.sqrt(2) * (1 / ((d + 1) * (d + 2)) + published_c(d) / math.sqrt(d + 1) + last)


def published_node_operator_sensitivity(
    minimum_degree: int, max_degree: int, *, middle: str = "code"
) -> float:
    """Theorem 5's operator part in units of c a1, with the middle term of the "code" or the "proof".

    Both are smaller than the change on explicit graphs.
    """
    d, root = minimum_degree, math.sqrt(max_degree)
    divisor = math.sqrt(max_degree + 1) if middle == "code" else math.sqrt(d + 1)
    last = 1 / math.sqrt(d + 2)
    return root / ((d + 1) * (d + 2)) + published_c(d) * root / divisor + last


def published_node_sensitivity(
    contraction: float, alpha1: float, *, minimum_degree: int, max_degree: int, num_nodes: int
) -> float:
    """Theorem 5's Delta of one layer as the released code computes it."""
    mean = 2 * contraction * (1 - alpha1) * num_nodes / (num_nodes + 1)
    operator = published_node_operator_sensitivity(minimum_degree, max_degree)
    return 1 + mean + contraction * alpha1 * operator


def _largest(squared: Callable[[int, int], float], degrees: range | list[int]) -> float:
    """sqrt of the largest squared(d_u, d_v) + squared(d_v, d_u)."""
    pairs = [(u, v) for u in degrees for v in degrees]
    return math.sqrt(max(squared(u, v) + squared(v, u) for u, v in pairs))

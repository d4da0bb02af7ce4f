"""Releases of perturbed graphs: exact laws on graphs of three nodes, and samplers that follow them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dpgnn.core.rounded_noise import LONGER
from dpgnn.methods.shared import exact_cells
from dpgnn.methods.shared.noisy_graph import (
    laplace_top_cells,
    noisy_density,
    randomized_response,
)
from dpgnn.methods.shared.noisy_graph_plan import truthful

CELLS = ((0, 1), (0, 2), (1, 2))
GRAPHS = list(itertools.product((0, 1), repeat=3))


def pairs_of(graph: tuple[int, ...]) -> np.ndarray:
    there = [cell for cell, bit in zip(CELLS, graph) if bit]
    return np.array(there, dtype=np.int64).reshape(-1, 2).T


def seen_of(draw, runs: int) -> np.ndarray:
    """How often each of the 8 graphs came out."""
    found = np.zeros(8)
    for _ in range(runs):
        out = set(map(tuple, draw().T.tolist()))
        found[GRAPHS.index(tuple(int(cell in out) for cell in CELLS))] += 1
    return found


def neighbours() -> list[tuple[int, int]]:
    return [
        (i, j)
        for (i, a), (j, b) in itertools.permutations(enumerate(GRAPHS), 2)
        if sum(x != y for x, y in zip(a, b)) == 1
    ]


# --- randomised response


def answers_law(graph: tuple[int, ...], one: Fraction, zero: Fraction) -> list[Fraction]:
    """The probability of each of the 8 answers, as exact fractions."""
    law = []
    for out in GRAPHS:
        rates = [(one if bit else zero) for bit in graph]
        law.append(math.prod(rate if bit else 1 - rate for rate, bit in zip(rates, out)))
    return law


@pytest.mark.parametrize("keep", [1.0, 0.6, 2.0**-53])
@pytest.mark.parametrize(
    "epsilon", [1e-300, 1e-9, 0.1, 1.0, 8.0, 36.0, 36.8, 37.0, 50.0, 745.0, 746.0, 1e6, 1e300]
)
def test_answers_of_neighbours_differ_by_at_most_e_to_the_epsilon(
    epsilon: float, keep: float
) -> None:
    """Exact laws, as fractions, at the rates that are drawn; no answer is certain or impossible."""
    truth, lie = truthful(epsilon)
    kept = Fraction(keep)
    laws = [answers_law(g, Fraction(truth) * kept, Fraction(lie) * kept) for g in GRAPHS]
    with mpmath.workprec(200):
        bound = mpmath.exp(min(mpmath.mpf(epsilon), 800))
        for i, j in neighbours():
            for p, q in zip(laws[i], laws[j]):
                assert 0 < q < 1
                ratio = mpmath.mpf((p / q).numerator) / (p / q).denominator
                assert ratio <= bound
    assert Fraction(lie) >= Fraction(1, 2**53)


@pytest.mark.parametrize("graph", [(0, 0, 0), (1, 0, 1), (1, 1, 1)])
@pytest.mark.parametrize(("epsilon", "keep"), [(1.0, 1.0), (2.0, 0.7), (1e-9, 0.3)])
def test_the_sampler_follows_the_exact_law_of_answers(graph, epsilon, keep) -> None:
    truth, lie = truthful(epsilon)
    rng, runs = np.random.default_rng(1), 4000
    seen = seen_of(
        lambda: randomized_response(
            pairs_of(graph), 3, one_if_one=truth, one_if_zero=lie, keep=keep, rng=rng, exactly=True
        ),
        runs,
    )
    cut = Fraction(exact_cells.multiple_below(keep))
    law = answers_law(graph, Fraction(truth) * cut, Fraction(lie) * cut)
    assert stats.chisquare(seen, runs * np.array([float(p) for p in law])).pvalue > 1e-6


def test_a_rate_that_no_coin_of_53_bits_has_is_refused() -> None:
    with pytest.raises(ValueError, match=r"rate must be a multiple of 2\^-53"):
        randomized_response(
            pairs_of((1, 0, 0)), 3, one_if_one=0.1, one_if_zero=0.1,
            rng=np.random.default_rng(0), exactly=True,
        )  # fmt: skip


# --- Laplace noise on the cells


def level_law(x: int, scale: float, grid: float, most: int = 24) -> np.ndarray:
    """P(round((x + scale Z) / grid) = k) for k in -most..most; the ends have what lies beyond."""
    edges = (np.arange(-most, most + 2) - 0.5) * grid
    edges[0], edges[-1] = -np.inf, np.inf
    return np.diff(stats.laplace(x, scale).cdf(edges))


def count_law(count: int, scale: float) -> np.ndarray:
    edges = np.array([-np.inf, 0.5, 1.5, 2.5, np.inf])
    return np.diff(stats.laplace(count, scale).cdf(edges))


def top_law(graph: tuple[int, ...], scale_count: float, scale: float, grid: float) -> np.ndarray:
    """Probability of each of the 8 kept sets, summed over all levels of the three cells."""
    laws = [level_law(bit, scale, grid) for bit in graph]
    levels = np.stack(np.meshgrid(*[np.arange(len(laws[0]))] * 3, indexing="ij"), -1).reshape(-1, 3)
    mass = laws[0][levels[:, 0]] * laws[1][levels[:, 1]] * laws[2][levels[:, 2]]
    wanted = count_law(sum(graph), scale_count)
    found = np.zeros(8)
    for index, out in enumerate(GRAPHS):
        size = sum(out)
        if size == 0:
            found[index] = wanted[0]
            continue
        last = np.sort(levels, axis=1)[:, 3 - size][:, None]
        above, equal, chosen = levels > last, levels == last, np.array(out, dtype=bool)
        fits = ~(above & ~chosen).any(1) & ~((levels < last) & chosen).any(1)
        needed = size - above.sum(1)
        ways = np.array([[math.comb(n, k) for k in range(4)] for n in range(4)])
        found[index] = wanted[size] * (mass * fits / ways[equal.sum(1), needed]).sum()
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    return found


@pytest.mark.parametrize("grid", [0.5, 1.0, 2.0])
def test_kept_cells_of_neighbours_differ_by_at_most_e_to_the_epsilon(grid: float) -> None:
    """Coarse grids, where most values are equal: who wins a tie must not tell an edge from a gap."""
    for_count, for_cells = 0.4, 1.1
    laws = [top_law(g, LONGER / for_count, LONGER / for_cells, grid) for g in GRAPHS]
    ratios = [(laws[i] / laws[j]).max() for i, j in neighbours()]
    assert max(ratios) <= math.exp(for_count + for_cells)
    assert max(ratios) > math.exp(0.5 * for_cells)


@pytest.mark.parametrize("grid", [0.5, 2.0])
@pytest.mark.parametrize("graph", [(0, 0, 0), (1, 0, 0), (1, 1, 0)])
def test_the_sampler_follows_the_exact_law_of_kept_cells(monkeypatch, grid, graph) -> None:
    monkeypatch.setattr(exact_cells, "grid_of", lambda scale: grid)
    rng, runs = np.random.default_rng(2), 4000
    seen = seen_of(
        lambda: laplace_top_cells(
            pairs_of(graph), 3, epsilon_count=0.4, epsilon_cells=1.1, rng=rng, exactly=True
        ),
        runs,
    )
    expected = runs * top_law(graph, LONGER / 0.4, LONGER / 1.1, grid)
    assert stats.chisquare(seen, expected).pvalue > 1e-6


def test_a_release_keeps_cells_as_often_as_a_study() -> None:
    pairs = np.array([[0, 0, 1, 2, 4], [1, 2, 2, 3, 5]])
    rng, runs, kept = np.random.default_rng(3), 3000, []
    for exactly in (False, True):
        total = np.zeros((6, 6))
        for _ in range(runs):
            out = laplace_top_cells(
                pairs, 6, epsilon_count=1.0, epsilon_cells=1.5, rng=rng, exactly=exactly
            )
            assert (np.diff(out[0] * 6 + out[1]) > 0).all()  # the order tells nothing
            total[out[0], out[1]] += 1
        kept.append(total[np.triu_indices(6, 1)] / runs)
    assert np.abs(kept[0] - kept[1]).max() < 5 * math.sqrt(0.5 / runs)


# fewer drawn than are wanted takes the rare way, where the rest is drawn below the level
@pytest.mark.parametrize("drawn", [None, 1, 3])
@pytest.mark.parametrize("rank", [1, 4])
def test_the_largest_of_many_gaps_have_the_law_of_all_of_them(monkeypatch, drawn, rank) -> None:
    if drawn is not None:
        monkeypatch.setattr(exact_cells, "_drawn", lambda wanted: drawn)
    count, scale, grid, runs = 700, 1.3, 0.5, 2000
    rng, seen = np.random.default_rng(4), []
    for _ in range(runs):
        values = exact_cells.largest_gaps(count, rank, scale, grid, rng=rng)
        assert rank <= len(values) <= count
        seen.append(np.sort(values)[-rank])
    levels = np.arange(8, 40)
    # the rank-th largest is at least a level where that many of all are
    tail = np.exp(-(levels - 0.5) * grid / scale) / 2
    at_least = np.concatenate([[1.0], stats.binom.sf(rank - 1, count, tail), [0.0]])
    expected = -runs * np.diff(at_least)
    bins = np.concatenate([[-np.inf], (levels - 0.5) * grid, [np.inf]])
    found, _ = np.histogram(seen, bins)
    common = expected >= 5
    both = [np.append(x[common], x[~common].sum()) for x in (found, expected)]
    assert stats.chisquare(*both).pvalue > 1e-6


def test_far_values_are_drawn_for_a_large_graph_alone() -> None:
    rng = np.random.default_rng(5)
    kept, gaps = exact_cells.largest_cells(5000, 2 * 10**10, 5000, 0.05, rng=rng)
    # at 0.88 the tails of both say 4,773 edges and 227 gaps
    assert kept.sum() + gaps == 5000
    assert 150 < gaps < 320
    values = exact_cells.largest_gaps(2 * 10**10, 0, 1.0, 2.0**-20, rng=rng)
    assert 100 < len(values) < 400
    assert values.min() == pytest.approx(math.log(2e10 / 400), abs=0.3)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-3, 745.0, 1e6, 1e12])
def test_laplace_noise_of_extreme_epsilons_is_drawn(epsilon: float) -> None:
    pairs = np.array([[0, 0, 1, 2, 4], [1, 2, 2, 3, 5]])
    rng = np.random.default_rng(6)
    out = laplace_top_cells(
        pairs, 6, epsilon_count=epsilon, epsilon_cells=epsilon, rng=rng, exactly=True
    )
    if epsilon > 1:
        assert np.array_equal(out, pairs)
    assert exact_cells.noisy_count(5429, 1e-9, rng=rng) == 5429
    assert 0 < noisy_density(5, 15, 1e-6, rng=rng, exactly=True) * 15 == 5

"""Perturbed graphs: sparse draws have the law of the dense definition, and pure epsilon holds exactly."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.pertgraph import method as pertgraph
from dpgnn.methods.shared import exact_cells
from dpgnn.methods.shared import noisy_graph as _perturb_graph
from dpgnn.methods.shared.noisy_graph import (
    block_response,
    keep_density,
    laplace_top_cells,
    largest_laplace,
    noisy_density,
    num_cells,
    random_gaps,
    randomized_response,
)
from dpgnn.methods.shared.undirected import symmetric_adjacency, undirected_pairs

PAIRS = np.array([[0, 0, 1, 2, 4], [1, 2, 2, 3, 5]])
NODES = 6


def dense(pairs: np.ndarray) -> np.ndarray:
    return symmetric_adjacency(pairs, NODES).toarray()


def test_every_cell_is_answered_with_its_own_probability() -> None:
    runs, total = 4000, np.zeros((NODES, NODES))
    rng = np.random.default_rng(0)
    for _ in range(runs):
        total += dense(randomized_response(PAIRS, NODES, one_if_one=0.7, one_if_zero=0.2, rng=rng))
    expected = np.where(dense(PAIRS) > 0, 0.7, 0.2)
    upper = np.triu_indices(NODES, 1)
    assert np.abs(total[upper] / runs - expected[upper]).max() < 4 * math.sqrt(0.25 / runs)


def test_answers_of_different_cells_are_independent() -> None:
    runs, rng = 4000, np.random.default_rng(1)
    upper = np.triu_indices(NODES, 1)
    rows = np.array(
        [
            dense(randomized_response(PAIRS, NODES, one_if_one=0.6, one_if_zero=0.3, rng=rng))[
                upper
            ]
            for _ in range(runs)
        ]
    )
    correlation = np.corrcoef(rows.T) - np.eye(rows.shape[1])
    assert np.abs(correlation).max() < 5 / math.sqrt(runs)


@pytest.mark.parametrize("count", [1, 3, 10])
def test_random_gaps_are_uniform_and_never_edges(count: int) -> None:
    rng, runs = np.random.default_rng(2), 3000
    gaps = set(itertools.combinations(range(NODES), 2)) - set(map(tuple, PAIRS.T.tolist()))
    seen = dict.fromkeys(gaps, 0)
    for _ in range(runs):
        drawn = [tuple(pair) for pair in random_gaps(PAIRS, NODES, count, rng=rng).T.tolist()]
        assert len(set(drawn)) == count
        for pair in drawn:
            seen[pair] += 1
    frequencies = np.array(list(seen.values())) / runs
    assert np.abs(frequencies - count / len(gaps)).max() < 4.5 * math.sqrt(0.25 / runs)


def test_largest_laplace_draws_have_the_law_of_sorted_draws() -> None:
    rng, runs = np.random.default_rng(3), 3000
    direct = -np.sort(-rng.laplace(0, 2.0, size=(runs, 40)), axis=1)[:, :30]
    lazy = np.stack([largest_laplace(40, 30, 2.0, rng=rng) for _ in range(runs)])
    assert (np.diff(lazy, axis=1) <= 0).all()
    for rank in (0, 5, 19, 29):
        assert stats.ks_2samp(direct[:, rank], lazy[:, rank]).pvalue > 1e-3


def test_lapgraph_keeps_cells_as_often_as_the_dense_definition() -> None:
    rng, runs = np.random.default_rng(4), 4000
    upper = np.triu_indices(NODES, 1)
    truth = dense(PAIRS)[upper]
    kept, sizes = np.zeros(len(truth)), []
    expected, expected_sizes = np.zeros(len(truth)), []
    for _ in range(runs):
        cells = dense(
            laplace_top_cells(PAIRS, NODES, epsilon_count=1.0, epsilon_cells=1.5, rng=rng)
        )[upper]
        kept += cells
        sizes.append(cells.sum())
        wanted = int(np.clip(round(5 + rng.laplace(0, 1.0)), 0, len(truth)))
        order = np.argsort(-(truth + rng.laplace(0, 1 / 1.5, size=len(truth))))
        expected[order[:wanted]] += 1
        expected_sizes.append(wanted)
    assert np.abs(kept - expected).max() / runs < 5 * math.sqrt(0.5 / runs)
    assert abs(np.mean(sizes) - np.mean(expected_sizes)) < 0.3


def test_the_density_rule_gives_back_about_as_many_edges() -> None:
    for density, truth in ((0.001, 0.9), (0.05, 0.99), (0.3, 0.7)):
        keep = keep_density(density, truth)
        out = keep * (density * truth + (1 - density) * (1 - truth))
        assert out == pytest.approx(density, rel=1e-9)
    assert keep_density(-1.0, 0.9) < 1e-10  # a negative noisy density keeps next to nothing


@pytest.mark.parametrize("exactly", [False, True])
def test_published_blocks_answer_both_directions_apart(exactly: bool) -> None:
    adjacency = sp.csr_array(symmetric_adjacency(PAIRS, NODES))
    rng = np.random.default_rng(5)
    different = 0
    for _ in range(50):
        answers = block_response(
            adjacency, scale=1e-9, truth=0.75, block_rows=4, noise_rng=rng, rng=rng, exactly=exactly
        ).toarray()
        different += int((answers != answers.T).any())
    assert different > 40


# --- plans


def plan_of(name: str, mode: str, epsilon: float, num_nodes: int = 2708, **options) -> Plan:  # type: ignore[no-untyped-def]
    method = methods.get(name)
    entry = Entry(
        name=name, method=name, mode=mode, privacy_unit="edge", relation="add-remove",  # type: ignore[arg-type]
        options=strict.read(method.config, options),
    )  # fmt: skip
    facts = Facts(
        num_nodes=num_nodes, num_train=100, num_features=10, num_classes=2, task="multiclass"
    )
    return method.plan(entry, facts, Budget(epsilon=epsilon, delta=1e-5))


@pytest.mark.parametrize("name", ["edgerand", "lapgraph", "pertgraph"])
def test_composed_mechanisms_spend_at_most_epsilon(name: str) -> None:
    from dpgnn.accountants.composition import epsilon as composed
    from dpgnn.accountants.events import compose_all

    plan = plan_of(name, "sound", 4.0, num_nodes=60)
    (claim,) = plan.claims
    assert (claim.status, claim.delta, claim.epsilon) == ("proved", 0.0, 4.0)
    whole = compose_all(*(mechanism.event for mechanism in plan.mechanisms))
    spent = composed(whole, delta=1e-9, relation="add-remove")
    assert 3.5 < spent <= 4.0 + 1e-3  # the grid of losses rounds up


@pytest.mark.parametrize("name", ["edgerand", "pertgraph"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0, 32.0, 36.0, 40.0, 100.0])
def test_answers_spend_no_more_than_claimed_when_rounded(name: str, epsilon: float) -> None:
    plan = plan_of(name, "sound", epsilon, num_nodes=10)
    (event,) = (m.event for m in plan.mechanisms if hasattr(m.event, "one_if_one"))
    share = epsilon if name == "edgerand" else 0.9 * epsilon
    one, zero = Fraction(event.one_if_one), Fraction(event.one_if_zero)
    assert one + zero == 1
    # doubles are exact fractions; e^share from below by its series
    assert one / zero <= Fraction(math.exp(min(share, 40.0))) * (1 - Fraction(1, 2**52))
    assert math.log(one / zero) > min(share, 34.0) - 0.02


@pytest.mark.parametrize(
    ("name", "share"),
    [("lapgraph", 1e-12),
     *itertools.product(["lapgraph", "pertgraph"], [2.0**-20, 0.01, 0.37, 0.99])],
)  # fmt: skip
def test_a_release_spends_at_most_epsilon_in_exact_numbers(
    monkeypatch: pytest.MonkeyPatch, name: str, share: float
) -> None:
    """Fractions of the scales and rates that the draws themselves use: no division has rounded too far."""
    import mpmath

    scales: list[Fraction] = []
    real = exact_cells.add_rounded

    def spy(total: np.ndarray, scale: float, **named: Any) -> np.ndarray:
        if len(total):
            scales.append(Fraction(scale))
        return real(total, scale, **named)

    monkeypatch.setattr(exact_cells, "add_rounded", spy)
    option = {"lapgraph": "count_share", "pertgraph": "density_share"}[name]
    for epsilon in np.random.default_rng(7).uniform(0.01, 100, 40).tolist():
        plan = plan_of(name, "sound", epsilon, num_nodes=100, **{option: share})
        rng, spent = np.random.default_rng(0), mpmath.mpf(0)
        scales.clear()
        first = plan.mechanisms[0].details["scale"]
        if name == "lapgraph":
            cells = plan.mechanisms[1].details["scale"]
            laplace_top_cells(
                PAIRS, 100, epsilon_count=1 / first, epsilon_cells=1 / cells, rng=rng, exactly=True
            )
        else:
            noisy_density(len(PAIRS), num_cells(100), first, rng=rng, exactly=True)
        with mpmath.workprec(300):
            for scale in set(scales):
                spent += mpmath.mpf(scale.denominator) / scale.numerator
            if name == "pertgraph":
                event: Any = plan.mechanisms[1].event
                ratio = Fraction(event.one_if_one) / Fraction(event.one_if_zero)
                spent += mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            assert len(set(scales)) == (2 if name == "lapgraph" else 1)
            assert epsilon * (1 - 1e-8) - 64 < spent <= mpmath.mpf(epsilon)


def test_a_density_share_without_room_for_rounding_is_refused() -> None:
    with pytest.raises(ValueError, match=r"density_share must be >= 2\^-20"):
        strict.read(methods.get("pertgraph").config, {"density_share": 1e-7})


def test_the_published_pertgraph_spends_many_times_its_epsilon() -> None:
    stated, proved = plan_of("pertgraph", "published", 1.0).claims
    assert stated.epsilon == 1.0
    assert set(stated.caveats) == {"two-directions-perturbed", "density-noise-scale"}
    # two answers of 0.9 and two densities of a block of 208 rows: 0.1 N/208 each
    assert proved.epsilon == pytest.approx(1.8 + 2 * 0.1 * 2708 / 208)
    assert pertgraph.published_spends(501, 500, 0.0, 0.9) == pytest.approx(1.8)


def test_published_spending_is_what_the_worst_edge_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses of the densities and answers that the mechanism itself makes, for every pair of 7 nodes."""
    num_nodes, rows, for_density, for_edges = 7, 3, 0.2, 1.0
    scale, truth = 1 / (num_nodes**2 * for_density), 1 / (1 + math.exp(-for_edges))
    edges = dense(PAIRS)

    def densities_and_cells(adjacency: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        seen: list[float] = []
        silent = SimpleNamespace(laplace=lambda mean, scale: mean)

        def spy(density: float, keep: float) -> float:
            assert keep == truth
            seen.append(density)
            return keep_density(density, keep)

        monkeypatch.setattr(_perturb_graph, "keep_density", spy)
        block_response(
            sp.csr_array(adjacency), scale=scale, truth=truth, block_rows=rows,
            noise_rng=silent, rng=np.random.default_rng(0),  # type: ignore[arg-type]
        )  # fmt: skip
        return np.array(seen), adjacency

    whole = np.zeros((num_nodes, num_nodes))
    whole[:NODES, :NODES] = edges
    losses = []
    for u, v in itertools.combinations(range(num_nodes), 2):
        other = whole.copy()
        other[u, v] = other[v, u] = 1 - other[u, v]
        (first, cells), (second, changed) = densities_and_cells(whole), densities_and_cells(other)
        assert len(first) == 3
        answers = np.abs(cells - changed).sum() * math.log(truth / (1 - truth))
        losses.append(np.abs(first - second).sum() / scale + answers)
    spent = pertgraph.published_spends(num_nodes, rows, for_density, for_edges)
    assert max(losses) == pytest.approx(spent)


def test_pertgraph_without_an_encoder_is_refused_before_it_runs() -> None:
    with pytest.raises(ValueError, match=r"head\.encoder_layers must be >= 1, got 0"):
        strict.read(methods.get("pertgraph").config, {"head": {"encoder_layers": 0}})


def test_a_graph_too_large_for_the_answers_is_refused_from_public_facts() -> None:
    with pytest.raises(ValueError, match=r"perturbed edges must be <=.* 27 % of all"):
        plan_of("edgerand", "sound", 1.0, num_nodes=200_000)
    assert plan_of("lapgraph", "sound", 1.0, num_nodes=200_000).claims


def test_directed_edges_and_loops_become_pairs_once() -> None:
    edges = np.array([[0, 1, 2, 2], [1, 0, 2, 0]])
    assert undirected_pairs(edges, 3).T.tolist() == [[0, 1], [0, 2]]
    assert num_cells(3) == 3

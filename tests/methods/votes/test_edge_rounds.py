"""Theorem 13 by brute force: every pair of small graphs, through the function that a run calls."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from contract import DELTA, EPSILON, entry_of
from exhaustive.method_neighbours import MechanismReport, examine_method

from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Support
from dpgnn.methods.releases import noised
from dpgnn.methods.shared.undirected import symmetric_adjacency
from dpgnn.methods.votes import edge_fit, edge_rounds
from dpgnn.methods.votes.board import vote_vectors
from dpgnn.methods.votes.edge_fit import soft_votes
from dpgnn.methods.votes.edge_rounds import Messages, second_sums, two_rounds

SIZE, CLASSES = 9, 3
LABELLED = np.arange(SIZE) < 5


def graph_of(seed: int) -> sp.csr_array:
    """Random edges; node 8 has none."""
    rng = np.random.default_rng(seed)
    pairs = np.array(list(itertools.combinations(range(SIZE - 1), 2))).T
    return symmetric_adjacency(pairs[:, rng.random(pairs.shape[1]) < 0.4], SIZE)


def toggled(adjacency: sp.csr_array, u: int, v: int) -> sp.csr_array:
    dense = adjacency.toarray()
    dense[[u, v], [v, u]] = 1 - dense[u, v]
    return sp.csr_array(dense)


def votes_of(seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 1])
    votes = soft_votes(rng.dirichlet(np.full(CLASSES, 0.3), SIZE))
    votes[LABELLED] = vote_vectors(rng.integers(CLASSES, size=int(LABELLED.sum())), CLASSES)
    return votes


def learn(first: np.ndarray) -> Messages:
    """Sharp in what is read, so that a small move of it moves the message far."""
    weight = np.random.default_rng(7).standard_normal((CLASSES, CLASSES))

    def messages(senders: np.ndarray, read: np.ndarray) -> np.ndarray:
        logits = 10 * (read + first.mean(axis=0)) @ weight + senders[:, None] % CLASSES
        exponentials = np.exp(logits - logits.max(axis=1, keepdims=True))
        return soft_votes(exponentials / exponentials.sum(axis=1, keepdims=True))

    return messages


def entering(adjacency: sp.csr_array, votes: np.ndarray, seed: int) -> list[np.ndarray]:
    """What gets noise in each round; what is released is fixed."""
    seen: list[np.ndarray] = []

    def fixed(value: np.ndarray, noise_stddev: float, draw: Any, step: int = 1) -> np.ndarray:
        seen.append(value.copy())
        return np.random.default_rng([seed, step]).standard_normal(value.shape)

    def never(step: int, shape: tuple[int, int]) -> np.ndarray:
        raise AssertionError("noise is fixed here")

    with noised.answered_by(fixed):
        two_rounds(adjacency, votes, LABELLED, 1.0, never, learn)
    return seen


@pytest.mark.parametrize("seed", range(3))
def test_an_edge_moves_its_two_rows_and_each_round_by_at_most_sqrt_2(seed: int) -> None:
    adjacency, votes = graph_of(seed), votes_of(seed)
    before, largest = entering(adjacency, votes, seed), [0.0, 0.0]
    for u, v in itertools.combinations(range(SIZE), 2):
        after = entering(toggled(adjacency, u, v), votes, seed)
        assert len(before) == len(after) == 2
        for number, (a, b) in enumerate(zip(before, after)):
            rows = np.linalg.norm(a - b, axis=1)
            np.testing.assert_allclose(np.delete(rows, [u, v]), 0.0, atol=1e-12)
            assert (rows <= 1 + 1e-12).all()
            largest[number] = max(largest[number], float(np.linalg.norm(rows)))
    assert largest == pytest.approx([math.sqrt(2)] * 2), "two labelled ends attain it"


def test_no_vote_comes_back_to_its_sender() -> None:
    """Without noise, what u writes to v is the same whatever v voted."""
    adjacency, votes = graph_of(0), votes_of(0)
    messages = learn(np.zeros((SIZE, CLASSES)))
    receiver, other = 2, votes.copy()
    other[receiver] = -votes[receiver]
    found = [
        second_sums(adjacency, side, LABELLED, adjacency @ side, messages)[receiver]
        for side in (votes, other)
    ]
    assert adjacency[[receiver]][:, ~LABELLED].sum() > 0
    np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    # had it not been taken out, it would
    left_in = [
        sum(messages(np.array([u]), (adjacency @ side)[[u]])[0] for u in (5, 6, 7))
        for side in (votes, other)
    ]
    assert np.abs(left_in[0] - left_in[1]).max() > 1e-2


def test_chunks_do_not_change_the_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency, votes = graph_of(1), votes_of(1)
    released = np.random.default_rng(0).standard_normal((SIZE, CLASSES))
    given = (adjacency, votes, LABELLED, released, learn(released))
    whole = second_sums(*given)
    monkeypatch.setattr(edge_rounds, "CHUNK", 3)
    np.testing.assert_allclose(second_sums(*given), whole, atol=1e-13)
    dense, loop = adjacency.toarray(), np.zeros((SIZE, CLASSES))
    for u, v in zip(*np.nonzero(dense)):
        read = released[[u]] - votes[[v]]
        loop[v] += votes[u] if LABELLED[u] else given[4](np.array([u]), read)[0]
    np.testing.assert_allclose(whole, loop, atol=1e-13)


def test_sums_of_a_release_do_not_depend_on_the_order_of_edges() -> None:
    """Cut messages add up without rounding, so that nodes numbered anew have the same sums to the bit."""
    everyone = sp.csr_array(1.0 - np.eye(SIZE))
    rng = np.random.default_rng(0)
    votes, released = soft_votes(rng.dirichlet(np.ones(CLASSES), SIZE)), np.zeros((SIZE, CLASSES))
    nobody = np.zeros(SIZE, dtype=np.bool_)

    def sums(order: np.ndarray, **how: bool) -> np.ndarray:
        def messages(senders: np.ndarray, read: np.ndarray) -> np.ndarray:
            return votes[order[senders]]

        found = second_sums(everyone, votes[order], nobody, released, messages, **how)
        return found[np.argsort(order)]

    orders = [rng.permutation(SIZE) for _ in range(20)]
    assert len({sums(order).tobytes() for order in orders}) > 1
    assert len({sums(order, exact=True).tobytes() for order in orders}) == 1
    np.testing.assert_allclose(sums(orders[0], exact=True), sums(orders[0]), atol=1e-7)


def test_a_vote_longer_than_one_is_refused() -> None:
    with pytest.raises(ValueError, match="votes must lie in the unit ball"):
        two_rounds(graph_of(0), 2 * votes_of(0), LABELLED, 1.0, lambda *_: np.zeros(1), learn)


def test_a_star_of_four_nodes_by_hand() -> None:
    adjacency = symmetric_adjacency(np.array([[0, 1, 1], [1, 2, 3]]), 4)
    votes = vote_vectors(np.array([0, 1, 0, 0]), 2)
    votes[3] = soft_votes(np.array([0.8, 0.2]))
    sums = adjacency @ votes
    low = [-0.707107, 0.707107]
    np.testing.assert_allclose(sums, [low, [1.838478, -1.838478], low, low], atol=1e-6)
    less = toggled(adjacency, 1, 3) @ votes
    assert np.linalg.norm(sums - less) == pytest.approx(1.166190, abs=1e-6)


# ---- each refused variant, planted in the running code, fails the audit of neighbours ----------------------


def examined() -> MechanismReport:
    entry = entry_of("votes", "sound", Support(privacy_unit="edge", relation="add-remove"))
    (report,) = examine_method(entry, Budget(epsilon=EPSILON, delta=DELTA), max_neighbours=20)
    return report


def reads_true_sums(real: Any) -> Any:
    """The second round's messages read the first sums without their noise."""

    def sums(
        adjacency: Any, votes: Any, labelled: Any, released: Any, *rest: Any, **how: Any
    ) -> Any:
        return real(adjacency, votes, labelled, adjacency @ votes, *rest, **how)

    return sums


def reads_degrees(real: Any) -> Any:
    """Senders of odd degree, which nobody has released, write the opposite."""

    def sums(adjacency: Any, votes: Any, *rest: Any, **how: Any) -> Any:
        odd = np.diff(adjacency.indptr) % 2
        return real(adjacency, votes * (1 - 2 * odd)[:, None], *rest, **how)

    return sums


def counts_an_edge_twice(real: Any) -> Any:
    return lambda adjacency, *rest, **how: real(2 * adjacency, *rest, **how)


def trains_on_degrees(real: Any) -> Any:
    """The first head is trained on rows with the degree of their node."""

    def train(run: Any, rows: Any, *rest: Any) -> Any:
        degree = np.bincount(run.graph.edge_index[0], minlength=run.graph.num_nodes)
        rows = rows.copy()
        rows[:, -1] += degree
        return real(run, rows, *rest)

    return train


FAULTS: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "sums without noise": (reads_true_sums, edge_rounds, "second_sums"),
    "an unreleased degree": (reads_degrees, edge_rounds, "second_sums"),
    "an edge counted twice": (counts_an_edge_twice, edge_rounds, "second_sums"),
    "a head that reads degrees": (trains_on_degrees, edge_fit, "train_head"),
}


def test_the_code_as_it_is_moves_as_far_as_is_counted() -> None:
    report = examined()
    assert report.faults == ()
    assert report.worst == pytest.approx(1.0), "of what is counted"


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, place, function = FAULTS[name]
    monkeypatch.setattr(place, function, plant(getattr(place, function)))
    report = examined()
    assert report.faults, report

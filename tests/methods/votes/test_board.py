"""Theorem 12 checked by brute force: every record and every edge of small directed graphs."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.methods.votes import board as board_module
from dpgnn.methods.votes.board import (
    clipped,
    noisy_board,
    own_lists,
    pushed,
    read,
    shortened,
    vote_vectors,
)
from dpgnn.samplers.hashing import draw_key

SIZE, CLASSES = 12, 3
EMPTY, HUB, MENTIONED = 3, 0, 4


def directed(seed: int) -> np.ndarray:
    """Random arcs with a hub, an empty list, duplicates, loops, and mentions that go one way only."""
    rng = np.random.default_rng(seed)
    arcs = rng.integers(SIZE, size=(2, 40))
    hub = np.stack([np.full(SIZE, HUB), np.arange(SIZE)])
    arcs = np.concatenate([arcs, arcs[:, :5], hub], axis=1)
    arcs = arcs[:, arcs[0] != EMPTY]
    return arcs[:, (arcs[0] != MENTIONED) | (arcs[1] != HUB)]


def labels(seed: int) -> np.ndarray:
    return np.random.default_rng([seed, 1]).integers(CLASSES, size=SIZE)


TRAIN = np.arange(9)


def lists_of(arcs: np.ndarray) -> sp.csr_array:
    return own_lists(arcs, SIZE, np.arange(SIZE)).astype(float)


def board_of(
    arcs: np.ndarray, train: np.ndarray, y: np.ndarray, classes: int = CLASSES
) -> np.ndarray:
    return pushed(arcs, SIZE, train, vote_vectors(y[train], classes))


@pytest.mark.parametrize("seed", range(5))
def test_a_record_moves_the_board_by_one_whatever_its_degree(seed: int) -> None:
    arcs, y = directed(seed), labels(seed)
    whole, lists = board_of(arcs, TRAIN, y), lists_of(arcs)
    for node in range(SIZE):
        without = board_of(arcs[:, arcs[0] != node], TRAIN[node != TRAIN], y)
        emptied = board_of(arcs[:, arcs[0] != node], TRAIN, y)
        pushes = node in TRAIN and lists[[node]].sum() > 0
        for other in (without, emptied):
            assert np.linalg.norm(whole - other) == pytest.approx(float(pushes), abs=1e-12)
    assert lists[[EMPTY]].sum() == 0
    assert lists[[HUB]].sum() == SIZE - 1


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_a_replaced_record_moves_the_board_by_at_most_what_is_counted(classes: int) -> None:
    from dpgnn.methods.votes.plan import sensitivity

    rng, worst, bound = np.random.default_rng(0), 0.0, sensitivity("replace-one", classes)
    arcs, y = directed(1), rng.integers(classes, size=SIZE)
    whole = board_of(arcs, TRAIN, y, classes)
    for node in TRAIN:
        rest, own = arcs[:, arcs[0] != node], arcs[:, arcs[0] == node]
        for trial in range(30):
            other = y.copy()
            other[node] = rng.integers(classes)
            chosen = rng.choice(SIZE, rng.integers(SIZE), replace=False)
            new = own if trial % 2 else np.stack([np.full(len(chosen), node), chosen])
            changed = board_of(np.concatenate([rest, new], axis=1), TRAIN, other, classes)
            worst = max(worst, float(np.linalg.norm(whole - changed)))
    assert worst <= bound * (1 + 1e-12)
    assert worst == pytest.approx(bound), "the same list with another label attains it"


@pytest.mark.parametrize("seed", range(5))
def test_others_read_through_released_rows_only(seed: int) -> None:
    arcs, y = directed(seed), labels(seed)
    board = np.random.default_rng(seed).standard_normal((SIZE, CLASSES))
    votes = np.zeros((SIZE, CLASSES))
    votes[TRAIN] = vote_vectors(y[TRAIN], CLASSES)
    before = read(lists_of(arcs), np.arange(SIZE), votes, board)
    for node in range(SIZE):
        other = votes.copy()
        other[node] = 0.0
        after = read(lists_of(arcs[:, arcs[0] != node]), np.arange(SIZE), other, board)
        kept = np.arange(SIZE) != node
        np.testing.assert_array_equal(before[kept], after[kept])


def test_no_node_reads_its_own_vote_with_one_sided_mentions() -> None:
    arcs, y = directed(0), labels(0)
    lists = lists_of(arcs)
    for node in TRAIN:
        alone = pushed(arcs, SIZE, np.array([node]), vote_vectors(y[[node]], CLASSES))
        heard, own = read(lists[[node]], np.array([node]), vote_vectors(y[[node]], CLASSES), alone)[
            0
        ]
        np.testing.assert_allclose(heard, 0.0, atol=1e-12)
        assert not own.any(), "nobody stands in its own list"


# ---- each refused variant of docs/methods/votes.md moves the board, or another node's read, too far -------


def _scaled(arcs: np.ndarray, train: np.ndarray, y: np.ndarray, weight: sp.csr_array) -> np.ndarray:
    return np.asarray(sp.csr_array(weight[train]).T @ vote_vectors(y[train], CLASSES))


def _receiver_degree(arcs: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """A push divided by the receivers' degrees, too."""
    lists = lists_of(arcs)
    degree = np.maximum(np.asarray(lists.sum(axis=1)).ravel(), 1.0)
    return _scaled(arcs, train, y, sp.csr_array(lists.multiply(1 / np.sqrt(degree)[None, :])))


def _capped_by_receiver(arcs: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Each row takes its first two voters only."""
    lists = lists_of(arcs).toarray()
    lists[np.setdiff1d(np.arange(SIZE), train)] = 0
    kept = lists * (np.cumsum(lists, axis=0) <= 2)
    degree = np.maximum(lists.sum(axis=1), 1.0)
    return _scaled(arcs, train, y, sp.csr_array(kept / np.sqrt(degree)[:, None]))


def _mutual(arcs: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Pushes along mutual edges only, each divided by their number."""
    lists = lists_of(arcs)
    both = sp.csr_array(lists.multiply(lists.T))
    return pushed(np.stack(both.nonzero()), SIZE, train, vote_vectors(y[train], CLASSES))


def _mean_of_voters(arcs: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Rows divided by their true number of voters, pushes of norm 1."""
    lists = lists_of(arcs)
    voters = np.maximum(np.asarray(lists[train].sum(axis=0)).ravel(), 1.0)
    return _scaled(arcs, train, y, lists) / voters[:, None]


def _not_distinct(arcs: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """An id that stands twice in a list gets two pushes, divided as if it stood there once."""
    counts = sp.csr_array((np.ones(arcs.shape[1]), (arcs[0], arcs[1])), shape=(SIZE, SIZE))
    degree = np.maximum(np.diff(lists_of(arcs).indptr), 1)
    return _scaled(arcs, train, y, sp.csr_array(counts.multiply(1 / np.sqrt(degree)[:, None])))


FAULTS = [_receiver_degree, _capped_by_receiver, _mutual, _mean_of_voters, _not_distinct]


def largest_change(board, relation: str = "add-remove") -> float:  # type: ignore[no-untyped-def]
    """Over the records of five graphs, removed with their lists."""
    worst = 0.0
    for seed in range(5):
        arcs, y = directed(seed), labels(seed)
        whole = board(arcs, TRAIN, y)
        for node in range(SIZE):
            other = board(arcs[:, arcs[0] != node], TRAIN[node != TRAIN], y)
            worst = max(worst, float(np.linalg.norm(whole - other)))
    return worst


def test_brute_force_passes_what_is_built() -> None:
    assert largest_change(board_of) == pytest.approx(1.0)


@pytest.mark.parametrize("board", FAULTS, ids=lambda board: board.__name__)
def test_brute_force_finds_what_reads_another_record(board) -> None:  # type: ignore[no-untyped-def]
    assert largest_change(board) > 1 + 1e-6


def test_brute_force_finds_a_read_with_anothers_list() -> None:
    """A node that reads who mentions it reads the lists of others."""
    arcs, board = directed(0), np.random.default_rng(0).standard_normal((SIZE, CLASSES))
    votes = np.zeros((SIZE, CLASSES))
    before = read(sp.csr_array(lists_of(arcs).T), np.arange(SIZE), votes, board)
    moved = []
    for node in range(SIZE):
        fewer = sp.csr_array(lists_of(arcs[:, arcs[0] != node]).T)
        after = read(fewer, np.arange(SIZE), votes, board)
        moved.append(np.abs(np.delete(before - after, node, axis=0)).max())
    assert max(moved) > 1e-3


def test_brute_force_finds_a_clip_at_an_observed_quantile() -> None:
    """The median norm of what all nodes read moves with one record, and every clipped read with it."""
    arcs, board = directed(0), np.random.default_rng(0).standard_normal((SIZE, CLASSES))
    votes = np.zeros((SIZE, CLASSES))

    def reads(arcs: np.ndarray) -> np.ndarray:
        found = read(lists_of(arcs), np.arange(SIZE), votes, board)
        return clipped(found, float(np.median(np.linalg.norm(found[:, 0], axis=1))))

    before = reads(arcs)
    moved = [
        np.abs(np.delete(before - reads(arcs[:, arcs[0] != node]), node, axis=0)).max()
        for node in range(SIZE)
    ]
    assert max(moved) > 1e-3


# ---- numbers ---------------------------------------------------------------------------------------------

STAR = np.array([[0, 1, 1, 1, 2, 3], [1, 0, 2, 3, 1, 1]])
STAR_Y = np.array([0, 1, 0, 0])


def test_a_star_of_four_nodes_by_hand() -> None:
    train = np.array([0, 1, 2])
    votes = np.zeros((4, 2))
    votes[train] = vote_vectors(STAR_Y[train], 2)
    assert votes[0].tolist() == pytest.approx([0.707107, -0.707107], abs=1e-6)
    board = pushed(STAR, 4, train, votes[train])
    low, high = [-0.408248, 0.408248], [1.414214, -1.414214]
    np.testing.assert_allclose(board, [low, high, low, low], atol=1e-6)
    heard = read(own_lists(STAR, 4, np.arange(4)), np.arange(4), votes, board)[:, 0]
    one = [0.707107, -0.707107]
    np.testing.assert_allclose(heard, [one, [0, 0], one, high], atol=1e-6)
    less = pushed(STAR, 4, train[[0, 2]], votes[[0, 2]])
    np.testing.assert_allclose(less, [[0, 0], high, [0, 0], [0, 0]], atol=1e-6)
    assert np.linalg.norm(board - less) == pytest.approx(1.0)
    votes[1] *= -1
    assert np.linalg.norm(board - pushed(STAR, 4, train, votes[train])) == pytest.approx(2.0)


def test_votes_of_three_classes() -> None:
    votes = vote_vectors(np.arange(3), 3)
    assert votes[0].tolist() == pytest.approx([0.816497, -0.408248, -0.408248], abs=1e-6)
    assert np.linalg.norm(votes[0] - votes[1]) == pytest.approx(1.732051, abs=1e-6)


def test_what_is_read_is_clipped_by_a_public_constant() -> None:
    beta = 4 * 1.709467 * math.sqrt(2)
    assert beta == pytest.approx(9.670206, abs=1e-5)
    found = clipped(np.array([[3.0, -3.0], [9.0, -9.0]]), beta)
    np.testing.assert_allclose(found[:, 0], [0.310231, 0.707107], atol=1e-6)


def test_chunks_of_arcs_voters_and_rows_give_the_same_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arcs, y = directed(2), labels(2)
    votes = vote_vectors(y[TRAIN], CLASSES)
    whole, lists = pushed(arcs, SIZE, TRAIN, votes), lists_of(arcs)
    monkeypatch.setattr(board_module, "AT_ONCE", 4)
    monkeypatch.setattr(board_module, "ARCS_AT_ONCE", 7)
    pieces = [arcs[:, :20], arcs[:, 20:]]
    for given in (arcs, lambda: iter(pieces)):
        np.testing.assert_allclose(pushed(given, SIZE, TRAIN, votes), whole, atol=1e-14)
        found = own_lists(given, SIZE, np.arange(SIZE))
        np.testing.assert_array_equal(found.toarray(), lists.toarray())
    drawn: list[int] = []

    def draw(step: int, shape: tuple[int, int]) -> np.ndarray:
        drawn.append(step)
        return np.full(shape, float(step))

    released = noisy_board(whole, 2.0, draw)
    assert drawn == [1, 2, 3], "no draw is used twice"
    np.testing.assert_allclose(released[:4], whole[:4] + 2.0, rtol=1e-6)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_a_limit_keeps_some_ids_of_each_list_by_itself(most: int) -> None:
    arcs, key = directed(3), draw_key(np.random.default_rng(0))
    everyone = np.arange(SIZE)
    whole = shortened(own_lists(arcs, SIZE, everyone), everyone, most, key).toarray()
    full = lists_of(arcs).toarray()
    np.testing.assert_array_equal(whole.sum(axis=1), np.minimum(full.sum(axis=1), most))
    assert (whole <= full).all()
    for node in range(SIZE):
        alone = own_lists(arcs, SIZE, np.array([node]))
        kept = shortened(alone, np.array([node]), most, key).toarray()
        np.testing.assert_array_equal(kept[0], whole[node])

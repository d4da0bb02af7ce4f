import numpy as np
import pytest

from dpgnn.samplers.hashing import draw_key, pair_hash, pair_hashes


def grid(size=512):
    first, second = np.divmod(np.arange(size * size), size)
    return first, second


def test_no_two_pairs_of_one_key_have_the_same_hash():
    key = draw_key(np.random.default_rng(0))
    hashes = pair_hashes(key, *grid())
    assert len(np.unique(hashes)) == len(hashes)
    assert int(pair_hash(key, 3, 5)) == int(hashes[3 * 512 + 5])
    # the order of a pair matters
    assert int(pair_hash(key, 3, 5)) != int(pair_hash(key, 5, 3))


@pytest.mark.parametrize("shift", [0, 20, 56])
def test_bytes_of_the_hash_are_uniform_over_the_pairs_of_one_key(shift):
    hashes = pair_hashes(draw_key(np.random.default_rng(1)), *grid())
    counts = np.bincount(((hashes >> np.uint64(shift)) & np.uint64(255)).astype(int), minlength=256)
    expected = len(hashes) / 256
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert abs(statistic - 255) < 5 * np.sqrt(2 * 255)


def test_hashes_of_neighbouring_pairs_and_keys_are_uncorrelated():
    hashes = (
        pair_hashes(draw_key(np.random.default_rng(2)), *grid()).astype(float).reshape(512, 512)
    )
    other = pair_hashes(draw_key(np.random.default_rng(3)), *grid()).astype(float).reshape(512, 512)
    pairs = [
        (hashes[:-1], hashes[1:]),
        (hashes[:, :-1], hashes[:, 1:]),
        (hashes, hashes.T),
        (hashes, other),
    ]
    for first, second in pairs:
        off = ~np.eye(512, dtype=bool) if second is not other else np.ones((512, 512), bool)
        keep = off[: first.shape[0], : first.shape[1]]
        correlation = np.corrcoef(first[keep], second[keep])[0, 1]
        assert abs(correlation) < 5 / 512


def test_a_key_depends_on_the_generator_only():
    assert np.array_equal(draw_key(np.random.default_rng(5)), draw_key(np.random.default_rng(5)))
    assert draw_key(np.random.default_rng(5)).dtype == np.uint64

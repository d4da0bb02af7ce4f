import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn.core import storage
from dpgnn.samplers.rows import (
    cap_columns,
    clip_columns,
    rows_from_table,
    rows_of,
    top_k,
)


def random_rows(seed=0, num_roots=20, num_nodes=30, density=0.3):
    rng = np.random.default_rng(seed)
    dense = rng.random((num_roots, num_nodes)) * (rng.random((num_roots, num_nodes)) < density)
    return rows_of(sp.csr_array(dense), np.sort(rng.choice(num_nodes, num_roots, replace=False)))


def test_a_table_written_and_read_again_is_the_same(tmp_path):
    rows = random_rows()
    storage.write_parquet(tmp_path / "rows.parquet", rows.to_table(), row_group_size=3)
    again = rows_from_table(storage.read_parquet(tmp_path / "rows.parquet"), num_nodes=30)
    assert np.array_equal(again.roots, rows.roots)
    assert (again.matrix() != rows.matrix()).nnz == 0
    assert again.columns.dtype == np.int32


def test_top_k_keeps_the_largest_values_and_breaks_ties_by_id():
    rows = random_rows(1)
    dense, best = rows.matrix().toarray(), top_k(rows, 4).matrix().toarray()
    for full, kept in zip(dense, best):
        assert np.array_equal(np.sort(kept)[-4:], np.sort(full)[-4:])
        assert (kept[kept > 0] == full[kept > 0]).all()
    tied = rows_of(sp.csr_array(np.ones((1, 5))), np.array([0]))
    assert top_k(tied, 2).columns.tolist() == [0, 1]
    assert len(top_k(tied, 0).values) == 0


@settings(max_examples=300, deadline=None)
@given(seed=st.integers(0, 2**32), density=st.floats(0, 1), max_rows=st.integers(0, 6))
def test_no_column_stands_in_more_rows_than_the_cap(seed, density, max_rows):
    rows = random_rows(seed, density=density)
    capped = cap_columns(rows, max_rows, rng=np.random.default_rng(seed))
    before, after = rows.matrix().toarray(), capped.matrix().toarray()
    counts = (before > 0).sum(axis=0)
    assert np.array_equal((after > 0).sum(axis=0), np.minimum(counts, max_rows))
    assert (after[after > 0] == before[after > 0]).all()


def test_a_cap_chooses_every_row_equally_often():
    rows = rows_of(sp.csr_array(np.ones((6, 1))), np.arange(6))
    counts = np.zeros(6)
    for seed in range(3000):
        capped = cap_columns(rows, 2, rng=np.random.default_rng(seed))
        counts += np.diff(capped.pointer)
    # 3000 draws at probability 1/3: standard deviation 25.8
    assert np.abs(counts - 1000).max() < 5 * 25.8


def test_columns_are_clipped_down_or_rescaled_both_ways():
    rows = random_rows(2)
    norms = rows.matrix().toarray().sum(axis=0)
    clipped = clip_columns(rows, 2.0).matrix().toarray().sum(axis=0)
    assert clipped == pytest.approx(np.minimum(norms, 2.0))
    rescaled = clip_columns(rows, 2.0, rescale=True).matrix().toarray().sum(axis=0)
    assert rescaled[norms > 0] == pytest.approx(2.0)
    with pytest.raises(ValueError, match="max_norm must be > 0"):
        clip_columns(rows, 0.0)

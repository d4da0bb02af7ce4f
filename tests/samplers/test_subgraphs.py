import numpy as np
import pytest
from exhaustive.changed import changed_roots

from dpgnn.core import storage
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.subgraphs import Subgraphs, from_table

FIELDS = ("roots", "node_ptr", "nodes", "edge_ptr", "edge_source", "edge_target", "depth")


def random_sample(seed=0, num_nodes=60, num_hops=2):
    rng = np.random.default_rng(seed)
    arcs = np.argwhere(rng.random((num_nodes, num_nodes)) < 0.1).T
    sampler = OwnList(max_degree=3, num_hops=num_hops)
    return sampler.sample(arcs, num_nodes=num_nodes, train_idx=np.arange(0, num_nodes, 2), rng=rng)


def as_lists(sample, index):
    nodes = slice(sample.node_ptr[index], sample.node_ptr[index + 1])
    edges = slice(sample.edge_ptr[index], sample.edge_ptr[index + 1])
    return (
        int(sample.roots[index]),
        sample.nodes[nodes].tolist(),
        sample.depth[nodes].tolist(),
        sample.edge_source[edges].tolist(),
        sample.edge_target[edges].tolist(),
    )


def test_a_batch_holds_the_chosen_subgraphs_in_the_order_asked_for():
    sample = random_sample()
    chosen = np.array([7, 0, 7, 29])
    batch = sample.select(chosen)
    assert [as_lists(batch, i) for i in range(4)] == [as_lists(sample, int(i)) for i in chosen]
    assert batch.max_occurrences == sample.max_occurrences


def test_an_empty_batch_is_allowed():
    batch = random_sample().select(np.array([], dtype=np.int64))
    assert len(batch) == 0
    assert batch.edge_index().shape == (2, 0)


def test_a_position_outside_is_an_error():
    with pytest.raises(ValueError, match=r"0\.\.29"):
        random_sample().select(np.array([30]))


def test_the_batch_edge_index_stays_inside_each_subgraph():
    sample = random_sample()
    owner = np.repeat(np.arange(len(sample)), sample.num_nodes)
    source, target = sample.edge_index()
    assert np.array_equal(owner[source], owner[target])
    assert np.array_equal(
        owner[source], np.repeat(np.arange(len(sample)), np.diff(sample.edge_ptr))
    )


def test_a_table_written_and_read_again_is_the_same_sample(tmp_path):
    sample = random_sample(num_hops=3)
    metadata = {"max_occurrences": sample.max_occurrences}
    storage.write_parquet(
        tmp_path / "a.parquet", sample.to_table(), metadata=metadata, row_group_size=7
    )
    table = storage.read_parquet(tmp_path / "a.parquet")
    assert table.column_names == ["root", "nodes", "edge_source", "edge_target"]
    again = from_table(table, **storage.parquet_metadata(tmp_path / "a.parquet"))
    for name in FIELDS:
        assert getattr(again, name).dtype == getattr(sample, name).dtype
        assert np.array_equal(getattr(again, name), getattr(sample, name)), name
    part = from_table(table.slice(5, 9), max_occurrences=sample.max_occurrences)
    assert [as_lists(part, i) for i in range(9)] == [as_lists(sample, i) for i in range(5, 14)]


def test_a_table_without_a_column_is_an_error():
    with pytest.raises(ValueError, match="edge_target"):
        from_table(random_sample().to_table().drop_columns(["nodes"]), max_occurrences=1)


def small(**changes):
    fields = {
        "roots": np.array([4, 6]),
        "node_ptr": np.array([0, 2, 3]),
        "nodes": np.array([4, 5, 6]),
        "edge_ptr": np.array([0, 1, 1]),
        "edge_source": np.array([1], np.int32),
        "edge_target": np.array([0], np.int32),
        "depth": np.array([0, 1, 0], np.int8),
        "max_occurrences": 1,
    }
    return Subgraphs(**(fields | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nodes": np.array([5, 4, 6])}, "start with its root"),
        ({"nodes": np.array([4, 9, 6])}, "ids of nodes of the graph"),
        ({"edge_source": np.array([2], np.int32)}, "arcs between its own nodes"),
        ({"nodes": np.array([4, 6, 6])}, "max_occurrences = 1"),
    ],
)
def test_check_names_what_is_broken(changes, message):
    assert small().check(9) is not None
    with pytest.raises(ValueError, match=message):
        small(**changes).check(9)


def test_every_kind_of_difference_is_seen_and_charged_to_its_root():
    values = np.zeros(9, np.int64)
    other = values.copy()
    other[5] = 1
    cases = [
        (small(), values, [False, False]),
        (small(), other, [True, False]),
        (small(edge_source=np.array([0], np.int32)), values, [True, False]),
        (small(edge_target=np.array([1], np.int32)), values, [True, False]),
        (small(nodes=np.array([4, 3, 6])), values, [True, False]),
        (small(node_ptr=np.array([0, 1, 2]), nodes=np.array([4, 6])), values, [True, False]),
    ]
    for second, second_values, expected in cases:
        first_changed, second_changed = changed_roots(small(), second, values, second_values)
        assert first_changed.tolist() == second_changed.tolist() == expected


def test_an_absent_root_counts_on_the_side_that_has_it():
    values = np.zeros(9, np.int64)
    first, second = changed_roots(small(), small().select(np.array([1])), values, values)
    assert first.tolist() == [True, False]
    assert second.tolist() == [False]
    second, first = changed_roots(small().select(np.array([0])), small(), values, values)
    assert first.tolist() == [False, True]
    assert second.tolist() == [False]


def test_comparison_needs_ascending_roots():
    values = np.zeros(9, np.int64)
    with pytest.raises(ValueError, match="ascend"):
        changed_roots(small().select(np.array([1, 0])), small(), values, values)

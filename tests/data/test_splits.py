import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import changed

from dpgnn.core import seeds
from dpgnn.core.config import ConfigError
from dpgnn.core.storage import DamagedFileError
from dpgnn.data import datasets
from dpgnn.data.graph import Graph, clean_edges
from dpgnn.data.splits import (
    KINDS,
    PAPER_SETTINGS,
    Split,
    SplitConfig,
    check_read,
    edges_in_setting,
    labelled_nodes,
    make_split,
    membership_splits,
    read_split,
    write_split,
)
from dpgnn.study.study import resolve


def graph_of(num_nodes=60, num_classes=3, unlabelled=6, seed=0, public=False):
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(num_nodes) % num_classes)
    y[rng.choice(num_nodes, unlabelled, replace=False)] = -1
    source, target = rng.integers(0, num_nodes, (2, 4 * num_nodes))
    parts = {"train": np.array([5, 1]), "val": np.array([2]), "test": np.array([9, 8])}
    return Graph(
        name="toy",
        x=np.ones((num_nodes, 2), np.float32),
        edge_index=clean_edges(source, target, num_nodes),
        y=y,
        num_classes=num_classes,
        splits={"public": parts} if public else {},
    )


def draw(graph, seed=0, **config):
    return make_split(graph, SplitConfig(**config), rng=np.random.default_rng(seed))


@settings(max_examples=40)
@given(
    st.integers(0, 2**32),
    st.floats(0.1, 0.7),
    st.floats(0, 0.25),
    st.booleans(),
)
def test_a_random_split_divides_the_labelled_nodes(seed, train, val, inductive):
    graph = graph_of(seed=seed)
    config = {"train_fraction": train, "val_fraction": val, "inductive": inductive}
    split = draw(graph, seed, **config)
    parts = np.concatenate([split.train_idx, split.val_idx, split.test_idx])
    np.testing.assert_array_equal(np.sort(parts), labelled_nodes(graph))
    assert len(split.train_idx) == round(train * len(parts))
    assert len(split.val_idx) == round(val * len(parts))
    assert split.inductive == inductive


def test_of_coins_no_node_moves_another():
    graph = graph_of(public=True)
    whole = draw(graph, kind="coins")
    y = graph.y.copy()
    gone = int(whole.train_idx[3])
    y[gone] = -1
    fewer = draw(dataclasses.replace(graph, y=y), kind="coins")
    np.testing.assert_array_equal(fewer.train_idx, whole.train_idx[whole.train_idx != gone])
    np.testing.assert_array_equal(fewer.test_idx, whole.test_idx)
    moved = draw(dataclasses.replace(graph, y=y), kind="random")
    assert len(np.setdiff1d(moved.train_idx, draw(graph, kind="random").train_idx)) > 1
    # a row more, at the end
    last = graph.num_nodes - 1
    shorter = dataclasses.replace(
        graph, x=graph.x[:last], y=graph.y[:last], splits={},
        edge_index=graph.edge_index[:, (graph.edge_index < last).all(axis=0)],
    )  # fmt: skip
    parts = draw(shorter, kind="coins")
    np.testing.assert_array_equal(parts.train_idx, whole.train_idx[whole.train_idx < last])
    assert SplitConfig(kind="coins").keeps_others
    assert not SplitConfig(kind="random").keeps_others


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.floats(0.1, 0.7), st.floats(0, 0.25))
def test_coins_fall_with_their_probabilities(seed, train, val):
    graph = graph_of(num_nodes=2000, seed=seed)
    split = draw(graph, seed, kind="coins", train_fraction=train, val_fraction=val)
    parts = split.train_idx, split.val_idx, split.test_idx
    total = len(labelled_nodes(graph))
    assert sum(map(len, parts)) == total
    for part, share in zip(parts, (train, val, 1 - train - val), strict=True):
        assert abs(len(part) - share * total) <= 5 * np.sqrt(share * (1 - share) * total) + 1


def test_per_class_takes_the_same_number_of_each_class():
    graph = graph_of()
    split = draw(graph, kind="per_class", num_per_class=4, num_val=10, num_test=15)
    np.testing.assert_array_equal(np.bincount(graph.y[split.train_idx]), [4, 4, 4])
    assert (len(split.val_idx), len(split.test_idx)) == (10, 15)
    rest = draw(graph, kind="per_class", num_per_class=4, num_val=10)
    assert len(rest.test_idx) == len(labelled_nodes(graph)) - 12 - 10


def test_the_public_split_is_the_publishers_and_draws_nothing():
    graph = graph_of(public=True)
    rng = np.random.default_rng(0)
    state = rng.bit_generator.state
    split = make_split(graph, SplitConfig(kind="public"), rng=rng)
    assert rng.bit_generator.state == state
    np.testing.assert_array_equal(split.train_idx, [1, 5])
    np.testing.assert_array_equal(split.test_idx, [8, 9])


def test_a_split_depends_on_its_axes_only():
    graph, config = graph_of(), SplitConfig()
    axes = {"dataset": "toy", "setting": "s", "repeat": 0}
    again = [make_split(graph, config, rng=seeds.child(0, "split", **axes)) for _ in range(2)]
    np.testing.assert_array_equal(again[0].train_idx, again[1].train_idx)
    other = make_split(graph, config, rng=seeds.child(0, "split", **(axes | {"repeat": 1})))
    assert not np.array_equal(again[0].train_idx, other.train_idx)


@settings(max_examples=30)
@given(st.integers(0, 2**32))
def test_an_inductive_setting_keeps_exactly_the_edges_inside_one_part(seed):
    graph = graph_of(seed=seed)
    split = draw(graph, seed, inductive=True)
    part = split.part_of(graph.num_nodes)
    wanted = [(a, b) for a, b in graph.edge_index.T.tolist() if part[a] == part[b] >= 0]
    assert list(map(tuple, edges_in_setting(graph, split).T.tolist())) == wanted


def test_a_transductive_setting_keeps_all_edges():
    graph = graph_of()
    assert edges_in_setting(graph, draw(graph)) is graph.edge_index


def test_a_split_comes_back_equal_from_its_file(tmp_path):
    graph = graph_of()
    split = draw(graph, inductive=True)
    path = tmp_path / "toy.s.0.parquet"
    write_split(path, split, num_nodes=graph.num_nodes, metadata={"repeat": 0})
    found = read_split(path, num_nodes=graph.num_nodes)
    for part in ("train_idx", "val_idx", "test_idx"):
        np.testing.assert_array_equal(getattr(found, part), getattr(split, part))
    assert found.inductive
    with pytest.raises(DamagedFileError, match="must have 61 rows, one a node, got 60"):
        read_split(path, num_nodes=61)


def test_a_clustered_split_keeps_communities_whole_and_meets_the_fractions():
    """Twelve cliques of 8 nodes in a ring: the communities are the cliques."""
    clique = np.array([(a, b) for a in range(8) for b in range(8) if a != b]).T
    edges = np.concatenate([clique + 8 * k for k in range(12)], axis=1)
    ring = np.stack([8 * np.arange(12), (8 * np.arange(12) + 9) % 96])
    graph = Graph(
        name="cliques",
        x=np.ones((96, 1), np.float32),
        edge_index=clean_edges(*np.concatenate([edges, ring], axis=1), 96),
        y=np.arange(96) % 3,
        num_classes=3,
    )
    split = draw(graph, kind="clustered", inductive=True, train_fraction=0.67, val_fraction=0.18)
    part = split.part_of(96)
    assert all(len(set(part[8 * k : 8 * k + 8])) == 1 for k in range(12))
    assert [len(split.train_idx), len(split.val_idx), len(split.test_idx)] == [64, 16, 16]
    again = draw(
        graph, seed=1, kind="clustered", inductive=True, train_fraction=0.67, val_fraction=0.18
    )
    np.testing.assert_array_equal(again.train_idx, split.train_idx)


def test_small_classes_and_isolated_nodes_leave_the_graph_with_their_edges():
    """Path 0-1-2-3-4; class 2 is node 3 alone, so node 4 loses its only edge; node 5 has none."""
    path = np.array([[0, 1, 2, 3], [1, 2, 3, 4]])
    graph = Graph(
        name="path",
        x=np.ones((6, 1), np.float32),
        edge_index=clean_edges(*path, 6),
        y=np.array([0, 1, 0, 2, 1, 0]),
        num_classes=3,
    )
    recipe = {"train_fraction": 0.5, "min_class_size": 2, "drop_isolated": True}
    split = draw(graph, **recipe)
    np.testing.assert_array_equal(split.dropped_idx, [3, 4, 5])
    np.testing.assert_array_equal(edges_in_setting(graph, split), [[0, 1, 1, 2], [1, 0, 2, 1]])
    assert not set(split.dropped_idx) & {*split.train_idx, *split.val_idx, *split.test_idx}


def test_a_split_with_dropped_nodes_comes_back_equal(tmp_path):
    graph = graph_of()
    split = draw(graph, min_class_size=19)
    assert len(split.dropped_idx)
    write_split(tmp_path / "s.parquet", split, num_nodes=graph.num_nodes)
    found = read_split(tmp_path / "s.parquet")
    np.testing.assert_array_equal(found.dropped_idx, split.dropped_idx)


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_target_and_shadow_are_disjoint_and_of_the_sizes_asked_for(seed):
    graph = graph_of(num_nodes=90, seed=seed)
    config = SplitConfig(kind="membership", inductive=True, num_per_class=4, num_test=20)
    target, shadow = membership_splits(graph, config, rng=np.random.default_rng(seed))
    nodes = np.concatenate(
        [s for half in (target, shadow) for s in (half.train_idx, half.test_idx)]
    )
    assert len(np.unique(nodes)) == len(nodes) == 2 * (12 + 20)
    for half in (target, shadow):
        np.testing.assert_array_equal(np.bincount(graph.y[half.train_idx]), [4, 4, 4])
    drawn = make_split(graph, config, rng=np.random.default_rng(seed))
    np.testing.assert_array_equal(drawn.train_idx, target.train_idx)


# of each class 30 nodes are taken first: most of the smallest, few of the largest
SIZES_OF_CLASSES = (200, 60, 40)


@pytest.mark.parametrize("kind", ["per_class", "membership"])
def test_what_is_left_after_taking_nodes_of_each_class_is_sampled_uniformly(kind):
    y = np.repeat(np.arange(3), SIZES_OF_CLASSES)
    none = np.zeros((2, 0), np.int64)
    graph = Graph(
        name="uneven", x=np.zeros((300, 1), np.float32), edge_index=none, y=y, num_classes=3
    )
    left, size, repeats = np.array(SIZES_OF_CLASSES) - 30, 40, 200
    samples = [np.zeros(3), np.zeros(3)]
    for seed in range(repeats):
        rng = np.random.default_rng(seed)
        if kind == "membership":
            config = SplitConfig(kind=kind, inductive=True, num_per_class=15, num_test=size)
            parts = [half.test_idx for half in membership_splits(graph, config, rng=rng)]
        else:
            config = SplitConfig(kind=kind, num_per_class=30, num_val=size, num_test=size)
            split = make_split(graph, config, rng=rng)
            parts = [split.val_idx, split.test_idx]
        for found, part in zip(samples, parts):
            found += np.bincount(y[part], minlength=3)
    share = left / left.sum()
    # a sample without replacement varies less than a binomial one
    deviation = np.sqrt(share * (1 - share) / (size * repeats))
    for found in samples:
        assert (np.abs(found / (size * repeats) - share) < 5 * deviation).all(), found


def test_the_dpar_split_has_no_validation_and_drops_edges_between_parts():
    split = make_split(graph_of(), PAPER_SETTINGS["dpar"], rng=np.random.default_rng(0))
    assert len(split.val_idx) == 0
    assert len(split.train_idx) == round(0.8 * 54)
    assert split.inductive


def test_recipes_that_look_at_private_values_carry_the_preprocessing_caveat():
    assert PAPER_SETTINGS["dpgnn-clustered"].caveats == ("preprocessing",)
    assert PAPER_SETTINGS["caribou"].caveats == ("preprocessing",)
    assert PAPER_SETTINGS["gmia-cora"].caveats == ("preprocessing",)
    assert SplitConfig(kind="per_class").caveats == ("preprocessing",)
    assert PAPER_SETTINGS["dpar"].caveats == ()
    assert SplitConfig(kind="public").caveats == ()


def test_kinds_without_the_caveat_draw_the_same_nodes_whatever_class_they_have():
    graph = graph_of(public=True)
    shuffled = graph.y.copy()
    labelled = labelled_nodes(graph)
    shuffled[labelled] = np.roll(shuffled[labelled], 1)
    other = dataclasses.replace(graph, y=shuffled)
    for kind in KINDS:
        config = SplitConfig(kind=kind, num_per_class=4, num_val=10, num_test=15)
        one, two = (make_split(g, config, rng=np.random.default_rng(0)) for g in (graph, other))
        same = np.array_equal(one.train_idx, two.train_idx)
        assert same or config.caveats == ("preprocessing",), kind
        assert same == (kind not in ("per_class", "membership"))


# majority class in the test set, per cent, from the logs of CARIBOU's authors; nodes that remain
CARIBOU = {"cora": (31.18, 2708), "photo": (24.06, 7535), "computers": (36.71, 13471)}


@pytest.mark.data
@pytest.mark.parametrize("name", CARIBOU)
def test_the_caribou_split_is_the_authors(name, mirror, tmp_path, monkeypatch):
    monkeypatch.setenv("DPGNN_MIRROR", str(mirror))
    graph = datasets.load(name, folder=tmp_path, root_seed=0)
    split = make_split(graph, PAPER_SETTINGS["caribou"], rng=np.random.default_rng(0))
    counts = np.bincount(graph.y[split.test_idx])
    majority, nodes = CARIBOU[name]
    assert round(100 * counts.max() / counts.sum(), 2) == majority
    assert graph.num_nodes - len(split.dropped_idx) == nodes


BAD = {
    "membership of too many": (
        {"kind": "membership", "num_per_class": 5, "num_test": 50},
        "2 \\* num_test must be <=",
    ),
    "membership without test nodes": ({"kind": "membership"}, "num_test must be >= 1"),
    "negative class size": ({"min_class_size": -1}, "min_class_size must be >= 0"),
    "unknown kind": ({"kind": "magic"}, "unknown kind of split 'magic'; known: "),
    "train fraction 0": ({"train_fraction": 0.0}, r"train_fraction must be in \(0, 1\), got 0.0"),
    "nothing to test on": ({"train_fraction": 0.9, "val_fraction": 0.1}, "leave nodes to test on"),
    "none per class": ({"num_per_class": 0}, "num_per_class must be >= 1"),
    "no public split": ({"kind": "public"}, "must be a kind it has, got 'public'; use random"),
    "too many per class": (
        {"kind": "per_class", "num_per_class": 50},
        r"nodes taken of each class must be <= \d+, the size of class 0, got 50; lower",
    ),
    "too many to test": (
        {"kind": "per_class", "num_per_class": 2, "num_val": 10, "num_test": 100},
        "leave test nodes among",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_an_impossible_split_gives_one_clear_error(case):
    config, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        draw(graph_of(), **config)


def test_parts_that_share_a_node_are_refused():
    one = np.array([1])
    with pytest.raises(ValueError, match="disjoint parts"):
        Split(train_idx=one, val_idx=np.array([2]), test_idx=one, inductive=False)


def test_a_cut_setting_bounds_degrees_and_survives_the_file(tmp_path):
    graph = graph_of()
    rng = np.random.default_rng(0)
    split = make_split(graph, SplitConfig(max_degree=2), rng=rng)
    write_split(tmp_path / "split.parquet", split, num_nodes=graph.num_nodes)
    again = read_split(tmp_path / "split.parquet", num_nodes=graph.num_nodes)
    kept = edges_in_setting(graph, again)
    assert again.max_degree == 2
    assert np.bincount(kept[0], minlength=graph.num_nodes).max() <= 2
    assert kept.shape[1] < graph.edge_index.shape[1]
    assert "preprocessing" in SplitConfig(max_degree=2).caveats


def test_a_directed_graph_is_not_cut_since_the_cut_would_add_reverse_edges():
    """No node of the path 0 -> 1 -> 2 has more than two edges, and still it would have four after the cut."""
    graph = Graph(
        name="path",
        x=np.ones((3, 1), np.float32),
        edge_index=np.array([[0, 1], [1, 2]]),
        y=np.array([0, 1, 0]),
        num_classes=2,
        directed=True,
    )
    recipe = {"train_fraction": 0.4, "val_fraction": 0.3}
    with pytest.raises(ValueError, match=r"path: max_degree must be 0 for a directed graph, got 2"):
        draw(graph, max_degree=2, **recipe)
    split = dataclasses.replace(draw(graph, **recipe), max_degree=2)
    with pytest.raises(ValueError, match="max_degree must be 0 for a directed graph"):
        edges_in_setting(graph, split)
    assert edges_in_setting(graph, draw(graph, **recipe)) is graph.edge_index


def test_a_setting_that_cuts_nothing_is_stated_as_before_the_option():
    assert "max_degree" not in SplitConfig().stated
    assert SplitConfig(max_degree=3).stated["max_degree"] == 3


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"num_per_class": 20, "num_val": 500}, "per_class and membership only, kind is random, since"),
        ({"kind": "public", "train_fraction": 0.5}, "random, coins and clustered only, kind is public"),
        ({"kind": "membership", "num_val": 500}, "num_val is read by per_class only"),
    ],
)  # fmt: skip
def test_a_key_that_the_kind_does_not_read_is_refused(stated: dict[str, Any], says: str) -> None:
    """Also where it has the default's value: the setting is not what its writer means."""
    with pytest.raises(ValueError, match=f"settings.a.* must be left out.*{says}"):
        check_read(stated, "settings.a")
    with pytest.raises(ConfigError, match=says):
        resolve(changed(settings__random=stated))


def test_keys_that_the_kind_reads_and_whole_configurations_are_taken() -> None:
    check_read({"inductive": True, "train_fraction": 0.5, "max_degree": 3}, "s")
    check_read({"kind": "per_class", "num_per_class": 20, "num_val": 500, "num_test": 9}, "s")
    for kind in KINDS:
        check_read(SplitConfig(kind=kind).stated, "s")

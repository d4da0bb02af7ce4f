import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgnn.data import datasets
from dpgnn.data.datasets.synthetic import PRESETS, Model, block_sizes
from dpgnn.data.files import pieces

QUANTILES = (0.25, 0.5, 0.75, 0.9)


@given(st.integers(1, 60), st.integers(0, 5000), st.floats(0, 2))
def test_block_sizes_sum_up_fall_and_are_never_empty(num_blocks, more, exponent):
    sizes = block_sizes(num_blocks + more, num_blocks, exponent)
    assert sizes.sum() == num_blocks + more
    assert sizes.min() >= 1
    assert (np.diff(sizes) <= 1).all()


def check_bands(name, root_seed=0):
    preset = PRESETS[name]
    model = Model(f"synthetic-{name}", preset, root_seed)
    graph = pieces.collect(model.pieces())
    source, target = graph.edge_index
    assert graph.num_nodes == preset.num_nodes
    assert abs(graph.num_edges / (2 * preset.num_edges) - 1) < 0.02
    inside = (model.block[source] == model.block[target]).mean()
    assert abs(inside - preset.homophily) < 0.02
    wanted = block_sizes(preset.num_nodes, preset.num_blocks, preset.block_exponent)
    np.testing.assert_array_equal(np.bincount(model.block), wanted)
    degree = np.bincount(source, minlength=graph.num_nodes)
    mean = 2 * preset.num_edges / preset.num_nodes
    # what the model says of degrees: Poisson around weight times mean
    expected = np.random.default_rng(1).poisson(model.weight * mean)
    for q in QUANTILES:
        low, high = np.quantile(expected, q) * np.array([0.88, 1.12]) + [-1, 1]
        assert low <= np.quantile(degree, q) <= high
    return graph, model


@pytest.mark.parametrize("name", ["ppi", "facebook"])
def test_a_stand_in_keeps_its_bands(name):
    graph, model = check_bands(name)
    if name == "ppi":
        assert graph.task == "multilabel"
        assert graph.y.shape == (14_755, 121)
        assert 0.25 < graph.y.mean() < 0.35
        assert 9600 < len(graph.splits["public"]["train"]) < 9800
    else:
        np.testing.assert_array_equal(graph.y, model.block)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["arxiv", "flickr", "mag", "reddit"])
def test_a_large_stand_in_keeps_its_bands(name):
    start = time.process_time()
    check_bands(name, root_seed=3)
    if name == "arxiv":
        assert time.process_time() - start < 20  # seconds of one core


def test_the_same_seed_gives_the_same_graph_streamed_or_not(tmp_path):
    graph = datasets.load("synthetic-ppi", folder=tmp_path, root_seed=5)
    from dpgnn.data.files.content import content_hash

    wanted = content_hash(graph)
    found = Model("synthetic-ppi", PRESETS["ppi"], 5).pieces()
    meta = pieces.write(found, tmp_path / "g", memory_bytes=4 << 20, scratch=tmp_path / "work")
    assert meta["content_sha256"] == wanted
    other = Model("synthetic-ppi", PRESETS["ppi"], 6)
    assert not np.array_equal(other.block, Model("synthetic-ppi", PRESETS["ppi"], 5).block)


def test_an_unknown_preset_lists_what_exists():
    with pytest.raises(ValueError, match=r"synthetic-cora"):
        datasets.load("synthetic-cora", folder="unused", root_seed=0)


@pytest.mark.data
def test_the_facebook_stand_in_looks_like_the_real_school(mirror, tmp_path):
    """Degree quantiles within 15 %, friendships inside a class within 0.02, of Rutgers."""
    real = datasets.load("facebook-Rutgers89", folder=tmp_path, root_seed=0)
    made = datasets.load("synthetic-facebook", folder=tmp_path, root_seed=0)
    degrees = [np.bincount(g.edge_index[0], minlength=g.num_nodes) for g in (real, made)]
    for q in (0.25, 0.5, 0.75, 0.9, 0.99):
        wanted, found = (np.quantile(degree, q) for degree in degrees)
        assert abs(found / wanted - 1) < 0.15
    inside = [(g.y[g.edge_index[0]] == g.y[g.edge_index[1]]).mean() for g in (real, made)]
    assert abs(inside[0] - inside[1]) < 0.02
    assert (real.num_nodes, real.num_classes) == (made.num_nodes, made.num_classes)

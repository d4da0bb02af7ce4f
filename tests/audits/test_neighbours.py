"""The neighbour test must see every kind of broken promise."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from exhaustive.neighbours import examine, examine_promises
from exhaustive.worlds import make_world

from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.promise import Change
from dpgnn.samplers.published import Published


def random_world(seed=0, num_nodes=30, density=0.3):
    adjacency = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return make_world(np.argwhere(adjacency | adjacency.T).T, num_nodes)


@dataclass(frozen=True)
class Patched:
    """A sampler with another promise or another key than it should have."""

    inner: OwnList
    d_plus: int | None = None
    fresh_key: bool = False

    @property
    def promise(self):
        promise = self.inner.promise
        if self.d_plus is None:
            return promise
        pair = ("node-record", "add-remove")
        change = Change(d_plus=self.d_plus, d_minus=self.d_plus - 1, proved=True, why="test")
        return replace(promise, changes={pair: change})

    def sample(self, arcs, *, num_nodes, train_idx, rng, present=None):
        if self.fresh_key:
            rng = np.random.default_rng(arcs.shape[1])
        return self.inner.sample(
            arcs, num_nodes=num_nodes, train_idx=train_idx, rng=rng, present=present
        )


def test_a_correct_sampler_passes_and_its_worst_case_is_reported():
    report = examine(
        OwnList(max_degree=3), random_world(), "node-record", "add-remove",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert report.passed
    assert (report.d_plus, report.d_minus, report.d_others) == (4, 3, 3)
    assert report.num_neighbours == 30
    assert report.sensitivity == report.shift == 7.0
    assert "passed" in str(report)


def test_a_promise_that_is_one_too_small_fails_and_names_the_node():
    rng = np.random.default_rng(0)
    sampler = Patched(OwnList(max_degree=3), d_plus=3)
    report = examine(sampler, random_world(), "node-record", "add-remove", rng=rng)
    assert not report.passed
    assert len(report.worst) == 1
    assert "FAILED" in str(report)


def test_a_sampler_whose_draws_depend_on_the_graph_fails():
    sampler = Patched(OwnList(max_degree=3), fresh_key=True)
    report = examine(
        sampler, random_world(), "node-record", "add-remove", rng=np.random.default_rng(0)
    )
    assert not report.passed
    assert report.d_plus > 10


def test_the_published_sampler_fails_its_own_claim():
    report = examine(
        Published(max_degree=3), random_world(), "node-record", "add-remove",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert report.declared.d_plus == 4
    assert not report.passed


def test_a_pair_without_a_promise_is_measured_and_does_not_pass():
    report = examine(
        OwnList(max_degree=3), random_world(), "node", "null-one", rng=np.random.default_rng(0)
    )
    assert report.declared is None
    assert not report.passed
    assert report.d_plus >= 4


def bag_of_neighbours(sample, values):
    """A gradient with something of every node of the subgraph, far above the clipping norm."""
    rows = np.zeros((len(sample), 3))
    owner = np.repeat(np.arange(len(sample)), sample.num_nodes)
    features = np.sin(np.outer(sample.nodes + 100 * values[sample.nodes] + 1.0, [1.0, 2.0, 3.0]))
    np.add.at(rows, owner, 50 * features)
    return rows


def centred(sample, values):
    """As batch normalisation does: a root's gradient depends on the other roots."""
    rows = bag_of_neighbours(sample, values)
    return rows - rows.mean(axis=0)


@pytest.mark.parametrize("relation", ["add-remove", "null-one", "replace-one"])
def test_a_real_gradient_shifts_the_clipped_sum_by_no_more_than_the_sensitivity(relation):
    report = examine(
        OwnList(max_degree=3, num_hops=2), random_world(density=0.1), "node-record", relation,
        rng=np.random.default_rng(0), gradient=bag_of_neighbours, clipping_norm=0.5,
        max_neighbours=60,
    )  # fmt: skip
    assert report.passed, str(report)
    assert 0.5 < report.shift <= report.sensitivity


def test_a_gradient_that_mixes_roots_is_caught():
    report = examine(
        OwnList(max_degree=3), random_world(density=0.1), "node-record", "null-one",
        rng=np.random.default_rng(0), gradient=centred,
    )  # fmt: skip
    assert report.leaks > 0
    assert not report.passed


def test_every_promise_of_a_sampler_is_examined():
    sampler = OwnList(max_degree=2, degree_bound=29)
    reports = examine_promises(
        sampler, random_world(), rng=np.random.default_rng(0), max_neighbours=40
    )
    assert [(r.privacy_unit, r.relation) for r in reports] == sorted(sampler.promise.changes)
    assert all(report.passed for report in reports)


def test_chosen_offenders_and_bad_input():
    rng = np.random.default_rng(0)
    sampler = OwnList(max_degree=2)
    report = examine(sampler, random_world(), "node-record", "add-remove", rng=rng, offenders=[5])
    assert report.worst == (5,)
    assert report.num_neighbours == 1
    with pytest.raises(ValueError, match="clipping_norm must be > 0"):
        examine(sampler, random_world(), "node-record", "add-remove", rng=rng, clipping_norm=0.0)

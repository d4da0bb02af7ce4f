from dataclasses import dataclass, replace

import numpy as np

from dpgnn.audits.edge_neighbours import examine_edges
from dpgnn.audits.worlds import make_world
from dpgnn.samplers.degree import EdgeChange, MutualDegree, OutDegree


def random_world(seed=0, num_nodes=25, density=0.4):
    adjacency = np.triu(np.random.default_rng(seed).random((num_nodes, num_nodes)) < density, 1)
    return make_world(np.argwhere(adjacency | adjacency.T).T, num_nodes)


@dataclass(frozen=True)
class Patched:
    """A rule that promises less than it does."""

    inner: MutualDegree

    @property
    def promise(self):
        return replace(
            self.inner.promise, changes={("edge", "add-remove"): EdgeChange(lost=1, gained=1)}
        )

    def sample(self, arcs, **options):
        return self.inner.sample(arcs, **options)


def test_a_correct_rule_passes_and_a_smaller_promise_fails():
    rng = np.random.default_rng(0)
    good = examine_edges(MutualDegree(max_degree=3), random_world(), "edge", "add-remove", rng=rng)
    assert good.passed
    assert (good.lost, good.gained, good.num_neighbours) == (1, 2, 300)
    bad = examine_edges(
        Patched(MutualDegree(max_degree=3)), random_world(), "edge", "add-remove", rng=rng
    )
    assert not bad.passed
    assert len(bad.worst) == 2


def test_without_a_promise_nothing_passes():
    report = examine_edges(
        OutDegree(max_degree=3, symmetrize=True), random_world(), "node", "null-one",
        rng=np.random.default_rng(0),
    )  # fmt: skip
    assert report.declared is None
    assert not report.passed
    assert report.lost > 3

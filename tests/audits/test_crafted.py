"""Crafted neighbours come within a tenth of what is declared, so the declared bounds are not loose."""

import numpy as np
import pytest
from exhaustive.crafted import attained
from exhaustive.method_neighbours import examine_method
from exhaustive.worlds import make_world

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry
from dpgnn.samplers.own_list import OwnList

CASES = [
    (unit, relation, hops, degree)
    for unit in ("node-record", "node-bounded")
    for relation in ("add-remove", "null-one", "replace-one")
    for hops, degree in ((1, 3), (1, 7), (2, 3), (2, 5))
]


@pytest.mark.parametrize(("unit", "relation", "hops", "degree"), CASES)
def test_own_lists_change_as_many_roots_as_declared(unit, relation, hops, degree):
    bound = 12 if unit == "node-bounded" else None
    sampler = OwnList(max_degree=degree, num_hops=hops, degree_bound=bound)
    shares = [attained(sampler, unit, relation, seed=seed) for seed in range(3)]
    print(unit, relation, hops, degree, [(s.d_plus, s.d_minus, s.declared) for s in shares[:1]])
    for found in shares:
        assert found.d_plus <= found.declared[0]
        assert found.d_minus <= found.declared[1]
        assert found.share >= 0.9, found


# the hub's label is not the one that an emptied record has
HUB, LEAVES = 1, 8


def star():
    """A hub that is joined to 8 training nodes, and pairs; 10 training nodes and 2 others."""
    leaves = [leaf for leaf in range(LEAVES + 1) if leaf != HUB]
    arcs = np.array([(HUB, leaf) for leaf in leaves] + [(9, 10), (10, 11)]).T
    return make_world(np.concatenate([arcs, arcs[::-1]], axis=1), 12, np.arange(10))


@pytest.mark.parametrize("relation", ["add-remove", "null-one"])
@pytest.mark.parametrize("method", ["gap", "dpdgc"])
@pytest.mark.parametrize("unit", ["node-bounded", "node-record"])
def test_aggregations_at_node_level_reach_their_bounds_where_the_degree_is_tight(
    method, unit, relation
):
    chosen = methods.get(method)
    degree = LEAVES if unit == "node-bounded" else 3
    node = dict(chosen.example["node"]) | {"max_degree": degree}
    entry = Entry(
        name=method, method=method, mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(chosen.config, dict(chosen.example) | {"node": node}),
    )  # fmt: skip
    for report in examine_method(entry, Budget(epsilon=4.0, delta=1e-3), world=star()):
        print(method, unit, relation, report.mechanism, report.found)
        assert report.passed, report.faults
        assert report.worst >= 0.9, report

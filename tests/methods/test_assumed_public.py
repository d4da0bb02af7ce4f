"""A claim names what its proof takes as public."""

import pytest

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts


def claims_of(method, mode, unit, relation, options, structure=None):
    known = methods.get(method)
    entry = Entry(
        name="e", method=method, mode=mode, privacy_unit=unit, relation=relation,
        options=strict.read(known.config, options),
    )  # fmt: skip
    facts = Facts(
        num_nodes=2000, num_train=1000, num_features=10, num_classes=2, task="multiclass",
        structure=structure or {},
    )  # fmt: skip
    return known.plan(entry, facts, Budget(epsilon=4.0, delta=1e-5)).claims


@pytest.mark.parametrize("mode", ["sound", "published"])
def test_a_promised_minimum_degree_stands_in_every_claim_that_rests_on_it(mode):
    for claim in claims_of("caribou", mode, "edge", "add-remove", {"minimum_degree": 3}):
        assert "every degree is at least 3 in both graphs" in claim.assumed_public
    for claim in claims_of("caribou", "sound", "edge", "add-remove", {}):
        assert not any("degree" in fact for fact in claim.assumed_public)


@pytest.mark.parametrize("mode", ["sound", "published"])
def test_claims_about_walks_take_the_edges_and_the_number_of_walks_as_public(mode):
    options = {"batch_size": 50, "num_steps": 10, "noise_multiplier": None}
    found = claims_of("drw", mode, "node-features", "replace-one", options, {"num_subgraphs": 600})
    for claim in found:
        assert {"every edge of the graph", "number of walks"} <= set(claim.assumed_public)
    for claim in claims_of(
        "drw", mode, "node-features", "replace-one", options | {"sampler": "nodes"}
    ):
        assert "every edge of the graph" not in claim.assumed_public

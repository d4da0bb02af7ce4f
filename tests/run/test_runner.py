from __future__ import annotations

import dataclasses

from dpgnn import methods
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.data.datasets import provenance
from dpgnn.data.graph import Graph
from dpgnn.run.runner import _may_go_on, _with_caveats, resolve_delta

CLAIM = Claim(
    privacy_unit="node",
    relation="add-remove",
    epsilon=1.0,
    delta=1e-5,
    accountant="pld",
    status="proved",
)


def test_delta_auto_depends_on_public_sizes_only(small_graph: Graph) -> None:
    assert resolve_delta("auto", "node", small_graph) == 1 / (10 * small_graph.num_nodes)
    digits = len(str(small_graph.num_edges))
    assert resolve_delta("auto", "edge", small_graph) == 10.0 ** -(digits + 1)
    fewer = dataclasses.replace(small_graph, edge_index=small_graph.edge_index[:, :0])
    assert resolve_delta("auto", "node", fewer) == resolve_delta("auto", "node", small_graph)
    assert resolve_delta(1e-3, "edge", small_graph) == 1e-3


def test_caveats_of_the_data_join_every_claim() -> None:
    plan = Plan(claims=(CLAIM, CLAIM))
    marked = _with_caveats(plan, ("preprocessing", "preprocessing"))
    assert [claim.caveats for claim in marked.claims] == [("preprocessing",)] * 2
    assert _with_caveats(plan, ()) == plan


def test_a_graph_made_from_features_marks_methods_that_read_edges() -> None:
    assert provenance("digits")["edge_caveats"] == ["preprocessing"]
    assert provenance("digits")["caveats"] == []
    assert provenance("facebook-Rutgers89")["caveats"] == ["preprocessing"]


def test_a_release_of_several_stages_keeps_no_checkpoint_that_would_mix_two_draws() -> None:
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    stages = tuple(
        Mechanism(name=name, event=event, noise_stddev=1.0, sensitivity=1.0) for name in ("a", "b")
    )
    one, two = (Plan(mechanisms=stages[:n], claims=(CLAIM,)) for n in (1, 2))
    for name in ("gap", "caribou", "dpdgc"):
        assert _may_go_on(two, methods.get(name), "study")
        assert _may_go_on(one, methods.get(name), "release")
        assert not _may_go_on(two, methods.get(name), "release")
    assert _may_go_on(two, methods.get("dpar"), "release")

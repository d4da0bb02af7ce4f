from __future__ import annotations

from dpgnn.accountants.claims import Claim
from dpgnn.accountants.plan import Plan
from dpgnn.data.datasets import provenance
from dpgnn.run.plan import add_caveats

CLAIM = Claim(
    privacy_unit="node",
    relation="add-remove",
    epsilon=1.0,
    delta=1e-5,
    accountant="pld",
    status="proved",
)


def test_caveats_of_the_data_join_every_claim() -> None:
    plan = Plan(claims=(CLAIM, CLAIM))
    marked = add_caveats(plan, ("preprocessing", "preprocessing"))
    assert [claim.caveats for claim in marked.claims] == [("preprocessing",)] * 2
    assert add_caveats(plan, ()) == plan


def test_a_graph_made_from_features_marks_methods_that_read_edges() -> None:
    assert provenance("digits")["edge_caveats"] == ["preprocessing"]
    assert provenance("digits")["caveats"] == []
    assert provenance("facebook-Rutgers89")["caveats"] == ["preprocessing"]

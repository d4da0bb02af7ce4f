from __future__ import annotations

from dpgnn import methods
from dpgnn.accountants.claims import Claim
from dpgnn.accountants.events import GaussianRelease
from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.run.execute import may_go_on


def test_a_release_of_several_stages_keeps_no_checkpoint_that_would_mix_two_draws() -> None:
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    stages = tuple(
        Mechanism(name=name, event=event, noise_stddev=1.0, sensitivity=1.0) for name in ("a", "b")
    )
    claim = Claim(
        privacy_unit="node",
        relation="add-remove",
        epsilon=1.0,
        delta=1e-5,
        accountant="pld",
        status="proved",
    )
    one, two = (Plan(mechanisms=stages[:n], claims=(claim,)) for n in (1, 2))
    for name in ("gap", "caribou", "dpdgc"):
        assert may_go_on(two, methods.get(name), "study")
        assert may_go_on(one, methods.get(name), "release")
        assert not may_go_on(two, methods.get(name), "release")
    assert may_go_on(two, methods.get("dpar"), "release")

"""What `dpgnn account` counts: steps, population and releases."""

import pytest

from dpgnn.accountants import answers, cases, composition
from dpgnn.accountants.answers import Question
from dpgnn.accountants.events import FixedSizeRoots, GaussianRelease, PoissonRoots, compose, parts
from dpgnn.accountants.plan import Ledger, LedgerError, Mechanism, Plan

DELTA = 1e-6


@pytest.mark.parametrize(
    ("relation", "changed"),
    [("add-remove", (1, 0)), ("replace-one", (1, 1)), ("null-one", (1, 1))],
)
def test_the_sound_event_of_dp_mlp_is_all_its_steps(relation, changed):
    case = cases.dp_mlp(num_train_nodes=1000, batch_size=50, relation=relation)
    expected = PoissonRoots(
        relation=relation, noise_stddev=2.0, clipping_norm=1.0, sampling_probability=0.05,
        d_plus=changed[0], d_minus=changed[1],
    )  # fmt: skip
    assert parts(case.event(2.0, 30)) == ((expected, 30),)
    exact = composition.epsilon(compose(expected, 30), delta=DELTA, relation=relation)
    assert case.epsilon(2.0, 30, DELTA) == exact


@pytest.mark.parametrize(("drawn", "walks"), [(None, 500), (700, 700)])
def test_the_sound_event_of_drw_is_a_batch_of_the_walks_there_are(drawn, walks):
    case = cases.drw(num_train_nodes=1000, batch_size=50, walk_length=1, num_walks=drawn)
    expected = FixedSizeRoots(
        relation="replace-one", noise_stddev=8.0, clipping_norm=1.0, population=walks,
        batch_size=50, changed_roots=1,
    )  # fmt: skip
    assert parts(case.event(8.0, 30)) == ((expected, 30),)


def test_every_gaussian_release_is_counted():
    case = cases.gaussian(sensitivity=3.0, unit="node", relation="replace-one")
    one = GaussianRelease(relation="replace-one", noise_stddev=6.0, sensitivity=3.0)
    assert parts(case.event(6.0, 5)) == ((one, 5),)


def test_a_target_that_one_step_exceeds_allows_none():
    case = cases.dp_mlp(num_train_nodes=100, batch_size=50)
    # the paper's formula takes one step where the proved curve does not
    assert answers._sound_steps(case, 0.05, DELTA, 1.0) == 0
    assert answers._sound_steps(case, 5.0, DELTA, 8.0) >= 1
    assert Question(mode="sound", delta=DELTA).num_steps is None


def test_a_plan_that_was_charged_for_and_not_executed_is_an_error():
    event = GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0)
    from dpgnn.accountants.claims import Claim

    claim = Claim(privacy_unit="node", relation="add-remove", epsilon=1.0, delta=1e-5,
                  accountant="gdp", status="proved")  # fmt: skip
    plan = Plan(claims=(claim,), mechanisms=tuple(
        Mechanism(name=name, event=event, noise_stddev=1.0, sensitivity=1.0) for name in "ab"
    ))  # fmt: skip
    ledger = Ledger(plan)
    ledger.enter("a")
    with pytest.raises(LedgerError, match="planned mechanisms were not executed: b"):
        ledger.close()
    with pytest.raises(LedgerError, match="was executed already"):
        ledger.enter("a")
    ledger.enter("b")
    ledger.close()

"""HeterPoisson's plans: the sound noise, the published one, refusals."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from contract import entry_of

from dpgnn import methods
from dpgnn.accountants.events import PoissonRoots, parts
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Facts, Support
from dpgnn.methods.heterpoisson.options import HeterPoissonConfig

METHOD = methods.get("heterpoisson")


def plan_of(mode: Any, unit: str, relation: str, *, num_train: int, target: float, **options: Any):
    entry = dataclasses.replace(
        entry_of("heterpoisson", mode, Support(privacy_unit=unit, relation=relation)),
        options=strict.read(HeterPoissonConfig, options),
    )
    facts = Facts(
        num_nodes=2 * num_train, num_train=num_train, num_features=5, num_classes=3,
        task="multiclass",
    )  # fmt: skip
    return METHOD.plan(entry, facts, Budget(epsilon=target, delta=num_train**-1.1))


# training nodes, M -> noise over the clip bound at epsilon 2 and 8 under null-one, steps that are run
SOUND = {
    (15773, 1): (11.82, 3.57), (15773, 3): (23.64, 7.17), (15773, 5): (35.46, 10.78),
    (11001, 1): (14.33, 4.36), (11001, 3): (28.67, 8.76),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "degree"), SOUND)
def test_the_sound_noise_is_that_of_the_two_sided_pair(nodes, degree):
    for target, ratio in zip((2.0, 8.0), SOUND[nodes, degree]):
        plan = plan_of(
            "sound", "node-record", "null-one", num_train=nodes, target=target, max_degree=degree,
            batch_size=4096,
        )  # fmt: skip
        (mechanism,) = plan.mechanisms
        assert mechanism.num_steps == 9 * math.ceil(nodes / 4096)
        assert mechanism.noise_stddev == pytest.approx(ratio, rel=3e-3)
        ((event, _),) = parts(mechanism.event)
        assert isinstance(event, PoissonRoots)
        assert (event.d_plus, event.d_minus) == (1 + degree, 1 + degree)


@pytest.mark.parametrize(
    ("relation", "changed"),
    [("add-remove", (4, 3)), ("null-one", (4, 4)), ("replace-one", (7, 7))],
)
def test_changed_roots_of_a_step_are_those_of_own_lists(relation, changed):
    plan = plan_of("sound", "node-record", relation, num_train=500, target=4.0, max_degree=3,
                   batch_size=100)  # fmt: skip
    ((event, _),) = parts(plan.mechanisms[0].event)
    assert (event.d_plus, event.d_minus) == changed
    claim = plan.claims[0]
    assert (claim.status, claim.released) == ("proved", "weights")
    assert "inference-reads-private-graph" in claim.caveats


def test_soundness_needs_less_noise_than_was_published():
    for target in (2.0, 8.0):
        words = {"num_train": 15773, "target": target, "batch_size": 4096}
        published = plan_of("published", "node", "add-remove", **words).mechanisms[0]
        sound = plan_of("sound", "node-record", "null-one", **words).mechanisms[0]
        ratios = [m.noise_stddev / m.clipping_norm for m in (published, sound)]
        assert ratios[0] == pytest.approx({2.0: 19.59, 8.0: 5.62}[target], rel=3e-3)
        assert ratios[1] < ratios[0]


def test_what_is_published_proves_nothing_and_says_why():
    stated, proved = plan_of(
        "published", "node", "add-remove", num_train=15773, target=8.0, batch_size=4096
    ).claims
    assert stated.epsilon == pytest.approx(8.0, rel=1e-3)
    assert set(stated.caveats) == {
        "sampler-ripple", "inference-reads-private-graph", "sml-as-univariate", "batch-padding",
        "dedupe-order", "steps-undercounted", "preprocessing",
    }  # fmt: skip
    assert (proved.status, proved.epsilon) == ("proved", math.inf)
    fewer = plan_of(
        "published", "node", "add-remove", num_train=1000, target=8.0, batch_size=100,
        noise="gaussian", padding=False, dedupe=False, preprocessing=False,
    )  # fmt: skip
    assert set(fewer.claims[0].caveats) == {"sampler-ripple", "inference-reads-private-graph"}
    lists = plan_of(
        "published", "node", "add-remove", num_train=1000, target=8.0, batch_size=100,
        noise="gaussian", padding=False, dedupe=False, preprocessing=False, sampler="own-list",
    )  # fmt: skip
    assert lists.claims[0].caveats == ("inference-reads-private-graph",)
    assert lists.claims[1].epsilon == math.inf


@pytest.mark.parametrize(
    ("words", "options"),
    [
        ("batch_size must be <= the number of training nodes, 500", {"batch_size": 501}),
        ("max_degree must be", {"max_degree": 0}),
        ("num_epochs must be", {"num_epochs": 0}),
        ("noise must be", {"noise": "uniform"}),
        ("clipping_norm must be", {"clipping_norm": 0.0}),
    ],
)
def test_bad_options_are_named_at_plan_time(words, options):
    with pytest.raises(ValueError, match=words):
        plan_of("sound", "node-record", "null-one", num_train=500, target=4.0, **options)


def test_units_and_modes_that_do_not_go_together_are_refused():
    for mode, unit, relation, words in (
        ("sound", "node", "add-remove", "be node-record in mode sound"),
        ("published", "node-record", "null-one", "be node in mode published"),
    ):
        asked = entry_of(
            "heterpoisson", "sound", Support(privacy_unit="node-record", relation="null-one")
        )
        wrong = dataclasses.replace(asked, mode=mode, privacy_unit=unit, relation=relation)
        with pytest.raises(ValueError, match=words):
            METHOD.check_entry(wrong, "entries.h")

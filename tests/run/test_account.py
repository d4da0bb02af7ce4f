"""Every method's plan, asked without data: in three directions, and with the numbers of the papers."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from dpgnn import methods
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Facts
from dpgnn.run.account import Question, answer, compare, entry_of

DELTA = 1.0996096e-06
STAGES = {
    f"node.{stage}.{name}": value
    for stage in ("encoder", "head")
    for name, value in {"batch_size": 256, "num_epochs": 10}.items()
}


def facts(num_train: int = 90941) -> Facts:
    return Facts(
        num_nodes=num_train, num_train=num_train, num_features=1, num_classes=2, task="multiclass"
    )


def question(method: str, *, num_train: int = 90941, **words: Any) -> Question:
    return Question(method=method, facts=facts(num_train), delta=words.pop("delta", DELTA), **words)


def dp_gnn(**words: Any) -> Question:
    batch = {"training.expected_batch_size": 10000, **words.pop("options", {})}
    return question("dp_gnn", options=batch, **words)


NODE = {"privacy_unit": "node-bounded", "relation": "null-one"}
QUESTIONS = {
    "dp_gnn": dp_gnn(num_steps=20),
    "dp_mlp": question("dp_mlp", num_steps=20, options={"training.expected_batch_size": 10000}),
    "dp_mlp_smooth": question(
        "dp_mlp_smooth", num_steps=20, options={"mlp.training.expected_batch_size": 10000}
    ),
    "drw": question("drw", num_steps=20, options={"batch_size": 20000, "noise_multiplier": None}),
    "caribou": question("caribou", num_steps=4),
    "caribou, node": question("caribou", num_train=1895, num_steps=4, options=STAGES, **NODE),
    "gap": question("gap", num_steps=4),
    "gap, node": question("gap", num_train=1895, num_steps=4, options=STAGES, **NODE),
    "progap": question("progap", num_steps=4),
    "progap, node": question(
        "progap",
        num_train=1895,
        num_steps=2,
        options={"node.stage.batch_size": 256, "node.stage.num_epochs": 10},
        privacy_unit="node-bounded",
        relation="add-remove",
    ),
    "heterpoisson": question("heterpoisson", options={"batch_size": 4096}),
    "lpgnet": question("lpgnet", num_train=1895, num_steps=2),
    "dpdgc": question("dpdgc", num_train=1895, options=STAGES),
    "dpdgc, node": question("dpdgc", num_train=1895, options=STAGES, **NODE),
}


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("mode", ["published", "sound"])
def test_noise_for_a_target_spends_at_most_the_target_and_costs_as_much_when_it_is_given(
    name: str, mode: Any
) -> None:
    asked = dataclasses.replace(QUESTIONS[name], mode=mode) if name in QUESTIONS else None
    assert asked is not None
    if (name, mode) == ("heterpoisson", "published"):  # the paper claims no other unit
        asked = dataclasses.replace(asked, privacy_unit="node")
    found = answer(_with(asked, target_epsilon=6.0))
    claim = found.claims[0]
    assert 5.9 < claim.epsilon <= 6.0
    multipliers = {m.details["noise_multiplier"] for m in found.plan.mechanisms}
    if len(multipliers) > 1:  # stages that share the budget by another rule
        return
    again = answer(_with(asked, noise_multiplier=multipliers.pop()))
    assert again.claims[0].epsilon == pytest.approx(claim.epsilon, rel=1e-3)
    assert again.shown.noise_stddev == pytest.approx(found.shown.noise_stddev, rel=1e-9)


@pytest.mark.parametrize("method", ["edgerand", "lapgraph", "pertgraph", "dpar"])
def test_methods_that_share_epsilon_by_a_rule_of_their_own_take_a_target_alone(method: str) -> None:
    more = {"num_steps": 50} if method == "dpar" else {}
    found = answer(question(method, num_train=2000, delta=1e-5, target_epsilon=4.0, **more))
    assert 3.9 < found.claims[0].epsilon <= 4.0
    with pytest.raises(ValueError, match="noise_multiplier must not be given"):
        answer(question(method, num_train=2000, delta=1e-5, noise_multiplier=2.0, **more))


def _with(asked: Question, **known: Any) -> Question:
    return dataclasses.replace(asked, **{"noise_multiplier": None, "target_epsilon": None, **known})


def test_the_published_steps_of_the_first_row_are_668() -> None:
    found = answer(dp_gnn(mode="published", noise_multiplier=2.0, target_epsilon=12.0))
    assert (found.num_steps, found.shown.noise_stddev) == (668, 32.0)
    assert found.claims[0].epsilon == pytest.approx(11.99, abs=5e-3)
    assert found.claims[0].status == "as-published"
    assert "sampler-ripple" in found.claims[0].caveats
    assert found.steps_within_target is None


def test_the_sound_claim_is_about_the_same_noise_and_the_same_steps() -> None:
    found = answer(dp_gnn(noise_multiplier=2.0, target_epsilon=12.0))
    assert (found.num_steps, found.shown.noise_stddev) == (668, 32.0)
    assert found.claims[0].epsilon == pytest.approx(6.768, abs=1e-3)
    assert found.claims[0].status == "proved"
    assert found.steps_within_target is not None
    within = answer(dp_gnn(noise_multiplier=2.0, num_steps=found.steps_within_target))
    assert 11.99 < within.claims[0].epsilon <= 12.0


@pytest.mark.parametrize(("bound", "epsilon"), [(7, 14.95), (15, 26.2), (30, 52.9), (100, 270)])
def test_protecting_the_other_half_edges_costs_what_the_bound_says(
    bound: int, epsilon: float
) -> None:
    asked = dp_gnn(
        privacy_unit="node-bounded", relation="add-remove", options={"degree_bound": bound},
        noise_multiplier=2.0, num_steps=669, delta=1 / 909410,
    )  # fmt: skip
    found = answer(asked)
    ((event, _),) = parts(found.shown.event)
    assert isinstance(event, PoissonRoots)
    assert event.d_plus == 1 + 7 + bound
    assert found.claims[0].epsilon == pytest.approx(epsilon, rel=3e-3)


def test_a_low_rate_with_many_changed_roots_needs_no_more_noise_than_a_fine_grid_says() -> None:
    asked = dp_gnn(
        relation="replace-one", target_epsilon=1.0, num_steps=5000, delta=8e-8,
        options={"num_hops": 2, "training.expected_batch_size": 64},
    )  # fmt: skip
    found = answer(dataclasses.replace(asked, facts=facts(1_200_000)))
    assert found.shown.noise_stddev == pytest.approx(4.027, abs=0.02)


@pytest.mark.parametrize(
    ("relation", "changed"),
    [("add-remove", (1, 0)), ("replace-one", (1, 1)), ("null-one", (1, 1))],
)
def test_the_sound_event_of_dp_mlp_is_all_its_steps(
    relation: str, changed: tuple[int, int]
) -> None:
    asked = question(
        "dp_mlp", num_train=1000, relation=relation, noise_multiplier=2.0, num_steps=30,
        options={"training.expected_batch_size": 50},
    )  # fmt: skip
    expected: PoissonRoots[Any] = PoissonRoots(
        relation=relation, noise_stddev=2.0, clipping_norm=1.0, sampling_probability=0.05,
        d_plus=changed[0], d_minus=changed[1],
    )  # type: ignore[arg-type]  # fmt: skip
    assert parts(answer(asked).shown.event) == ((expected, 30),)


@pytest.mark.parametrize(("drawn", "walks"), [(None, 500), (700, 700)])
def test_the_sound_event_of_drw_is_a_batch_of_the_walks_there_are(
    drawn: int | None, walks: int
) -> None:
    asked = question(
        "drw", num_train=1000, noise_multiplier=4.0, num_steps=30,
        options={"batch_size": 50, "clipping_norm": 1.0},
    )  # fmt: skip
    if drawn is not None:
        known = dataclasses.replace(facts(1000), structure={"num_subgraphs": drawn})
        asked = dataclasses.replace(asked, facts=known)
    ((event, count),) = parts(answer(asked).shown.event)
    assert isinstance(event, FixedSizeRoots)
    assert (event.population, event.batch_size, event.changed_roots, count) == (walks, 50, 1, 30)


@pytest.mark.parametrize("name", ["dp_gnn", "dp_mlp", "gap", "caribou", "gap, node"])
def test_the_sound_epsilon_is_never_above_the_rdp_of_the_same_event(name: str) -> None:
    asked = _with(QUESTIONS[name], noise_multiplier=3.0)
    found = answer(asked)
    for row in compare(asked, found, [1, found.num_steps]):
        assert row.pld <= row.rdp * (1 + 1e-3)
        assert row.paper > 0


def test_a_plan_at_given_noise_is_the_plan_of_a_run_with_that_noise() -> None:
    """One code path: the mechanism and the claim of a study's entry."""
    asked = dp_gnn(noise_multiplier=2.0, num_steps=50)
    entry = entry_of(dataclasses.replace(asked, options={**asked.options, "training.num_steps": 50,
                                                         "training.noise_multiplier": 2.0}))  # fmt: skip
    plan = methods.get("dp_gnn").plan(
        entry, asked.facts, Budget(epsilon=math.inf, delta=asked.delta)
    )
    found = answer(asked)
    assert found.plan.mechanisms == plan.mechanisms
    assert found.plan.claims == plan.claims


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"noise_multiplier": 1.0}, "two of the three"),
        ({"noise_multiplier": 1.0, "num_steps": 1, "target_epsilon": 1.0}, "two of the three"),
        ({"noise_multiplier": 1.0, "num_steps": 1, "delta": 2.0}, "delta must be in"),
        ({"noise_multiplier": 1.0, "num_steps": 1, "mode": "both"}, "unknown mode"),
        ({"noise_multiplier": 1.0, "num_steps": 0}, "num_steps must be >= 1"),
        ({"num_steps": 1, "target_epsilon": -1.0}, "target_epsilon must be > 0 and finite"),
        ({"num_steps": 1, "target_epsilon": math.inf}, "target_epsilon must be > 0 and finite"),
        ({"num_steps": 1, "noise_multiplier": math.nan}, "noise_multiplier must be > 0 and finite"),
        (
            {"noise_multiplier": 0.1, "target_epsilon": 1.0, "mode": "published"},
            "the epsilon of a single step",
        ),
        ({"num_steps": 1, "noise_multiplier": 1.0, "privacy_unit": "node"}, "must be one of"),
        (
            {"num_steps": 1, "noise_multiplier": 1.0,
             "options": {"training.expected_batch_size": 100_000}},
            "expected_batch_size must be <= the number of training nodes",
        ),
        ({"num_steps": 1, "noise_multiplier": 1.0, "options": {"max_degre": 3}}, "max_degree"),
    ],
)  # fmt: skip
def test_bad_questions_are_refused(words: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        answer(dp_gnn(**words))


@pytest.mark.filterwarnings("error")
def test_hardly_any_noise_costs_everything_and_is_no_traceback() -> None:
    found = answer(dp_gnn(noise_multiplier=1e-300, num_steps=5))
    assert found.claims[0].epsilon == math.inf
    with pytest.raises(ValueError, match="method mlp must be private"):
        answer(question("mlp", noise_multiplier=1.0))


def test_an_answer_is_printed_as_its_claims_and_mechanisms() -> None:
    import dpgnn

    named = {"unit": "node-record", "relation": "add-remove"}
    found = dpgnn.account("DP-GNN", epsilon=4, num_steps=100, delta=1e-6, nodes=20_000, **named)
    first, *_, last = str(found).splitlines()
    claim, mechanism = found.claims[0], found.plan.mechanisms[0]
    assert first.startswith(f"node-record, add-remove: epsilon {claim.epsilon:.6g} at delta 1e-06")
    assert "proved by pld" in first
    assert last == f"train: noise {mechanism.noise_stddev:.6g}, sensitivity 15, times 100"


@pytest.mark.parametrize(("name", "value", "most"), [
    ("noise_multiplier", 1e308, "1e\\+100"), ("num_steps", 10**30, "1000000000000"),
])  # fmt: skip
def test_numbers_beyond_arithmetic_are_refused_by_name(name, value, most):
    known = {"noise_multiplier": 2.0, "num_steps": 5} | {name: value}
    with pytest.raises(ValueError, match=f"{name} must be <= {most}"):
        answer(dp_gnn(**known))

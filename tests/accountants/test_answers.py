"""Accounting of every method without data: as published and as proved, solved in three directions."""

import math

import pytest

from dpgnn.accountants import answers, cases, cases_dpar
from dpgnn.accountants.answers import Question, answer
from dpgnn.accountants.events import PoissonRoots, compose

DELTA = 1.0996096e-06


def dp_gnn(**changes):
    arguments = {"num_train_nodes": 90941, "batch_size": 10000, "max_degree": 7, "num_hops": 1}
    return cases.dp_gnn(**{**arguments, **changes})


def training(relation="null-one"):
    return compose(
        PoissonRoots(
            relation=relation, noise_stddev=2.0, clipping_norm=1.0, sampling_probability=0.1,
            d_plus=1, d_minus=1,
        ),
        50,
    )  # fmt: skip


CASES = {
    "dp_gnn": dp_gnn(),
    "dp_mlp": cases.dp_mlp(num_train_nodes=90941, batch_size=10000),
    "drw": cases.drw(num_train_nodes=90941, batch_size=20000, walk_length=1),
    "dpar em": cases_dpar.dpar(
        num_train_nodes=2000, batch_size=60, subsample_rate=0.09, num_vectors=70, num_selected=2,
        delta=DELTA,
    ),
    "dpar gm": cases_dpar.dpar(
        num_train_nodes=2000, batch_size=60, subsample_rate=1.0, num_vectors=70, num_selected=2,
        delta=DELTA, selection="gm",
    ),
    "caribou": cases.caribou(
        contraction=0.9, sensitivity=1.0, unit="edge", relation="add-remove"
    ),
    "caribou, node": cases.caribou(
        contraction=0.9, sensitivity=1.0, unit="node-bounded", relation="null-one",
        degree_bound=20, training=training(),
    ),
    "gap": cases.aggregation(
        method="gap", sensitivity=math.sqrt(2), unit="edge", relation="add-remove"
    ),
    "gap, node": cases.aggregation(
        method="gap", sensitivity=4.0, unit="node-bounded", relation="null-one", degree_bound=16,
        training=training(),
    ),
    "gap, node, rows": cases.aggregation(
        method="gap", sensitivity=4.0, unit="node-bounded", relation="null-one", degree_bound=16
    ),
    "dpdgc": cases.aggregation(
        method="dpdgc", sensitivity=1.0, unit="edge", relation="add-remove"
    ),
    "gaussian": cases.gaussian(sensitivity=1.0, unit="node", relation="replace-one"),
}  # fmt: skip


def steps_of(name):
    return 1 if name == "dpdgc" else 4 if "gap" in name or "caribou" in name else 20


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("mode", ["published", "sound"])
def test_noise_for_a_target_spends_at_most_the_target(name, mode):
    case, steps = CASES[name], steps_of(name)
    found = answer(case, Question(mode=mode, delta=DELTA, num_steps=steps, target_epsilon=6.0))
    assert found.num_steps == steps
    assert 5.9 < found.epsilon <= 6.0
    again = answer(
        case,
        Question(mode=mode, delta=DELTA, num_steps=steps, noise_multiplier=found.noise_multiplier),
    )
    assert again.epsilon == pytest.approx(found.epsilon, rel=1e-9)
    assert found.claims[0].epsilon == found.epsilon
    assert found.claims[0].status == (
        "proved" if mode == "sound" and name != "gap, node, rows" else "as-published"
    )
    if mode == "sound" and name.startswith("gap, node"):
        rows = name == "gap, node, rows"
        assert found.claims[0].released == ("noisy-state" if rows else "weights")
        assert ("own-row-uncounted" in found.claims[0].caveats) == rows


@pytest.mark.parametrize("name", [n for n in CASES if "dpar" not in n])
def test_the_sound_epsilon_is_never_above_the_rdp_of_the_same_event(name):
    case = CASES[name]
    noise = 3.0 * case.reference_sensitivity
    for row in answers.compare(case, noise, [1, steps_of(name)], DELTA):
        assert row.pld <= row.rdp * (1 + 1e-3)


def test_the_published_steps_of_the_first_row_are_668():
    question = Question(mode="published", delta=DELTA, noise_multiplier=2.0, target_epsilon=12.0)
    found = answer(dp_gnn(), question)
    assert found.num_steps == 668
    assert found.epsilon == pytest.approx(11.99, abs=5e-3)
    assert found.noise_stddev == 32.0
    stated, proved = found.claims
    assert stated.status == "as-published"
    assert "sampler-ripple" in stated.caveats
    assert (proved.privacy_unit, proved.relation) == ("node-features", "replace-one")
    assert proved.epsilon == pytest.approx(11.235, abs=2e-3)


def test_the_sound_claim_is_about_the_same_noise_and_the_same_steps():
    question = Question(mode="sound", delta=DELTA, noise_multiplier=2.0, target_epsilon=12.0)
    found = answer(dp_gnn(), question)
    assert (found.num_steps, found.noise_stddev) == (668, 32.0)
    assert found.epsilon == pytest.approx(6.768, abs=1e-3)
    assert found.claims[0].status == "proved"
    within = answer(
        dp_gnn(),
        Question(mode="sound", delta=DELTA, noise_multiplier=2.0,
                 num_steps=found.steps_within_target),
    )  # fmt: skip
    assert 11.99 < within.epsilon <= 12.0


@pytest.mark.parametrize(("bound", "epsilon"), [(7, 14.95), (15, 26.2), (30, 52.9), (100, 270)])
def test_protecting_the_other_half_edges_costs_what_the_bound_says(bound, epsilon):
    case = dp_gnn(unit="node-bounded", degree_bound=bound)
    assert case.details["d_plus"] == 1 + 7 + bound
    assert case.epsilon(32.0, 669, 1 / 909410) == pytest.approx(epsilon, rel=3e-3)


def test_the_true_epsilon_of_dpars_published_budget_is_far_above_it():
    case = CASES["dpar em"]
    noise = answer(
        case, Question(mode="published", delta=DELTA, num_steps=800, target_epsilon=1.0)
    ).noise_stddev
    assert case.epsilon(noise, 800, DELTA) > 8.0


def test_only_edge_claims_extend_to_weights_whose_training_is_not_counted():
    for name, released in (("caribou", "weights"), ("caribou, node", "weights")):
        case = CASES[name]
        assert answers.claims_of(case, "sound", 5.0, 2, DELTA)[0].released == released
    alone = cases.caribou(
        contraction=0.9, sensitivity=1.0, unit="node-bounded", relation="null-one", degree_bound=9
    )
    assert answers.claims_of(alone, "sound", 5.0, 2, DELTA)[0].released == "noisy-state"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (Question(mode="sound", delta=DELTA, noise_multiplier=1.0), "two of the three"),
        (Question(mode="sound", delta=DELTA, noise_multiplier=1.0, num_steps=1,
                  target_epsilon=1.0), "two of the three"),
        (Question(mode="sound", delta=2.0, noise_multiplier=1.0, num_steps=1), "delta must be in"),
        (Question(mode="both", delta=DELTA, noise_multiplier=1.0, num_steps=1), "unknown mode"),
        (Question(mode="published", delta=DELTA, noise_multiplier=0.1, target_epsilon=1.0),
         "the epsilon of a single step"),
        (Question(mode="published", delta=DELTA, noise_multiplier=1.0, num_steps=0),
         "num_steps must be >= 1"),
    ],
)  # fmt: skip
def test_bad_questions_are_refused(question, message):
    with pytest.raises(ValueError, match=message):
        answer(CASES["dp_gnn"], question)


def test_bad_cases_are_refused():
    with pytest.raises(ValueError, match="batch_size must be <= population"):
        CASES["dp_gnn"] and dp_gnn(batch_size=100_000).published_epsilon(1.0, 1, DELTA)
    with pytest.raises(ValueError, match="num_walks must be >= M_min = 45471"):
        cases.drw(num_train_nodes=90941, batch_size=100, walk_length=1, num_walks=5)
    with pytest.raises(ValueError, match="promises nothing for node / add-remove"):
        dp_gnn(unit="node")
    with pytest.raises(ValueError, match="num_steps must be 1 for dpdgc"):
        CASES["dpdgc"].published_epsilon(1.0, 2, DELTA)

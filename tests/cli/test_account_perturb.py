"""`dpgnn account` of gap, dpdgc and caribou: the plans' own numbers, and no claim beyond them."""

import json
import math

import pytest

from dpgnn import methods
from dpgnn.__main__ import main
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts

FACTS = Facts(num_nodes=2708, num_train=1895, num_features=1433, num_classes=7, task="multiclass")
STAGE = {"batch_size": 256, "num_epochs": 10}
DELTA = "1e-05"


def account(capsys, *words):
    assert main(["account", *words, "--delta", DELTA, "--mode", "sound", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def refusal(capsys, *words):
    assert main(["account", *words, "--delta", DELTA, "--mode", "sound"]) == 1
    return capsys.readouterr().err


def plan_of(method, unit, relation, **options):
    found = methods.get(method)
    node = {"encoder": STAGE, "head": STAGE, "max_degree": 5}
    entry = Entry(
        name=method, method=method, mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(found.config, {"node": node} | options),
    )  # fmt: skip
    return found.plan(entry, FACTS, Budget(epsilon=4.0, delta=float(DELTA)))


def flags_of(name, mechanism):
    rate = STAGE["batch_size"] / FACTS.num_train
    return (
        f"--{name}-noise", repr(mechanism.details["noise_multiplier"]),
        f"--{name}-steps", str(mechanism.num_steps), f"--{name}-rate", repr(rate),
    )  # fmt: skip


def test_dpdgc_at_edge_level_costs_what_its_plan_claims(capsys):
    plan = plan_of("dpdgc", "edge", "add-remove")
    embedding, release = plan.mechanisms
    values = account(
        capsys, "dpdgc", "--num-steps", "1", "--sensitivity", repr(release.sensitivity),
        "--noise-multiplier", repr(release.details["noise_multiplier"]),
        *flags_of("training", embedding),
    )  # fmt: skip
    assert values["epsilon"] == pytest.approx(plan.claims[0].epsilon, rel=1e-9)
    assert values["details"]["training_changed_roots"] == [2, 2]
    assert values["details"]["training_noise_stddev"] == pytest.approx(embedding.noise_stddev)
    assert release.sensitivity == pytest.approx(math.sqrt(2))


@pytest.mark.parametrize("relation", ["add-remove", "null-one", "replace-one"])
def test_dpdgc_at_node_level_costs_what_its_plan_claims(capsys, relation):
    plan = plan_of("dpdgc", "node-bounded", relation)
    embedding, release, head = plan.mechanisms
    words = (
        "dpdgc", "--num-steps", "1", "--sensitivity", repr(release.sensitivity),
        "--noise-multiplier", repr(release.details["noise_multiplier"]), "--degree-bound", "5",
        "--privacy-unit", "node-bounded", "--relation", relation,
    )  # fmt: skip
    trained = flags_of("training", embedding)
    values = account(capsys, *words, *trained, *flags_of("head", head))
    claim = values["claims"][0]
    assert values["epsilon"] == pytest.approx(plan.claims[0].epsilon, rel=1e-9)
    assert (claim["status"], claim["released"]) == ("proved", "weights")
    # without the head's training the weights are not covered, and the noisy rows cost the node's own row
    claim = account(capsys, *words, *trained)["claims"][0]
    assert (claim["status"], claim["released"]) == ("as-published", "noisy-state")


@pytest.mark.parametrize("relation", ["add-remove", "null-one"])
def test_gap_and_caribou_cost_what_their_plans_claim(capsys, relation):
    more = {"gap": (), "caribou": ("--contraction", "0.9")}
    options = {"gap": {}, "caribou": {"contraction": 0.9}}
    for method, words in more.items():
        plan = plan_of(method, "node-bounded", relation, num_hops=2, **options[method])
        parts = {m.name: m for m in plan.mechanisms}
        release = parts.pop("aggregate")
        if len({m.details["noise_multiplier"] for m in parts.values()}) > 1:
            first, second = parts.values()
            assert flags_of("training", first)[2:] == flags_of("training", second)[2:]
            assert first.details["noise_multiplier"] == pytest.approx(
                second.details["noise_multiplier"], rel=1e-6
            )
        one = next(iter(parts.values()))
        trained = list(flags_of("training", one))
        trained[3] = str(sum(m.num_steps for m in parts.values()))
        values = account(
            capsys, method, *words, "--num-steps", "2", "--degree-bound", "5",
            "--sensitivity", repr(release.sensitivity), "--privacy-unit", "node-bounded",
            "--noise-multiplier", repr(release.details["noise_multiplier"]),
            "--relation", relation, *trained,
        )  # fmt: skip
        assert values["epsilon"] == pytest.approx(plan.claims[0].epsilon, rel=1e-5)


def test_sound_dpdgc_counts_the_training_of_its_embedding(capsys):
    asked = ("--num-steps", "1", "--noise-multiplier", "2", "--sensitivity", "1.4143")
    assert "add --training-noise" in refusal(capsys, "dpdgc", *asked)
    trained = ("--training-noise", "2", "--training-steps", "200", "--training-rate", "0.1")
    node = ("--privacy-unit", "node-bounded")
    assert "degree_bound must be given" in refusal(capsys, "dpdgc", *asked, *trained, *node)
    head = ("--head-noise", "1", "--head-steps", "1", "--head-rate", "0.1")
    assert "costs nothing there" in refusal(capsys, "dpdgc", *asked, *trained, *head)


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("gap", "sqrt(2) = 1.41421 for an undirected edge"),
        ("dpdgc", "s sqrt(2) = 1.41421 (s = 1) for an undirected edge"),
        ("caribou --contraction 0.9", "sqrt(2) c alpha1 = 1.27279 for alpha1 = 1"),
        ("gap --privacy-unit node-bounded --degree-bound 16 --relation replace-one",
         "2 sqrt(D) = 8 for one node"),
        ("caribou --contraction 0.9 --privacy-unit node-bounded", "docs/methods/caribou.md"),
    ],
)  # fmt: skip
def test_sound_mode_asks_for_the_sensitivity_and_names_the_proved_one(capsys, words, value):
    asked = (*words.split(), "--num-steps", "1", "--noise-multiplier", "2")
    error = refusal(capsys, *asked)
    assert "sensitivity must be given in sound mode" in error
    assert value in error
    published = ["account", *asked, "--delta", DELTA]
    if "node" not in words:
        assert main(published) == 0


def test_the_sensitivity_is_among_what_is_public(capsys):
    words = ("--num-steps", "2", "--noise-multiplier", "2", "--sensitivity", "1.5")
    claim = account(capsys, "gap", *words)["claims"][0]
    assert "sensitivity of one release = 1.5" in claim["assumed_public"]
    claim = account(capsys, "caribou", "--contraction", "0.9", *words)["claims"][0]
    assert "sensitivity of one hop = 1.5" in claim["assumed_public"]


def test_nothing_is_claimed_where_the_plan_refuses(capsys):
    asked = ("--num-steps", "2", "--noise-multiplier", "2", "--sensitivity", "5")
    bounded = ("--privacy-unit", "node-bounded", "--degree-bound", "5")
    caribou = ("caribou", "--contraction", "0.9", *asked, *bounded)
    assert "its number of rows is public" in refusal(capsys, *caribou, "--relation", "add-remove")
    found = account(capsys, *caribou, "--relation", "null-one")["claims"][0]
    assert (found["status"], found["released"]) == ("proved", "noisy-state")
    trained = ("--training-noise", "2", "--training-steps", "20", "--training-rate", "0.1")
    found = account(capsys, *caribou, "--relation", "add-remove", *trained)["claims"][0]
    assert found["released"] == "weights"
    assert "protects" in refusal(capsys, "gap", *asked, "--privacy-unit", "node")

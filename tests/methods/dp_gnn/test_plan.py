"""Plans of DP-GNN against the worked numbers of the paper's accounting and of ours."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import pytest
from helpers import ROOT

from dpgnn import methods
from dpgnn.accountants import rdp
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.accountants.published import dpgnn_num_steps, layerwise_event
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.samplers.promise import occurrence_bound

VECTORS = json.loads((ROOT / "tests" / "accountants" / "accounting_vectors.json").read_text())[
    "dpgnn"
]
METHOD = methods.get("dp_gnn")
RECORD = ("node-record", "replace-one")


def entry_of(mode: Any, pair: tuple[str, str] = RECORD, **options: Any) -> Entry:
    """An entry of the method, checked."""
    entry = Entry(
        name="e", method="dp_gnn", mode=mode, privacy_unit=pair[0], relation=pair[1],
        options=strict.read(METHOD.config, options),
    )  # fmt: skip
    METHOD.check_entry(entry, "entries.e")
    return entry


def facts_of(num_train: int, num_nodes: int | None = None) -> Facts:
    """Public facts of a graph with the features and classes of ogbn-arxiv."""
    return Facts(
        num_nodes=num_nodes or num_train, num_train=num_train, num_features=128, num_classes=40,
        task="multiclass",
    )  # fmt: skip


def plan_of(entry: Entry, num_train: int, epsilon: float, delta: float) -> Plan:
    """A plan from facts and a budget."""
    return METHOD.plan(entry, facts_of(num_train), Budget(epsilon=epsilon, delta=delta))


def training(m: int, noise: float | None, steps: int = 100_000) -> dict[str, Any]:
    """Options of the loop."""
    return {"expected_batch_size": m, "noise_multiplier": noise, "num_steps": steps}


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row['result_table']} {row['method']} {row['dataset']}")
        for row in VECTORS["dpgnn_theorem1"]
    ],
)
@pytest.mark.parametrize("reference_code", [False, True])
def test_the_planner_finds_the_steps_of_every_row_of_the_papers_tables(
    row: dict[str, Any], reference_code: bool
) -> None:
    given = row["inputs"]
    entry = entry_of(
        "published", conv="gin" if "GIN" in row["method"] else "gcn", num_hops=given["r"],
        max_degree=given["K"], reference_code=reference_code, thresholds="public",
        clipping="global" if not reference_code else "auto", noise="joint",
        training=training(given["m"], float(given["noise_multiplier"])),
    )  # fmt: skip
    plan = plan_of(entry, given["N"], given["epsilon_target"], 1 / (10 * given["N"]))
    (mechanism,) = plan.mechanisms
    assert mechanism.num_steps == plan.num_steps == row["ref_grid_improved"]["T"]
    assert plan.claims[0].epsilon == pytest.approx(row["ref_grid_improved"]["eps_at_T"], abs=2e-3)
    assert plan.claims[0].epsilon <= given["epsilon_target"]
    assert plan.claims[0].status == "as-published"
    assert mechanism.details["max_occurrences"] == given["terms"]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{row['table']} K={row['K']} m={row['m']} {row.get('rule', '')}")
        for row in VECTORS["dpgnn_ablations"]
    ],
)
def test_the_planner_finds_the_steps_of_the_ablations(row: dict[str, Any]) -> None:
    entry = entry_of(
        "published", max_degree=row["K"], thresholds="public",
        training=training(row["m"], float(row["noise_multiplier"])),
    )  # fmt: skip
    plan = plan_of(entry, 90941, 12, 1 / 909410)
    assert plan.num_steps == row["T_ref_improved"]


def test_noise_from_steps_and_steps_from_noise_are_inverse() -> None:
    options: dict[str, Any] = {"max_degree": 7, "thresholds": "public"}
    given = entry_of("published", **options, training=training(10_000, None, 668))
    plan = plan_of(given, 90941, 12, 1 / 909410)
    found = plan.mechanisms[0].details["stated_noise_multiplier"]
    assert found == pytest.approx(2.0, rel=2e-3)
    back = entry_of("published", **options, training=training(10_000, found))
    assert plan_of(back, 90941, 12, 1 / 909410).num_steps == 668


def test_a_budget_below_one_step_is_refused_with_its_cost() -> None:
    entry = entry_of("published", max_degree=7, training=training(10_000, 0.05))
    with pytest.raises(ValueError, match=r"epsilon must be at least .* what one step costs"):
        plan_of(entry, 90941, 1, 1 / 909410)


def test_noise_per_group_is_planned_as_a_smaller_joint_multiplier_and_has_its_caveats() -> None:
    options: dict[str, Any] = {"max_degree": 7, "decoder_layers": 2}
    entry = entry_of("published", **options, training=training(10_000, 2.0))
    plan = plan_of(entry, 90941, 12, 1 / 909410)
    (mechanism,) = plan.mechanisms
    ((event, count),) = parts(mechanism.event)
    assert isinstance(event, FixedSizeRoots)
    assert count == 668
    # one group of three gets lambda 2 C_l N(K, r); the joint multiplier is a sqrt(3) smaller
    assert event.noise_stddev / event.clipping_norm == pytest.approx(2 * 2 * 8 / math.sqrt(3))
    stated, nothing, features = plan.claims
    assert {"layerwise-noise", "clip-thresholds-from-data", "sampler-ripple"} <= set(stated.caveats)
    assert (nothing.status, nothing.epsilon) == ("proved", math.inf)
    assert features.privacy_unit == "node-features"
    # Renyi says 23.86 for three groups; the loss distribution of the same pair lies below
    assert 20 < features.epsilon < 23.86
    expected = VECTORS["critique_checks"]
    joint = dataclasses.replace(event, noise_stddev=event.noise_stddev * math.sqrt(3))
    for groups in (1, 3, 8):
        steps = dpgnn_num_steps(
            layerwise_event(joint, groups), 12, 1 / 909410, orders=rdp.WIDE_ORDERS
        )
        assert steps == expected[f"layerwise_{groups}"]["T_at_eps12"]


def test_the_reference_code_counts_one_joint_noise() -> None:
    entry = entry_of("published", reference_code=True, training=training(10_000, 2.0))
    plan = plan_of(entry, 90941, 12, 1 / 909410)
    assert "layerwise-noise" not in plan.claims[0].caveats
    ((event, _),) = parts(plan.mechanisms[0].event)
    assert isinstance(event, FixedSizeRoots)
    assert event.noise_stddev / event.clipping_norm == pytest.approx(2 * 2 * 8)


@pytest.mark.parametrize(
    ("num_train", "m", "degree", "hops", "noise", "steps", "epsilon"),
    [
        (90941, 10_000, 7, 1, 2.0, 669, 6.77),
        (196615, 10_000, 10, 1, 1.0, 543, 5.78),
        (153932, 10_000, 10, 1, 1.0, 391, 6.28),
        (90941, 20_000, 3, 2, 2.0, 265, 9.15),
    ],
)
def test_the_tight_count_of_the_papers_noise_is_the_worked_epsilon(
    num_train: int, m: int, degree: int, hops: int, noise: float, steps: int, epsilon: float
) -> None:
    entry = entry_of(
        "sound", ("node-record", "add-remove"), max_degree=degree, num_hops=hops,
        training=training(m, noise, steps),
    )  # fmt: skip
    plan = plan_of(entry, num_train, 100.0, 1 / (10 * num_train))
    proved, paper = plan.claims
    assert plan.num_steps == steps
    assert proved.epsilon == pytest.approx(epsilon, abs=6e-3)
    assert proved.status == "proved"
    # the same run by the paper's formula
    assert paper.epsilon == pytest.approx(12.0, abs=0.02)
    assert paper.status == "as-published"


def test_the_tight_count_needs_the_worked_share_of_the_papers_noise() -> None:
    for pair, worked in (
        (("node-record", "add-remove"), 1.236),
        (("node-record", "null-one"), 1.318),
        (("node-record", "replace-one"), 2.473),
        (("node-features", "replace-one"), 1.318),
    ):
        entry = entry_of("sound", pair, max_degree=7, training=training(10_000, None, 669))
        plan = plan_of(entry, 90941, 12.0, 1 / 909410)
        assert plan.mechanisms[0].details["noise_multiplier"] == pytest.approx(worked, abs=3e-3)


@pytest.mark.parametrize("hops", [0, 1, 2, 3])
@pytest.mark.parametrize("sampler", ["own_list", "stable"])
def test_changed_roots_are_those_of_the_samplers_promise(sampler: str, hops: int) -> None:
    num = occurrence_bound(2, hops)
    inner = occurrence_bound(2, hops - 1)
    wanted = {
        "own_list": {
            ("node-record", "add-remove"): (num, num - 1),
            ("node-record", "null-one"): (num, num),
            ("node-record", "replace-one"): (2 * num - 1,) * 2,
            ("node-features", "replace-one"): (num, num),
            ("node-bounded", "add-remove"): (num + 5 * inner, num + 5 * inner - 1),
        },
        "stable": {
            ("node-features", "replace-one"): (num, num),
            ("node-record", "replace-one"): ((1 + 4) * inner + 2**hops,) * 2,
        },
    }[sampler]
    for pair, expected in wanted.items():
        if hops == 0:
            expected = (1, 0) if pair[1] == "add-remove" else (1, 1)
        entry = entry_of(
            "sound", pair, sampler=sampler, num_hops=hops, max_degree=2, degree_bound=5,
            training=training(50, None, 20),
        )  # fmt: skip
        (mechanism,) = plan_of(entry, 500, 4.0, 1e-4).mechanisms
        ((event, _),) = parts(mechanism.event)
        assert isinstance(event, PoissonRoots)
        assert (event.d_plus, event.d_minus) == expected, pair
        assert mechanism.sensitivity == pytest.approx(sum(expected))


@pytest.mark.parametrize(
    ("relation", "too_few"), [("add-remove", False), ("null-one", False), ("replace-one", True)]
)
def test_the_papers_formula_for_a_sound_run_says_where_it_counts_too_few_roots(
    relation: str, too_few: bool
) -> None:
    entry = entry_of("sound", ("node-record", relation), training=training(100, None, 20))
    paper = plan_of(entry, 1000, 2.0, 1e-5).claims[1]
    assert ("sampler-ripple" in paper.caveats) == too_few
    assert paper.accountant == "dpgnn-theorem-1"


def test_counting_by_theorem_1_needs_more_noise_for_the_same_claim() -> None:
    pair = ("node-record", "null-one")
    noise = {}
    for counting in ("theorem-1", "rdp", "pld"):
        entry = entry_of(
            "sound", pair, counting=counting, max_degree=7, training=training(10_000, None, 669)
        )
        plan = plan_of(entry, 90941, 12.0, 1 / 909410)
        assert plan.claims[0].status == "proved"
        assert plan.claims[0].epsilon <= 12.0
        # theorem 1 of the paper is what the Renyi accountant counts for batches of fixed size
        assert plan.claims[0].accountant == ("pld" if counting == "pld" else "rdp")
        noise[counting] = plan.mechanisms[0].details["noise_multiplier"]
    assert noise["theorem-1"] == pytest.approx(2.0, rel=2e-3)
    assert noise["theorem-1"] / noise["pld"] == pytest.approx(1.52, abs=0.01)
    assert noise["pld"] < noise["rdp"] < noise["theorem-1"]


def test_private_quantiles_are_planned_and_counted() -> None:
    options: dict[str, Any] = {
        "max_degree": 2, "clipping": "group", "decoder_layers": 2,
        "training": training(100, None, 50),
    }  # fmt: skip
    pair = ("node-record", "add-remove")
    plain = plan_of(entry_of("sound", pair, **options), 1000, 4.0, 1e-5)
    options |= {"thresholds": "private-quantile", "quantile_epsilon": 0.3}
    chosen = plan_of(entry_of("sound", pair, **options), 1000, 4.0, 1e-5)
    names = [mechanism.name for mechanism in chosen.mechanisms]
    assert names == [
        "threshold/encoder", "threshold/aggregation", "threshold/decoder", "train",
    ]  # fmt: skip
    assert chosen.mechanisms[-1].noise_stddev > plain.mechanisms[-1].noise_stddev
    assert chosen.claims[0].epsilon <= 4.0
    # three choices with pure epsilon 0.1 each
    assert chosen.mechanisms[0].details["scale"] == pytest.approx(2 * 3 / 0.1)


def test_features_alone_are_protected_under_the_published_sampler_with_a_proof() -> None:
    """FDP: with the structure public, DP-GNN's own sampler keeps its promise."""
    pair = ("node-features", "replace-one")
    loop = training(10_000, None, 669)
    sound = entry_of("sound", pair, sampler="published", max_degree=7, training=loop)
    plan = plan_of(sound, 90941, 12.0, 1 / 909410)
    assert plan.claims[0].status == "proved"
    assert plan.mechanisms[0].details["noise_multiplier"] == pytest.approx(1.318, abs=3e-3)
    published = entry_of(
        "published", pair, max_degree=7, thresholds="public", clipping="global", training=loop
    )
    stated, proved = plan_of(published, 90941, 12.0, 1 / 909410).claims
    assert "sampler-ripple" not in stated.caveats
    assert proved.status == "proved"
    # the same pair by its loss distribution instead of Renyi divergences
    assert proved.epsilon == pytest.approx(11.25, abs=0.02)


@pytest.mark.parametrize(
    ("mode", "pair", "options", "message"),
    [
        ("sound", RECORD, {"sampler": "published"}, r"sampler of .* be own_list or stable"),
        ("sound", RECORD, {"thresholds": "percentile"}, "public or private-quantile"),
        ("sound", RECORD, {"reference_code": True}, "use mode: published"),
        ("sound", ("node-bounded", "add-remove"), {}, "degree_bound must be declared"),
        ("sound", ("node-record", "add-remove"), {"counting": "theorem-1"}, "fixed-size batches"),
        ("published", ("node-bounded", "add-remove"), {}, "privacy_unit"),
        ("sound", ("node", "add-remove"), {}, "privacy_unit / relation must be one of"),
    ],
)
def test_what_does_not_go_together_is_refused_by_name(
    mode: str, pair: tuple[str, str], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        entry_of(mode, pair, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_hops": 4}, "num_hops must be at most 3"),
        ({"encoder_layers": 0}, "skip must be false"),
        ({"aggregate_once": True, "conv": "gin"}, "conv with aggregate_once"),
        ({"encoder_layers": 0}, "skip must be false where encoder_layers is 0"),
        ({"decoder_layers": 0}, "skip must be false where decoder_layers is 0"),
        ({"quantile": 1.0}, "quantile must be in"),
        ({"max_degree": -1}, "max_degree"),
    ],
)
def test_impossible_options_are_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        entry_of("sound", ("node-record", "add-remove"), **options)

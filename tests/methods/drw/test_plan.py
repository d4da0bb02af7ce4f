"""DRW's plans: the table of steps to a budget, the claims, and what is refused."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any

import numpy as np
import pytest
from helpers import ROOT

from dpgnn import methods
from dpgnn.accountants import composition
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, compose, parts
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry, Facts
from dpgnn.methods.drw.plan import epsilon_after, num_steps_for, with_multiplier

VECTORS = json.loads((ROOT / "tests" / "accountants" / "accounting_vectors.json").read_text())[
    "drw"
]
METHOD = methods.get("drw")
FEATURES = ("node-features", "replace-one")
RECORD = ("node-record", "add-remove")
COLUMNS = {
    "wang": "T_wang_capped_int2to64",
    "wang-forward-difference": "T_wang_forward_difference",
    "rdp": "T_tight_wor",
    "unamplified": "T_unamplified",
}


def entry_of(mode: Any, pair: tuple[str, str] = FEATURES, **options: Any) -> Entry:
    """An entry of the method, checked."""
    entry = Entry(
        name="e", method="drw", mode=mode, privacy_unit=pair[0], relation=pair[1],
        options=strict.read(METHOD.config, options),
    )  # fmt: skip
    METHOD.check_entry(entry, "entries.e")
    return entry


def plan_of(entry: Entry, num_train: int, num_subgraphs: int | None, budget: Budget) -> Plan:
    """A plan from public facts."""
    structure = {} if num_subgraphs is None else {"num_subgraphs": num_subgraphs}
    facts = Facts(
        num_nodes=2 * num_train, num_train=num_train, num_features=4, num_classes=2,
        task="multiclass", structure=structure,
    )  # fmt: skip
    return METHOD.plan(entry, facts, budget)


@pytest.mark.parametrize("column", COLUMNS)
def test_every_column_of_the_steps_table_is_what_the_planner_computes(column: Any) -> None:
    assert len(VECTORS["rows"]) == 112
    for row in VECTORS["rows"]:
        given = row["inputs"]
        entry = entry_of(
            "published", num_layers=row["depth"], num_restarts=given["R"], batch_size=given["m"]
        )
        assert entry.options.walk_length == 0  # not resolved yet
        event = with_multiplier(
            FixedSizeRoots(
                relation="replace-one", noise_stddev=1.0, clipping_norm=0.25,
                population=given["M_min"], batch_size=given["m"], changed_roots=1,
            ),
            given["noise_multiplier"],
        )  # fmt: skip
        steps = num_steps_for(event, given["epsilon_target"], given["delta"], column)
        assert steps == row[COLUMNS[column]], (row["sampler"], row["dataset"], row["depth"], given)


def test_the_plan_of_an_entry_is_the_first_column() -> None:
    for row in VECTORS["rows"]:
        given = row["inputs"]
        if given["noise_multiplier"] != 4:
            continue
        entry = entry_of(
            "published", num_layers=row["depth"], num_restarts=given["R"], batch_size=given["m"],
            noise_multiplier=4.0, clipping_norm=0.01,
        )  # fmt: skip
        budget = Budget(epsilon=8, delta=given["delta"])
        plan = plan_of(entry, given["N_train"], given["M_min"], budget)
        (mechanism,) = plan.mechanisms
        assert plan.num_steps == row["T_wang_capped_int2to64"]
        assert plan.claims[0].epsilon == pytest.approx(row["eps_at_T"], rel=1e-5)
        assert mechanism.noise_stddev == pytest.approx(4 * 2 * 0.01)
        assert mechanism.divisor == given["m"]
        assert mechanism.details["smallest_population"] == given["M_min"]


def test_published_claims_are_followed_by_a_proved_one_that_is_smaller() -> None:
    entry = entry_of("published", batch_size=20000, noise_multiplier=4.0)
    plan = plan_of(entry, 90941, 50478, Budget(epsilon=8, delta=1e-6))
    stated, proved = plan.claims
    assert stated.status == "as-published"
    assert "population-estimate" in stated.caveats
    assert proved.status == "proved"
    assert proved.epsilon < stated.epsilon <= 8
    ((event, count),) = parts(plan.mechanisms[0].event)
    assert (event.population, count) == (50478, plan.num_steps)
    exact = composition.epsilon(compose(event, count), delta=1e-6, relation="replace-one")
    assert proved.epsilon == exact


def test_the_exact_profile_allows_the_steps_of_the_accounting_table() -> None:
    # arxiv, delta 1e-6: without replacement and Poisson, by depth and lambda
    for depth, multiplier, expected in [
        (1, 1.0, (5, 12)), (1, 2.0, (36, 49)), (1, 4.0, (172, 194)), (2, 2.0, (17, 21)),
    ]:  # fmt: skip
        for batches, steps in zip(("fixed", "poisson"), expected):
            entry = entry_of(
                "sound", num_layers=depth, batch_size=20000, batches=batches,
                noise_multiplier=multiplier,
            )  # fmt: skip
            smallest = -(-90941 // (depth + 1))
            plan = plan_of(entry, 90941, smallest, Budget(epsilon=8, delta=1e-6))
            assert plan.num_steps == steps, (depth, multiplier, batches)


def test_node_record_plans_count_the_changed_roots_of_the_chain() -> None:
    # arxiv, depth 1, lambda 1, delta 1e-6: add/remove and replace
    for relation, steps, changed in [
        ("add-remove", 18, (2, 1)),
        ("replace-one", 5, (3, 3)),
    ]:
        entry = entry_of(
            "sound", ("node-record", relation), num_layers=1, batch_size=20000,
            batches="poisson", noise_multiplier=1.0, clipping_norm=0.01,
        )  # fmt: skip
        plan = plan_of(entry, 90941, None, Budget(epsilon=8, delta=1e-6))
        ((event, _),) = parts(plan.mechanisms[0].event)
        assert isinstance(event, PoissonRoots)
        assert (event.d_plus, event.d_minus) == changed
        assert event.sampling_probability == 20000 / 90941
        assert plan.num_steps == steps
        assert plan.claims[0].privacy_unit == "node-record"


def test_walks_drawn_afresh_are_counted_with_the_smallest_population() -> None:
    entry = entry_of("sound", resample_every=1, batch_size=46, num_layers=2, num_steps=9,
                     noise_multiplier=None)  # fmt: skip
    plan = plan_of(entry, 140, 120, Budget(epsilon=8, delta=1e-5))
    ((event, count),) = parts(plan.mechanisms[0].event)
    assert (event.population, count) == (47, 9)


def test_more_walks_never_cost_more() -> None:
    # the profile grows with q, so M_min stands for every M above it
    spent = []
    for population in (50, 60, 80, 140):
        event = FixedSizeRoots(
            relation="replace-one", noise_stddev=4.0, clipping_norm=1.0, population=population,
            batch_size=46, changed_roots=1,
        )  # fmt: skip
        spent.append(epsilon_after(event, 30, 1e-5, "pld"))
    assert spent == sorted(spent, reverse=True)


@pytest.mark.parametrize("accountant", ["wang", "unamplified", "rdp", "pld"])
def test_one_step_more_would_exceed_the_budget(accountant: Any) -> None:
    event = FixedSizeRoots(
        relation="replace-one", noise_stddev=4.0, clipping_norm=1.0, population=70,
        batch_size=40, changed_roots=1,
    )  # fmt: skip
    steps = num_steps_for(event, 8.0, 1e-5, accountant)
    assert epsilon_after(event, steps, 1e-5, accountant) <= 8
    assert epsilon_after(event, steps + 1, 1e-5, accountant) > 8


@pytest.mark.parametrize("mode", ["published", "sound"])
def test_calibrated_noise_meets_the_budget_closely(mode: Any) -> None:
    entry = entry_of(mode, noise_multiplier=None, num_steps=100, batch_size=46, num_layers=2)
    plan = plan_of(entry, 140, 100, Budget(epsilon=4, delta=1e-5))
    assert plan.num_steps == 100
    assert 0.99 * 4 < plan.claims[0].epsilon <= 4


def test_a_budget_that_allows_no_step_says_what_one_costs() -> None:
    entry = entry_of("published", noise_multiplier=0.1, batch_size=46)
    with pytest.raises(ValueError, match="epsilon of a single step"):
        plan_of(entry, 140, 100, Budget(epsilon=1, delta=1e-5))


def test_a_batch_larger_than_the_number_of_walks_is_refused() -> None:
    entry = entry_of("sound", batch_size=101)
    with pytest.raises(ValueError, match=r"batch_size must be <= the number of subgraphs, 100"):
        plan_of(entry, 140, 100, Budget(epsilon=8, delta=1e-5))


def test_clipping_norms_read_from_data_leave_no_proved_epsilon() -> None:
    entry = entry_of("published", clip_reading="times-percentile", batch_size=46)
    plan = plan_of(entry, 140, 100, Budget(epsilon=8, delta=1e-5))
    assert "clip-thresholds-from-data" in plan.claims[0].caveats
    assert math.isinf(plan.claims[1].epsilon)


@pytest.mark.parametrize(
    ("mode", "pair", "options", "match"),
    [
        ("published", RECORD, {}, "sampler"),
        ("sound", RECORD, {"sampler": "walks"}, "sampler"),
        ("published", FEATURES, {"batches": "poisson"}, "batches"),
        ("published", FEATURES, {"accountant": "pld"}, "accountant"),
        ("sound", FEATURES, {"accountant": "wang"}, "accountant"),
        ("sound", FEATURES, {"clip_reading": "quantile"}, "clip_reading"),
        ("sound", FEATURES, {"noise_multiplier": None}, "num_steps"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    mode: Any, pair: tuple[str, str], options: dict[str, Any], match: str
) -> None:
    with pytest.raises(ValueError, match=match):
        entry_of(mode, pair, **options)


def test_the_smallest_population_is_that_of_the_paper() -> None:
    for row in VECTORS["rows"]:
        given = row["inputs"]
        config = strict.read(
            METHOD.config, {"sampler": "walks", "num_layers": row["depth"],
                            "num_restarts": given["R"]},
        )  # fmt: skip
        assert config.smallest_population(given["N_train"]) == given["M_min"]
        drawn = dataclasses.replace(config, batch_fraction=1.0)
        assert drawn.subgraphs_in_batch(given["N_train"]) == given["M_min"]


def test_one_step_of_fdp_costs_less_than_two_with_a_wide_grid_of_orders() -> None:
    """The paper's remark that FDP cannot reach epsilon < 2 comes from orders that end at 9.9."""
    from dpgnn.accountants.published import dpgnn_epsilon
    from dpgnn.accountants.rdp import REFERENCE_ORDERS, WIDE_ORDERS

    training_nodes = {"flickr": 44625, "arxiv": 90941, "reddit": 153932}
    batches = {"flickr": 10000, "arxiv": 20000, "reddit": 30000}
    deltas = {"flickr": 1e-6, "arxiv": 1e-7, "reddit": 1e-7}
    rows = [row for row in VECTORS["fdp_baseline_one_step"] if row["noise_multiplier"] >= 4]
    assert len(rows) >= 12
    for row in rows:
        name = row["dataset"]
        event = FixedSizeRoots(
            relation="replace-one", noise_stddev=row["noise_multiplier"] * 2 * row["terms"],
            clipping_norm=1.0, population=training_nodes[name], batch_size=batches[name],
            changed_roots=row["terms"],
        )  # fmt: skip
        narrow, wide = (
            dpgnn_epsilon(event, 1, deltas[name], orders=orders)
            for orders in (REFERENCE_ORDERS, WIDE_ORDERS)
        )
        assert narrow == pytest.approx(row["eps_1step_ref_grid_improved"], rel=1e-4)
        assert wide == pytest.approx(row["eps_1step_wide"], rel=1e-4)
        assert wide < min(2.0, narrow)
        # the tight pair is below it again
        assert composition.epsilon(event, delta=deltas[name], relation="replace-one") <= wide + 1e-6


def test_steps_grow_with_the_budget() -> None:
    entry = entry_of("sound", batch_size=46, num_layers=2)
    steps = [
        plan_of(entry, 140, 100, Budget(epsilon=epsilon, delta=1e-5)).num_steps
        for epsilon in (1, 2, 4, 8)
    ]
    assert np.all(np.diff(steps) > 0)

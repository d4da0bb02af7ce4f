"""What the auditor of a training loop aims at: sums of the real loop, scored by their exact likelihood."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from audit_requests import FACTS, FULL, request
from scipy.stats import kstest, norm

from dpgnn.audits import training_audit
from dpgnn.audits.batch_laws import rate_of
from dpgnn.audits.capture import Case
from dpgnn.audits.request import case_of
from dpgnn.audits.training_audit import BIASES, NUM_WEIGHTS, SCALES, Aim, Score, aim_at

STAGE = "train"


@pytest.fixture(scope="module")
def case() -> Case:
    return case_of(request(options=FULL, facts=FACTS))


@pytest.fixture(scope="module")
def aim(case: Case) -> Aim:
    return aim_at(case, case.plan.mechanism(STAGE))


def test_the_canary_moves_the_sum_by_the_planned_sensitivity(case: Case, aim: Aim) -> None:
    mechanism = case.plan.mechanism(STAGE)
    assert mechanism.sensitivity is not None
    assert aim.moved() == pytest.approx(mechanism.sensitivity, rel=1e-3)
    assert aim.shift == pytest.approx(mechanism.sensitivity / mechanism.noise_stddev, rel=1e-3)
    assert aim.changed() == (1, 0)
    assert aim.rate == 1.0


def test_the_sum_over_all_roots_is_the_sum_of_their_rows(aim: Aim) -> None:
    for world, rows in zip(aim.worlds, aim.rows):
        total = training_audit.noise_free_sum(world, aim.initial)
        assert np.allclose(total, rows.sum(axis=0), atol=1e-5)
        assert np.linalg.norm(rows, axis=1).max() <= world.spec.clipping.total_norm * (1 + 1e-5)


def test_candidates_stretch_drawn_weights_and_push_one_class(aim: Aim) -> None:
    world = aim.worlds[0]
    found = training_audit.candidates(world, 5)
    assert len(found) == NUM_WEIGHTS * len(SCALES) * len(BIASES)
    again = training_audit.candidates(world, 5)
    assert all(torch.equal(a, b) for a, b in zip(found, again))
    assert not torch.equal(found[0], training_audit.candidates(world, 6)[0])
    assert torch.allclose(found[0] * SCALES[1], found[len(BIASES)])
    pushed = found[1] - found[0]
    assert (pushed != 0).sum() == 1
    assert pushed.max() == BIASES[1]


def test_a_watched_loop_moves_no_weight_and_shows_every_step(aim: Aim) -> None:
    before, seen = aim.initial.clone(), []
    training_audit.watch(aim.worlds[0], aim.initial, 3, 0, seen.append, stage=STAGE)
    assert len(seen) == 3
    assert torch.equal(aim.initial, before)
    assert not torch.equal(seen[0], seen[1])  # fresh noise each step


def test_projections_are_standard_normal_about_means_that_differ_by_the_shift(aim: Aim) -> None:
    found = [
        training_audit.projections(aim, 400, 3, inside=inside, stage=STAGE)
        for inside in (True, False)
    ]
    means = [side.sum() for side in aim.offsets]
    for values, mean in zip(found, means):
        assert kstest(values - mean, norm.cdf).pvalue > 1e-4
    assert abs(means[0] - means[1]) == pytest.approx(aim.shift)


def test_with_every_root_in_the_batch_the_score_is_the_ratio_of_two_gaussians(aim: Aim) -> None:
    score, first, second = Score.of(aim), aim.offsets[0].sum(), aim.offsets[1].sum()
    places = np.linspace(first - 4, first + 4, 9)
    exact = norm.logpdf(places, first) - norm.logpdf(places, second)
    assert np.allclose(score(places), exact, atol=0.02)


def test_with_coins_the_score_is_the_ratio_of_two_mixtures() -> None:
    options = {"width": 8, "training": {"num_steps": 4, "expected_batch_size": 300}}
    sampled = case_of(request(options=options, facts=FACTS))
    aim = aim_at(sampled, sampled.plan.mechanism(STAGE))
    assert aim.rate == pytest.approx(0.5)
    score = Score.of(aim)
    # Monte Carlo of a step in both worlds against the tabulated ratio of their densities
    rng, laws = np.random.default_rng(0), []
    for offsets in aim.offsets:
        coins = rng.random((40_000, len(offsets))) < aim.rate
        laws.append(coins @ offsets + rng.normal(size=40_000))
    low, high = np.quantile(np.concatenate(laws), [0.1, 0.9])
    edges = np.linspace(low, high, 9)
    counts = [np.histogram(law, edges)[0] for law in laws]
    middles = (edges[:-1] + edges[1:]) / 2
    kept = (counts[0] > 1000) & (counts[1] > 1000)
    assert kept.any()
    ratio = np.log(counts[0][kept] / counts[1][kept])
    assert np.allclose(score(middles[kept]), ratio, atol=0.15)


def test_a_replaced_canary_is_tried_with_both_labels_and_the_larger_shift_is_tested() -> None:
    case = case_of(request("dp_mlp", "node", "replace-one", FULL))
    aim = aim_at(case, case.plan.mechanism(STAGE))
    (other,) = aim.also
    assert aim.moved() >= other.moved()
    labels = [[world.gradients.trees.y for world in each.worlds] for each in (aim, other)]
    assert sorted(int((y != z).sum()) for y, z in labels) == [0, 1]


def test_a_rate_is_that_of_the_event() -> None:
    fixed = {"width": 4, "max_degree": 2, "training": {"num_steps": 4, "expected_batch_size": 9}}
    asked = request("dp_gnn", "node-record", "replace-one", fixed, mode="published", facts=FACTS)
    mechanism = case_of(asked).plan.mechanism(STAGE)
    event = mechanism.event.parts[0][0]  # type: ignore[attr-defined]
    assert rate_of(event) == pytest.approx(9 / event.population)


def test_where_the_canary_moves_measured_thresholds_every_root_changes() -> None:
    """With the same seeds and public thresholds no more roots change than the paper states."""
    moved = []
    for seed in range(8):
        for rule in ("percentile", "public"):
            options = {"width": 4, "max_degree": 7, "thresholds": rule,
                       "training": {"num_steps": 4, "expected_batch_size": 60}}  # fmt: skip
            changes = {"mode": "published", "facts": FACTS, "root_seed": seed}
            case = case_of(request("dp_gnn", "node-record", "replace-one", options, **changes))
            mechanism = case.plan.mechanism(STAGE)
            stated = mechanism.event.parts[0][0].changed_roots  # type: ignore[attr-defined]
            aim = aim_at(case, mechanism)
            first, second = (world.spec.clipping.total_norm for world in aim.worlds)
            if first != second:
                assert rule == "percentile"
                assert aim.changed() == (len(aim.rows[0]), len(aim.rows[1]))
                moved.append(seed)
            else:
                assert max(aim.changed()) <= stated
    assert 0 < len(moved) < 8

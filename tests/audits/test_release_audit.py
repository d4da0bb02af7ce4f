"""Audits of releases: a direction that tells the worlds apart, chosen on runs that are not used again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_requests import FACTS, request

from dpgnn import methods
from dpgnn.accountants.composition import curve
from dpgnn.accountants.events import compose_all
from dpgnn.accountants.plan import Budget
from dpgnn.audits import release_audit
from dpgnn.audits.capture import Case
from dpgnn.audits.release_audit import aim_at_release, attained_share, release_mechanisms, shapes
from dpgnn.audits.request import case_of

ONE_HOP = {"num_hops": 1}


@pytest.fixture(scope="module")
def gap() -> Case:
    return case_of(request("gap", "edge", options=ONE_HOP, facts=FACTS))


def scores_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """400 runs of each world along the direction that pilots chose."""
    aim = aim_at_release(case, 1)
    inside, outside = (
        np.array([aim.score(10_000 + i + 5_000 * side, inside=not side) for i in range(400)])
        for side in (0, 1)
    )
    return inside, outside


@pytest.mark.parametrize(
    ("method", "unit", "relation", "share"),
    [
        ("gap", "node-bounded", "null-one", 0.9),
        ("dpdgc", "edge", "add-remove", 0.9),
        ("dpdgc", "node-record", "null-one", 0.9),
        ("votes", "node-record", "add-remove", 0.7),
    ],
)
def test_the_canary_reaches_most_of_the_sensitivity(
    method: str, unit: str, relation: str, share: float
) -> None:
    case = case_of(request(method, unit, relation, facts=FACTS))
    whole = compose_all(*(m.event for m in release_mechanisms(case.plan)))
    assert (attained_share(*scores_of(case), curve(whole).mu) or 0.0) >= share


def test_one_hop_of_caribou_is_seen_whole_by_a_pair_of_opposite_rows() -> None:
    options = {**methods.get("caribou").example, **ONE_HOP}
    case = case_of(
        request("caribou", "edge", options=options, budget=Budget(epsilon=16.0, delta=1e-4))
    )
    (mechanism,) = release_mechanisms(case.plan)
    assert (attained_share(*scores_of(case), curve(mechanism.event).mu) or 0.0) >= 0.7


def test_sizes_that_differ_tell_the_worlds_apart(gap: Case) -> None:
    same = shapes(gap, 0)
    assert same is not None
    assert same.passed
    options = {
        "width": 4,
        "batch_size": 8,
        "num_steps": 5,
        "num_vectors": None,
        "subsample_rate": 0.9,
    }
    dpar = case_of(request("dpar", "node", mode="published", options=options))
    other = shapes(dpar, 0)
    assert other is not None
    assert not other.passed
    assert other.p_value == 0.0
    assert "numbers in G" in other.found


def test_a_plan_of_clipped_sums_has_no_release() -> None:
    case = case_of(request(facts=FACTS))
    assert release_mechanisms(case.plan) == []
    assert shapes(case, 0) is None


def test_noise_is_left_out_of_gaussian_releases_alone(gap: Case) -> None:
    quiet = release_audit._without_noise(gap.plan)
    assert quiet is not None
    assert [m.noise_stddev for m in release_mechanisms(quiet)] == [0.0]
    clipped = [m.noise_stddev for m in gap.plan.mechanisms if m.clipping_norm is not None]
    assert [m.noise_stddev for m in quiet.mechanisms if m.clipping_norm is not None] == clipped
    laplace = case_of(request("lapgraph", "edge", facts=FACTS)).plan
    assert release_audit._without_noise(laplace) is None


def test_without_noise_the_worlds_differ_by_no_more_than_the_planned_sensitivity(gap: Case) -> None:
    quiet = release_audit._without_noise(gap.plan)
    (mechanism,) = release_mechanisms(gap.plan)
    still = replace(gap, kept={})
    sides = [still.release(still.prepared(inside), 0, quiet) for inside in (True, False)]
    moved = np.linalg.norm(sides[0] - sides[1])
    assert 0 < moved <= mechanism.sensitivity * (1 + 1e-6)


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_attained_share_is_that_of_the_shift(mu: float) -> None:
    rng = np.random.default_rng(0)
    scores = (rng.normal(0.6 * mu, 1, 20_000), rng.normal(0, 1, 20_000))
    assert attained_share(*scores, mu) == pytest.approx(0.6, abs=0.05)
    assert attained_share(scores[0] + 10 * mu, scores[1], mu) == 1.0
    assert attained_share(*scores, None) is None


def test_directions_of_pilots_drop_what_is_noise() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(60, 200)), rng.normal(size=(60, 200))
    first[:, 7] += 3.0
    found = release_audit._welch(first, second)
    assert np.argmax(np.abs(found)) == 7
    assert (found != 0).sum() < 10
    assert release_audit._separation(first, second, found) > 1.5


def test_hops_of_a_release_are_tried_one_by_one() -> None:
    pieces = release_audit._pieces(np.array([1.0, 0.0, 0.0, 2.0]))
    assert [piece.tolist() for piece in pieces] == [[1, 0, 0, 2], [1, 0, 0, 0], [0, 0, 0, 2]]
    assert len(release_audit._pieces(np.array([0.0, 3.0]))) == 2
    assert release_audit._pieces(np.zeros(4)) == []

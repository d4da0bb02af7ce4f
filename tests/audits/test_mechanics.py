"""The exact tests of a loop: a correct one passes, and each wrong statement about it fails its own test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from audit_requests import FACTS, request
from scipy.stats import kstest

from dpgnn.accountants.events import compose, parts
from dpgnn.accountants.plan import Mechanism
from dpgnn.audits import mechanics
from dpgnn.audits.mechanics import examine_loop
from dpgnn.audits.request import case_of
from dpgnn.audits.training_audit import Aim, aim_at

OPTIONS = {"width": 16, "training": {"num_steps": 30, "expected_batch_size": 300}}


@pytest.fixture(scope="module")
def audited() -> tuple[Aim, Mechanism]:
    case = case_of(request(options=OPTIONS, facts=FACTS))
    mechanism = case.plan.mechanism("train")
    return aim_at(case, mechanism), mechanism


def failed(aim: Aim, mechanism: Mechanism, seed: int = 0) -> list[str]:
    found = examine_loop(aim, mechanism, seed=seed, level=0.001, num_steps=20)
    assert len({check.name for check in found}) == len(found) == 14
    return [check.name for check in found if not check.passed]


def test_the_correct_loop_passes_with_every_seed(audited: tuple[Aim, Mechanism]) -> None:
    for seed in range(3):
        assert failed(*audited, seed=seed) == []


def stated(change: Callable[[Any], Any]) -> Callable[[Mechanism], Mechanism]:
    """The mechanism with another event."""

    def changed(mechanism: Mechanism) -> Mechanism:
        (event, count), *_ = parts(mechanism.event)
        return replace(mechanism, event=compose(change(event), count))

    return changed


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda m: replace(m, noise_stddev=1.1 * m.noise_stddev), "noise over clipping norm"),
        (stated(lambda e: replace(e, sampling_probability=0.3)), "batch size"),
        (stated(lambda e: replace(e, d_plus=0)), "changed roots"),
        (stated(lambda e: replace(e, d_plus=0)), "shift of the sum"),
        (lambda m: replace(m, divisor=2 * m.divisor), "divisor"),
    ],
)
def test_a_plan_that_says_otherwise_is_accused(
    audited: tuple[Aim, Mechanism], change: Callable[[Mechanism], Mechanism], name: str
) -> None:
    aim, mechanism = audited
    assert name in failed(aim, change(mechanism))


def test_noise_a_tenth_too_small_and_noise_that_repeats_are_seen(
    audited: tuple[Aim, Mechanism], monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpgnn.training import dp_sgd

    real = dp_sgd.add_noise
    monkeypatch.setattr(
        dp_sgd, "add_noise", lambda total, stddev, *, rng: real(total, 0.9 * stddev, rng=rng)
    )
    assert "noise deviation" in failed(*audited)
    monkeypatch.setattr(
        dp_sgd,
        "add_noise",
        lambda total, stddev, *, rng: real(total, stddev, rng=np.random.default_rng(0)),
    )
    assert "fresh noise" in failed(*audited)


def test_rows_beyond_the_clipping_norm_are_seen(audited: tuple[Aim, Mechanism]) -> None:
    aim, mechanism = audited
    longer = replace(aim, rows=(1.01 * aim.rows[0], aim.rows[1]))
    assert "clipping" in failed(longer, mechanism)


def test_what_only_another_record_of_the_canary_shows_is_seen(
    audited: tuple[Aim, Mechanism],
) -> None:
    aim, mechanism = audited
    rng = np.random.default_rng(0)
    other = replace(
        aim, rows=(aim.rows[0], aim.rows[1] + 1e-3 * rng.normal(size=aim.rows[1].shape))
    )
    longer = replace(aim, rows=(1.01 * aim.rows[0], aim.rows[1]))
    assert failed(replace(aim, also=(aim,)), mechanism) == []
    assert "changed roots" in failed(replace(aim, also=(other,)), mechanism)
    assert "clipping" in failed(replace(aim, also=(longer,)), mechanism)


def test_a_root_drawn_twice_is_seen(audited: tuple[Aim, Mechanism]) -> None:
    aim, mechanism = audited
    twice = mechanics._certain(aim, mechanism, [np.array([0, 1, 1]), np.array([2])])
    assert [c.found for c in twice if not c.passed] == ["1 repeated roots"]


def test_p_values_of_correct_noise_are_uniform() -> None:
    rng = np.random.default_rng(0)
    squares = [mechanics.two_sided(float((rng.normal(size=50) ** 2).sum()), 50) for _ in range(500)]
    slopes = []
    for _ in range(500):
        z, sums = rng.normal(size=(2, 40))
        slopes.append(mechanics.normal(mechanics._slope(z, sums)))
    for values in (squares, slopes):
        assert kstest(values, "uniform").pvalue > 1e-3
    assert mechanics._slope(np.ones(3), np.zeros(3)) == 0.0
    assert mechanics._smallest([0.5, 0.01, 0.9]) == pytest.approx(0.03)

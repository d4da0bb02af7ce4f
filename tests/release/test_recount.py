"""dp-accounting, told of the same events, counts what our accountant counts."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.accountants import composition, events, gdp
from dpgnn.accountants.events import Event, compose, compose_all
from dpgnn.release import recount as module
from dpgnn.release.recount import pure_epsilon, recount
from dpgnn.release.recount_best import recount_any


def poisson(noise: float, rate: float, plus: int, minus: int, relation: Any) -> Event[Any]:
    return events.PoissonRoots(
        relation=relation, noise_stddev=noise, clipping_norm=1.0, sampling_probability=rate,
        d_plus=plus, d_minus=minus,
    )  # fmt: skip


def fixed(noise: float, population: int, batch: int, changed: int) -> Event[Any]:
    return events.FixedSizeRoots(
        relation="replace-one", noise_stddev=noise, clipping_norm=1.0, population=population,
        batch_size=batch, changed_roots=changed,
    )  # fmt: skip


def bit(one_if_one: float, one_if_zero: float) -> Event[Any]:
    return events.RandomizedResponse(
        relation="add-remove", one_if_one=one_if_one, one_if_zero=one_if_zero
    )


def laplace(sensitivity: float) -> Event[Any]:
    return events.LaplaceRelease(relation="add-remove", scale=1.0, sensitivity=sensitivity)


GAUSSIAN = events.GaussianRelease(relation="add-remove", noise_stddev=2.0, sensitivity=1.0)
NO_SCORES = events.GumbelTopK(
    relation="add-remove", scale=4.0, score_sensitivity=0.0, num_selected=3
)
CASES: dict[str, Event[Any]] = {
    "one root": compose(poisson(1.0, 0.01, 1, 0, "add-remove"), 2000),
    "four and three roots": compose(poisson(6.0, 0.1, 4, 3, "add-remove"), 300),
    "many roots": compose(poisson(60.0, 0.05, 25, 25, "replace-one"), 500),
    "all roots": compose(poisson(13.0, 1.0, 1, 0, "add-remove"), 200),
    "without replacement": compose(fixed(3.0, 1000, 50, 1), 300),
    "several without replacement": compose(fixed(20.0, 1000, 50, 5), 300),
    "Laplace": compose(events.LaplaceRelease(relation="null-one", scale=20.0, sensitivity=1.0), 30),
    "randomised response": compose(bit(0.7, 0.1), 3),
    "an answer that may tell": compose_all(bit(1e-7, 0.0), GAUSSIAN),
    "certain answers": compose(bit(1.0, 0.0), 3),
    "few without replacement": compose(fixed(99.5, 32, 6, 1), 500),
    "pure mechanisms": compose_all(bit(0.7, 0.1), laplace(1.0)),
    "much Gaussian noise beside": compose_all(
        events.GaussianRelease(relation="add-remove", noise_stddev=200.0, sensitivity=1.0),
        compose(poisson(1.0, 0.01, 1, 0, "add-remove"), 500),
    ),
    "some without loss": compose_all(bit(0.5, 0.5), laplace(0.0), NO_SCORES, GAUSSIAN),
    "contractive": events.ContractiveIteration(
        relation="add-remove", noise_stddev=2.0, sensitivity=1.0, num_hops=10, contraction=0.8
    ),
    "two mechanisms": compose_all(GAUSSIAN, compose(poisson(1.0, 0.01, 1, 0, "add-remove"), 500)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_both_accountants_count_the_same(name: str, delta: float) -> None:
    event = CASES[name]
    ours = composition.epsilon(event, delta=delta, relation=event.relation)
    assert recount(event, delta) == pytest.approx(ours, rel=1e-4)


@pytest.mark.parametrize(("eta", "gamma"), [(0.0, 0.1), (1.0, 0.25), (-0.5, 0.02)])
def test_both_accountants_count_the_same_for_the_best_of_several_runs(
    eta: float, gamma: float
) -> None:
    runs = (GAUSSIAN, compose(GAUSSIAN, 2), CASES["two mechanisms"])
    event = events.BestOf(relation="add-remove", runs=runs, eta=eta, gamma=gamma)
    ours = composition.epsilon(event, delta=1e-5, relation="add-remove")
    assert recount_any(compose(event, 1), 1e-5) == pytest.approx(ours, rel=1e-3)
    assert recount_any(GAUSSIAN, 1e-5) == recount(GAUSSIAN, 1e-5)
    with pytest.raises(TypeError, match="not among other events"):
        recount_any(compose_all(event, GAUSSIAN), 1e-5)


def test_gaussian_noise_alone_has_its_closed_form() -> None:
    mu = math.sqrt(7) / 2
    assert recount(compose(GAUSSIAN, 7), 1e-6) == pytest.approx(gdp.epsilon(mu, 1e-6), rel=1e-9)
    nothing = events.GaussianRelease(relation="add-remove", noise_stddev=2.0, sensitivity=0.0)
    assert recount(nothing, 1e-6) == 0.0
    bare = events.GaussianRelease(relation="add-remove", noise_stddev=0.0, sensitivity=1.0)
    assert recount(bare, 1e-6) == math.inf


def test_one_step_with_several_roots_is_the_integral_of_its_two_mixtures() -> None:
    from scipy.stats import binom, norm

    noise, rate, plus, minus = 1.5, 0.3, 3, 2
    x = np.linspace(-20, 20, 400_001)
    p, q = (
        sum(binom.pmf(i, d, rate) * norm.pdf(x, sign * i, noise) for i in range(d + 1))
        for d, sign in ((plus, 1), (minus, -1))
    )
    epsilon = recount(poisson(noise, rate, plus, minus, "add-remove"), 1e-3)
    deltas = [
        float(np.maximum(a - math.exp(epsilon) * b, 0).sum() * (x[1] - x[0]))
        for a, b in ((p, q), (q, p))
    ]
    assert max(deltas) == pytest.approx(1e-3, rel=1e-3)


def test_the_largest_loss_is_a_closed_form() -> None:
    noise = events.LaplaceRelease(relation="null-one", scale=2.0, sensitivity=1.0)
    gumbel = events.GumbelTopK(
        relation="null-one", scale=4.0, score_sensitivity=1.0, num_selected=3
    )
    assert pure_epsilon(compose(noise, 3)) == pytest.approx(1.5)
    assert pure_epsilon(gumbel) == pytest.approx(1.5)
    assert pure_epsilon(bit(0.7, 0.1)) == pytest.approx(math.log(7))
    assert pure_epsilon(bit(0.7, 0.0)) == math.inf
    assert pure_epsilon(GAUSSIAN) == math.inf


def test_what_it_does_not_count_it_names() -> None:
    gumbel = events.GumbelTopK(
        relation="null-one", scale=4.0, score_sensitivity=1.0, num_selected=3
    )
    with pytest.raises(TypeError, match="dp-accounting counts no GumbelTopK"):
        recount(gumbel, 1e-5)


def test_it_shares_nothing_with_our_accountants_but_the_events() -> None:
    tree = ast.parse(Path(module.__file__).read_text(encoding="utf-8"))
    found = {
        node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("dpgnn")
    }
    assert found == {"dpgnn.accountants.events", "dpgnn.core.checks"}

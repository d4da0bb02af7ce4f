"""Renyi divergences against closed forms, dp-accounting and the PLD of the same events."""

import math

import numpy as np
import pytest
from scipy.stats import hypergeom

from dpgnn.accountants import composition, events, rdp
from dpgnn.accountants.events import compose

ORDERS = np.array([1.2, 1.5, 2.0, 3.0, 5.0, 9.9, 16.0, 40.0])


def test_the_sampled_gaussian_agrees_with_dp_accounting_at_integer_orders(poisson):
    from dp_accounting.rdp import rdp_privacy_accountant as library

    for noise, rate in ((1.0, 0.11), (3.0, 0.4), (0.7, 0.01)):
        theirs = library._compute_rdp_poisson_subsampled_gaussian(
            rate, noise, [2.0, 3.0, 5.0, 16.0, 40.0]
        )
        ours = rdp.event_rdp(poisson(noise, rate, 1, 0), ORDERS)[0]
        assert ours[[2, 3, 4, 6, 7]] == pytest.approx(theirs, rel=1e-9)


def test_the_divergence_of_a_discretised_pair_agrees(poisson):
    # moment of the discrete loss: sum mass * exp((a - 1) loss)
    from dpgnn.accountants import mixtures, pld

    event = poisson(6.0, 0.3, 5, 4)
    pair = mixtures.two_sided_pair(event)
    for one, found in zip((pair, pair.reversed()), rdp.event_rdp(event, ORDERS[:6])):
        loss = pld.mixture_loss(one, 1e-3)
        for order, value in zip(ORDERS[:6], found):
            moment = float(loss.mass @ np.exp((order - 1) * loss.losses))
            assert math.log(moment) / (order - 1) == pytest.approx(value, rel=2e-4)


def test_theorem_1_is_the_plain_hypergeometric_sum(fixed):
    event = fixed(10.0, 50, 12, 4)
    i = np.arange(5)
    weights = hypergeom.pmf(i, 50, 4, 12)
    for order in (1.5, 2.0, 7.0):
        moment = weights @ np.exp(order * (order - 1) * (2 * i) ** 2 / (2 * 100))
        expected = math.log(moment) / (order - 1)
        assert rdp.revealed_rdp(event, np.array([order]))[0] == pytest.approx(expected)


def test_theorem_1_lies_between_its_two_limits(fixed):
    event = fixed(32.0, 90941, 10000, 8)
    gamma = rdp.revealed_rdp(event, ORDERS)
    assert (gamma <= ORDERS / 8).all()
    assert (gamma >= ORDERS / 8 * (10000 / 90941) ** 2).all()


def test_one_root_without_replacement_at_full_rate_is_the_gaussian(fixed):
    nearly = rdp.glued_rdp(fixed(4.0, 10**9, 10**9 - 1, 1), ORDERS)
    assert nearly == pytest.approx(ORDERS / 8, rel=1e-6)
    assert rdp.event_rdp(fixed(4.0, 10, 10, 1), ORDERS)[0] == pytest.approx(ORDERS / 8)


def test_laplace_and_response_agree_with_their_sums():
    laplace = events.LaplaceRelease(relation="null-one", scale=2.0, sensitivity=3.0)
    x = np.linspace(-80, 80, 1_600_001)
    p, q = np.exp(-np.abs(x) / 2) / 4, np.exp(-np.abs(x - 3) / 2) / 4
    for order, value in zip(ORDERS[:5], rdp.event_rdp(laplace, ORDERS[:5])[0]):
        moment = float((p**order * q ** (1 - order)).sum() * (x[1] - x[0]))
        assert math.log(moment) / (order - 1) == pytest.approx(value, rel=1e-4)
    bit = events.RandomizedResponse(relation="add-remove", one_if_one=0.6, one_if_zero=0.3)
    there, back = rdp.event_rdp(bit, np.array([3.0]))
    assert there[0] == pytest.approx(math.log(0.6**3 / 0.3**2 + 0.4**3 / 0.7**2) / 2)
    assert back[0] == pytest.approx(math.log(0.3**3 / 0.6**2 + 0.7**3 / 0.4**2) / 2)
    sure = events.RandomizedResponse(relation="add-remove", one_if_one=0.6, one_if_zero=0.0)
    assert np.isinf(rdp.event_rdp(sure, np.array([2.0]))[0][0])


def test_pld_is_never_above_rdp_for_any_event(every_event):
    for name, event in every_event.items():
        for count in (1, 20):
            whole = compose(event, count)
            asked = {"delta": 1e-6, "relation": event.relation}
            tight = composition.epsilon(whole, **asked)
            loose = composition.epsilon(whole, accountant="rdp", **asked)
            assert tight <= loose * (1 + 1e-3), (name, count)


def rows_of_vectors(vectors, poisson, fixed):
    for row in vectors["dpgnn"]["dpgnn_theorem1"]:
        i, d = row["inputs"], row["inputs"]["terms"]
        noise, delta = 2.0 * i["noise_multiplier"] * d, 1 / (10 * i["N"])
        count = row["ref_grid_improved"]["T"]
        yield fixed(noise, i["N"], i["m"], d), count, delta
        yield poisson(noise, i["m"] / i["N"], d, d - 1), count, delta
    for row in vectors["dpgnn"]["dpmlp"]:
        i = row["inputs"]
        event = poisson(float(i["noise_multiplier"]), i["m"] / i["N"], 1, 0)
        yield event, row["T_poisson_orders_1p1_to_199p9_improved"], 1 / (10 * i["N"])
    for row in vectors["drw"]["rows"]:
        i = row["inputs"]
        event = fixed(2.0 * i["noise_multiplier"], i["M_min"], i["m"], 1)
        yield event, row["T_tight_wor"], i["delta"]


@pytest.mark.parametrize(
    "every", [12, pytest.param(1, marks=pytest.mark.slow)], ids=["a twelfth", "all"]
)
def test_pld_is_never_above_rdp_at_the_vector_rows(vectors, poisson, fixed, every):
    rows = list(dict.fromkeys(rows_of_vectors(vectors, poisson, fixed)))
    assert len(rows) > 90
    for event, count, delta in rows[::every]:
        whole = compose(event, count)
        asked = {"delta": delta, "relation": event.relation}
        tight = composition.epsilon(whole, **asked)
        assert tight <= composition.epsilon(whole, accountant="rdp", **asked) * (1 + 1e-3), event


def test_rdp_of_the_two_sided_pair_as_printed(vectors, poisson):
    for row in vectors["pld"]["table_a1"]:
        i, d = row["inputs"], row["inputs"]["terms"]
        event = poisson(2.0 * i["noise_multiplier"] * d, i["m"] / i["N"], d, d - 1)
        whole = compose(event, i["T"])
        epsilon = composition.epsilon(
            whole, delta=i["delta"], relation="add-remove", accountant="rdp"
        )
        assert epsilon == pytest.approx(row["spec"]["rdp_add_remove"], abs=6e-3)


def test_conversions_follow_their_formulas_and_improved_is_smaller():
    orders, divergences = np.array([2.0, 4.0]), np.array([0.5, 1.0])
    mironov, order = rdp.to_epsilon(orders, divergences, 1e-3, conversion="mironov")
    assert mironov == pytest.approx(1.0 + math.log(1e3) / 3)
    assert order == 4.0
    improved, _ = rdp.to_epsilon(orders, divergences, 1e-3, conversion="improved")
    assert improved == pytest.approx(1.0 + math.log(0.75) - (math.log(1e-3) + math.log(4)) / 3)
    assert improved < mironov


def test_the_order_grids_are_the_documented_ones():
    assert rdp.REFERENCE_ORDERS[[0, 1, -1]] == pytest.approx([1.1, 1.2, 9.9])
    assert len(rdp.REFERENCE_ORDERS) == 89
    assert rdp.WIDE_ORDERS[[0, 98, 99, 100, -1]] == pytest.approx([1.01, 1.99, 2.0, 2.1, 512.0])
    assert rdp.OUR_ORDERS[[0, -1]] == pytest.approx([1.001, 4096.0])


@pytest.mark.parametrize("conversion", ["improved", "mironov"])
def test_max_runs_is_the_largest_count_that_meets_the_target(conversion):
    divergence = rdp.REFERENCE_ORDERS * 0.003
    count = rdp.max_runs(rdp.REFERENCE_ORDERS, divergence, 5.0, 1e-6, conversion=conversion)
    values = [
        rdp.to_epsilon(rdp.REFERENCE_ORDERS, n * divergence, 1e-6, conversion=conversion)[0]
        for n in (count, count + 1)
    ]
    assert values[0] <= 5.0 < values[1]
    assert rdp.max_runs(rdp.REFERENCE_ORDERS, divergence, 0.5, 1e-6, conversion=conversion) == 0


def test_max_runs_ends_where_one_run_more_changes_no_float():
    divergence = rdp.REFERENCE_ORDERS * 1e-36
    arguments = (rdp.REFERENCE_ORDERS, divergence, 5.0, 1e-6)
    assert rdp.max_runs(*arguments, conversion="improved") == events.MOST_RUNS
    assert rdp.max_runs(*arguments, conversion="improved", limit=7) == 7
    for cost in (0.0, -1e-14):
        with pytest.raises(
            ValueError, match=r"divergence must be > 0 at .*; the noise is so large"
        ):
            rdp.max_runs(arguments[0], divergence * cost, *arguments[2:], conversion="improved")


def test_no_divergence_of_revealed_roots_is_negative_by_rounding():
    event = events.FixedSizeRoots(
        relation="replace-one", noise_stddev=1e200, clipping_norm=1.0, population=24, batch_size=5,
        changed_roots=15,
    )  # fmt: skip
    assert rdp.revealed_rdp(event, rdp.REFERENCE_ORDERS).min() >= 0

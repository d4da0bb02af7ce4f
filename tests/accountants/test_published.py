"""The papers' own formulas against the conformance vectors: DP-GNN, DP-SGD, CARIBOU, GAP, DPDGC."""

import math

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom

from dpgnn.accountants import calibration, composition, gdp, published, rdp
from dpgnn.accountants.events import ContractiveIteration, GaussianRelease, compose, compose_all

SIX_DIGITS = 1e-5
# the coarse grid on which the vectors' count without replacement was computed
COARSE = np.concatenate(([1.1, 1.25, 1.5, 1.75], np.arange(2.0, 65.0, 0.5)))


def theorem1_event(inputs, fixed, terms=None):
    """The step of a vector row: sigma = lambda * 2C * d."""
    d = inputs["terms"] if terms is None else terms
    return fixed(2.0 * inputs["noise_multiplier"] * d, inputs["N"], inputs["m"], d)


def full_delta(row):
    """delta = 1/(10 N); the vectors print six digits of it."""
    return 1 / (10 * row["inputs"]["N"])


def test_theorem_1_per_step_and_steps_of_every_published_row(vectors, fixed):
    for row in vectors["dpgnn"]["dpgnn_theorem1"]:
        event, delta = theorem1_event(row["inputs"], fixed), full_delta(row)
        target = row["inputs"]["epsilon_target"]
        orders = np.array([float(a) for a in row["gamma_per_step"]])
        found = published.dpgnn_theorem1_rdp(event, orders)
        assert found == pytest.approx(list(row["gamma_per_step"].values()), rel=SIX_DIGITS)
        for key, conversion in (("ref_grid_improved", "improved"),
                                ("ref_grid_mironov2017", "mironov")):  # fmt: skip
            want = row[key]
            steps = published.dpgnn_num_steps(event, target, delta, conversion=conversion)
            assert steps == want["T"], row
            for extra, name in ((0, "eps_at_T"), (1, "eps_at_T_plus_1")):
                epsilon = published.dpgnn_epsilon(
                    event, steps + extra, delta, conversion=conversion
                )
                assert epsilon == pytest.approx(want[name], rel=SIX_DIGITS)
            divergence = steps * published.dpgnn_theorem1_rdp(event, rdp.REFERENCE_ORDERS)
            order = rdp.to_epsilon(rdp.REFERENCE_ORDERS, divergence, delta, conversion=conversion)
            assert order[1] == pytest.approx(want["alpha"])
        wide = published.dpgnn_num_steps(event, target, delta, orders=rdp.WIDE_ORDERS)
        assert wide == row["wide_grid_improved"]["T"]


def test_the_first_row_is_668_steps_and_669_is_just_too_many(fixed):
    event = fixed(32.0, 90941, 10000, 8)
    assert published.dpgnn_num_steps(event, 12.0, 1.0996096e-06) == 668
    assert published.dpgnn_num_steps(event, 12.0, 1.0996096e-06, conversion="mironov") == 591
    assert published.dpgnn_epsilon(event, 669, 1 / 909410) == pytest.approx(12.0007, abs=5e-5)


def test_ablations(vectors, fixed):
    for row in vectors["dpgnn"]["dpgnn_ablations"]:
        inputs = {"N": 90941, "m": row["m"], "noise_multiplier": row["noise_multiplier"],
                  "terms": row["K"] + 1}  # fmt: skip
        event = theorem1_event(inputs, fixed)
        gamma = published.dpgnn_theorem1_rdp(event, np.array([3.0]))[0]
        assert gamma == pytest.approx(row["gamma_alpha3"], rel=SIX_DIGITS)
        delta = 1 / 909410
        assert published.dpgnn_num_steps(event, 12.0, delta) == row["T_ref_improved"]
        if "T_wide_improved" in row:
            wide = published.dpgnn_num_steps(event, 12.0, delta, orders=rdp.WIDE_ORDERS)
            assert wide == row["T_wide_improved"]
        if "noise_std_over_C" in row:
            assert event.noise_stddev == row["noise_std_over_C"]


def test_plain_dp_sgd_rows(vectors, poisson, fixed):
    for row in vectors["dpgnn"]["dpmlp"]:
        inputs, delta = row["inputs"], full_delta(row)
        target, lam = inputs["epsilon_target"], float(inputs["noise_multiplier"])
        event = poisson(lam, inputs["m"] / inputs["N"], 1, 0)
        table = row["rdp_poisson_sampled_gaussian"]
        found = published.dp_sgd_rdp(event, np.array([float(a) for a in table]))
        assert found == pytest.approx(list(table.values()), rel=SIX_DIGITS)
        divergence = published.dp_sgd_rdp(event, published.DP_MLP_ORDERS)
        steps = rdp.max_runs(
            published.DP_MLP_ORDERS, divergence, target, delta, conversion="improved"
        )
        assert steps == row["T_poisson_orders_1p1_to_199p9_improved"]
        epsilon = published.dp_sgd_epsilon(event, steps, delta)
        assert epsilon == pytest.approx(row["eps_at_T"], rel=SIX_DIGITS)
        replaced = fixed(2.0 * lam, inputs["N"], inputs["m"], 1)
        assert (
            published.dpgnn_num_steps(replaced, target, delta)
            == row["T_theorem1_K0_sigma_lam2C_ref_grid"]
        )
        exact = rdp.glued_rdp(replaced, COARSE)
        tight = rdp.max_runs(COARSE, exact, target, delta, conversion="improved")
        assert tight == row["T_without_replacement_replace_one_sigma_lam2C"]


def test_published_dp_sgd_is_exact_at_integers_and_never_below_the_integral(poisson):
    orders = np.array([1.3, 2.0, 2.9, 3.0, 7.5, 16.0])
    for noise, rate in ((4.73206, 0.277778), (1.0, 0.11), (0.95, 60 / 210)):
        event = poisson(noise, rate, 1, 0)
        summed, exact = published.dp_sgd_rdp(event, orders), rdp.event_rdp(event, orders)[0]
        assert (summed >= exact * (1 - 1e-9)).all()
        assert summed[[1, 3, 5]] == pytest.approx(exact[[1, 3, 5]], rel=1e-9)
    over = published.dp_sgd_rdp(poisson(4.73206, 0.277778, 1, 0), np.array([2.9]))
    assert over[0] == pytest.approx(0.00538733, rel=1e-5)  # the integral is 0.00514324


def test_noise_per_layer_costs_the_root_of_the_number_of_layers(vectors, fixed):
    for layers in (1, 3, 8):
        row = vectors["dpgnn"]["critique_checks"][f"layerwise_{layers}"]
        event = published.layerwise_event(fixed(32.0, 90941, 10000, 8), layers)
        arguments = {"delta": 1 / 909410, "orders": rdp.WIDE_ORDERS}
        epsilon = published.dpgnn_epsilon(event, 668, **arguments)
        assert epsilon == pytest.approx(row["eps_at_T668"], rel=SIX_DIGITS)
        steps = published.dpgnn_num_steps(event, 12.0, **arguments)
        assert steps == row["T_at_eps12"]


def test_batches_with_replacement(vectors, fixed):
    rows = vectors["dpgnn"]["critique_checks"]["with_replacement"]
    event = fixed(32.0, 90941, 10000, 8)
    for order, row in rows.items():
        if not isinstance(row, dict):
            continue
        at = np.array([float(order)])
        full = drawn_with_replacement(event, at, event.batch_size)[0]
        cut = drawn_with_replacement(event, at, 20)[0]
        without = published.dpgnn_theorem1_rdp(event, at)[0]
        assert full == pytest.approx(row["full"], rel=SIX_DIGITS)
        assert cut == pytest.approx(row["truncated_at_20"], rel=SIX_DIGITS)
        assert without == pytest.approx(row["without_replacement"], rel=SIX_DIGITS)


def drawn_with_replacement(event, orders, most_draws):
    """Theorem 1's sum for a batch drawn with replacement: the count of changed roots is binomial."""
    draws = np.arange(most_draws + 1)
    rate = event.changed_roots / event.population
    moves = 2 * event.clipping_norm * draws / event.noise_stddev
    a = orders[:, None]
    log_moments = binom.logpmf(draws, event.batch_size, rate) + a * (a - 1) * moves**2 / 2
    return logsumexp(log_moments, axis=1) / (orders - 1)


def test_stable_sampler_accounting_of_the_critique(vectors, fixed):
    checks = vectors["dpgnn"]["critique_checks"]
    delta = 1 / 909410
    row = checks["rigorous_same_noise"]
    event = fixed(2.0 * row["sigma_over_2C"], 90941, 10000, row["terms"])
    assert published.dpgnn_epsilon(event, 668, delta) == pytest.approx(row["eps_at_T668"], rel=1e-5)
    assert published.dpgnn_num_steps(event, 12.0, delta) == row["T_at_eps12"]
    row = checks["rigorous_lambda2"]
    event = fixed(2.0 * row["sigma_over_2C"], 90941, 10000, row["terms"])
    assert published.dpgnn_num_steps(event, 12.0, delta) == row["T_at_eps12"]


def test_terms_of_the_stable_sampler(vectors):
    from dpgnn.samplers.promise import occurrence_bound
    from dpgnn.samplers.stable import Stable

    for row in vectors["dpgnn"]["critique_checks"]["rigorous_neff"]:
        sampler = Stable(max_in_degree=row["K"], max_out_degree=row["D"], num_hops=row["r"])
        terms = sampler.promise.change("node-record", "replace-one").d_plus
        paper = occurrence_bound(row["K"], row["r"])
        assert (paper, terms) == (row["paper_terms"], row["rigorous_terms"])
        assert terms / paper == pytest.approx(row["noise_ratio_same_lambda"], rel=5e-4)


def test_spill_over_of_the_published_sampler(vectors):
    for row in vectors["dpgnn"]["critique_checks"]["sampler_spillover"]:
        changed, shift = spill_over(row["K"], row["in_degree_with_v"] - 1)
        # the vectors are Monte Carlo means
        want = row["expected_changed_roots_per_outneighbour_shared_coins"]
        assert changed == pytest.approx(want, rel=0.03)
        assert shift == pytest.approx(row["marginal_lower_bound_any_coupling"], rel=0.1, abs=1e-9)


def spill_over(bound, others):
    """Readers of u, v aside, that come or go when v leaves u's in-list; and the shift of their mean.

    Coins are shared: each other reader is kept in both worlds, only without v, or in neither; a list above
    the bound is dropped.
    """
    with_v = min(1.0, bound / (2 * (others + 1)))
    without = min(1.0, bound / (2 * others))
    changed = shift = 0.0
    for v_kept, chance in ((1, with_v), (0, 1 - with_v)):
        for both in range(others + 1):
            for late in range(others - both + 1):
                p = chance * math.comb(others, both) * math.comb(others - both, late)
                p *= with_v**both * (without - with_v) ** late
                p *= (1 - without) ** (others - both - late)
                here = both if both + v_kept <= bound else 0
                there = both + late if both + late <= bound else 0
                # survivors of the smaller list are among those of the larger one
                changed += p * abs(here - there)
                shift += p * (here - there)
    return changed, abs(shift)


def test_the_reference_order_grid_has_a_floor(vectors):
    orders = rdp.REFERENCE_ORDERS
    for name, row in vectors["dpgnn"]["order_grid_floor"].items():
        delta = float(name.removeprefix("grid_floor_delta_"))
        for conversion in ("improved", "mironov"):
            floor = rdp.conversion_term(orders, delta, conversion=conversion).min()
            assert floor == pytest.approx(row[conversion], rel=SIX_DIGITS)


def test_the_feature_level_baseline_of_drw(vectors, fixed):
    for row in vectors["drw"]["fdp_baseline_one_step"]:
        inputs = {"flickr": (44625, 1e-6), "ogbn-arxiv": (90941, 1e-7), "arxiv": (90941, 1e-7),
                  "reddit": (153932, 1e-7)}[row["dataset"]]  # fmt: skip
        batch = {"flickr": 10000, "reddit": 30000}.get(row["dataset"], 20000)
        population, delta = inputs
        event = fixed(2.0 * row["noise_multiplier"] * row["terms"], population, batch, row["terms"])
        for key, orders, conversion in (
            ("eps_1step_ref_grid_improved", rdp.REFERENCE_ORDERS, "improved"),
            ("eps_1step_ref_grid_mironov", rdp.REFERENCE_ORDERS, "mironov"),
            ("eps_1step_wide", rdp.WIDE_ORDERS, "improved"),
        ):
            epsilon = published.dpgnn_epsilon(event, 1, delta, orders=orders, conversion=conversion)
            assert epsilon == pytest.approx(row[key], rel=SIX_DIGITS), (row, key)
        assert published.dpgnn_num_steps(event, 8.0, delta) == row["T_at_8_ref"]


def test_paper_columns_of_tables_a1_and_a2(vectors, fixed):
    for row in vectors["pld"]["table_a1"]:
        event = theorem1_event(row["inputs"], fixed)
        epsilon = published.dpgnn_epsilon(event, row["inputs"]["T"], row["inputs"]["delta"])
        assert epsilon == pytest.approx(row["spec"]["paper_rdp"], abs=6e-3)
    for row in vectors["pld"]["table_a2"]:
        inputs = row["inputs"]
        noise = calibration.smallest_meeting(
            lambda lam, i=inputs: published.dpgnn_epsilon(
                fixed(2.0 * lam * i["terms"], i["N"], i["m"], i["terms"]),
                i["T"], i["delta"], orders=rdp.OUR_ORDERS,
            ),
            row["epsilon"], start=row["spec"]["paper"], tolerance=1e-5,
        )  # fmt: skip
        assert noise == pytest.approx(row["spec"]["paper"], rel=7e-4)


def test_gap_noise_table(vectors):
    for row in vectors["gdp"]["gap_noise"]:
        hops, epsilon, delta = row["num_hops"], row["epsilon"], row["delta"]
        by_rdp = calibration.smallest_meeting(
            lambda z, k=hops, d=delta: published.gaussian_epsilon_by_rdp(math.sqrt(k) / z, d),
            epsilon, start=1.0, tolerance=1e-7,
        )  # fmt: skip
        exact = math.sqrt(hops) / gdp.mu(epsilon, delta)
        improved = calibration.smallest_meeting(
            lambda z, k=hops, d=delta: published.summed_rdp_epsilon([compose(release(z), k)], d),
            epsilon, start=by_rdp, tolerance=1e-5,
        )  # fmt: skip
        for name, value in (
            ("rdp_textbook", by_rdp), ("rdp_improved", improved), ("exact", exact),
        ):  # fmt: skip
            # printed with two decimals, some of them rounded up from the third
            assert value == pytest.approx(row["spec"][name], abs=6e-3), (row, name)
            assert value == pytest.approx(row["value"][name], rel=3e-5), (row, name)


def release(noise_stddev):
    return GaussianRelease(relation="add-remove", noise_stddev=noise_stddev, sensitivity=1.0)


def hops(noise_stddev, num_hops, contraction):
    return ContractiveIteration(
        relation="null-one", noise_stddev=noise_stddev, sensitivity=1.0, num_hops=num_hops,
        contraction=contraction,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("num_hops", "linear", "convergent"), [(16, 5.30, 3.89), (64, 11.60, 4.83)]
)
def test_caribou_at_four_times_the_sensitivity(num_hops, linear, convergent):
    plain = compose(release(4.0), num_hops)
    assert published.gaussian_epsilon_by_rdp(gdp.total_mu(plain), 1e-5) == pytest.approx(
        linear, abs=6e-3
    )
    event = hops(4.0, num_hops, 0.9)
    assert composition.epsilon(event, delta=1e-5, relation="null-one") == pytest.approx(
        convergent, abs=6e-3
    )


def test_the_closed_form_is_the_sum_of_divergences_at_the_best_order():
    event = hops(3.0, 6, 0.8)
    closed = published.gaussian_epsilon_by_rdp(gdp.event_mu(event), 1e-5)
    on_grid = published.summed_rdp_epsilon([event], 1e-5, conversion="mironov")
    assert closed <= on_grid <= closed * (1 + 1e-4)


def test_summed_divergences_cost_at_least_the_composed_curve(poisson):
    training = compose(poisson(1.2, 0.1, 1, 1, "null-one"), 100)
    events = (hops(3.0, 6, 0.8), training)
    stated = published.summed_rdp_epsilon(events, 1e-5)
    assert composition.epsilon(compose_all(*events), delta=1e-5, relation="null-one") < stated
    assert stated < published.summed_rdp_epsilon(events, 1e-5, conversion="mironov")
    assert published.summed_rdp_epsilon(events[:1], 1e-5) < stated

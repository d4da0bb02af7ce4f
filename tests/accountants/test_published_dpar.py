"""DPAR's published chain against the vectors, and what is wrong with it."""

import math

import numpy as np
import pytest
import zcdp_conversion

from dpgnn.accountants import amplification, calibration, gdp, published, rdp, zcdp
from dpgnn.accountants import published_dpar as dpar
from dpgnn.accountants.events import GumbelTopK
from dpgnn.accountants.loss import DiscreteLoss
from dpgnn.accountants.pld import response_loss

DIGITS = 2e-5
# the coarse grid on which the vectors of the sound variants were computed
COARSE = np.concatenate(([1.1, 1.25, 1.5, 1.75], np.arange(2.0, 65.0, 0.5)))


def inner_budget(row):
    inputs = row["inputs"]
    total = inputs["eps_total"], inputs["delta_total"]
    if row["mode"] == "published_divide_by_qprime":
        return dpar.before_amplification(*total, inputs["q_prime"])
    if row["mode"] == "correct_amplification":
        return amplification.before(*total, inputs["q_prime"])
    return total


def test_every_row_of_the_vectors(vectors):
    for row in vectors["dpar"]["rows"]:
        inputs = row["inputs"]
        epsilon, delta = inner_budget(row)
        assert epsilon == pytest.approx(row["eps_before_amplification"], rel=DIGITS)
        assert delta == pytest.approx(row["delta_before_amplification"], rel=DIGITS)
        epsilon, delta = epsilon / 2, delta / 2
        assert epsilon == pytest.approx(row["eps_pr"], rel=DIGITS)
        vector = dpar.vector_budget(epsilon, delta, inputs["M"])
        assert vector.epsilon == pytest.approx(row["eps_1_per_vector"], rel=DIGITS)
        assert vector.delta == pytest.approx(row["delta_per_vector"], rel=DIGITS)
        for key, share in (("option_I", 1.0), ("option_II_even_split", 0.5)):
            gumbel = dpar.gumbel_epsilon(share * vector.epsilon, vector.delta, inputs["K"])
            assert gumbel == pytest.approx(row[key]["gumbel_eps"], rel=DIGITS)
            assert inputs["C2"] / gumbel == pytest.approx(row[key]["gumbel_scale"], rel=DIGITS)
        second = row["option_II_even_split"]
        assert vector.epsilon / 2 == pytest.approx(second["eps_2"], rel=DIGITS)
        scale = inputs["K"] * inputs["C2"] / (vector.epsilon / 2)
        assert scale == pytest.approx(second["laplace_scale"], rel=DIGITS)
        odds = math.exp(dpar.gumbel_epsilon(vector.epsilon, vector.delta, inputs["K"]))
        first = row["option_I"]
        assert odds == pytest.approx(first["odds_ratio_clipped_entry_vs_zero_entry"], rel=DIGITS)
        hit = 10 * odds / (10 * odds + inputs["N"] - 10)
        wanted = first["prob_one_pick_is_one_of_10_true_neighbours"]
        assert hit == pytest.approx(wanted, rel=DIGITS)
        stddev = dpar.gaussian_noise_stddev(vector.epsilon, vector.delta, inputs["C1"])
        assert stddev == pytest.approx(row["gaussian"]["sigma"], rel=DIGITS)
        true_epsilon, _ = amplification.amplified(
            row["eps_before_amplification"], 0.0,
            inputs["q_prime"] if row["mode"] != "no_amplification" else 1.0,
        )  # fmt: skip
        wanted = row["true_eps_of_this_pre_amplification_budget"]
        assert true_epsilon == pytest.approx(wanted, rel=DIGITS)


def test_noise_of_the_second_stage(vectors, poisson):
    keys = {
        "mironov": "noise_multiplier_sensitivity_C_poisson_q_BoverN_mironov",
        "improved": "noise_multiplier_improved_conversion",
    }
    for row in vectors["dpar"]["rows"]:
        inputs = row["inputs"]
        epsilon, delta = (value / 2 for value in inner_budget(row))
        for conversion, key in keys.items():
            noise = row["sgd"][key]
            # epsilon at the printed noise, and just below it: six digits of noise
            rate, steps = inputs["B"] / inputs["N"], inputs["steps"]
            for factor, meets in ((1 + 1e-5, True), (1 - 1e-5, False)):
                event = poisson(noise * factor, rate, 1, 0)
                spent = dpar.sgd_epsilon(event, steps, delta, conversion=conversion)
                assert (spent <= epsilon) is meets, (row["dataset"], row["mode"], key)


def test_the_planner_finds_the_noise_of_the_first_row(vectors):
    row = vectors["dpar"]["rows"][0]
    found = dpar.sgd_noise_multiplier(
        target_epsilon=row["eps_pr"], delta=row["delta_pr"], num_steps=800,
        sampling_probability=60 / 216,
    )  # fmt: skip
    assert found == pytest.approx(5.35446, rel=2e-5)


def test_the_corollary_holds_up_to_44_and_fails_at_89(vectors):
    for row in vectors["dpar"]["kov_corollary"]:
        count, target, delta = row["M"], row["eps_g"], row["delta_g"]
        vector = dpar.vector_budget(target, delta, count)
        assert vector.epsilon == pytest.approx(row["eps_1"], rel=DIGITS)
        # what M times delta_v leaves of delta
        slack = 1 - (1 - delta) / (1 - vector.delta) ** count
        theorem = dpar.composition_theorem(vector.epsilon, slack, count)
        assert theorem == pytest.approx(row["kov_theorem34_eps"], rel=DIGITS)
        optimal = optimal_composition(vector, count, delta)
        # the printed optimum was taken on a grid of its own; both are the same curve
        assert optimal == pytest.approx(row["kov_optimal_eps"], rel=2e-3)
        assert (optimal <= target) is row["corollary_safe"]


def optimal_composition(vector, count, delta):
    """epsilon of `count` (epsilon, delta)-randomised responses: the worst such mechanisms."""
    p = math.exp(vector.epsilon) / (1 + math.exp(vector.epsilon))
    loss = response_loss(p, 1 - p, vector.epsilon / 64)
    loss = DiscreteLoss(
        step=loss.step, lower=loss.lower, mass=loss.mass * (1 - vector.delta),
        infinity_mass=vector.delta,
    )  # fmt: skip
    return loss.self_compose(count).epsilon(delta)


def test_reference_code_defaults(vectors, poisson):
    row = vectors["dpar"]["reference_code_defaults"]
    delta = row["delta_sgd"]
    event = poisson(row["sigma"], 60 / row["N"], 1, 0)
    assert dpar.sgd_epsilon(event, row["T"], delta) == pytest.approx(row["eps_sgd_pre"], rel=DIGITS)
    for factor, key in ((1, "add_remove"), (2, "replace")):
        mu = factor * math.sqrt(200) / row["sigma"]
        epsilon = published.gaussian_epsilon_by_rdp(mu, delta)
        assert epsilon == pytest.approx(row[f"eps_sgd_fixed_batches_{key}"], rel=DIGITS)
    # the code's delta of a vector is 1e-4, so the corollary's total is 2 * 70 * 1e-4
    vector = dpar.vector_budget(row["gm_default_eps_g"], 2 * 70 * 1e-4, 70)
    assert vector.epsilon == pytest.approx(row["gm_default_eps_per_vector"], rel=1e-4)
    sigma_over_norm = dpar.gaussian_noise_stddev(6.483, 1e-4, 1.0)
    assert gdp.delta(6.483, 1 / sigma_over_norm) == pytest.approx(4.4e-5, rel=0.02)
    assert gdp.delta(6.483, math.sqrt(2) / sigma_over_norm) == pytest.approx(9.9e-3, rel=0.02)


def test_zcdp_composition(vectors):
    for row in vectors["dpar"]["zcdp_composition"]:
        rho = row["rho"]
        # Bun and Steinke (2016), Proposition 1.3: epsilon = rho + 2 sqrt(rho log(1/delta))
        classic = rho + 2 * math.sqrt(-rho * math.log(row["delta_pr"]))
        assert classic == pytest.approx(row["eps_pr"], rel=DIGITS)
        # 70 Gaussian vectors at distance sqrt(2) C1: rho = 70 * 2 / (2 sigma^2)
        sigma = math.sqrt(70 / rho)
        assert sigma == pytest.approx(row["gm_sigma_over_C1_with_sqrt2_sensitivity"], rel=DIGITS)
        gumbel = row["em_gumbel_eps"]
        event = GumbelTopK(
            relation="replace-one", scale=1 / gumbel, score_sensitivity=1.0, num_selected=2
        )
        assert 70 * zcdp.event_rho(event) == pytest.approx(rho, rel=2e-5)
        assert (
            zcdp_conversion.epsilon(rho, row["delta_pr"]) < row["eps_pr"]
        )  # the improved conversion


def test_rigorous_variant(vectors, fixed):
    for row in vectors["dpar"]["rigorous_variant"]:
        d = row["terms"]
        # printed from budgets rounded to a few digits, so to four digits here
        noise = calibration.smallest_meeting(
            lambda lam, r=row, d=d: rdp.to_epsilon(
                COARSE,
                r["T"]
                * published.dpgnn_theorem1_rdp(
                    fixed(2.0 * lam * d, r["N"], r["B"], d), COARSE
                ),
                r["delta_sgd"],
                conversion="improved",
            )[0],
            row["eps_sgd"], start=row["noise_multiplier"], tolerance=1e-6,
        )  # fmt: skip
        assert noise == pytest.approx(row["noise_multiplier"], rel=3e-4)
        assert 2 * d * noise == pytest.approx(row["sigma_over_C"], rel=3e-4)


def test_several_changed_roots(vectors, fixed):
    for row in vectors["dpar"]["sensitivity"]:
        event = fixed(row["sigma_over_C"], 216, 60, row["affected_roots"])
        divergence = 800 * published.dpgnn_theorem1_rdp(event, np.array(rdp.WIDE_ORDERS))
        epsilon = rdp.to_epsilon(rdp.WIDE_ORDERS, divergence, 1 / 90, conversion="improved")[0]
        assert epsilon == pytest.approx(row["eps_sgd_worst_case_bound"], rel=1e-4)


def test_one_changed_root_exactly(vectors, fixed):
    rows = vectors["dpar"]["tight_one_root"]
    for key in ("eps1_row", "eps8_row"):
        row = rows[key]
        for name, factor in (("shift_2C", 1.0), ("shift_C", 2.0)):
            event = fixed(factor * row["sigma_over_C"], 216, 60, 1)
            divergence = 800 * rdp.event_rdp(event, COARSE)[0]
            epsilon = rdp.to_epsilon(COARSE, divergence, 1 / 90, conversion="improved")[0]
            assert epsilon == pytest.approx(row[name], rel=1e-4), (key, name)


def test_bad_budgets_are_refused():
    with pytest.raises(ValueError, match="rate must be in"):
        dpar.before_amplification(1.0, 1e-3, 0.0)
    with pytest.raises(ValueError, match="num_vectors must be >= 1"):
        dpar.vector_budget(1.0, 1e-3, 0)

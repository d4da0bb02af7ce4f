"""Mutation check: ten faults, each planted in the running code and caught by a test that is named here.

Every named test is first run as it is and passes; with the fault planted the same test fails.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpgnn.accountants import composition, gdp, mixtures, pld, rdp
from dpgnn.accountants.loss import DiscreteLoss
from dpgnn.samplers import own_list

HERE = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What is replaced by what, and the test that must notice."""

    target: Any
    attribute: str
    plant: Callable[[Any], Any]
    module: str
    test: str
    arguments: tuple[Any, ...] = ()
    fixtures: tuple[str, ...] = ()


FAULTS = {
    "a factor 2 in the noise": Fault(
        target=pld, attribute="two_sided_pair",
        plant=lambda real: lambda event: real(replace(event, noise_stddev=2 * event.noise_stddev)),
        module="test_pld", test="test_one_added_root_agrees_with_dp_accounting",
        fixtures=("poisson",), arguments=(1.0, 0.01, 2000),
    ),
    "a factor sqrt 2 in the sensitivity": Fault(
        target=gdp, attribute="_ratio",
        plant=lambda real: lambda sensitivity, noise: real(sensitivity / 2**0.5, noise),
        module="test_composition", test="test_gaussian_compositions_are_exact",
    ),
    "one direction missing": Fault(
        target=composition.PrivacyCurve, attribute="_losses",
        plant=lambda real: lambda self: (self.backward,),
        module="test_pld", test="test_adding_and_removing_can_differ_and_the_larger_is_taken",
        fixtures=("poisson",),
    ),
    "the order grid cut": Fault(
        target=rdp, attribute="WIDE_ORDERS",
        plant=lambda real: real[real < 3.0],
        module="test_published",
        test="test_theorem_1_per_step_and_steps_of_every_published_row",
        fixtures=("vectors", "fixed"),
    ),
    "the sampling rate wrong": Fault(
        target=mixtures, attribute="_binomial",
        plant=lambda real: lambda count, rate: real(count, rate / 2),
        module="test_pld", test="test_one_replaced_root_agrees_with_dp_accounting",
        fixtures=("poisson",), arguments=(3.0, 0.4, 300),
    ),
    "the count ignored": Fault(
        target=DiscreteLoss, attribute="self_compose",
        plant=lambda real: lambda self, count: self,
        module="test_events",
        test="test_the_loss_of_n_runs_equals_n_composed_losses_for_every_event",
        fixtures=("every_event",),
    ),
    "delta off by ten": Fault(
        target=DiscreteLoss, attribute="epsilon",
        plant=lambda real: lambda self, delta: real(self, min(1.0, 10 * delta)),
        module="test_pld", test="test_many_composed_gaussians_agree_with_their_closed_form",
    ),
    "a sign of the conversion": Fault(
        target=rdp, attribute="conversion_term",
        plant=lambda real: lambda orders, delta, *, conversion: (
            real(orders, delta, conversion=conversion) + 2 * np.log(orders) / (orders - 1)
        ),
        module="test_rdp",
        test="test_conversions_follow_their_formulas_and_improved_is_smaller",
    ),
    "K_eff off": Fault(
        target=gdp, attribute="effective_hops",
        plant=lambda real: lambda num_hops, c: real(num_hops, c) / (1 + c**num_hops),
        module="test_gdp", test="test_effective_hops_is_attained_by_a_linear_map",
        arguments=(0.9,),
    ),
    "r off by one": Fault(
        target=own_list, attribute="occurrence_bound",
        plant=lambda real: lambda max_degree, num_hops: real(max_degree, num_hops - 1),
        module="../run/test_account",
        test="test_the_sound_claim_is_about_the_same_noise_and_the_same_steps",
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _fresh_caches():
    composition.clear_cache()
    yield
    composition.clear_cache()


def named_test(fault):
    spec = importlib.util.spec_from_file_location(
        f"planted_{fault.module}", HERE / f"{fault.module}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, fault.test)


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught_by_its_named_test(name, request, monkeypatch):
    fault = FAULTS[name]
    check = named_test(fault)
    arguments = [request.getfixturevalue(fixture) for fixture in fault.fixtures]
    check(*arguments, *fault.arguments)  # passes without the fault
    composition.clear_cache()
    real = getattr(fault.target, fault.attribute)
    monkeypatch.setattr(fault.target, fault.attribute, fault.plant(real))
    with pytest.raises(AssertionError):
        check(*arguments, *fault.arguments)


def test_there_are_ten_faults_and_ten_tests():
    assert len(FAULTS) == 10
    assert len({(fault.module, fault.test) for fault in FAULTS.values()}) == 10

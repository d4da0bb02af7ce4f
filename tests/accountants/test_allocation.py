"""One budget over three mechanisms: the composed epsilon meets the target, the shares keep their ratio."""

import pytest

from dpgnn.accountants import allocation, composition, gdp
from dpgnn.accountants.allocation import Share, allocate
from dpgnn.accountants.events import GaussianRelease, compose, compose_all

DELTA, RELATION, TARGET = 1e-5, "null-one", 4.0


@pytest.fixture
def shares(poisson):
    def release(z):
        event = GaussianRelease(relation=RELATION, noise_stddev=z, sensitivity=1.0)
        return compose(event, 2)

    return (
        Share(name="aggregate", build=release, weight=2.0),
        Share(name="head", build=lambda z: compose(poisson(z, 0.1, 1, 1, RELATION), 60)),
        Share(name="encoder", build=lambda z: compose(poisson(z, 0.05, 1, 1, RELATION), 40)),
    )


def alone(share, multiplier):
    return composition.epsilon(share.build(multiplier), delta=DELTA, relation=RELATION)


@pytest.mark.parametrize("rule", allocation.RULES)
def test_the_composed_epsilon_meets_the_target_closely(shares, rule):
    found = allocate(shares, rule=rule, target_epsilon=TARGET, delta=DELTA, relation=RELATION)
    whole = compose_all(*(s.build(found.noise_multipliers[s.name]) for s in shares))
    spent = composition.epsilon(whole, delta=DELTA, relation=RELATION)
    assert spent == found.epsilon
    assert 0.99 * TARGET < spent <= TARGET


def test_a_shared_multiplier_is_shared(shares):
    found = allocate(
        shares, rule="shared-multiplier", target_epsilon=TARGET, delta=DELTA, relation=RELATION
    )
    assert len(set(found.noise_multipliers.values())) == 1


def test_epsilons_alone_stand_in_the_ratio_of_the_weights(shares):
    found = allocate(
        shares, rule="epsilon-ratio", target_epsilon=TARGET, delta=DELTA, relation=RELATION
    )
    values = [alone(s, found.noise_multipliers[s.name]) for s in shares]
    assert values[0] / values[1] == pytest.approx(2.0, rel=2e-3)
    assert values[2] / values[1] == pytest.approx(1.0, rel=2e-3)


def test_mu_squares_stand_in_the_ratio_of_the_weights(shares):
    found = allocate(
        shares, rule="mu2-ratio", target_epsilon=TARGET, delta=DELTA, relation=RELATION
    )
    squares = [gdp.mu(alone(s, found.noise_multipliers[s.name]), DELTA) ** 2 for s in shares]
    assert squares[0] / squares[1] == pytest.approx(2.0, rel=5e-3)
    assert squares[2] / squares[1] == pytest.approx(1.0, rel=5e-3)


@pytest.mark.parametrize("target", [0.02, 0.05, 0.2, 2.4])
def test_a_share_that_costs_delta_alone_has_its_mu_all_the_same(target: float) -> None:
    def build(noise: float) -> GaussianRelease[str]:
        return GaussianRelease(relation=RELATION, noise_stddev=noise, sensitivity=1.0)

    weights = {"first": 1.0, "second": 50.0, "third": 50.0}
    shares = [Share(name=name, build=build, weight=weight) for name, weight in weights.items()]
    found = allocate(shares, rule="mu2-ratio", target_epsilon=target, delta=1e-3, relation=RELATION)
    assert 0.99 * target < found.epsilon <= target
    noise = found.noise_multipliers
    assert (noise["first"] / noise["second"]) ** 2 == pytest.approx(50.0, rel=5e-3)
    assert noise["second"] == pytest.approx(noise["third"])


def test_delta_is_spent_once_not_per_mechanism(shares):
    # spending delta/3 on each and adding epsilons would need more noise than the composed curve
    found = allocate(
        shares, rule="shared-multiplier", target_epsilon=TARGET, delta=DELTA, relation=RELATION
    )
    z = found.noise_multipliers["head"]
    apart = sum(composition.epsilon(s.build(z), delta=DELTA / 3, relation=RELATION) for s in shares)
    assert apart > 1.2 * TARGET


def test_a_fixed_event_takes_part_of_the_budget(shares):
    fixed = GaussianRelease(relation=RELATION, noise_stddev=2.0, sensitivity=1.0)
    arguments = {"rule": "shared-multiplier", "target_epsilon": TARGET, "delta": DELTA,
                 "relation": RELATION}  # fmt: skip
    free, bound = allocate(shares, **arguments), allocate(shares, fixed=[fixed], **arguments)
    assert bound.noise_multipliers["head"] > free.noise_multipliers["head"]
    assert bound.epsilon <= TARGET
    whole = compose_all(fixed, *(s.build(bound.noise_multipliers[s.name]) for s in shares))
    assert composition.epsilon(whole, delta=DELTA, relation=RELATION) == bound.epsilon


def test_bad_shares_are_refused(shares):
    with pytest.raises(ValueError, match="share names must differ"):
        allocate([shares[0], shares[0]], rule="mu2-ratio", target_epsilon=1.0, delta=DELTA,
                 relation=RELATION)  # fmt: skip
    with pytest.raises(ValueError, match="unknown rule"):
        allocate(shares, rule="even", target_epsilon=1.0, delta=DELTA, relation=RELATION)
    with pytest.raises(ValueError, match="weight of aggregate must be > 0"):
        allocate([Share(name="aggregate", build=shares[0].build, weight=0.0)], rule="mu2-ratio",
                 target_epsilon=1.0, delta=DELTA, relation=RELATION)  # fmt: skip

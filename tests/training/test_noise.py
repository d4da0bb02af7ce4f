import math

import numpy as np
import pytest
import torch
from randomgen import ChaCha
from scipy import stats

from dpgnn.models.network import Network, NetworkConfig
from dpgnn.training.clipping import Clipping, global_clipping
from dpgnn.training.noise import Noise, add_noise, joint_noise, scaled_noise

NETWORK = Network(NetworkConfig(num_features=3, num_outputs=2, width=4))
GROUPS = Clipping(per="group", norms={"encoder": 1.0, "aggregation": 2.0, "decoder": 3.0})


def test_the_variance_of_the_noise_is_the_planned_one_on_a_million_coordinates():
    size, stddev = 10**6, 3.7
    noise = add_noise(torch.zeros(size), stddev, rng=np.random.default_rng(12)).double() / stddev
    # two-sided at 1e-6: 10^6 coordinates show a deviation wrong by 0.35 %
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], size)
    assert low < float((noise**2).sum()) < high
    assert abs(float(noise.mean())) < 5 / math.sqrt(size)


def test_the_noise_is_gaussian_and_uncorrelated():
    noise = add_noise(torch.zeros(200_000), 1.0, rng=np.random.default_rng(13)).numpy()
    assert stats.kstest(noise, "norm").pvalue > 1e-6
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 5 / math.sqrt(len(noise))


def test_noise_per_coordinate_follows_the_parts():
    noise = Noise(stddev={"encoder": 0.0, "aggregation": 2.0, "decoder": 5.0})
    deviations = noise.per_coordinate(NETWORK, GROUPS)
    views = NETWORK.views(deviations)
    assert set(views["encoder.0.weight"].flatten().tolist()) == {0.0}
    assert set(views["hop.0.update.bias"].tolist()) == {2.0}
    assert set(views["decoder.0.weight"].flatten().tolist()) == {5.0}
    total = torch.ones(NETWORK.num_parameters)
    noisy = NETWORK.views(add_noise(total, deviations, rng=np.random.default_rng(0)))
    assert torch.equal(noisy["encoder.0.weight"], torch.ones(3, 4))


def test_the_sum_is_not_changed_in_place_and_each_draw_is_new():
    total, rng = torch.ones(5), np.random.default_rng(0)
    first, second = add_noise(total, 1.0, rng=rng), add_noise(total, 1.0, rng=rng)
    assert torch.equal(total, torch.ones(5))
    assert not torch.equal(first, second)


@pytest.mark.parametrize("secret", [False, True])
def test_the_noise_is_numpys_to_the_bit_and_the_generator_goes_on_from_there(secret):
    def generator():
        if secret:
            return np.random.Generator(ChaCha(key=7, rounds=20))
        return np.random.Generator(np.random.PCG64DXSM(7))

    ours, theirs = generator(), generator()
    for size in (1, 2_000_003):  # long enough for the tails of the ziggurat
        drawn = add_noise(torch.zeros(size, dtype=torch.float64), 1.0, rng=ours).numpy()
        assert np.array_equal(drawn, theirs.standard_normal(size))
    assert np.abs(drawn).max() > 4.5
    assert ours.integers(2**62) == theirs.integers(2**62)


def test_joint_and_scaled_noise_have_the_same_multiplier():
    assert joint_noise(GROUPS, 7.0).multiplier(GROUPS) == pytest.approx(7.0 / GROUPS.total_norm)
    assert scaled_noise(GROUPS, 7.0).multiplier(GROUPS) == pytest.approx(7.0 / GROUPS.total_norm)


def test_noise_in_proportion_to_each_norm_alone_costs_the_root_of_the_number_of_parts():
    noise = Noise(stddev={part: 2.0 * norm for part, norm in GROUPS.norms.items()})
    assert noise.multiplier(GROUPS) == pytest.approx(2.0 / math.sqrt(3))


def test_the_multiplier_is_the_distance_of_the_worst_root_in_units_of_noise():
    # the root that fills every bound moves the normalised release by 1 / multiplier
    noise = Noise(stddev={"encoder": 1.0, "aggregation": 5.0, "decoder": 2.0})
    shift = math.sqrt((1 / 1) ** 2 + (2 / 5) ** 2 + (3 / 2) ** 2)
    assert noise.multiplier(GROUPS) == pytest.approx(1 / shift)


def test_a_part_without_noise_means_no_privacy_at_all():
    noise = Noise(stddev={"encoder": 0.0, "aggregation": 5.0, "decoder": 2.0})
    assert noise.multiplier(GROUPS) == 0.0


def test_parts_must_match_and_deviations_must_not_be_negative():
    with pytest.raises(ValueError, match="noise parts must be"):
        joint_noise(GROUPS, 1.0).multiplier(global_clipping(1.0))
    with pytest.raises(ValueError, match="noise_stddev of all must be >= 0"):
        Noise(stddev={"all": -1.0})

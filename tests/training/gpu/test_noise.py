"""Noise drawn ahead of time is that of the host, to the bit, and no generator of the device draws it."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch

from dpgnn.core import rounded_noise
from dpgnn.core.randomness import FreshSecrets, Streams
from dpgnn.core.rounded_noise import LAPLACE, add_rounded, draw_ahead
from dpgnn.core.storage import Store
from dpgnn.samplers.batches import PoissonBatches
from dpgnn.training.clipping import global_clipping
from dpgnn.training.dp_sgd import DPSGD, train
from dpgnn.training.gpu import noise as gpu_noise
from dpgnn.training.gpu.noise import FEWEST, MOST, NoiseAhead
from dpgnn.training.gradients import Execution, RootGradients
from dpgnn.training.noise import add_noise, add_rounded_noise, joint_noise
from dpgnn.training.options import OptimizerConfig

SIZE = 20_000
STUDY = Streams(root_seed=7, axes={"entry": "toy"})
DRAW = partial(STUDY.numpy, "noise", stage="train")
# draws as a release does, from bits that can be drawn again
RELEASE = FreshSecrets(root_seed=7, axes={"entry": "toy"}, randomness="release", secret_seed=3)


def ahead(stddev, *, rounded=False, num_steps=6, size=SIZE, draw=DRAW) -> NoiseAhead:
    return NoiseAhead(
        stddev, size, draw, num_steps=num_steps, rounded=rounded, dtype=torch.float32,
        device=torch.device("cuda"),
    )  # fmt: skip


@pytest.mark.parametrize("stddev", [1.7, torch.linspace(0.5, 3.0, SIZE, dtype=torch.float64)])
@pytest.mark.parametrize("rounded", [False, True])
def test_every_step_gets_the_noise_of_its_own_stream_to_the_bit(gpu, stddev, rounded):
    total = torch.from_numpy(np.random.default_rng(5).standard_normal(SIZE) * 3.0)
    total = total if rounded else total.float()
    with ahead(stddev, rounded=rounded, num_steps=MOST + 3) as coming:
        # more steps than places, so that each place is used again
        for step in range(1, MOST + 4):
            add = add_rounded_noise if rounded else add_noise
            expected = add(total, stddev, rng=DRAW(step=step))
            assert torch.equal(coming.add(total.to("cuda"), step).cpu(), expected)


def test_nothing_is_drawn_beyond_the_last_step_and_a_restart_draws_the_same(gpu):
    drawn = []

    def draw(step):
        drawn.append(step)
        return DRAW(step=step)

    total = torch.zeros(SIZE, device="cuda")
    with ahead(1.0, draw=draw, num_steps=4) as coming:
        first = [coming.add(total, step).cpu() for step in range(1, 5)]
    assert sorted(drawn) == [1, 2, 3, 4]
    with ahead(1.0, num_steps=4) as coming:
        assert torch.equal(coming.add(total, 3).cpu(), first[2])
        assert len(coming._coming) <= MOST


def test_large_models_draw_fewer_steps_ahead(gpu, monkeypatch):
    monkeypatch.setattr(gpu_noise, "PINNED", 4 * SIZE * (FEWEST + 1))
    with ahead(1.0) as coming:
        assert len(coming._places) == FEWEST + 1
    monkeypatch.setattr(gpu_noise, "PINNED", 1)
    with ahead(1.0) as coming:
        assert len(coming._places) == FEWEST


def test_an_error_of_a_thread_is_the_steps_error(gpu):
    def draw(step):
        raise RuntimeError(f"no bits for step {step}")

    with pytest.raises(RuntimeError, match="no bits for step 1"), ahead(1.0, draw=draw) as coming:
        coming.add(torch.zeros(SIZE, device="cuda"), 1)


def test_coordinates_near_a_boundary_are_decided_by_more_bits(gpu, monkeypatch):
    """With a wide margin many coordinates are unsure; the result is the exact one all the same."""
    size, total = 400, torch.from_numpy(np.random.default_rng(6).standard_normal(400))
    expected = [add_rounded_noise(total, 2.0, rng=DRAW(step=step)) for step in (1, 2)]
    asked = []
    decide = rounded_noise.Ahead.decide

    def counted(self, i, scaled, guess):
        asked.append(i)
        return decide(self, i, scaled, guess)

    monkeypatch.setattr(rounded_noise.Ahead, "decide", counted)
    whole = gpu_noise.draw_ahead

    def unsure(*given, **named):
        drawn = whole(*given, **named)
        drawn.room[::20] = -1.0
        return drawn

    monkeypatch.setattr(gpu_noise, "draw_ahead", unsure)
    with ahead(2.0, rounded=True, num_steps=2, size=size) as coming:
        for step in (1, 2):
            assert torch.equal(coming.add(total.to("cuda"), step).cpu(), expected[step - 1])
    assert sorted(set(asked)) == list(range(0, size, 20))


def test_a_sum_that_is_not_finite_is_refused_in_a_release(gpu):
    total = torch.zeros(SIZE, dtype=torch.float64)
    total[3] = torch.nan
    with (
        pytest.raises(ValueError, match="the sum must be finite"),
        ahead(1.0, rounded=True) as coming,
    ):
        coming.add(total.to("cuda"), 1)


@pytest.mark.parametrize("law", [rounded_noise.GAUSSIAN, LAPLACE])
def test_noise_drawn_ahead_gives_what_add_rounded_gives(law):
    scale, sums = 0.37, np.random.default_rng(8).standard_normal(5000) * 10.0
    expected = add_rounded(sums, scale, rng=np.random.default_rng(9), law=law)
    drawn = draw_ahead(scale, len(sums), rng=np.random.default_rng(9), law=law)
    scaled = sums / drawn.grid
    whole = np.rint(scaled)
    value = (scaled - whole) + drawn.moved
    step = np.rint(value)
    sure = np.abs(value - step) <= drawn.room
    assert sure.mean() > 0.999
    np.testing.assert_array_equal(((whole + step) * drawn.grid)[sure], expected[sure])
    for i in range(20):  # and by more bits, wherever one begins to look
        found = drawn.decide(i, float(scaled[i]), int(step[i]) + 3) * float(drawn.grid)
        assert found == expected[i]
    with pytest.raises(ValueError, match="scale of the noise must be > 0"):
        draw_ahead(0.0, 3, rng=np.random.default_rng(0))


def test_noise_on_a_device_without_a_plan_ahead_is_that_of_the_host(gpu):
    total = torch.linspace(-1, 1, 50)
    for add, kind in ((add_noise, torch.float32), (add_rounded_noise, torch.float64)):
        there = add(total.to("cuda", kind), 0.5, rng=DRAW(step=1))
        assert there.device.type == "cuda"
        assert torch.equal(there.cpu(), add(total.to(kind), 0.5, rng=DRAW(step=1)))


def steps_of(problem, device, streams, quiet, *, num_steps=8):
    clipping = global_clipping(0.5)
    spec = DPSGD(
        num_steps=num_steps, batches=PoissonBatches(9, 0.6), clipping=clipping,
        noise=joint_noise(clipping, 0.3), divisor=4.0,
    )  # fmt: skip
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=clipping,
        execution=Execution(device=device),
    )  # fmt: skip
    weights, _ = train(
        spec, problem.network, gradients, problem.parameters.float(), OptimizerConfig(lr=0.01),
        streams=streams, store=Store(None), progress=quiet,
    )  # fmt: skip
    return problem.network.flatten(weights)


@pytest.mark.parametrize("streams", [STUDY, RELEASE], ids=["study", "release"])
def test_a_private_run_on_the_gpu_is_that_of_the_cpu_up_to_rounding(
    simulated, make_problem, quiet, streams
):
    problem = make_problem(0, num_hops=1)
    here = steps_of(problem, "cpu", streams, quiet)
    with simulated.simulated_cuda() as gpu:
        there = [steps_of(problem, "cuda", streams, quiet) for _ in range(2)]
        assert gpu.replays > 0
        drawn = {name for name in gpu.operations if "rand" in name or "normal" in name}
        assert drawn == set()
    assert torch.equal(*there)
    torch.testing.assert_close(there[0], here, rtol=1e-4, atol=1e-5)
    # in study mode the loss is shown, in a release it is not
    shown = {key for _, values in quiet.lines for key in values}
    assert ("loss" in shown) == (streams is STUDY)

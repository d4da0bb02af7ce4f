import multiprocessing
import os
import signal
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgnn.accountants.events import FixedSizeRoots, GaussianRelease, PoissonRoots, compose
from dpgnn.accountants.plan import Mechanism
from dpgnn.core.randomness import Streams
from dpgnn.core.rounded_noise import grid_of
from dpgnn.core.storage import Store
from dpgnn.models.network import Network, NetworkConfig
from dpgnn.models.trees import lone_roots
from dpgnn.samplers.batches import PoissonBatches
from dpgnn.training import dp_sgd
from dpgnn.training.clipping import global_clipping, uniform_clipping
from dpgnn.training.dp_sgd import DPSGD, from_mechanism, train
from dpgnn.training.gradients import RootGradients
from dpgnn.training.noise import Noise, add_rounded_noise, joint_noise, scaled_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig
from dpgnn.training.rounding import rounding_share

RELEASE = Streams(root_seed=7, axes={}, randomness="release")


def spec_of(num_roots=9, *, rate=0.5, norm=0.5, stddev=2.0, divisor=4.0, num_steps=6):
    clipping = global_clipping(norm)
    return DPSGD(
        num_steps=num_steps, batches=PoissonBatches(num_roots, rate), clipping=clipping,
        noise=joint_noise(clipping, stddev), divisor=divisor,
    )  # fmt: skip


class Recorded(RootGradients):
    """Clipped sums that remember the batches they were asked for."""

    def __init__(self, problem, clipping):
        super().__init__(problem.network, problem.x, problem.trees, clipping=clipping)
        self.batches = []

    def __call__(self, parameters, roots):
        self.batches.append(roots.copy())
        return super().__call__(parameters, roots)


def run(problem, spec, streams, progress, *, store=None, optimizer=None, **options):
    gradients = Recorded(problem, spec.clipping)
    weights, history = train(
        spec, problem.network, gradients, problem.parameters.float(),
        optimizer or OptimizerConfig(name="sgd", lr=1.0), streams=streams,
        store=store or Store(None), progress=progress, **options,
    )  # fmt: skip
    return problem.network.flatten(weights), history, gradients.batches


def test_exactly_the_planned_steps_are_taken(make_problem, streams, quiet):
    _, history, batches = run(make_problem(0), spec_of(num_steps=7), streams, quiet)
    assert len(batches) == 7
    assert history[-1]["step"] == 7
    assert [step for step, _ in quiet.lines] == list(range(1, 8))


def test_a_step_is_the_noisy_clipped_sum_over_a_public_constant(make_problem, streams, quiet):
    problem, spec = make_problem(0), spec_of(num_steps=1, divisor=3.0)
    after, _, (roots,) = run(problem, spec, streams, quiet)
    gradients = RootGradients(problem.network, problem.x, problem.trees, clipping=spec.clipping)
    total = gradients(problem.parameters.float(), roots)
    noise = streams.numpy("noise", stage="train", step=1).standard_normal(len(total))
    expected = problem.parameters.float() - (total + torch.from_numpy(2.0 * noise).float()) / 3.0
    torch.testing.assert_close(after, expected, rtol=1e-5, atol=1e-6)


def test_the_divisor_does_not_depend_on_the_realised_batch(make_problem, streams, quiet):
    # same noise stream, batches of different size: with the sum at zero the step is the same
    problem = make_problem(0)
    problem.x = problem.x * np.nan
    steps = []
    for rate in (0.0, 0.4, 1.0):
        after, _, batches = run(problem, spec_of(rate=rate, num_steps=3), streams, quiet)
        steps.append(after - problem.parameters.float())
        assert {len(batch) for batch in batches} != {4}
    assert torch.equal(steps[0], steps[1])
    assert torch.equal(steps[0], steps[2])


def test_an_empty_batch_takes_a_noisy_step(make_problem, streams, quiet):
    problem = make_problem(0)
    after, _, batches = run(problem, spec_of(rate=0.0, num_steps=1), streams, quiet)
    assert [len(batch) for batch in batches] == [0]
    moved = (after - problem.parameters.float()) * 4.0 / 2.0
    # N(0, 1) on about a hundred coordinates
    assert 0.6 < float(moved.std()) < 1.4
    assert bool((moved != 0).all())


def test_batches_and_noise_are_fresh_at_each_step_and_stage(make_problem, streams, quiet):
    problem = make_problem(0, num_roots=60)
    spec = spec_of(60, num_steps=4)
    first, _, batches = run(problem, spec, streams, quiet)
    assert len({tuple(batch) for batch in batches}) == 4
    other, _, others = run(problem, spec, streams, quiet, stage="decoder")
    assert not np.array_equal(batches[0], others[0])
    assert not torch.equal(first, other)


@pytest.mark.parametrize("secret", [False, True])
def test_no_step_gets_the_noise_of_another(make_problem, streams, quiet, monkeypatch, secret):
    given, real = [], Optimizer.step

    def step(self, gradient):
        given.append(gradient.clone())
        real(self, gradient)

    monkeypatch.setattr(Optimizer, "step", step)
    # no batch: what the optimizer gets is noise alone
    run(make_problem(0), spec_of(rate=0.0, num_steps=4), RELEASE if secret else streams, quiet)
    noise = torch.stack(given).double() * 4.0 / 2.0
    size = noise.shape[1]
    assert float((torch.corrcoef(noise) - torch.eye(4)).abs().max()) < 5 / np.sqrt(size)
    assert (noise[1:] != noise[:-1]).all()
    assert abs(float((noise**2).mean()) - 1) < 5 * np.sqrt(2 / noise.numel())


def test_a_release_sums_in_float64_and_what_leaves_is_on_the_grid(make_problem, quiet):
    problem, spec = make_problem(0), spec_of(num_steps=1, rate=1.0, divisor=1.0)
    problem.parameters = torch.zeros_like(problem.parameters)
    steps = []

    class Recorder(Recorded):
        def __call__(self, parameters, roots):
            total = super().__call__(parameters, roots)
            steps.append(total.clone())
            return total

    after, _ = train(
        spec, problem.network, Recorder(problem, spec.clipping), problem.parameters.float(),
        OptimizerConfig(name="sgd", lr=1.0), streams=RELEASE, store=Store(None), progress=quiet,
    )  # fmt: skip
    assert steps[0].dtype == torch.float64
    values = problem.network.flatten(after).double().numpy()
    step = grid_of(2.0 * (1 + rounding_share(spec.batches.largest_batch)))
    small = values[np.abs(values) < 2**23 * step]
    assert len(small) > len(values) // 2
    assert np.array_equal(small, np.rint(small / step) * step)


def test_the_noise_of_a_release_pays_for_the_rounding_of_its_sums(make_problem, quiet, monkeypatch):
    problem, spec, drawn = make_problem(0, num_hops=1), spec_of(), []

    def spy(total, stddev, *, rng):
        drawn.append(stddev)
        return add_rounded_noise(total, stddev, rng=rng)

    monkeypatch.setattr(dp_sgd, "add_rounded_noise", spy)
    run(problem, spec, RELEASE, quiet)
    (stddev,) = set(spec.noise.stddev.values())
    assert len(drawn) == spec.num_steps
    assert set(drawn) == {stddev * (1 + rounding_share(spec.batches.largest_batch))}
    assert drawn[0] > stddev


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(make_problem, streams, quiet):
    problem, spec = make_problem(0, num_hops=2, skip=True), spec_of()
    first, _, _ = run(problem, spec, streams, quiet, optimizer=OptimizerConfig())
    again, _, _ = run(problem, spec, streams, quiet, optimizer=OptimizerConfig())
    assert torch.equal(first, again)
    other, _, _ = run(problem, spec, replace(streams, root_seed=8), quiet)
    assert not torch.equal(first, other)


def test_a_release_cannot_be_replayed_and_shows_and_stores_nothing_private(
    make_problem, quiet, tmp_path
):
    problem, spec = make_problem(0), spec_of()

    def evaluate(weights):
        raise AssertionError("a release must not evaluate")

    store = Store(tmp_path, "one")
    options = {"evaluate": evaluate, "epsilon_spent": lambda step: 0.1 * step}
    first, history, _ = run(problem, spec, RELEASE, quiet, store=store, **options)
    second, _, _ = run(problem, spec, RELEASE, quiet, **options)
    assert not torch.equal(first, second)
    assert {key for row in history for key in row} == {"step", "epsilon"}
    assert {key for _, shown in quiet.lines for key in shown} <= {"epsilon"}
    arrays, values = store.load("train")
    assert set(arrays) == {"parameters"}
    assert set(values) == {"step", "history"}


def test_evaluation_is_written_down_and_never_read(make_problem, streams, quiet):
    problem, spec = make_problem(0), spec_of(num_steps=20)
    seen = []

    def evaluate(weights):
        seen.append(weights)
        return {"val_accuracy": 1.0 / len(seen)}

    last, history, _ = run(problem, spec, streams, quiet, evaluate=evaluate, num_rows=5)
    without, _, _ = run(problem, spec, streams, quiet)
    assert torch.equal(last, without)
    assert [row["step"] for row in history] == [4, 8, 12, 16, 20]
    assert history[0]["val_accuracy"] == 1.0


def test_the_loss_is_shown_in_studies_only(make_problem, streams, quiet):
    problem, spec = make_problem(0), spec_of(rate=1.0, num_steps=3)
    run(problem, spec, streams, quiet)
    assert all(float(shown["loss"]) > 0 for _, shown in quiet.lines)
    quiet.lines.clear()
    run(problem, spec, RELEASE, quiet)
    assert not any("loss" in shown for _, shown in quiet.lines)


def test_the_average_of_iterates_is_what_is_released(make_problem, streams, quiet):
    problem, spec = make_problem(0), spec_of(num_steps=2)
    optimizer = OptimizerConfig(name="sgd", lr=1.0)
    one, _, _ = run(problem, replace(spec, num_steps=1), streams, quiet, optimizer=optimizer)
    two, _, _ = run(problem, spec, streams, quiet, optimizer=optimizer)
    averaged = replace(optimizer, average_last=1.0)
    mean, _, _ = run(problem, spec, streams, quiet, optimizer=averaged)
    torch.testing.assert_close(mean, (one + two) / 2)


def test_other_clipping_than_planned_is_refused(make_problem, streams, quiet):
    problem, spec = make_problem(0), spec_of(norm=0.5)
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=global_clipping(1.0)
    )
    with pytest.raises(ValueError, match="gradients must clip as planned"):
        train(
            spec, problem.network, gradients, problem.parameters.float(), OptimizerConfig(),
            streams=streams, store=Store(None), progress=quiet,
        )  # fmt: skip


POISSON = PoissonRoots(
    relation="replace-one", noise_stddev=3.0, clipping_norm=1.5, sampling_probability=0.2, d_plus=1,
    d_minus=1,
)  # fmt: skip


def mechanism_of(event, **changes):
    values = {
        "name": "train", "event": compose(event, 5), "noise_stddev": 3.0, "sensitivity": 3.0,
        "num_steps": 5, "clipping_norm": 1.5, "divisor": 10.0,
    } | changes  # fmt: skip
    return Mechanism(**values)


def test_batches_follow_the_event_of_the_mechanism():
    spec = from_mechanism(mechanism_of(POISSON), num_roots=50)
    assert spec.batches == PoissonBatches(50, 0.2, 10.0)
    assert (spec.num_steps, spec.divisor, spec.clipping.total_norm) == (5, 10.0, 1.5)
    fixed = FixedSizeRoots(
        relation="replace-one", noise_stddev=3.0, clipping_norm=1.5, population=50, batch_size=7,
        changed_roots=1,
    )  # fmt: skip
    assert from_mechanism(mechanism_of(fixed), num_roots=50).batches.expected_batch_size == 7
    with pytest.raises(ValueError, match="number of roots must be the planned 50, got 49"):
        from_mechanism(mechanism_of(fixed), num_roots=49)
    full = GaussianRelease(relation="replace-one", noise_stddev=3.0, sensitivity=3.0)
    assert from_mechanism(mechanism_of(full), num_roots=5).batches.expected_batch_size == 5


def test_what_was_not_planned_is_refused(make_problem):
    planned = mechanism_of(POISSON)
    network = make_problem(0).network
    with pytest.raises(ValueError, match=r"clipping norm must be the planned 1\.5, got 1\.0"):
        from_mechanism(planned, num_roots=5, clipping=global_clipping(1.0))
    clipping = uniform_clipping(network, "group", 1.5)
    from_mechanism(planned, num_roots=5, clipping=clipping)
    from_mechanism(planned, num_roots=5, clipping=clipping, noise=scaled_noise(clipping, 3.0))
    each = Noise(stddev={part: 2.0 * norm for part, norm in clipping.norms.items()})
    with pytest.raises(ValueError, match=r"noise over clipping norm must be the planned 2\.0"):
        from_mechanism(planned, num_roots=5, clipping=clipping, noise=each)
    with pytest.raises(ValueError, match="number of steps must be the planned"):
        from_mechanism(replace(planned, num_steps=6), num_roots=5)
    with pytest.raises(ValueError, match="clipping_norm and divisor must be given"):
        from_mechanism(replace(planned, divisor=None), num_roots=5)


class Slow:
    """A progress line that says each step and takes its time."""

    def __init__(self, pipe, pause):
        self.pipe, self.pause = pipe, pause

    def update(self, step, **shown):
        self.pipe.send(step)
        time.sleep(self.pause)


def long_run(folder, out, pause, pipe):
    """A run of 60 steps in a process of its own."""
    torch.set_num_threads(1)
    rng, clipping = np.random.default_rng(0), global_clipping(1.0)
    network = Network(NetworkConfig(num_features=6, num_outputs=3, width=8, num_hops=0))
    x = rng.standard_normal((80, 6)).astype(np.float32)
    trees = lone_roots(np.arange(80), rng.integers(0, 3, 80))
    streams = Streams(root_seed=3, axes={"repeat": 0})
    weights, history = train(
        spec_of(80, rate=0.3, norm=1.0, stddev=0.5, num_steps=60), network,
        RootGradients(network, x, trees, clipping=clipping),
        network.initial(rng=streams.numpy("weights")), OptimizerConfig(average_last=0.5),
        streams=streams, store=Store(folder, "same"), progress=Slow(pipe, pause),
        epsilon_spent=lambda step: step / 7, checkpoint_seconds=0.05,
    )  # fmt: skip
    out.write_bytes(network.flatten(weights).numpy().tobytes() + repr(history).encode())


def start(tmp_path, name, pause):
    here, there = multiprocessing.get_context("fork").Pipe(duplex=False)
    arguments = (tmp_path / name, tmp_path / f"{name}.out", pause, there)
    process = multiprocessing.get_context("fork").Process(target=long_run, args=arguments)
    process.start()
    there.close()
    return process, here


@pytest.mark.usefixtures("ctrl_c")
def test_a_run_killed_at_any_moment_ends_with_the_same_bytes(tmp_path):
    whole, steps = start(tmp_path, "whole", 0.0)
    whole.join(timeout=60)
    assert whole.exitcode == 0
    rng, resumed = np.random.default_rng(5), []
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGKILL, None):
        process, steps = start(tmp_path, "killed", 0.02)
        resumed.append(steps.recv())
        if number is not None:
            time.sleep(float(rng.uniform(0.1, 0.3)))
            os.kill(process.pid, number)
        process.join(timeout=60)
        expected = {signal.SIGKILL: -signal.SIGKILL, signal.SIGTERM: 143, signal.SIGINT: 1, None: 0}
        assert process.exitcode == expected[number]
    assert resumed[0] == 1
    assert all(later > earlier for earlier, later in zip(resumed, resumed[1:]))
    assert (tmp_path / "killed.out").read_bytes() == (tmp_path / "whole.out").read_bytes()

import numpy as np
import pytest
import torch

from dpgnn.core.storage import Store
from dpgnn.models.forward import evaluate, per_root_loss
from dpgnn.samplers.batches import FixedSizeBatches, PoissonBatches
from dpgnn.training import loop
from dpgnn.training.chunks import chunk_layout
from dpgnn.training.clipping import global_clipping
from dpgnn.training.gradients import RootGradients
from dpgnn.training.minibatch import PlainRun, train
from dpgnn.training.options import OptimizerConfig


def go(problem, run, streams, quiet, *, store=None, optimizer=None, **options):
    gradients = RootGradients(problem.network, problem.x, problem.trees, clipping=None)
    weights, history = train(
        run, problem.network, gradients, problem.parameters.float(),
        optimizer or OptimizerConfig(lr=0.05), streams=streams, store=store or Store(None),
        progress=quiet, **options,
    )  # fmt: skip
    return problem.network.flatten(weights), history


def test_full_batches_lower_the_loss(make_problem, streams, quiet):
    problem = make_problem(0, num_roots=30, skip=True)
    layout = chunk_layout(problem.trees, np.arange(30))
    x, y = torch.from_numpy(problem.x)[layout.node], torch.from_numpy(problem.trees.y)

    def loss(flat):
        named = problem.network.views(flat)
        return float(
            per_root_loss(problem.network, evaluate(problem.network, named, layout, x), y).mean()
        )

    run = PlainRun(num_steps=150, batches=FixedSizeBatches(30, 30))
    after, _ = go(problem, run, streams, quiet)
    assert loss(after) < 0.3 * loss(problem.parameters.float())


def test_a_step_uses_the_mean_of_the_realised_batch(make_problem, streams, quiet):
    problem = make_problem(0)
    run = PlainRun(num_steps=1, batches=FixedSizeBatches(9, 4))
    after, _ = go(problem, run, streams, quiet, optimizer=OptimizerConfig(name="sgd", lr=1.0))
    roots = run.batches.draw(rng=streams.numpy("batches", stage="train", step=1))
    gradients = RootGradients(problem.network, problem.x, problem.trees, clipping=None)
    start = problem.parameters.float()
    torch.testing.assert_close(after, start - gradients(start, roots) / 4)


def test_the_loss_of_the_batch_is_shown(make_problem, streams, quiet):
    problem = make_problem(0)
    go(problem, PlainRun(num_steps=3, batches=FixedSizeBatches(9, 4)), streams, quiet)
    assert [float(shown["loss"]) > 0 for _, shown in quiet.lines] == [True] * 3


def test_the_best_validated_weights_are_kept_also_across_a_restart(
    make_problem, streams, quiet, tmp_path, monkeypatch
):
    problem, scores = make_problem(0), {}
    run = PlainRun(
        num_steps=8, batches=FixedSizeBatches(9, 3), selection="best_validation", num_rows=8
    )

    def scorer(stop_after=None):
        def evaluate(weights):
            step = len(scores) + 1
            if stop_after is not None and step > stop_after:
                raise KeyboardInterrupt
            scores[step] = problem.network.flatten(weights)
            return {"val_accuracy": 1.0 if step == 3 else 0.5}

        return evaluate

    whole, _ = go(problem, run, streams, quiet, evaluate=scorer())
    assert torch.equal(whole, scores[3])
    scores.clear()
    store = Store(tmp_path, "same")
    monkeypatch.setitem(loop.run_steps.__kwdefaults__, "checkpoint_seconds", 0.0)
    with pytest.raises(KeyboardInterrupt):
        go(problem, run, streams, quiet, store=store, evaluate=scorer(stop_after=5))
    resumed, _ = go(problem, run, streams, quiet, store=store, evaluate=scorer())
    assert torch.equal(resumed, whole)


def test_without_scores_to_select_on_the_last_weights_are_kept(make_problem, streams, quiet):
    problem, batches = make_problem(0), FixedSizeBatches(9, 3)
    last, _ = go(problem, PlainRun(num_steps=8, batches=batches), streams, quiet)
    run = PlainRun(num_steps=8, batches=batches, selection="best_validation", num_rows=4)
    unselected, history = go(problem, run, streams, quiet, evaluate=lambda weights: {})
    assert torch.equal(unselected, last)
    assert len(history) == 4


@pytest.mark.parametrize("average_last", [0.0, 0.5, 1.0])
def test_an_empty_batch_changes_nothing(make_problem, streams, quiet, average_last):
    problem = make_problem(0)
    run = PlainRun(num_steps=3, batches=PoissonBatches(9, 0.0))
    config = OptimizerConfig(name="sgd", average_last=average_last)
    after, _ = go(problem, run, streams, quiet, optimizer=config)
    assert torch.equal(after, problem.parameters.float())


def test_clipping_without_noise_and_selection_without_scores_are_refused(
    make_problem, streams, quiet
):
    problem = make_problem(0)
    run = PlainRun(num_steps=1, batches=FixedSizeBatches(9, 3), selection="best_validation")
    with pytest.raises(ValueError, match="evaluate must be given for best_validation"):
        go(problem, run, streams, quiet)
    gradients = RootGradients(
        problem.network, problem.x, problem.trees, clipping=global_clipping(1.0)
    )
    with pytest.raises(ValueError, match="gradients must not clip without privacy"):
        train(
            run, problem.network, gradients, problem.parameters.float(), OptimizerConfig(),
            streams=streams, store=Store(None), progress=quiet,
        )  # fmt: skip


def test_diverged_weights_are_an_error_with_a_remedy(make_problem, streams, quiet):
    problem = make_problem(0, activation="relu")
    run = PlainRun(num_steps=40, batches=FixedSizeBatches(9, 9))
    problem.parameters = problem.parameters * 1e30
    with pytest.raises(ValueError, match=r"weights must be finite, got NaN at step \d+; lower lr"):
        go(problem, run, streams, quiet, optimizer=OptimizerConfig(name="sgd", lr=1e30))

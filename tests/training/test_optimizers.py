import numpy as np
import pytest
import torch

from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig


def follow(config, num_steps=12, size=6):
    """Parameters after each step, with fixed gradients."""
    rng = np.random.default_rng(0)
    parameters = torch.from_numpy(rng.standard_normal(size))
    gradients = torch.from_numpy(rng.standard_normal((num_steps, size)))
    optimizer = Optimizer(config, parameters.clone(), num_steps)
    path = []
    for gradient in gradients:
        optimizer.step(gradient)
        path.append(optimizer.parameters.clone())
    return parameters, gradients, torch.stack(path), optimizer


@pytest.mark.parametrize(
    ("config", "make"),
    [
        (
            OptimizerConfig(name="adam", lr=0.1),
            lambda p: torch.optim.Adam(p, lr=0.1),
        ),
        (
            OptimizerConfig(name="adam", lr=0.1, beta1=0.5, beta2=0.7, epsilon=1e-3, weight_decay=0.2),
            lambda p: torch.optim.Adam(
                p, lr=0.1, betas=(0.5, 0.7), eps=1e-3, weight_decay=0.2
            ),
        ),
        (OptimizerConfig(name="sgd", lr=0.3), lambda p: torch.optim.SGD(p, lr=0.3)),
        (
            OptimizerConfig(name="sgd", lr=0.3, momentum=0.8),
            lambda p: torch.optim.SGD(p, lr=0.3, momentum=0.8),
        ),
    ],
)  # fmt: skip
def test_steps_are_those_of_torch(config, make):
    start, gradients, path, _ = follow(config)
    parameter = start.clone().requires_grad_()
    theirs = make([parameter])
    for gradient, ours in zip(gradients, path):
        parameter.grad = gradient.clone()
        theirs.step()
        torch.testing.assert_close(ours, parameter.detach(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_two_passes_round_as_torch_does(dtype):
    rng = np.random.default_rng(3)
    config = OptimizerConfig(name="adam", lr=0.1, weight_decay=0.01)
    start = torch.from_numpy(rng.standard_normal(1003)).to(dtype)
    compiled, plain = (Optimizer(config, start.clone(), 20) for _ in range(2))
    plain._root = None  # the operations of torch, as on a GPU
    for _ in range(20):
        gradient = torch.from_numpy(rng.standard_normal(1003)).to(dtype)
        compiled.step(gradient)
        plain.step(gradient)
    unit = torch.finfo(dtype).eps
    torch.testing.assert_close(
        compiled.parameters, plain.parameters, rtol=20 * unit, atol=20 * unit
    )
    for name, array in plain.arrays().items():
        np.testing.assert_allclose(compiled.arrays()[name], array, rtol=20 * unit, atol=20 * unit)
    assert (compiled.parameters - start).abs().max() > 0.1


def test_the_average_is_that_of_the_last_iterates():
    _, _, path, optimizer = follow(OptimizerConfig(name="sgd", lr=0.1, average_last=0.25))
    torch.testing.assert_close(optimizer.result(), path[-3:].mean(dim=0))
    _, _, path, optimizer = follow(OptimizerConfig(name="sgd", lr=0.1, average_last=1.0))
    torch.testing.assert_close(optimizer.result(), path.mean(dim=0))


def test_a_skipped_step_counts_as_an_iterate_that_stays():
    config = OptimizerConfig(name="sgd", lr=1.0, average_last=0.5)
    optimizer = Optimizer(config, torch.zeros(1), 4)
    optimizer.step(torch.tensor([-4.0]))
    optimizer.step(torch.tensor([-6.0]))
    optimizer.skip()
    assert (optimizer.count, float(optimizer.result())) == (3, 10.0)
    optimizer.step(torch.tensor([-2.0]))
    assert float(optimizer.result()) == 11.0


def test_before_averaging_begins_the_iterate_is_the_result():
    config = OptimizerConfig(name="sgd", lr=0.1, average_last=0.5)
    optimizer = Optimizer(config, torch.zeros(2), 10)
    optimizer.step(torch.ones(2))
    assert torch.equal(optimizer.result(), optimizer.parameters)


@pytest.mark.parametrize("name", ["adam", "sgd"])
def test_a_restored_optimizer_goes_on_with_the_same_bytes(name):
    config = OptimizerConfig(name=name, momentum=0.5, average_last=0.7)
    rng = np.random.default_rng(1)
    gradients = torch.from_numpy(rng.standard_normal((8, 3))).float()
    whole = Optimizer(config, torch.zeros(3), 8)
    for gradient in gradients:
        whole.step(gradient)
    first = Optimizer(config, torch.zeros(3), 8)
    for gradient in gradients[:5]:
        first.step(gradient)
    second = Optimizer(config, torch.zeros(3), 8)
    second.restore(first.arrays(), 5)
    for gradient in gradients[5:]:
        second.step(gradient)
    assert torch.equal(whole.result(), second.result())
    assert torch.equal(whole.parameters, second.parameters)


def test_the_gradient_is_not_changed():
    gradient = torch.ones(3)
    Optimizer(OptimizerConfig(weight_decay=0.1), torch.ones(3), 1).step(gradient)
    assert torch.equal(gradient, torch.ones(3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "lamb"}, "unknown optimizer 'lamb'"),
        ({"lr": 0.0}, "lr must be > 0"),
        ({"beta1": 1.0}, r"beta1 must be in \[0, 1\)"),
        ({"average_last": 1.5}, r"average_last must be in \[0, 1\]"),
    ],
)
def test_impossible_options_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        OptimizerConfig(**changes)

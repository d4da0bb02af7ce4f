"""DP-SGD over trees of roots: executes a planned mechanism, step by step, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpgnn.accountants.events import Event, FixedSizeRoots, GaussianRelease, PoissonRoots, parts
from dpgnn.checks import at_least, positive, require
from dpgnn.models.network import Network
from dpgnn.samplers.batches import Batches, FixedSizeBatches, PoissonBatches
from dpgnn.training.clipping import Clipping
from dpgnn.training.gradients import RootGradients
from dpgnn.training.loop import ProgressLine, Row, run_steps
from dpgnn.training.noise import Noise, add_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Mechanism
    from dpgnn.randomness import Streams
    from dpgnn.storage import Store

Evaluate = Callable[[Mapping[str, Tensor]], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """What defines the mechanism: nothing here depends on private data.

    Attributes:
        num_steps: T.
        batches: law of the batches.
        clipping: bounds on one root's gradient.
        noise: deviations on the sum.
        divisor: public constant the noisy sum is divided by, never the realised batch size.
    """

    num_steps: int
    batches: Batches
    clipping: Clipping
    noise: Noise
    divisor: float

    def __post_init__(self) -> None:
        at_least("num_steps", self.num_steps, 1)
        positive("divisor", self.divisor)
        self.noise.multiplier(self.clipping)


def from_mechanism(
    mechanism: Mechanism, *, batches: Batches, clipping: Clipping, noise: Noise
) -> DPSGD:
    """The executable form of a planned mechanism, checked against what its event counts.

    Raises:
        ValueError: clipping norm, noise over clipping norm, or the law of the batches is not the one the
            plan was calibrated for.
    """
    where = f"mechanism {mechanism.name}"
    planned_norm = mechanism.clipping_norm
    require(planned_norm is not None, f"{where}: clipping_norm", "be given", planned_norm)
    assert planned_norm is not None
    _same(f"{where}: clipping norm", clipping.total_norm, planned_norm)
    planned = mechanism.noise_stddev / planned_norm
    _same(f"{where}: noise over clipping norm", noise.multiplier(clipping), planned)
    for event, count in parts(mechanism.event):
        _same(f"{where}: number of steps", mechanism.num_steps, count)
        _check_batches(where, event, batches)
    require(mechanism.divisor is not None, f"{where}: divisor", "be a public constant", None)
    return DPSGD(
        num_steps=mechanism.num_steps, batches=batches, clipping=clipping, noise=noise,
        divisor=float(mechanism.divisor or 0.0),
    )  # fmt: skip


def _same(name: str, value: float, planned: float) -> None:
    close = abs(value - planned) <= 1e-9 * max(abs(value), abs(planned))
    require(close, name, f"be the planned {planned!r}", value, "plan again with these settings")


def _check_batches(where: str, event: Event[Any], batches: Batches) -> None:
    """The batches must follow the law that the event counts."""
    parameters = batches.event_parameters
    if isinstance(event, PoissonRoots):
        ok = isinstance(batches, PoissonBatches)
        ok = ok and parameters["sampling_probability"] == event.sampling_probability
        expected = f"Poisson with probability {event.sampling_probability}"
    elif isinstance(event, FixedSizeRoots):
        ok = isinstance(batches, FixedSizeBatches)
        counted = {"population": event.population, "batch_size": event.batch_size}
        ok = ok and parameters == counted
        expected = f"{event.batch_size} of {event.population} roots without replacement"
    elif isinstance(event, GaussianRelease):
        ok, expected = True, "any"
    else:
        ok, expected = False, "counted by PoissonRoots, FixedSizeRoots or GaussianRelease"
    require(ok, f"{where}: batches", f"be {expected}", batches)


def train(
    spec: DPSGD,
    network: Network,
    gradients: RootGradients,
    initial: Tensor,
    optimizer: OptimizerConfig,
    *,
    streams: Streams,
    store: Store,
    progress: ProgressLine,
    stage: str = "train",
    epsilon_spent: Callable[[int], float] | None = None,
    evaluate: Evaluate | None = None,
    num_rows: int = 10,
) -> tuple[dict[str, Tensor], list[Row]]:
    """Run the mechanism: T noisy steps from public initial weights.

    Guarantee: the released weights are post-processing of T releases, each
    (sum over the batch of clipped per-root gradients + noise) / divisor, with fresh batch coins and fresh
    noise; an empty batch takes a noisy step like any other. So they are as private as the mechanism's
    event says. In a release, losses, norms and batch sizes are neither shown nor stored, and a step that
    is lost in a crash is drawn again with new noise without its first result having left the process.

    Args:
        spec: the mechanism.
        network: the network.
        gradients: its clipped sums over the trees of the roots; must clip as `spec` says.
        initial: flat parameters, drawn from the stream `weights` (public).
        optimizer: post-processing of the noisy means.
        streams: `batches` and `noise` are drawn per stage and step.
        store: checkpoints of the run.
        progress: shows step and epsilon spent.
        stage: name of the checkpoint and of the streams' axis; different for each stage of a method.
        epsilon_spent: steps -> epsilon, for the history.
        evaluate: named parameters -> metrics for the history; called in study mode only, and nothing
            reads its answer: the last step is released whatever it says.
        num_rows: rows of the history.

    Returns:
        named parameters on the CPU (the average of iterates where asked for), and the history.

    Raises:
        ValueError: `gradients` clips otherwise than `spec`.
    """
    require(
        gradients.clipping == spec.clipping, "gradients", f"clip as planned, {spec.clipping}",
        gradients.clipping,
    )  # fmt: skip
    device, dtype = gradients.device, gradients.execution.torch_dtype
    parameters = initial.detach().clone().to(device=device, dtype=dtype)
    state = Optimizer(optimizer, parameters, spec.num_steps)
    deviations: Tensor | float = spec.noise.per_coordinate(network, spec.clipping)
    if len(set(spec.noise.stddev.values())) == 1:
        deviations = next(iter(spec.noise.stddev.values()))
    study = streams.randomness == "study"

    def take_step(step: int) -> None:
        roots = spec.batches.draw(rng=streams.numpy("batches", stage=stage, step=step))
        total = gradients(parameters, roots)
        noisy = add_noise(total, deviations, rng=streams.numpy("noise", stage=stage, step=step))
        state.step(noisy.div_(spec.divisor))

    def row(step: int) -> Row:
        values: Row = {} if epsilon_spent is None else {"epsilon": epsilon_spent(step)}
        if evaluate is not None and study:
            values |= evaluate(network.named(state.result()))
        return values

    spent: dict[str, str] = {}

    def row_and_line(step: int) -> Row:
        values = row(step)
        if "epsilon" in values:
            spent["epsilon"] = f"{values['epsilon']:.3g}"
        return values

    with torch.no_grad():
        history = run_steps(
            take_step, state, spec.num_steps, name=stage, store=store, progress=progress,
            row=row_and_line, shown=lambda step: spent, num_rows=num_rows,
        )  # fmt: skip
    return network.named(state.result()), history

"""DP-SGD over the trees of roots: runs a planned mechanism."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dpgnn.accountants.events import Event, FixedSizeRoots, GaussianRelease, PoissonRoots, parts
from dpgnn.core.checks import at_least, fail, positive, require
from dpgnn.core.doors import Door
from dpgnn.models.network import Network
from dpgnn.samplers.batches import Batches, FixedSizeBatches, PoissonBatches
from dpgnn.training.clipping import Clipping, global_clipping
from dpgnn.training.gpu.noise import NoiseAhead
from dpgnn.training.gradients import RootGradients
from dpgnn.training.loop import ProgressLine, Row, run_steps, shown_loss
from dpgnn.training.noise import Noise, add_noise, add_rounded_noise, joint_noise
from dpgnn.training.optimizers import Optimizer
from dpgnn.training.options import OptimizerConfig
from dpgnn.training.rounding import rounding_share

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Mechanism
    from dpgnn.core.randomness import Streams
    from dpgnn.core.storage import Store

Evaluate = Callable[[Mapping[str, Tensor]], Mapping[str, float]]


@dataclass(frozen=True, kw_only=True)
class DPSGD:
    """The parameters of the mechanism; none depends on private data.

    Attributes:
        num_steps: T.
        batches: how batches are sampled.
        clipping: bounds on one root's gradient.
        noise: standard deviations on the sum.
        divisor: public constant by which the noisy sum is divided, never the realised batch size.
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
    mechanism: Mechanism,
    *,
    num_roots: int,
    clipping: Clipping | None = None,
    noise: Noise | None = None,
) -> DPSGD:
    """The executable form of a planned mechanism, checked against its event.

    Guarantee: the mechanism draws, clips and adds noise as the event of the plan states; unit and relation
    are those of the plan; the number of roots is public if batches have a fixed size.

    Args:
        mechanism: its event states how batches are drawn.
        num_roots: roots present.
        clipping: None clips the whole gradient at the planned norm; otherwise parts with the planned
            `total_norm`.
        noise: None is joint noise of the planned deviation; otherwise parts with the same multiplier.

    Returns:
        the mechanism for `train`; public.

    Raises:
        ValueError: clipping norm, noise over clipping norm, or number of steps or roots is not as planned, or
            the event is not one of DP-SGD.

    Source: docs/accounting.md, theorems 1, 2 and 5, for the events that it takes.
    """
    where, norm, divisor = f"mechanism {mechanism.name}", mechanism.clipping_norm, mechanism.divisor
    if norm is None or divisor is None:
        fail(f"{where}: clipping_norm and divisor", "be given", (norm, divisor))
    clipping = clipping or global_clipping(norm)
    noise = noise or joint_noise(clipping, mechanism.noise_stddev)
    _same(f"{where}: clipping norm", clipping.total_norm, norm)
    planned = mechanism.noise_stddev / norm
    _same(f"{where}: noise over clipping norm", noise.multiplier(clipping), planned)
    event = _repeated_step(where, mechanism)
    # first, because only an event of DP-SGD has the values that are compared next
    batches = _batches(where, event, num_roots, float(divisor))
    _same(f"{where}: noise_stddev", mechanism.noise_stddev, event.noise_stddev)
    if not isinstance(event, GaussianRelease):
        _same(f"{where}: clipping_norm", norm, event.clipping_norm)
    return DPSGD(
        num_steps=mechanism.num_steps, batches=batches,
        clipping=clipping, noise=noise, divisor=float(divisor),
    )  # fmt: skip


def _repeated_step(where: str, mechanism: Mechanism) -> Any:
    """The event of one step, which the event of the mechanism repeats."""
    counted = parts(mechanism.event)
    require(len(counted) == 1, f"{where}: event", "be equal steps", counted)
    _same(f"{where}: number of steps", mechanism.num_steps, counted[0][1])
    return counted[0][0]


def _batches(where: str, event: Event[Any], num_roots: int, divisor: float) -> Batches:
    """The sampling of batches that the event states; the divisor is the planned mean size of Poisson ones."""
    if isinstance(event, PoissonRoots):
        return PoissonBatches(num_roots, event.sampling_probability, divisor)
    if isinstance(event, FixedSizeRoots):
        _same(f"{where}: number of roots", num_roots, event.population)
        return FixedSizeBatches(num_roots, event.batch_size)
    if isinstance(event, GaussianRelease):
        return PoissonBatches(num_roots, 1.0, divisor)
    kinds = "PoissonRoots, FixedSizeRoots or GaussianRelease"
    fail(f"{where}: event", f"be {kinds}", type(event).__name__)


def _same(name: str, value: float, planned: float) -> None:
    close = abs(value - planned) <= 1e-9 * max(abs(value), abs(planned))
    require(close, name, f"be the planned {planned!r}", value, "plan again with these settings")


@Door
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
    checkpoint_seconds: float = 5.0,
    before_step: Callable[[int], None] | None = None,
) -> tuple[dict[str, Tensor], list[Row]]:
    """Run the mechanism: T noisy steps from public initial weights.

    Guarantee: the released weights are post-processing of T releases, each
    (sum over the batch of clipped per-root gradients + noise) / divisor, with independent batches and noise;
    an empty batch takes a noisy step too. So they are as private as the event of the mechanism states. Unit
    and relation are those of the plan; numbers of roots and steps, clipping norm, noise and divisor are
    public. In a release the sum is computed in float64, its noise is larger by the share that rounding can
    change it, which is made of public numbers alone, and the noisy sum is rounded to a public grid; losses,
    norms and batch sizes are neither shown nor stored. A step that is lost in a crash is repeated with new
    noise; its first result never left the process.

    Args:
        spec: the mechanism.
        network: the network.
        gradients: its clipped sums over the trees of the roots, clipped as in `spec`.
        initial: flat parameters, drawn from the stream `weights` (public).
        optimizer: post-processing of the noisy means.
        streams: `batches` and `noise` are drawn per stage and step.
        store: checkpoints of the run.
        progress: shows step and epsilon spent, and in studies the batch's loss.
        stage: name of the checkpoint and of the axis of the streams; different for each stage of a method.
        epsilon_spent: steps -> epsilon, for the history.
        evaluate: named parameters -> metrics for the history; called in studies only. Training does not use
            the result: the last step is always released.
        num_rows: rows of the history.
        checkpoint_seconds: at least this long between two checkpoints.
        before_step: called with the number of each step before it, also after a restart; for roots whose
            trees are drawn again during training.

    Returns:
        named parameters on the CPU (averaged over iterates if configured), and the history.

    Raises:
        ValueError: `gradients` clips differently from `spec`.

    Source: Abadi et al. (2016), arXiv:1607.00133, Algorithm 1.
    """
    require(
        gradients.clipping == spec.clipping, "gradients", f"clip as planned, {spec.clipping}",
        gradients.clipping,
    )  # fmt: skip
    device, dtype = gradients.device, gradients.execution.torch_dtype
    parameters = initial.detach().clone().to(device=device, dtype=dtype)
    state = Optimizer(optimizer, parameters, spec.num_steps)
    noisy_sums = _NoisySums(spec, network, gradients, streams, stage)
    study = streams.randomness == "study"
    loss = shown_loss(gradients, study=study)
    line: dict[str, str] = {}

    def take_step(step: int) -> None:
        if before_step is not None:
            before_step(step)
        state.step(noisy_sums(parameters, step).to(dtype).div_(spec.divisor))

    def row(step: int) -> Row:
        values: Row = {} if epsilon_spent is None else {"epsilon": epsilon_spent(step)}
        if evaluate is not None and study:
            values |= evaluate(network.named(state.result()))
        if "epsilon" in values:
            line["epsilon"] = f"{values['epsilon']:.3g}"
        return values

    with torch.no_grad(), noisy_sums.ahead or nullcontext():
        history = run_steps(
            take_step, state, spec.num_steps, name=stage, store=store, progress=progress,
            row=row, shown=lambda step: line | loss(), num_rows=num_rows,
            checkpoint_seconds=checkpoint_seconds,
        )  # fmt: skip
    return network.named(state.result()), history


class _NoisySums:
    """Noisy clipped sums of batches.

    Guarantee: unit and relation of the plan; each call is one release of the mechanism's event. In a release
    the sum is float64, and the noise covers its rounding.
    """

    def __init__(
        self, spec: DPSGD, network: Network, gradients: RootGradients, streams: Streams, stage: str
    ) -> None:
        self.spec, self.gradients, self.stage = spec, gradients, stage
        self.draw = partial(streams.numpy, stage=stage)
        self.add: Callable[..., Tensor] = add_noise
        self.deviations: Tensor | float = spec.noise.per_coordinate(network, spec.clipping)
        if len(set(spec.noise.stddev.values())) == 1:
            self.deviations = next(iter(spec.noise.stddev.values()))
        if streams.is_secret("noise"):
            gradients.sum_for_release()
            self.deviations = self.deviations * (1.0 + rounding_share(spec.batches.largest_batch))
            self.add = add_rounded_noise
        self.ahead: NoiseAhead | None = None
        if gradients.device.type == "cuda":
            self.ahead = NoiseAhead(
                self.deviations, network.num_parameters, partial(self.draw, "noise"),
                num_steps=spec.num_steps, rounded=streams.is_secret("noise"),
                dtype=gradients.execution.torch_dtype, device=gradients.device,
            )  # fmt: skip

    def __call__(self, parameters: Tensor, step: int) -> Tensor:
        """The noisy sum of a step, flat; may be released."""
        roots = self.spec.batches.draw(rng=self.draw("batches", step=step))
        total = self.gradients(parameters, roots)
        if self.ahead is not None:
            return self.ahead.add(total, step)
        return self.add(total, self.deviations, rng=self.draw("noise", step=step))

"""Audit of one DP-SGD mechanism: its real loop, run in two neighbouring worlds, against its planned event.

The loop is the method's own: sampler, batches, clipping, sum, noise and divisor. The auditor chooses public
initial weights at which the worlds differ most, observes every noisy mean and keeps the weights fixed, as an
adversary who sees all iterates may. A step is scored by its log likelihood ratio along the direction in which
the noise-free sums differ, in units of the noise.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np

from dpgnn.accountants.events import parts
from dpgnn.audits.batch_laws import rate_of
from dpgnn.audits.canary import DESIGNS
from dpgnn.audits.capture import Case, Training
from dpgnn.audits.one_run import OneRun, guess
from dpgnn.core.randomness import FreshSecrets
from dpgnn.core.storage import Store
from dpgnn.methods.base import SilentProgress

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Mechanism
    from dpgnn.audits.statistics import ClaimLine

# factors on the initial weights, and shifts of the output bias that make every prediction wrong
SCALES = (1.0, 5.0, 25.0)
BIASES = (0.0, 40.0)
# number of outcomes of earlier releases to try
NUM_RELEASES = 4
NUM_WEIGHTS = 2
_HALF_WIDTH, _STEP = 60.0, 0.02


@dataclass(frozen=True, kw_only=True, eq=False)
class Aim:
    """The auditor's statistic of one mechanism; sensitive.

    Attributes:
        worlds: captured training of G and of G'.
        initial: the chosen public weights.
        direction: float64, shape (num_parameters,); its dot product with a sum is in units of the noise.
        rows: per-root gradients of G and of G' at `initial`, clipped, float64.
        offsets: projections of those rows.
        rate: probability that a root is in a batch.
        also: aims at the other records that the canary may have in G'; exact tests hold for them too.
    """

    worlds: tuple[Training, Training]
    initial: Tensor
    direction: np.ndarray
    rows: tuple[np.ndarray, np.ndarray]
    offsets: tuple[np.ndarray, np.ndarray]
    rate: float
    also: tuple[Aim, ...] = ()

    @property
    def shift(self) -> float:
        """Difference of the noise-free sums over all roots, in units of the noise."""
        return float(abs(self.offsets[0].sum() - self.offsets[1].sum()))

    def moved(self) -> float:
        """L2 distance of the noise-free sums over all roots."""
        return float(np.linalg.norm(self.rows[0].sum(axis=0) - self.rows[1].sum(axis=0)))

    def changed(self) -> tuple[int, int]:
        """Number of roots of G, and of G', whose clipped gradient does not occur in the other world."""
        from collections import Counter

        first, second = (Counter(row.tobytes() for row in side) for side in self.rows)
        return (first - second).total(), (second - first).total()

    def changed_roots(self) -> np.ndarray:
        """int64: the roots of G whose clipped gradient no root of G' has."""
        other = {row.tobytes() for row in self.rows[1]}
        return np.flatnonzero([row.tobytes() not in other for row in self.rows[0]])


def aim_at(case: Case, mechanism: Mechanism) -> Aim:
    """Capture the mechanism's training in both worlds and choose the weights that separate them best.

    A claim holds for every outcome of earlier releases, so the auditor may choose one: new outcomes are drawn
    while the canary reaches less than half of the sensitivity. Of the records that the canary may have in G'
    the claim test gets the one that moves the sum furthest; `Aim.also` has the others.
    """
    recipes = case.recipe.labelled()
    aims = [_best(dataclasses.replace(case, recipe=recipe), mechanism) for recipe in recipes]
    best = max(aims, key=Aim.moved)
    return dataclasses.replace(best, also=tuple(aim for aim in aims if aim is not best))


def _best(case: Case, mechanism: Mechanism) -> Aim:
    """The aim that separates the worlds of one recipe best."""
    rate = rate_of(parts(mechanism.event)[0][0])
    enough = (mechanism.sensitivity or 0.0) / 2
    first = any(other.clipping_norm is None for other in case.plan.mechanisms)
    found: list[tuple[float, tuple[Training, Training], Tensor]] = []
    for draw in range(NUM_RELEASES if first else 1):
        found += _captured(dataclasses.replace(case, root_seed=case.root_seed + draw), mechanism)
        # candidates are ordered by the distance of sums; the spread of a batch decides among the first
        found.sort(key=lambda item: -item[0])
        if found[0][0] >= enough:
            break
    aims = [_aimed(worlds, initial, rate) for _, worlds, initial in found[:3]]
    return max(aims, key=_separation)


def _captured(
    case: Case, mechanism: Mechanism
) -> list[tuple[float, tuple[Training, Training], Tensor]]:
    """(distance of the sums, worlds, weights) for all designs and candidates."""
    found = []
    for design in DESIGNS:
        variant = dataclasses.replace(
            case, recipe=dataclasses.replace(case.recipe, design=design), kept={}
        )
        worlds = (
            variant.training(True, mechanism.name),
            variant.training(False, mechanism.name),
        )
        for world in worlds:
            if world.before_step is not None:
                world.before_step(1)
        for initial in candidates(worlds[0], case.root_seed):
            found.append((_distance(worlds, initial), worlds, initial))
    return found


def _distance(worlds: tuple[Training, Training], initial: Tensor) -> float:
    """L2 distance of the noise-free sums over all roots."""
    return float(
        np.linalg.norm(noise_free_sum(worlds[0], initial) - noise_free_sum(worlds[1], initial))
    )


def _num_roots(world: Training) -> int:
    gradients = world.gradients
    return int((gradients if hasattr(gradients, "num_roots") else gradients.trees).num_roots)


def candidates(world: Training, seed: int) -> list[Tensor]:
    """Initial weights: drawn as by the method, scaled, with the bias of one class raised."""
    import torch

    found = []
    names = list(world.network.shapes)
    for draw in range(NUM_WEIGHTS):
        base = world.network.initial(rng=np.random.default_rng([seed % 2**32, draw]))
        for scale in SCALES:
            for bias in BIASES:
                flat = (base * scale).clone()
                last = world.network.views(flat)[names[-1]]
                if bias and last.ndim == 1:
                    last[-1] += bias
                found.append(flat.to(torch.float32))
    return found


def root_rows(world: Training, initial: Tensor) -> np.ndarray:
    """Each root's clipped gradient, float64, shape (num_roots, num_parameters); sensitive."""
    import torch

    gradients, count = world.gradients, _num_roots(world)
    with torch.no_grad():
        rows = [
            gradients(initial, np.array([root])).double().numpy().copy() for root in range(count)
        ]
    return np.stack(rows)


def _aimed(worlds: tuple[Training, Training], initial: Tensor, rate: float) -> Aim:
    rows = (root_rows(worlds[0], initial), root_rows(worlds[1], initial))
    spec, network = worlds[0].spec, worlds[0].network
    deviation = spec.noise.per_coordinate(network, spec.clipping).numpy()
    difference = rows[0].sum(axis=0) - rows[1].sum(axis=0)
    length = np.linalg.norm(difference / deviation)
    direction = difference / deviation**2 / max(float(length), 1e-300)
    offsets = (rows[0] @ direction, rows[1] @ direction)
    return Aim(
        worlds=worlds, initial=initial, direction=direction, rows=rows, offsets=offsets, rate=rate
    )


def _separation(aim: Aim) -> float:
    """Squared difference of a step's means over its variance."""
    q = aim.rate
    spread = [1 + q * (1 - q) * float((side**2).sum()) for side in aim.offsets]
    return (q * aim.shift) ** 2 / max(spread)


@dataclass(frozen=True, kw_only=True, eq=False)
class Score:
    """Log likelihood ratio of one step's projection, tabulated.

    Attributes:
        ratio: float64, at the points of the grid.
    """

    ratio: np.ndarray

    @classmethod
    def of(cls, aim: Aim) -> Score:
        """From the distributions of a step in both worlds: independent roots, unit normal noise."""
        grid = _grid()
        laws = []
        for offsets in aim.offsets:
            law = np.exp(-(grid**2) / 2)
            for offset in offsets[np.abs(offsets) > 1e-3]:
                moved = np.interp(grid - offset, grid, law, left=0.0, right=0.0)
                law = (1 - aim.rate) * law + aim.rate * moved
            laws.append(np.log(law / law.sum() + 1e-30))
        return cls(ratio=laws[0] - laws[1])

    def __call__(self, projections: np.ndarray) -> np.ndarray:
        """The scores of projections, any shape."""
        return np.interp(projections, _grid(), self.ratio)


def _grid() -> np.ndarray:
    return np.arange(-_HALF_WIDTH, _HALF_WIDTH + _STEP / 2, _STEP)


def watch(
    world: Training,
    initial: Tensor,
    num_steps: int,
    seed: int,
    look: Callable[[Tensor], None],
    *,
    stage: str,
) -> None:
    """Run the real training loop with fixed weights; `look` gets every noisy mean."""
    from dpgnn.training import dp_sgd
    from dpgnn.training.options import OptimizerConfig

    def step(optimizer: Any, gradient: Tensor) -> None:
        optimizer.count += 1
        look(gradient)

    spec = dataclasses.replace(world.spec, num_steps=num_steps)
    with mock.patch("dpgnn.training.optimizers.Optimizer.step", step):
        dp_sgd.train(
            spec, world.network, world.gradients, initial, OptimizerConfig(lr=1.0),
            streams=FreshSecrets(
                root_seed=seed, axes={"audit": stage}, secret_seed=seed, randomness=world.randomness
            ),
            store=Store(None),
            progress=SilentProgress(), stage=stage, num_rows=1, before_step=world.before_step,
        )  # fmt: skip


def projections(aim: Aim, num_steps: int, seed: int, *, inside: bool, stage: str) -> np.ndarray:
    """float64, shape (num_steps,): noisy sums of one run along the direction, in units of the noise."""
    world = aim.worlds[0 if inside else 1]
    found: list[float] = []
    scale = aim.direction * world.spec.divisor

    def look(gradient: Tensor) -> None:
        found.append(float(gradient.double().numpy() @ scale))

    watch(world, aim.initial, num_steps, seed, look, stage=stage)
    return np.array(found)


def one_run(
    case: Case,
    mechanism: Mechanism,
    *,
    num_canaries: int,
    num_steps: int,
    seed: int,
    delta: float,
    level: float,
    line: ClaimLine | None = None,
) -> OneRun:
    """Lower bound on the epsilon of `num_steps` steps from one run of the loop with many canaries.

    Each canary's record is that of G or of G' by a fair coin. The auditor fits the mean of the noisy sums
    by the canaries' own noise-free differences and guesses the largest and smallest coefficients.

    Guarantee: see `one_run.guess`; canaries are distinct units, each toggled by itself.
    """  # fmt: skip
    recipe = dataclasses.replace(case.recipe, num_canaries=num_canaries)
    many = dataclasses.replace(case, recipe=recipe, kept={})
    coins = np.random.default_rng([seed % 2**32, 1]).random(num_canaries) < 0.5
    everyone = np.ones(num_canaries, dtype=bool)
    whole = many.training(everyone, mechanism.name)
    initial = candidates(whole, case.root_seed)[2]
    base = noise_free_sum(whole, initial)
    matrix = np.stack([
        base - noise_free_sum(many.training(~one, mechanism.name), initial)
        for one in np.eye(num_canaries, dtype=bool)
    ])  # fmt: skip
    world, sums = many.training(coins, mechanism.name), []

    def look(mean: Tensor) -> None:
        sums.append(mean.double().numpy() * world.spec.divisor)

    watch(world, initial, num_steps, seed, look, stage=mechanism.name)
    # everybody in, less the half that is expected to be out
    middle = rate_of(parts(mechanism.event)[0][0]) * (base - matrix.sum(axis=0) / 2)
    fitted = _ridge(matrix, np.mean(sums, axis=0) - middle)
    return guess(fitted, coins, delta=delta, level=level, line=line)


def _ridge(matrix: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Coefficients of the rows that best approximate the target, by ridge regression."""
    ridge = 1e-3 * float((matrix**2).sum()) / len(matrix) * np.eye(len(matrix))
    return np.asarray(np.linalg.solve(matrix @ matrix.T + ridge, matrix @ target))


def noise_free_sum(world: Training, initial: Tensor) -> np.ndarray:
    """The noise-free sum over all roots, float64; sensitive."""
    import torch

    if world.before_step is not None:
        world.before_step(1)
    with torch.no_grad():
        total = world.gradients(initial, np.arange(_num_roots(world)))
    return np.asarray(total.double().numpy().copy())

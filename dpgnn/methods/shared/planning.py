"""Plans of noisy gradient descent: from options and public facts to a mechanism and a claim.

Used by every method that trains by DP-SGD, so that noise, steps and claims are computed in one place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.accountants.events import Event, PoissonRoots, compose
from dpgnn.accountants.plan import Budget, Mechanism, Spent
from dpgnn.core.checks import at_least, one_of, positive, require
from dpgnn.training.options import OptimizerConfig

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry


@dataclass(frozen=True, kw_only=True)
class DPSGDConfig:
    """Noisy gradient descent on Poisson batches of roots; every value is public.

    Attributes:
        expected_batch_size: mean number of roots in a batch, at most the training nodes; the rate is this
            over the training nodes. `full` takes all of them at every step.
        num_steps: optimiser steps T if the noise is calibrated; an upper limit if noise is given.
        noise_multiplier: None calibrates the noise to num_steps; a number gives the noise, relative to the
            method's reference sensitivity, and the budget gives the number of steps.
        clipping_norm: L2 bound C on one root's gradient.
        optimizer: turns noisy means into steps; post-processing, including averaging.
    """

    expected_batch_size: int | Literal["full"] = 256
    num_steps: int = 200
    noise_multiplier: float | None = None
    clipping_norm: float = 1.0
    optimizer: OptimizerConfig = OptimizerConfig(lr=0.01)

    def __post_init__(self) -> None:
        if isinstance(self.expected_batch_size, str):
            one_of("expected_batch_size", self.expected_batch_size, ("full",))
        else:
            at_least("expected_batch_size", self.expected_batch_size, 1)
        at_least("num_steps", self.num_steps, 1)
        if self.noise_multiplier is not None:
            positive("noise_multiplier", self.noise_multiplier)
        positive("clipping_norm", self.clipping_norm)

    def batch_size(self, num_roots: int, path: str = "") -> int:
        """Roots in a batch, or their mean number, for a public number of roots.

        Args:
            num_roots: public.
            path: of these options, before the option's name in the message.

        Raises:
            ValueError: there are fewer roots.
        """
        if isinstance(self.expected_batch_size, str):
            return num_roots
        require(
            self.expected_batch_size <= num_roots, f"{path}expected_batch_size",
            f"be <= the number of training nodes, {num_roots}", self.expected_batch_size,
            "lower it, or use `full` to take all of them at every step",
        )  # fmt: skip
        return self.expected_batch_size

    def sampling_probability(self, num_roots: int) -> float:
        """Poisson rate q for a public number of roots.

        Raises:
            ValueError: as `batch_size`.
        """
        return self.batch_size(num_roots) / num_roots


# of linear models
LINEAR = DPSGDConfig(
    expected_batch_size="full",
    num_steps=100,
    clipping_norm=0.3,
    optimizer=OptimizerConfig(lr=0.1, average_last=0.5),
)


@dataclass(frozen=True, kw_only=True)
class Calibrated:
    """A mechanism with noise or steps from the budget, and the total epsilon including further mechanisms.

    Attributes:
        mechanism: for the plan.
        spent: epsilon at the budget's delta.
    """

    mechanism: Mechanism
    spent: Spent


def poisson_dp_sgd(
    entry: Entry,
    config: DPSGDConfig,
    budget: Budget,
    *,
    num_roots: int,
    d_plus: int,
    d_minus: int,
    reference_sensitivity: float,
    accountant: Literal["pld", "rdp"] = "pld",
    name: str = "train",
    also: Callable[[Event[Any]], Event[Any]] | None = None,
    details: Mapping[str, Any] | None = None,
) -> Calibrated:
    """Noisy gradient descent on Poisson roots, with noise or steps from the budget.

    Guarantee: unit and relation are the entry's; the mechanism is (epsilon, budget.delta)-DP with epsilon <=
    budget.epsilon by `accountant`, provided that at most d_plus roots' examples of one graph, and d_minus of
    the other, differ between neighbours (docs/accounting.md, theorem 1). num_roots is public.

    Args:
        entry: names the relation.
        config: public options.
        budget: what may be spent.
        num_roots: public number of roots, e.g. training nodes.
        d_plus, d_minus: changed roots, from the sampler's promise.
        reference_sensitivity: L2 shift that `noise_multiplier` is relative to (C for DP-MLP, 2C*N(K,r) for
            DP-GNN, ...), in units of the gradient sum.
        accountant: pld (tight) or rdp.
        name: the mechanism's name in the ledger.
        also: composes this mechanism with further ones for the count.
        details: recorded with the mechanism.

    Raises:
        ValueError: the budget allows no step, no noise meets it, or there are fewer roots than the batch
            size.
    """
    rate = config.sampling_probability(num_roots)
    relation: Any = entry.relation

    def step(noise_stddev: float) -> Event[Any]:
        return PoissonRoots(
            relation=relation, noise_stddev=noise_stddev, clipping_norm=config.clipping_norm,
            sampling_probability=rate, d_plus=d_plus, d_minus=d_minus,
        )  # fmt: skip

    given = budget.noise_multiplier or config.noise_multiplier
    noise_stddev, num_steps, spent = _noise_and_steps(
        step, also, budget, relation, accountant, num_steps=config.num_steps,
        noise_stddev=None if given is None else given * reference_sensitivity,
        start=config.clipping_norm * max(d_plus, 1),
    )  # fmt: skip
    mechanism = Mechanism(
        name=name, event=compose(step(noise_stddev), num_steps), noise_stddev=noise_stddev,
        sensitivity=config.clipping_norm * (d_plus + d_minus), num_steps=num_steps,
        clipping_norm=config.clipping_norm, divisor=rate * num_roots,
        details={
            "sampling_probability": rate, "noise_multiplier": noise_stddev / reference_sensitivity,
            "reference_sensitivity": reference_sensitivity, **(details or {}),
        },
    )  # fmt: skip
    return Calibrated(mechanism=mechanism, spent=spent)


def _noise_and_steps(
    step: Callable[[float], Event[Any]],
    also: Callable[[Event[Any]], Event[Any]] | None,
    budget: Budget,
    relation: Any,
    accountant: Literal["pld", "rdp"],
    *,
    num_steps: int,
    noise_stddev: float | None,
    start: float,
) -> tuple[float, int, Spent]:
    """The least noise for all steps, or at given noise as many steps as the budget allows."""
    from dpgnn.accountants.calibration import calibrate_noise, max_steps

    asked: Any = {
        "target_epsilon": budget.epsilon, "delta": budget.delta, "relation": relation,
        "accountant": accountant,
    }  # fmt: skip
    if noise_stddev is not None:
        allowed = max_steps(step(noise_stddev), also=also, limit=num_steps, **asked)
        return noise_stddev, allowed.value, allowed

    def whole(stddev: float) -> Event[Any]:
        steps = compose(step(stddev), num_steps)
        return also(steps) if also is not None else steps

    found = calibrate_noise(whole, start=start, **asked)
    return found.value, num_steps, found


def claim_for(
    entry: Entry,
    budget: Budget,
    spent: Spent,
    *,
    assumed_public: tuple[str, ...],
    degree_bound: int | None = None,
    caveats: tuple[str, ...] = (),
    released: Literal["weights", "weights+predictions", "noisy-state"] = "weights",
    selection: Literal["none", "public", "validation-unaccounted", "accounted"] = "none",
    status: Literal["proved", "as-published"] | None = None,
) -> Claim:
    """The claim of an entry at the budget's delta; proved in sound mode unless said otherwise.

    Raises:
        ValueError: the claim is not well formed (see `accountants.claims.Claim`).
    """
    from dpgnn.accountants.claims import Claim

    return Claim(
        privacy_unit=entry.privacy_unit,  # type: ignore[arg-type]
        relation=entry.relation,  # type: ignore[arg-type]
        degree_bound=degree_bound,
        epsilon=spent.epsilon,
        delta=budget.delta,
        accountant=spent.accountant,
        status=status or ("proved" if entry.mode == "sound" else "as-published"),
        caveats=caveats,
        assumed_public=assumed_public,
        released=released,
        selection=selection,
    )

"""DPAR's proved plan: both stages at valid sensitivities, composed on one curve, with delta spent once."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import amplification, calibration, composition
from dpgnn.accountants.events import Event, FixedSizeRoots, PoissonRoots, compose
from dpgnn.accountants.plan import Budget, Mechanism, Spent
from dpgnn.methods.dpar.mechanisms import (
    RELATION,
    Sizes,
    gaussian,
    gumbel,
    laplace,
    mechanisms_of,
    public_facts,
    repeated,
    whole,
)
from dpgnn.methods.dpar.options import PRIVATE_ROWS, DPARConfig
from dpgnn.methods.dpar.published import best_proved
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.methods.base import Entry


def sound(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    inner = budget
    if config.amplification == "correct":
        epsilon, delta = amplification.before(budget.epsilon, budget.delta, sizes.rate)
        inner = Budget(epsilon=epsilon, delta=delta)
    rows, training, spent = _allocated(config, sizes, inner)
    if config.amplification == "correct":
        outer = amplification.amplified(spent.epsilon, inner.delta, sizes.rate)[0]
        spent = dataclasses.replace(spent, epsilon=outer)
    claim = claim_for(entry, budget, spent, assumed_public=public_facts(config))
    changed = changed_roots(config)
    return mechanisms_of(config, sizes, rows, training, claimed_changed=changed), (claim,)


def changed_roots(config: DPARConfig) -> int:
    """Roots that one node changes in sound mode: s rows and its own root; only its own for Features."""
    return 1 if config.rows == "none" else config.column_cap + 1


def _allocated(
    config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[list[tuple[str, Event[Any]]], Event[Any], Spent]:
    """(rows, one training step, joint epsilon).

    The rows alone spend `rows_share` of epsilon at the budget's delta; training gets the noise at which the
    composed curve meets the whole budget. Delta is spent once, on that curve.
    """
    if config.rows == "random":
        # public rows cost nothing; training has the same noise as with em0
        _, step, _ = _allocated(dataclasses.replace(config, rows="em0"), sizes, budget)
        alone = compose(step, sizes.num_steps)
        return [], step, composition.spent(alone, delta=budget.delta, relation=RELATION)
    rows: list[tuple[str, Event[Any]]] = []
    if config.rows in PRIVATE_ROWS:
        multiplier = calibration.calibrate_noise(
            lambda z: repeated(sizes, sound_rows(config, sizes, z)),
            target_epsilon=config.rows_share * budget.epsilon, delta=budget.delta,
            relation=RELATION, start=float(sizes.num_vectors), tolerance=1e-3,
        ).value  # fmt: skip
        rows = sound_rows(config, sizes, multiplier)

    def everything(multiplier: float) -> Event[Any]:
        return whole(sizes, rows, _sound_step(config, sizes, multiplier))

    found = calibration.calibrate_noise(
        everything, target_epsilon=budget.epsilon, delta=budget.delta, relation=RELATION,
        start=float(changed_roots(config)), tolerance=1e-3,
    )  # fmt: skip
    return rows, _sound_step(config, sizes, found.value), found


def sound_rows(config: DPARConfig, sizes: Sizes, multiplier: float) -> list[tuple[str, Event[Any]]]:
    """One vector's mechanisms with noise in units of its sensitivity."""
    if config.rows == "gm":
        norm = config.max_vector_norm
        return [("perturb", gaussian(norm, multiplier * math.sqrt(2) * norm))]
    rows = [("select", gumbel(config, sizes, multiplier * config.max_entry))]
    if config.rows == "em1":
        scale = multiplier * sizes.num_selected * config.max_entry
        rows.append(("weigh", laplace(config, sizes, scale)))
    return rows


def _sound_step(config: DPARConfig, sizes: Sizes, multiplier: float) -> Event[Any]:
    changed, norm = changed_roots(config), config.clipping_norm
    if config.batches == "fixed":
        return FixedSizeRoots(
            relation=RELATION, noise_stddev=multiplier * norm, clipping_norm=norm,
            population=sizes.num_roots, batch_size=sizes.batch_size, changed_roots=changed,
        )  # fmt: skip
    return PoissonRoots(
        relation=RELATION, noise_stddev=multiplier * norm, clipping_norm=norm,
        sampling_probability=sizes.batch_size / sizes.num_roots, d_plus=changed, d_minus=changed,
    )  # fmt: skip


def control_of_sound(
    entry: Entry, config: DPARConfig, sizes: Sizes, budget: Budget
) -> tuple[tuple[Mechanism, ...], tuple[Claim, ...]]:
    """Exact rows with the training noise of em0 in sound mode."""
    twin = dataclasses.replace(config, rows="em0")
    rate = sizes.rate if config.amplification == "correct" else 1.0
    epsilon, delta = amplification.before(budget.epsilon, budget.delta, rate)
    _, training, _ = _allocated(twin, sizes, Budget(epsilon=epsilon, delta=delta))
    caveats = ("exact-neighbours",)
    stated = claim_for(entry, budget, Spent(epsilon=budget.epsilon, accountant="pld"), caveats=caveats,
                       assumed_public=public_facts(config))  # fmt: skip
    best = best_proved(entry, config, sizes, budget, [], training)
    mechanisms = mechanisms_of(config, sizes, [], training, claimed_changed=changed_roots(twin))
    return mechanisms, (stated, best)

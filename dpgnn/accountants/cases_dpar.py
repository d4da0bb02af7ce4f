"""DPAR's accounting without its data: the published chain, and the composed curve of the sound variant."""

from __future__ import annotations

import math
from typing import Any, Literal

from dpgnn.accountants import published_dpar
from dpgnn.accountants.cases import Case, Stated
from dpgnn.accountants.events import (
    Event,
    GaussianRelease,
    GumbelTopK,
    PoissonRoots,
    compose,
    compose_all,
)
from dpgnn.accountants.implications import Notion
from dpgnn.core import checks

Selection = Literal["em", "gm"]


def dpar(
    *,
    num_train_nodes: int,
    batch_size: int,
    subsample_rate: float,
    num_vectors: int,
    num_selected: int,
    delta: float,
    selection: Selection = "em",
    ranking_share: float = 0.5,
    column_cap: int = 2,
) -> Case:
    """DPAR: epsilon/q' shared by vectors and training; sound: one curve and the correct amplification.

    The noise of the vectors follows from the training's noise by the published chain, so that both modes
    speak about the same noise.

    Args:
        num_train_nodes: N = nodes after the outer subsample.
        batch_size: B roots per step.
        subsample_rate: q' of the outer subsample.
        num_vectors: M personalised vectors.
        num_selected: K entries per vector.
        delta: of the whole, in (0, 1).
        selection: Gumbel (em) or Gaussian (gm) noise on the vectors.
        ranking_share: part of epsilon/q' and of delta/q' that the vectors get.
        column_cap: s, kept entries per column of the sound variant; one node changes s + 1 roots.

    Source: Zhang et al., DPAR; sound variant: docs/accounting.md, theorems 1, 6 and 7.
    """
    checks.one_of("selection", selection, ("em", "gm"))
    checks.require(0 < ranking_share < 1, "ranking_share", "be in (0, 1)", ranking_share)
    checks.require(0 < subsample_rate <= 1, "subsample_rate", "be in (0, 1]", subsample_rate)
    checks.at_least("column_cap", column_cap, 0)
    rule = f"be <= num_train_nodes = {num_train_nodes}"
    checks.require(batch_size <= num_train_nodes, "batch_size", rule, batch_size)
    rate = batch_size / num_train_nodes
    inner_delta = delta / subsample_rate
    checks.require(inner_delta < 1, "delta", f"be below subsample_rate = {subsample_rate}", delta)
    training_delta = (1 - ranking_share) * inner_delta

    def training_epsilon(noise_stddev: float, steps: int) -> float:
        event = _roots("add-remove", noise_stddev, rate, 1, 0)
        return published_dpar.sgd_epsilon(event, steps, training_delta)

    def vectors(noise_stddev: float, steps: int) -> Event[Any]:
        share = ranking_share / (1 - ranking_share)
        budget = published_dpar.vector_budget(
            share * training_epsilon(noise_stddev, steps), ranking_share * inner_delta, num_vectors
        )
        if selection == "gm":
            stddev = published_dpar.gaussian_noise_stddev(budget.epsilon, budget.delta, 1.0)
            # two nonnegative vectors of norm <= 1 are at most sqrt(2) apart
            return GaussianRelease(
                relation="replace-one", noise_stddev=stddev, sensitivity=math.sqrt(2)
            )
        eps = published_dpar.gumbel_epsilon(budget.epsilon, budget.delta, num_selected)
        return GumbelTopK(
            relation="replace-one", scale=1 / eps, score_sensitivity=1.0, num_selected=num_selected
        )

    changed = column_cap + 1
    notion = Notion(privacy_unit="node", relation="replace-one")
    return Case(
        method="dpar",
        reference_sensitivity=1.0,
        published_epsilon=lambda noise, steps, _: (
            subsample_rate * training_epsilon(noise, steps) / (1 - ranking_share)
        ),
        stated=Stated(
            notion=notion,
            accountant="dpar chain",
            caveats=(
                "epsilon-times-rate",
                "batch-sensitivity",
                "expectation-argument",
                "output-universe",
                *(("appr-sensitivity", "classical-gaussian-range") if selection == "gm" else ()),
            ),
        ),
        event=lambda noise, steps: compose_all(
            compose(vectors(noise, steps), num_vectors),
            compose(_roots("replace-one", noise, rate, changed, changed), steps),
        ),
        notion=notion,
        assumed_public=("number of nodes", "positions of the vectors", "all options"),
        outer_rate=subsample_rate,
        # delta is about the nodes before the subsample, rounded down
        num_units=math.floor(num_train_nodes / subsample_rate + 1e-9),
        details={"changed_roots": changed, "sampling_probability": rate},
    )


def _roots(relation: Any, noise: float, rate: float, plus: int, minus: int) -> PoissonRoots[Any]:
    return PoissonRoots(
        relation=relation,
        noise_stddev=noise,
        clipping_norm=1.0,
        sampling_probability=rate,
        d_plus=plus,
        d_minus=minus,
    )

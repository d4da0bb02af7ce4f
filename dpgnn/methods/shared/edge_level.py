"""Plans of releases that perturb aggregates of private edges, at edge level: noise, mechanism, claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.plan import NOTHING_PROVED, Budget, Mechanism
from dpgnn.core.checks import require
from dpgnn.methods.queries import AGGREGATE
from dpgnn.methods.releases import Draw, RoundedDraw
from dpgnn.methods.shared.planning import claim_for

if TYPE_CHECKING:
    from dpgnn.accountants.claims import Claim
    from dpgnn.accountants.events import Event
    from dpgnn.methods.base import Context, Entry, PlannedRun

EDGE_PUBLIC = ("node ids", "features", "labels", "split", "all options")


def gaussian_mechanism(
    name: str,
    build: Callable[[float], Event[Any]],
    budget: Budget,
    *,
    sensitivity: float,
    num_hops: int,
    details: dict[str, Any],
) -> Mechanism:
    """A Gaussian mechanism at edge level with the least noise for the budget, in closed form.

    Args:
        name: in the ledger.
        build: noise_stddev -> event whose mu is proportional to 1/noise_stddev.
        budget: epsilon may be infinite (then there is no noise).
        sensitivity: of one hop.
        num_hops: recorded as number of steps.
        details: recorded with the mechanism.

    Guarantee: the event at the returned noise has epsilon <= budget.epsilon at budget.delta, exactly
    counted as Gaussian differential privacy.
    """
    from dpgnn.accountants import gdp

    noise = 0.0
    if budget.noise_multiplier is not None:
        noise = budget.noise_multiplier * sensitivity
    elif budget.is_private:
        one = gdp.total_mu(build(1.0))
        assert one is not None
        require(one > 0, "sensitivity of a hop", "have a square > 0", sensitivity)
        noise = one / gdp.mu(budget.epsilon, budget.delta)
        while gdp.epsilon(gdp.total_mu(build(noise)) or 0.0, budget.delta) > budget.epsilon:
            noise *= 1 + 1e-12
    return Mechanism(
        name=name, event=build(noise), noise_stddev=noise, sensitivity=sensitivity,
        num_steps=num_hops,
        details={"noise_multiplier": noise / sensitivity, "num_hops": num_hops, **details},
    )  # fmt: skip


def gdp_claim(
    entry: Entry, budget: Budget, event: Event[Any], *, public: tuple[str, ...] = (), **words: Any
) -> Claim:
    """The claim of a Gaussian event at edge level; features, labels and options are public."""
    from dpgnn.accountants.composition import spent

    return claim_for(
        entry,
        budget,
        spent(event, delta=budget.delta, relation=event.relation, accountant="gdp"),
        assumed_public=(*EDGE_PUBLIC, *public),
        released="noisy-state",
        selection="public",
        **words,
    )


def no_guarantee(entry: Entry, budget: Budget, **words: Any) -> Claim:
    """A claim with infinite epsilon, which is always true, if nothing finite can be proved."""
    return claim_for(
        entry,
        budget,
        NOTHING_PROVED,
        assumed_public=(),
        status="proved",
        released="noisy-state",
        **words,
    )


def entered_noise(run: PlannedRun) -> tuple[float, Draw]:
    """Enter the planned mechanism `aggregate`; its deviation (0 without privacy) and its draws."""
    noise = run.context.ledger.enter(AGGREGATE).noise_stddev if run.plan.mechanisms else 0.0
    return noise, normal_draw(run.context, AGGREGATE)


def normal_draw(context: Context, stage: str) -> Draw:
    """Standard normal noise for step k of a stage, from the stream `noise`; on a grid in a release.

    Args:
        stage: the mechanism's name.
    """
    if context.streams.is_secret("noise"):
        return RoundedDraw(streams=context.streams, ledger=context.ledger, stage=stage)

    def draw(step: int, shape: tuple[int, int]) -> Any:
        return context.streams.numpy("noise", stage=stage, step=step).standard_normal(shape)

    return draw

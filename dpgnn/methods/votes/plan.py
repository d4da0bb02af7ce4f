"""Plans of votes: the budget rule, the board's noise, and one curve over board and training."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpgnn.accountants import composition, gdp
from dpgnn.accountants.events import GaussianRelease, compose_all
from dpgnn.accountants.plan import Budget, Mechanism, Plan
from dpgnn.core.checks import require
from dpgnn.methods import dp_mlp
from dpgnn.methods.shared.own_root import CHANGED_ROOTS
from dpgnn.methods.shared.planning import claim_for, poisson_dp_sgd

if TYPE_CHECKING:
    from dpgnn.accountants.composition import Spent
    from dpgnn.methods.base import Entry, Facts
    from dpgnn.methods.votes.options import VotesConfig

BOARD, SECOND = "board", "second-board"
# the root of a budget's equation is found to fewer digits than this
ROUNDING = 1e-9
# of the fitted limit: `python -m benchmarks.votes_drawn --fit`
FACTOR, POWER = 1.05, -0.07
ASSUMED_PUBLIC = (
    "node ids", "membership of the split", "number of classes", "declared mean degree", "all options",
)  # fmt: skip


def sensitivity(relation: str, num_classes: int) -> float:
    """L2 change of the board when one record changes: 1, or sqrt(2C/(C-1)) when it is replaced.

    Proof. A push has norm 1. Replaced: |V/sqrt(d) on L - V'/sqrt(d') on L'|^2 = 2 - 2 <V, V'> |L n L'| /
    sqrt(d d'), <V, V'> >= -1/(C-1), |L n L'| <= sqrt(d d'); attained by the same list and another label. []
    """
    if relation != "replace-one":
        return 1.0
    return math.sqrt(2 * num_classes / (num_classes - 1)) if num_classes > 1 else 0.0


def signal_of(
    fraction: float, degree: float, classes: int, agreement: float, board_mu: float
) -> float:
    """Expected signal of the values that a node reads with its list, in units of the board's noise.

    A row sums about f d votes of norm 1/sqrt(d), whose class component is h = (C a - 1)/(C - 1), and a node
    sums d such rows, again with h, over sqrt(d): f d h^2. The noise is 1/board_mu. f is the fraction of
    training nodes, d the declared mean degree, a the assumed agreement; all are public.
    """
    stands_out = max(0.0, (classes * agreement - 1) / max(classes - 1, 1))
    return fraction * degree * stands_out**2 * board_mu


def least_of(num_train: float, classes: int, mu: float) -> float:
    """The signal at which the board gains over DP-MLP in two of three drawn cells (`benchmarks.votes_drawn`).

    Where n_train mu / C is small, training is limited by its noise and can spare less budget.
    """
    return float(FACTOR * (num_train * mu / classes) ** POWER)


def falls_back(entry: Entry, facts: Facts, budget: Budget) -> bool:
    """Whether the board would be too noisy to help, so that the run is DP-MLP; from public facts alone.

    The limit fitted to synthetic graphs counts d - 1 mentions: in mutual lists, one is the reader's own.
    """
    config: VotesConfig = entry.options
    classes, fraction = facts.num_classes, facts.num_train / facts.num_nodes
    mu = gdp.mu(budget.epsilon, budget.delta) / sensitivity(str(entry.relation), classes)

    def signal(degree: float) -> float:
        board_mu = mu * math.sqrt(config.share)
        return signal_of(fraction, degree, classes, config.agreement, board_mu)

    if config.least_signal is not None:
        return signal(config.mean_degree) < config.least_signal
    return signal(max(0.0, config.mean_degree - 1)) < least_of(facts.num_train, classes, mu)


def as_dp_mlp(entry: Entry) -> Entry:
    """The DP-MLP that the entry falls back to."""
    return replace(entry, method="dp_mlp", options=entry.options.mlp)


def node_plan(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """Board and training under `node-record`, or DP-MLP's plan.

    Guarantee: unit `node-record`, relation of the entry, (epsilon, delta) for the released weights and board
    together with the predictions of all nodes except the one whose record changes.

    Source: docs/accounting.md, theorem 12.
    """
    config: VotesConfig = entry.options
    assert entry.relation is not None
    budget.require_target("votes")
    require(facts.task == "multiclass", "task", "be multiclass for votes", facts.task)
    if falls_back(entry, facts, budget):
        return _fallback(entry, facts, budget)
    board = _board(entry, facts, budget)
    d_plus, d_minus = CHANGED_ROOTS[entry.relation]
    counted = poisson_dp_sgd(
        entry, config.training, budget, num_roots=facts.num_train, d_plus=d_plus, d_minus=d_minus,
        reference_sensitivity=config.training.clipping_norm,
        also=lambda steps: compose_all(steps, board.event),
    )  # fmt: skip
    mechanisms: tuple[Mechanism, ...] = (board, counted.mechanism)
    spent = counted.spent
    if config.rounds == 2:
        # a training node enters board and training; any other node enters the second board only
        second = _second_board(entry, facts, budget)
        spent = max((spent, *(_spent(each, budget) for each in second)), key=lambda s: s.epsilon)
        mechanisms = (*(replace(each, population="train") for each in mechanisms), *second)
    claim = claim_for(
        entry, budget, spent,
        assumed_public=ASSUMED_PUBLIC, released="noisy-state",
    )  # fmt: skip
    return Plan(
        mechanisms=mechanisms,
        claims=(claim,),
        num_steps=counted.mechanism.num_steps,
        facts=facts.recorded(),
        details={"board": True},
    )


def _fallback(entry: Entry, facts: Facts, budget: Budget) -> Plan:
    """DP-MLP's plan; a batch that is too large is named by its path in the entry."""
    entry.options.mlp.training.batch_size(facts.num_train, "mlp.training.")
    made = dp_mlp.plan(as_dp_mlp(entry), facts, budget)
    return replace(made, details={**made.details, "board": False})


def has(plan: Plan, name: str) -> bool:
    """Whether this mechanism is planned."""
    return any(mechanism.name == name for mechanism in plan.mechanisms)


def _board(entry: Entry, facts: Facts, budget: Budget) -> Mechanism:
    """The board's release, with its share of the squared budget."""
    config: VotesConfig = entry.options
    share_mu = gdp.mu(budget.epsilon, budget.delta) * math.sqrt(config.share)
    details = {"share": config.share, "mean_degree": config.mean_degree}
    return _release(BOARD, entry, facts, share_mu, details)


def _second_board(entry: Entry, facts: Facts, budget: Budget) -> tuple[Mechanism, ...]:
    """The second board, with the whole budget, since its voters enter nothing else."""
    mu = gdp.mu(budget.epsilon, budget.delta) * (1 - ROUNDING)
    return (replace(_release(SECOND, entry, facts, mu, {}), population="others"),)


def _release(
    name: str, entry: Entry, facts: Facts, mu: float, details: dict[str, float]
) -> Mechanism:
    """A board whose Gaussian release is mu-GDP."""
    l2_sensitivity = sensitivity(str(entry.relation), facts.num_classes)
    relation: Any = entry.relation
    noise = l2_sensitivity / mu
    return Mechanism(
        name=name,
        event=GaussianRelease(relation=relation, noise_stddev=noise, sensitivity=l2_sensitivity),
        noise_stddev=noise,
        sensitivity=l2_sensitivity,
        details=details,
    )


def _spent(mechanism: Mechanism, budget: Budget) -> Spent:
    event = mechanism.event
    return composition.spent(event, delta=budget.delta, relation=event.relation, accountant="gdp")

"""Runs of an accounted choice: candidates are drawn, trained and scored, and one run is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dpgnn.accountants.plan import Mechanism, Plan
from dpgnn.core.checks import require
from dpgnn.core.doors import Door
from dpgnn.core.storage import Store
from dpgnn.methods.base import Fitted, PlannedRun, SilentContext
from dpgnn.methods.releases import Calls, Draw, Move, noised, release
from dpgnn.methods.selected.options import base_of, candidates, score_of
from dpgnn.methods.selected.plan import SCORE, SelectedPlan
from dpgnn.methods.shared.edge_level import normal_draw

if TYPE_CHECKING:
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Context, Entry, Method

# place of the chosen candidate, int64, shape ()
CHOSEN = "chosen"


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One run: what it leaves, whose it is, and its noisy score."""

    fitted: Fitted
    place: int
    score: float


def fit_best(run: PlannedRun, plan: SelectedPlan) -> Fitted:
    """Make a random number of runs and keep the one with the best noisy score.

    Nothing of another run is kept, logged or returned, nor how many there were.

    Guarantee: the number of runs and their candidates are drawn from the law of the options, whatever the
    data; a run executes its own plan, each mechanism once; equal scores go to the earlier run. Given the
    public coins, which all runs share, runs are independent and of one law, so what is left does not tell
    which run it was.

    Raises:
        ValueError: there is no validation node.
    """
    require(
        len(run.split.val_idx) > 0, "validation nodes", "be there for an accounted choice", 0,
        "name some, or fit the base method with fixed options",
    )  # fmt: skip
    for mechanism in plan.mechanisms:
        run.context.ledger.enter(mechanism.name)
    streams, many = run.context.streams, len(run.entry.options.candidates)
    best: _Run | None = None
    for number in range(run.entry.options.law.draw(streams.numpy("selection", stage="runs"))):
        draw = streams.numpy("selection", stage="candidate", run=number)
        place = int(draw.integers(many))
        planned = plan.runs[place]
        inner = replace(run, plan=planned, context=_inner(run.context, planned, number))
        made = _made(inner, place)
        if best is None or made.score > best.score:
            best = made
    assert best is not None
    return _left(plan, best)


def _inner(context: Context, plan: Plan, number: int) -> Context:
    """Streams and a ledger of one run; no checkpoint, and no line that would tell how many there are."""
    return SilentContext(
        # public coins are shared: initial weights of its own would tell which run was released
        ledger=context.ledger.within(plan), streams=context.streams.with_own_secrets(run=number),
        store=Store(None),
        performance=context.performance, label=context.label,
    )  # fmt: skip


def _made(run: PlannedRun, place: int) -> _Run:
    """One run, whose plan and context are its own."""
    fitted, right = trained(run, place)
    noise = 0.0
    if any(each.name == SCORE for each in run.plan.mechanisms):
        noise = run.context.ledger.enter(SCORE).noise_stddev
    score = noisy_score(right, noise, normal_draw(run.context, SCORE))
    return _Run(fitted=fitted, place=place, score=score)


@Door
def trained(run: PlannedRun, place: int) -> tuple[Fitted, int]:
    """What a run of a candidate leaves, and how many validation nodes it answers right; sensitive.

    Args:
        run: of the entry of `selected`, with the run's plan and context.
        place: of the candidate.
    """
    base, candidate = base_of(run.entry), candidates(run.entry)[place]
    own = replace(run.plan, mechanisms=without_score(run.plan.mechanisms))
    fitted = base.fit(replace(run, entry=candidate, graph=base.sees(run.graph), plan=own))
    return fitted, right_answers(run.entry, candidate, fitted, run.graph, run.split)


def without_score(mechanisms: Sequence[Mechanism]) -> tuple[Mechanism, ...]:
    """What the base method itself executes of a run."""
    return tuple(each for each in mechanisms if each.name != SCORE)


def right_answers(
    entry: Entry, candidate: Entry, fitted: Fitted, graph: Graph, split: Split
) -> int:
    """How many validation nodes the fitted model answers right; sensitive.

    Args:
        entry: of `selected`.
        candidate: of the run.
        fitted: what the run left.
        graph: private.
        split: its validation nodes are asked about; one without a label is never right.
    """
    base: Method = base_of(entry)
    seen = base.sees(graph)
    if score_of(entry).without_edges:
        seen = replace(seen, edge_index=seen.edge_index[:, :0])
    asked = split.val_idx
    logits = base.predict(candidate, fitted, seen, asked).logits
    return int((logits.argmax(dim=1).cpu().numpy() == graph.y[asked]).sum())


def _moved(seen: Calls) -> Move:
    """The largest difference of the numbers of right answers of models that are the same in both worlds."""
    pairs = zip(seen.first, seen.second, strict=True)
    moved = max(abs(float(a["right"]) - float(b["right"])) for a, b in pairs)
    return Move(moved=moved, allowed=seen.mechanism.sensitivity)


@release({"choice": _moved, "choice/others": _moved})
def noisy_score(right: int, noise_stddev: float, draw: Draw) -> float:
    """The number of right answers with Gaussian noise; as it is where no record moves it.

    Guarantee: a Gaussian release of `right` where noise_stddev > 0.

    Args:
        right: sensitive.
        noise_stddev: in answers; 0 where the number is a function of released and public values.
        draw: of the run.
    """
    value = np.array([[float(right)]])
    return float((noised(value, noise_stddev, draw) if noise_stddev else value)[0, 0])


def _left(plan: SelectedPlan, best: _Run) -> Fitted:
    """What the best run leaves, with the place of its candidate; its history says what the whole costs."""
    import torch

    spent = plan.claims[0].epsilon
    history = tuple(
        {**row, "epsilon": spent} if "epsilon" in row else row for row in best.fitted.history
    )
    chosen = {CHOSEN: torch.tensor(best.place)}
    return replace(
        best.fitted, state={**best.fitted.state, **chosen}, history=history,
        details={**best.fitted.details, "chosen": best.place},
    )  # fmt: skip

"""An attack for DP-GNN as published: was the hub a member?

The published sampler keeps each reader of a node u with probability K / (2 |readers of u|). A hub that reads
many u changes that probability for all their other readers, so its own record changes far more roots than the
1 + K that the claim counts. The attacker knows the graph except the hub, draws weights for which a root's
gradient changes with its list, observes the noisy sums of the real training loop and tests for the expected
shift. The sampler's coins are secret and fresh in every run.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn import methods
from dpgnn.attacks import statistics
from dpgnn.audits.canary import LOUD
from dpgnn.audits.capture import Case, Training, caught_plan
from dpgnn.audits.training_audit import candidates, noise_free_sum, watch
from dpgnn.core.checks import at_least
from dpgnn.data.graph import Graph
from dpgnn.data.splits import Split

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.accountants.plan import Budget, Plan
    from dpgnn.methods.base import Entry

PILOTS = 4
NUM_RUNS = 200  # of each world, where no number is asked for
DESIGNS: tuple[Literal["opposite", "orthogonal"], ...] = ("opposite", "orthogonal")


@dataclass(frozen=True, kw_only=True)
class HubWorlds:
    """In G node 0 reads every list node, in G' (replace-one) none; the rest is equal.

    Attributes:
        num_lists: nodes u that the hub reads.
        num_readers: training nodes that read one u each, for each u.
        num_features, num_classes: of the records.
        design: readers' features are opposite or orthogonal to those of the nodes that they read.
        task: of the labels.
    """

    num_lists: int = 200
    num_readers: int = 4
    num_features: int = 8
    num_classes: int = 3
    design: Literal["opposite", "orthogonal"] = "orthogonal"
    task: Literal["multiclass"] = "multiclass"
    privacy_unit: str = "node-record"
    relation: str = "replace-one"

    def __post_init__(self) -> None:
        at_least("num_lists", self.num_lists, 1)
        at_least("num_readers", self.num_readers, 1)

    @property
    def num_nodes(self) -> int:
        """Hub, list nodes, readers, four nodes to test on."""
        return 1 + self.num_lists * (1 + self.num_readers) + 4

    @property
    def canaries(self) -> np.ndarray:
        """The hub."""
        return np.zeros(1, dtype=np.int64)

    def world(self, inside: np.ndarray | bool) -> tuple[Graph, Split]:
        """The graph and split of G, or of G'."""
        lists = 1 + np.arange(self.num_lists)
        readers = 1 + self.num_lists + np.arange(self.num_lists * self.num_readers)
        arcs = [np.stack([np.repeat(lists, self.num_readers), readers])]
        if bool(np.all(inside)):
            arcs.append(np.stack([lists, np.zeros_like(lists)]))
        edges = np.concatenate(arcs, axis=1)
        x = np.zeros((self.num_nodes, self.num_features), dtype=np.float32)
        x[lists, 0] = LOUD
        x[readers, 0 if self.design == "opposite" else 1] = (
            -1.0 if self.design == "opposite" else 1.0
        )
        y = np.zeros(self.num_nodes, dtype=np.int64)
        y[readers] = 1
        graph = Graph(
            name="hub", x=x, y=y, num_classes=self.num_classes,
            edge_index=np.concatenate([edges, edges[::-1]], axis=1).astype(np.int64),
        )  # fmt: skip
        last = self.num_nodes - 4
        return graph, Split(
            train_idx=np.append(0, readers), val_idx=np.arange(last, last + 2),
            test_idx=np.arange(last + 2, last + 4), inductive=False,
        )  # fmt: skip


def why_not(entry: Entry) -> str:
    """Why the attack does not apply; "" if it does."""
    leaks = methods.get(entry.method).leaks
    if leaks.without_other_leaks is None:
        return "it is about samplers that count readers"
    return leaks.why_not_sampler(entry)


def attack(
    entry: Entry,
    budget: Budget,
    *,
    num_runs: int | None,
    num_steps: int,
    level: float,
    rng: np.random.Generator,
    worlds: HubWorlds = HubWorlds(),
) -> dict[str, Any]:
    """Play the game and test the claim; runs are independent, so the test's level is exact.

    Args:
        entry: under replace-one with one hop, of a method that states its sampler.
        budget: epsilon and delta asked for.
        num_runs: of each world; None takes 200.
        num_steps: observed steps, at most those of the plan.
        level: probability of rejecting a true claim.
        rng: of everything.
        worlds: how large the hub is.
    """
    num_runs = at_least("num_runs", NUM_RUNS if num_runs is None else num_runs, 8)
    started = time.monotonic()
    base: dict[str, Any] = {"attack": "hub", "hub_degree": worlds.num_lists}
    reason, alone = why_not(entry), methods.get(entry.method).leaks.without_other_leaks
    if reason or alone is None:
        return base | {"status": "not-applicable", "reason": reason}
    entry = alone(entry)
    plan = caught_plan(entry, worlds, None, budget)  # type: ignore[arg-type]
    steps = min(num_steps, plan.mechanism("train").num_steps)
    scores = _play(entry, worlds, plan, steps, num_runs, rng)
    return base | {
        "status": "ok",
        "num_steps": steps,
        **statistics.game_result(scores, plan.claims[0], level=level, rng=rng),
        "claim_covers_answers": True,
        "note": "clipping norms are taken as public, to see the sampler alone",
        "seconds": time.monotonic() - started,
    }


def _play(
    entry: Entry, worlds: HubWorlds, plan: Plan, steps: int, num_runs: int, rng: np.random.Generator
) -> np.ndarray:
    """Scores of runs with the hub and without: float64, shape (2, num_runs)."""
    seeds = [int(seed) for seed in rng.integers(2**31, size=4)]
    case, initial, direction = _aim(entry, worlds, plan, seeds[0])
    scores = np.zeros((2, num_runs))
    for place in (0, 1):
        for run in range(num_runs):
            world = _training(case, place == 0, seeds[1 + place] + run)
            scores[place, run] = _watched(
                world, initial, direction, steps, seeds[3] + 2 * run + place
            )
    return scores


def _training(case: Case, inside: bool, seed: int) -> Training:
    """The captured training of a world, with its own sampler coins."""
    return dataclasses.replace(case, root_seed=seed, kept={}).training(inside, "train")


def _aim(entry: Entry, worlds: HubWorlds, plan: Plan, seed: int) -> tuple[Case, Tensor, np.ndarray]:
    """Design and weights whose mean sums differ most, and that difference in units of the noise."""
    best: tuple[float, Case, Any, np.ndarray] | None = None
    for design in DESIGNS:
        recipe: Any = dataclasses.replace(worlds, design=design)
        case = Case(entry=entry, recipe=recipe, plan=plan, root_seed=seed)
        sides = [
            [_training(case, inside, seed + pilot) for pilot in range(PILOTS)]
            for inside in (True, False)
        ]
        for initial in candidates(sides[0][0], seed):
            means = [
                np.mean([noise_free_sum(world, initial) for world in side], axis=0)
                for side in sides
            ]
            world = sides[0][0]
            deviation = world.spec.noise.per_coordinate(world.network, world.spec.clipping).numpy()
            difference = means[0] - means[1]
            size = float(np.linalg.norm(difference / deviation))
            if best is None or size > best[0]:
                best = (size, case, initial, difference / deviation**2 / max(size, 1e-300))
    assert best is not None
    return best[1], best[2], best[3]


def _watched(
    world: Training, initial: Tensor, direction: np.ndarray, num_steps: int, seed: int
) -> float:
    """Sum over the steps of one run of the noisy sums along the direction."""
    found: list[float] = []
    scale = direction * world.spec.divisor

    def look(gradient: Tensor) -> None:
        found.append(float(gradient.double().numpy() @ scale))

    watch(world, initial, num_steps, seed, look, stage="train")
    return float(np.sum(found))

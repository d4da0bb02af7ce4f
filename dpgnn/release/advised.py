"""What `advise` is asked and answers, and the answer as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpgnn.accountants.claims import UNIT_RELATIONS, Answers, Claim
from dpgnn.accountants.population import check_delta
from dpgnn.core.checks import at_least, one_of, open_probability, positive, require
from dpgnn.core.wording import aligned
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.committed import Copied

BOUNDED = "node-bounded"
CUT = "bounded"  # the setting of the study whose graphs are cut to a degree bound


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Public facts of a graph, and the guarantee asked for.

    Attributes:
        nodes, edges, classes: numbers; an undirected edge counts once.
        epsilon, delta: the budget; delta None is 1/(10 nodes), for edges 10^-(digits of their number + 1).
        unit, relation: what is protected; relation None is any relation of the unit.
        degree_bound: declared largest degree, of the unit node-bounded.
        training: number of training nodes; None is all nodes.
    """

    nodes: int
    edges: int
    classes: int
    epsilon: float
    unit: str
    relation: str | None = None
    delta: float | None = None
    degree_bound: int | None = None
    training: int | None = None

    def __post_init__(self) -> None:
        at_least("nodes", self.nodes, 2)
        at_least("edges", self.edges, 0)
        at_least("classes", self.classes, 2)
        positive("epsilon", self.epsilon)
        one_of("unit", self.unit, UNIT_RELATIONS)
        if self.relation is not None:
            one_of(f"relation of unit {self.unit}", self.relation, UNIT_RELATIONS[self.unit])  # type: ignore[index]
        most = self.nodes**2
        rule = f"be <= {most}, all pairs of {self.nodes} nodes; an undirected edge counts once"
        require(self.edges <= most, "edges", rule, self.edges)
        if self.delta is not None:
            check_delta(open_probability("delta", self.delta), self.nodes)
        if self.degree_bound is not None:
            rule, shown = "be given with unit node-bounded alone", f"unit {self.unit}"
            require(self.unit == BOUNDED, "degree_bound", rule, shown)
            at_least("degree_bound", self.degree_bound, 1)
        if self.training is not None:
            at_least("training", self.training, 1)
            rule = f"be <= nodes, {self.nodes}"
            require(self.training <= self.nodes, "training", rule, self.training)

    @property
    def failure(self) -> float:
        """delta as a number."""
        if self.delta is not None:
            return self.delta
        if self.unit == "edge":
            return 10.0 ** -(len(str(max(2 * self.edges, 1))) + 1)
        return 1.0 / (10 * self.nodes)


@dataclass(frozen=True, kw_only=True)
class Advised:
    """An entry that gives the guarantee asked for.

    Attributes:
        entry, setting, title, method: of the committed study.
        claim: of a run on the asked graph; None without a plan.
        answers: who may see an answer.
        noise: mechanism -> standard deviation of its noise, in units of its sensitivity.
        reason: why there is no plan; "" if there is one.
        scores: similar graph -> mean, low, high and n of the test score at `Advice.epsilon`; low and high are
            None for one repeat.
        options: of the plan.
        copied: options that did best on public graphs, and what copying them gained; None for entries that
            were not tuned.
    """

    entry: str
    setting: str
    title: str
    method: str
    claim: Claim | None
    answers: Answers
    noise: Mapping[str, float]
    reason: str
    scores: Mapping[str, Mapping[str, Any]]
    options: Mapping[str, Any]
    copied: Copied | None


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Advice on a graph from public numbers only.

    Attributes:
        asked: the question.
        epsilon: the recorded budget nearest to the one asked for.
        similar: similar public graph -> nodes, edges (undirected) and classes.
        advised: entries that give the guarantee: first those whose answers may be shown to someone, last
            those without a plan; each group by mean score over the similar graphs, best first.
    """

    asked: Asked
    epsilon: str
    similar: Mapping[str, tuple[int, int, int]]
    advised: tuple[Advised, ...]

    def __str__(self) -> str:
        return _as_text(self)


def _as_text(found: Advice) -> str:
    """The advice as a table, with the numbers that were read."""
    asked, similar = found.asked, found.similar
    cut = [one.entry for one in found.advised if one.setting == CUT and not one.reason]
    sizes = "; ".join(
        f"{name} ({nodes:,} nodes, {edges:,} edges, {classes} classes)"
        for name, (nodes, edges, classes) in similar.items()
    )
    head = ("method", "protects", "answers may be shown to", "noise / sensitivity", *similar)
    rows = [head, *(_row(one, list(similar)) for one in found.advised if not one.reason)]
    lines = [
        f"{asked.nodes:,} nodes, {asked.edges:,} edges, {asked.classes} classes; unit {asked.unit}, "
        f"epsilon {asked.epsilon:g}, delta {asked.failure:.3g}.",
        "Only these numbers were read, not your graph. Accuracies are from public graphs.",
        f"Most similar of those with records: {sizes}.",
        f"Accuracy: mean of the committed runs at epsilon {found.epsilon} in percent, with its 95 % "
        "interval over splits. On another graph it may differ by more than that.",
        *([f"On these graphs cut to a degree bound ran {', '.join(cut)}."] if cut else []),
        "",
        *aligned(rows),
        "",
        f"Methods are entries of the study {MAIN_STUDY}; `Advised.options` and "
        f"workflow/studies/{MAIN_STUDY}.yaml hold their options.",
    ]
    lines += _copied_lines(found)
    without = [one for one in found.advised if one.reason]
    lines += ["", *(f"no plan: {one.title} ({one.entry}): {one.reason}" for one in without)]
    return "\n".join(lines).rstrip()


def _copied_lines(found: Advice) -> list[str]:
    """Options to copy, one line a method."""
    rows = [
        (one.entry, ", ".join(f"{k}={v}" for k, v in one.copied.options.items()) or "as stated",
         f"{100 * one.copied.gain:+.1f} [{100 * one.copied.low:.1f}, {100 * one.copied.high:.1f}]")
        for one in found.advised
        if one.copied is not None and not one.reason
    ]  # fmt: skip
    if not rows:
        return []
    return [
        "",
        "Options that did best on all public graphs, where they differ from the study's; copying them costs "
        "no privacy.",
        f"Gain: in points over the study's options at epsilon {found.epsilon}, on a public graph that the "
        "choice left out; mean and 95 % interval over graphs.",
        "",
        *aligned([("method", "options", "gain"), *rows]),
    ]


def _row(one: Advised, similar: list[str]) -> tuple[str, ...]:
    assert one.claim is not None
    shown = {"everyone": "everyone", "own-record": "the asked node", "none": "nobody"}[one.answers]
    bound = "" if one.claim.degree_bound is None else f" <= {one.claim.degree_bound}"
    noise = ", ".join(f"{name} {ratio:.3g}" for name, ratio in one.noise.items())
    scores = (_score(one.scores.get(name)) for name in similar)
    return (
        one.entry,
        f"{one.claim.privacy_unit}{bound}, {one.claim.relation}",
        shown,
        noise,
        *scores,
    )


def _score(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return "-"
    mean = f"{100 * found['mean']:.1f}"
    if found["low"] is None:
        return f"{mean} (1 run)"
    return f"{mean} [{100 * found['low']:.1f}, {100 * found['high']:.1f}]"

"""G-MIA, setting TSTF: was a node in the training graph? The attack is trained on a shadow model.

Target and shadow are fitted on the subgraphs of disjoint random training nodes, with the same options. The
attack model learns membership from the shadow's posteriors. Two variants: "original", as published, queries
members on their training graph and non-members on the full graph, so it may learn which graph was queried.
The honest "same-graph" queries all nodes on the full graph, so answers depend on the training nodes only
through what the fit released, and it compares members with non-members of the same classes. Each variant also
has `label_auc`, the AUC of the true class alone, because members are drawn class by class and others are not.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn.attacks import statistics
from dpgnn.attacks.member_tests import BATCH_SIZE, Asked, by_degree, claim_tests, label_auc
from dpgnn.attacks.queries import ask, fitted_run, prepared_for, queries_of, why_not_other_graph
from dpgnn.attacks.scorer import ATTEMPTS, AttackModel, says_nothing, train_scorer
from dpgnn.core.checks import at_least, one_of, require
from dpgnn.data.splits import PAPER_SETTINGS, Split, SplitConfig, membership_splits

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Budget
    from dpgnn.core.randomness import Streams
    from dpgnn.data.graph import Graph
    from dpgnn.methods.base import Entry
    from dpgnn.methods.queries import FittedRun

Variant = Literal["original", "same-graph"]
VARIANTS: tuple[Variant, ...] = ("original", "same-graph")
# own: edges of a training graph keep their end nodes; script: as the published script numbers them,
# its edges count the nodes in ascending order while features and labels stand class by class
Numbering = Literal["own", "script"]
# variant and attempt -> the generator of one training of the attack's classifier
ScorerStreams = Callable[[str, int], np.random.Generator]


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Target or shadow: a model and the queried nodes.

    Attributes:
        target: the fitted model; its graph is the subgraph of the training nodes, relabelled.
        inside, outside: int64: members and non-members, positions in the full graph.
        place: int64: position of each of `inside` in the subgraph.
    """

    target: FittedRun
    inside: np.ndarray
    outside: np.ndarray
    place: np.ndarray


def setting_of(graph: Graph) -> SplitConfig:
    """The published sizes, or sizes of the same kind for graphs the paper does not use.

    Otherwise: 90 training nodes of every class (a quarter of the smallest class if that is fewer), and
    equally many non-members.
    """
    name = f"gmia-{graph.name}"
    if name in PAPER_SETTINGS:
        return PAPER_SETTINGS[name]
    sizes = np.bincount(graph.y[graph.y >= 0], minlength=graph.num_classes)
    per_class = min(90, int(sizes.min()) // 4)
    rest = int(sizes.sum()) - 2 * per_class * graph.num_classes
    return SplitConfig(
        kind="membership", inductive=True, num_per_class=max(per_class, 1),
        num_test=max(1, min(per_class * graph.num_classes, rest // 2)),
    )  # fmt: skip


def fit_side(
    entry: Entry,
    graph: Graph,
    split: Split,
    budget: Budget,
    streams: Streams,
    *,
    label: str,
    numbering: Numbering = "own",
) -> Side:
    """Fit an entry on the subgraph of a membership split's training nodes.

    One of them is left out of training as the split's test node; it is neither queried nor counted. With the
    script's numbering nearly every edge of that subgraph joins two wrong nodes.

    Raises:
        ValueError: the entry cannot be planned or fitted on so few nodes.
    """
    nodes = split.train_idx
    at_least("training nodes", len(nodes), 4)
    spare = int(streams.numpy("spare").integers(len(nodes)))
    position = np.full(graph.num_nodes, -1)
    position[nodes] = np.arange(len(nodes))
    if numbering == "script":
        position[np.sort(nodes)] = np.arange(len(nodes))
        mixed = streams.numpy("classes").permutation(nodes)
        nodes = mixed[np.argsort(graph.y[mixed], kind="stable")]
    mask = position >= 0
    small = dataclasses.replace(
        graph, x=graph.x[nodes], y=graph.y[nodes], splits={},
        edge_index=position[graph.edges_within(mask)].astype(np.int64),
    )  # fmt: skip
    empty = np.zeros(0, dtype=np.int64)
    place = np.delete(np.arange(len(nodes)), spare)
    parts = Split(train_idx=place, val_idx=empty, test_idx=np.array([spare]), inductive=False)
    prepared = prepared_for(entry, small, parts, streams)
    target = fitted_run(entry, small, parts, prepared, budget, streams, label=label)
    return Side(target=target, inside=nodes[place], outside=split.test_idx, place=place)


def posteriors(
    side: Side, graph: Graph, variant: Variant, *, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities of members and of all nodes of the full graph, as the variant queries them.

    Args:
        side: target or shadow.
        graph: the full graph.
        variant: decides the graph on which members are queried.
        number: names the fresh noise of the full graph's answers.
    """
    one_of("variant", variant, VARIANTS)
    everyone = _answers(side.target, graph, number)
    if variant == "same-graph":
        return everyone[side.inside], everyone
    own = _probabilities(ask(side.target, side.target.graph), graph.task)
    return own[side.place], everyone


def attack(
    entry: Entry,
    graph: Graph,
    budget: Budget,
    streams: tuple[Streams, Streams],
    *,
    rng: np.random.Generator,
    scorer_rng: ScorerStreams,
    level: float = 0.001,
    sizes: SplitConfig | None = None,
    model: AttackModel | None = None,
    label: str = "gmia",
    numbering: Numbering = "own",
) -> dict[str, Any]:
    """Fit target and shadow, train the attack model, and measure how well it finds members; as JSON.

    Args:
        entry: the entry for the graph's data set.
        graph: the full graph.
        budget: of each fit.
        streams: of the target's and of the shadow's fit.
        rng: of the split, of pairs and of coins.
        scorer_rng: of the classifier, by variant and attempt.
        level: of the tests of the claim.
        sizes: of the split; None takes `setting_of`.
        model: the attack's classifier; None takes the published one.
        label: prefix of progress lines.
        numbering: of the training graphs' edges.

    Source: Olatunji et al. (2021), arXiv:2101.06570.
    """
    started = time.monotonic()
    found: dict[str, Any] = {"attack": "gmia" if numbering == "own" else "gmia-script"}

    def side(split: Split, stream: Streams, name: str) -> Side:
        return fit_side(
            entry, graph, split, budget, stream, label=f"{label} {name}", numbering=numbering
        )

    try:
        chosen = sizes or setting_of(graph)
        splits = membership_splits(graph, chosen, rng=rng)
        sides = [side(*one) for one in zip(splits, streams, ("target", "shadow"))]
        reason = why_not_other_graph(sides[0].target)
        if reason:
            return found | {"status": "not-available", "reason": reason}
        accuracies = _accuracies(sides[0], graph)
    except ValueError as error:
        return found | {"status": "not-available", "reason": str(error)}
    asked = {"rng": rng, "level": level, "scorer_rng": scorer_rng}
    tried = {v: _tried(sides, graph, v, model or AttackModel(), **asked) for v in VARIANTS}
    return found | {
        "status": "ok", "num_per_class": chosen.num_per_class, "num_outside": chosen.num_test,
        **accuracies, "variants": tried, "seconds": time.monotonic() - started,
    }  # fmt: skip


def _tried(sides: list[Side], graph: Graph, variant: Variant, *args: Any, **named: Any) -> Any:
    """A variant's result, or the reason why there is none; the other variant is not affected."""
    try:
        return _variant(sides, graph, variant, *args, **named)
    except ValueError as error:
        return {"status": "not-available", "reason": str(error)}


def _variant(
    sides: list[Side],
    graph: Graph,
    variant: Variant,
    model: AttackModel,
    *,
    rng: np.random.Generator,
    scorer_rng: ScorerStreams,
    level: float,
) -> dict[str, Any]:
    target, shadow = sides
    same = variant == "same-graph"
    asked, all_scores, attempts = _scored(sides, graph, variant, model, rng, scorer_rng)
    # same-class pairs on one graph; as published otherwise
    compared = asked.matched(graph.y, rng) if same else asked
    degree = np.bincount(graph.edge_index[1], minlength=graph.num_nodes)
    nodes = [(side.inside, side.outside) for side in (shadow, target)]
    found = statistics.summary(compared.scores, compared.member) | {
        "scorer": "constant" if says_nothing(asked.scores) else "trained",
        "scorer_attempts": attempts,
        "matched_by_class": same,
        "label_auc": label_auc(graph.y, nodes[0], nodes[1]),
        "script_auroc": statistics.balanced_accuracy_of_batches(
            asked.scores > 0, asked.member, BATCH_SIZE, rng=rng
        ),
        "auc_unbalanced": _auc_of_everybody(sides, graph, asked, all_scores),
        **by_degree(asked, graph.y, degree, rng if same else None),
    }
    if same:
        found["auc_unmatched"] = statistics.auc(asked.scores, asked.member)
        found |= claim_tests(
            target.target.plan.claims, compared, largest_degree=int(degree.max(initial=0)), rng=rng,
            level=level,
        )  # fmt: skip
    return found


def _scored(
    sides: list[Side],
    graph: Graph,
    variant: Variant,
    model: AttackModel,
    rng: np.random.Generator,
    scorer_rng: ScorerStreams,
) -> tuple[Asked, np.ndarray, int]:
    """The target's scores by a classifier trained on the shadow, all nodes' scores, number of trainings."""
    target, shadow = sides
    members, everyone = posteriors(shadow, graph, variant, number=int(rng.integers(2**62)))
    x = np.concatenate([members, everyone[shadow.outside]])
    y = np.arange(len(x)) < len(members)
    members, everyone = posteriors(target, graph, variant, number=int(rng.integers(2**62)))
    for attempt in range(ATTEMPTS):
        scorer = train_scorer(x, y, model, rng=scorer_rng(variant, attempt))
        all_scores = scorer(everyone)
        # on one graph all nodes are scored in one batch, since rounding differs between batches
        same = variant == "same-graph"
        asked = Asked(
            inside=target.inside, outside=target.outside, outside_scores=all_scores[target.outside],
            inside_scores=all_scores[target.inside] if same else scorer(members),
        )  # fmt: skip
        if not says_nothing(asked.scores):
            break
    return asked, all_scores, attempt + 1


def _auc_of_everybody(
    sides: list[Side], graph: Graph, asked: Asked, all_scores: np.ndarray
) -> float:
    """Members against all nodes that neither model was trained on."""
    trained = np.concatenate([side.inside for side in sides])
    rest = np.setdiff1d(np.flatnonzero(labelled(graph)), trained)
    both = np.concatenate([asked.inside_scores, all_scores[rest]])
    return statistics.auc(both, np.arange(len(both)) < len(asked.inside))


def labelled(graph: Graph) -> np.ndarray:
    """bool, shape (num_nodes,)."""
    return np.ones(graph.num_nodes, bool) if graph.task == "multilabel" else graph.y >= 0


def _answers(target: FittedRun, graph: Graph, number: int) -> np.ndarray:
    """Posteriors of every node of the full graph, with its own noise if there is any."""
    prepared = None
    if queries_of(target).reads_sample(target.entry):
        prepared = prepared_for(target.entry, graph, target.split, target.fresh(number))
    return _probabilities(
        ask(target, graph, noise="fresh", number=number, prepared=prepared), graph.task
    )


def _probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    from scipy.special import expit, softmax

    found = expit(logits) if task == "multilabel" else softmax(logits, axis=1)
    require(bool(np.isfinite(found).all()), "posteriors", "be finite", "a value that is not")
    return np.asarray(found)


def _accuracies(side: Side, graph: Graph) -> dict[str, float]:
    """Accuracy on members on their training graph, and on non-members on the full graph."""
    inside = ask(side.target, side.target.graph)[side.place].argmax(1)
    outside = _answers(side.target, graph, 0)[side.outside].argmax(1)
    return {
        "train_accuracy": float((inside == graph.y[side.inside]).mean()),
        "outside_accuracy": float((outside == graph.y[side.outside]).mean()),
    }

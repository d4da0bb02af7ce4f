"""G-MIA, setting TSTF: was a node in the training graph? A shadow model teaches the answer.

Target and shadow are fitted on the subgraphs of disjoint random training nodes, with the same options. The
attack model learns from the shadow's posteriors who was in. Two variants: "original", as published, asks
members on their training graph and non-members on the full graph, so it may learn which graph was asked; the
honest "same-graph" asks everybody on the full graph, and then answers depend on the training nodes through
what the fit released only.
"""

from __future__ import annotations

import dataclasses
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgnn import methods
from dpgnn.accountants.plan import Ledger
from dpgnn.attacks import statistics
from dpgnn.attacks.queries import AGGREGATING, Target, ask, can_move
from dpgnn.attacks.scorer import AttackModel, train_scorer
from dpgnn.checks import at_least, one_of, require
from dpgnn.methods.base import Context, Performance, facts_of
from dpgnn.splits import PAPER_SETTINGS, Split, SplitConfig, membership_splits
from dpgnn.storage import Store

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Budget
    from dpgnn.graph import Graph
    from dpgnn.methods.base import Entry, Prepared
    from dpgnn.randomness import Streams

Variant = Literal["original", "same-graph"]
VARIANTS: tuple[Variant, ...] = ("original", "same-graph")
# own: a training graph's edges join the nodes they belong to; script: as the published script numbers them,
# its edges count the nodes in ascending order while features and labels stand class by class
Numbering = Literal["own", "script"]
# units whose claims are about a node with everything that its membership changes
WHOLE_NODE = ("node", "node-bounded")
BATCH_SIZE = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class Side:
    """Target or shadow: a model and the nodes the attack asks about.

    Attributes:
        target: the fitted model; its graph is the subgraph of the training nodes, relabelled.
        inside, outside: int64: members and non-members, positions in the full graph.
        place: int64: position of each of `inside` in the subgraph.
    """

    target: Target
    inside: np.ndarray
    outside: np.ndarray
    place: np.ndarray


def setting_of(graph: Graph) -> SplitConfig:
    """The published sizes, or sizes of the same kind for graphs the paper does not use.

    Otherwise: 90 training nodes of every class (a quarter of the smallest class where that is fewer) and as
    many non-members as members.
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

    One of them is left out of training, because a split has a test node; it is neither asked nor counted.
    With the script's numbering nearly every edge of that subgraph joins two wrong nodes.

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
    method = methods.get(entry.method)
    prepared = _prepare(entry, small, parts, streams)
    plan = method.plan(entry, facts_of(small, parts, prepared), budget)
    context = Context(
        ledger=Ledger(plan),
        streams=streams,
        store=Store(None),
        performance=Performance(),
        label=label,
    )
    state = method.fit(entry, small, parts, prepared, plan, context).state
    target = Target(
        entry=entry, state=state, graph=small, split=parts, prepared=prepared, plan=plan,
        streams=streams,
    )  # fmt: skip
    return Side(target=target, inside=nodes[place], outside=split.test_idx, place=place)


def posteriors(
    side: Side, graph: Graph, variant: Variant, *, number: int
) -> tuple[np.ndarray, np.ndarray]:
    """Class probabilities of members and of all nodes of the full graph, as the variant asks for them.

    Args:
        side: target or shadow.
        graph: the full graph.
        variant: where members are asked.
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
    level: float = 0.001,
    sizes: SplitConfig | None = None,
    model: AttackModel | None = None,
    label: str = "gmia",
    numbering: Numbering = "own",
) -> dict[str, Any]:
    """Fit target and shadow, train the attack model, and say how well it tells members, as JSON.

    Args:
        entry: the entry for the graph's data set.
        graph: the full graph.
        budget: of each fit.
        streams: of the target's and of the shadow's fit.
        rng: of the split and of the attack model.
        level: of the tests of the claim.
        sizes: of the split; None takes `setting_of`.
        model: the attack's classifier; None takes the published one.
        label: stands before progress lines.
        numbering: of the training graphs' edges.

    Source: Olatunji et al. (2021), arXiv:2101.06570.
    """
    started = time.monotonic()
    found: dict[str, Any] = {"attack": "gmia" if numbering == "own" else "gmia-script"}
    try:
        chosen = sizes or setting_of(graph)
        splits = membership_splits(graph, chosen, rng=rng)
        sides = [
            fit_side(
                entry, graph, split, budget, stream, label=f"{label} {name}", numbering=numbering
            )
            for split, stream, name in zip(splits, streams, ("target", "shadow"))
        ]
        reason = can_move(sides[0].target)
        if reason:
            return found | {"status": "not-available", "reason": reason}
        variants = {
            variant: _variant(sides, graph, variant, model or AttackModel(), rng=rng, level=level)
            for variant in VARIANTS
        }
    except ValueError as error:
        return found | {"status": "not-available", "reason": str(error)}
    return found | {
        "status": "ok",
        "num_per_class": chosen.num_per_class,
        "num_outside": chosen.num_test,
        "train_accuracy": _accuracy(sides[0], graph),
        "outside_accuracy": _accuracy(sides[0], graph, inside=False),
        "variants": variants,
        "seconds": time.monotonic() - started,
    }


def _variant(
    sides: list[Side],
    graph: Graph,
    variant: Variant,
    model: AttackModel,
    *,
    rng: np.random.Generator,
    level: float,
) -> dict[str, Any]:
    target, shadow = sides
    members, everyone = posteriors(shadow, graph, variant, number=int(rng.integers(2**62)))
    x = np.concatenate([members, everyone[shadow.outside]])
    y = np.arange(len(x)) < len(members)
    scorer = train_scorer(x, y, model, rng=rng)
    members, everyone = posteriors(target, graph, variant, number=int(rng.integers(2**62)))
    member_scores, all_scores = scorer(members), scorer(everyone)
    out_scores = all_scores[target.outside]
    scores = np.concatenate([member_scores, out_scores])
    member = np.arange(len(scores)) < len(member_scores)
    guessed = scores > 0
    found = statistics.summary(scores, member) | {
        "script_auroc": statistics.balanced_accuracy_of_batches(
            guessed, member, BATCH_SIZE, rng=rng
        ),
    }
    # all nodes that neither model was trained on
    trained = np.concatenate([target.inside, shadow.inside])
    rest = np.setdiff1d(np.flatnonzero(labelled(graph)), trained)
    both = np.concatenate([member_scores, all_scores[rest]])
    found["auc_unbalanced"] = statistics.auc(both, np.arange(len(both)) < len(member_scores))
    nodes = np.concatenate([target.inside, target.outside])
    degree = np.bincount(graph.edge_index[1], minlength=graph.num_nodes)[nodes]
    middle = np.median(degree)
    for name, chosen in (("low", degree <= middle), ("high", degree > middle)):
        enough = member[chosen].any() and not member[chosen].all()
        found[f"auc_{name}_degree"] = (
            statistics.auc(scores[chosen], member[chosen]) if enough else None
        )
    if variant == "same-graph":
        found |= _claim(target, graph, member_scores, out_scores, rng=rng, level=level)
    return found


def _claim(
    side: Side,
    graph: Graph,
    inside: np.ndarray,
    outside: np.ndarray,
    *,
    rng: np.random.Generator,
    level: float,
) -> dict[str, Any]:
    """The line of the claim, and a bound within one run from pairs of a member and a non-member of one class.

    Guarantee: who of a random pair of one class is the member is a fair coin, independent of the other
    pairs', given the pairs. Exchanging the two is one replacement, or one removal and one addition: at most
    epsilon for replace-one and 2 epsilon (and (1 + e^epsilon) delta) for the other relations. The bound
    exceeds a true value of that with probability <= level.
    """
    from dpgnn.audits.one_run import guess

    claims = side.target.plan.claims
    if not claims or claims[0].privacy_unit not in WHOLE_NODE:
        note = "no privacy" if not claims else "membership changes more than the claim is about"
        return {"claim_covers_membership": False, "note": note}
    claim = claims[0]
    member = np.arange(len(inside) + len(outside)) < len(inside)
    scores = np.concatenate([inside, outside])
    first, second = _pairs(graph.y[side.inside], graph.y[side.outside], rng)
    coin = rng.random(len(first)) < 0.5
    gap = np.where(coin, 1.0, -1.0) * (inside[first] - outside[second])
    twice = claim.relation != "replace-one"
    group_delta = claim.delta * (1 + math.exp(min(claim.epsilon, 50.0))) if twice else claim.delta
    run = guess(gap, coin, delta=min(group_delta, 0.5), level=level)
    allowed = (2 if twice else 1) * claim.epsilon
    line = statistics.line_test(
        scores, member, epsilon=claim.epsilon, delta=claim.delta, level=level, rng=rng
    )
    return {
        "claim_covers_membership": True,
        "claimed_epsilon": claim.epsilon if math.isfinite(claim.epsilon) else None,
        "delta": claim.delta,
        "line": dataclasses.asdict(line),
        "one_run": dataclasses.asdict(run),
        "one_run_allowed_epsilon": allowed if math.isfinite(allowed) else None,
        "exceeds_claim": run.epsilon_lower_bound > allowed,
    }


def _pairs(
    inside: np.ndarray, outside: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Random pairs (member, non-member) of one class, each node in one pair at most."""
    first, second = [], []
    for label in np.unique(inside):
        ours = rng.permutation(np.flatnonzero(inside == label))
        theirs = rng.permutation(np.flatnonzero(outside == label))
        count = min(len(ours), len(theirs))
        first.append(ours[:count])
        second.append(theirs[:count])
    return np.concatenate(first), np.concatenate(second)


def labelled(graph: Graph) -> np.ndarray:
    """bool, shape (num_nodes,)."""
    return np.ones(graph.num_nodes, bool) if graph.task == "multilabel" else graph.y >= 0


def _answers(target: Target, graph: Graph, number: int) -> np.ndarray:
    """Posteriors of every node of the full graph, with noise of its own where there is any."""
    prepared = None
    if target.at_node_level and target.entry.method in AGGREGATING:
        prepared = _prepare(target.entry, graph, target.split, target.fresh(number))
    return _probabilities(
        ask(target, graph, noise="fresh", number=number, prepared=prepared), graph.task
    )


def _prepare(entry: Entry, graph: Graph, split: Split, streams: Streams) -> Prepared | None:
    method = methods.get(entry.method)
    spec = method.sampler(entry)
    if spec is None:
        return None
    assert method.prepare is not None
    return method.prepare(graph, split, spec, streams.numpy("sampler"))


def _probabilities(logits: np.ndarray, task: str) -> np.ndarray:
    from scipy.special import expit, softmax

    found = expit(logits) if task == "multilabel" else softmax(logits, axis=1)
    require(bool(np.isfinite(found).all()), "posteriors", "be finite", "a value that is not")
    return np.asarray(found)


def _accuracy(side: Side, graph: Graph, *, inside: bool = True) -> float:
    """Share of right classes of members on their training graph, or of non-members on the full graph."""
    if inside:
        found, truth = ask(side.target, side.target.graph)[side.place], graph.y[side.inside]
    else:
        found, truth = _answers(side.target, graph, 0)[side.outside], graph.y[side.outside]
    return float((found.argmax(1) == truth).mean())

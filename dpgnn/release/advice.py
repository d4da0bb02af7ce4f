"""Methods that a graph allows, their noise, and their accuracy on similar public graphs.

Only public numbers are read: no graph, no label. Accuracies are from committed records of public graphs; on
another graph they may differ by more than the intervals show.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from dpgnn import methods
from dpgnn.accountants.claims import UNIT_RELATIONS, Claim
from dpgnn.accountants.implications import Notion, notion, notion_implies
from dpgnn.accountants.plan import Budget
from dpgnn.core import config as strict
from dpgnn.core.checks import require
from dpgnn.core.grouping import grouped
from dpgnn.methods.base import Entry, Facts, Progress
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.committed import Copied, Measured, committed, copied_options, graph_facts
from dpgnn.release.advised import BOUNDED, CUT, Advice, Advised, Asked
from dpgnn.run.plan import stated_claims
from dpgnn.training.evaluation import mean_interval

SIMILAR = 3
THREADS = 4  # entries planned at once, on as many cores; a plan holds its curves in memory


def advise(
    *,
    nodes: int,
    edges: int,
    classes: int,
    epsilon: float,
    unit: str = "node",
    relation: str | None = None,
    delta: float | None = None,
    degree_bound: int | None = None,
    training: int | None = None,
) -> Advice:
    """Methods that give a guarantee on a graph, from public numbers only.

    Guarantee: no data is read; the advice depends only on the given numbers and public records.

    Every entry is planned for the graph, with its progress on stderr: about a minute at edge level, where
    accounted choices are counted.

    Args:
        nodes, edges, classes: public numbers; an undirected edge counts once.
        epsilon: the budget.
        unit: what is to be protected; methods that protect more are included.
        relation: None takes any relation of the unit.
        delta: None is 1/(10 nodes); for edges 10^-(digits of the number of directed edges + 1).
        degree_bound: of the unit node-bounded; None takes what the records had.
        training: public number of training nodes; None is all nodes.

    Raises:
        ValueError: a number is out of range, or there are no committed records.
    """
    asked = Asked(
        nodes=nodes, edges=edges, classes=classes, epsilon=epsilon, unit=unit, relation=relation,
        delta=delta, degree_bound=degree_bound, training=training,
    )  # fmt: skip
    cells = [cell for cell in committed(study=MAIN_STUDY, swept=False) if cell.claims]
    require(bool(cells), "docs/reference", f"hold the records of {MAIN_STUDY}", "none",
            "run it in a clone of the repository; a wheel has none")  # fmt: skip
    lawful = _in_one_setting([c for c in cells if _protects(c.claims[0], asked)], asked)
    nearest = _nearest({cell.epsilon for cell in cells}, epsilon)
    similar = similar_graphs(lawful, asked)
    here = _by_entry([cell for cell in lawful if cell.epsilon == nearest], [*similar])
    advised, progress = [], Progress("advise: plan", len(here))
    with ThreadPoolExecutor(min(THREADS, os.cpu_count() or 1)) as pool:
        planned = partial(_advised, asked=asked, copied=copied_options())
        for number, each in enumerate(pool.map(planned, here), 1):
            advised.append(each)
            progress.update(number)
    advised.sort(key=_order)
    return Advice(asked=asked, epsilon=nearest, similar=similar, advised=tuple(advised))


def _nearest(budgets: set[str], epsilon: float) -> str:
    """The recorded budget nearest to the one asked for, by ratio; the smaller of two equally near ones."""
    return min(budgets, key=lambda text: (abs(math.log(float(text) / epsilon)), float(text)))


def _in_one_setting(cells: Sequence[Measured], asked: Asked) -> list[Measured]:
    """Of entries that also ran on graphs cut to a degree bound, those runs for that unit and no other."""
    kept = []
    for of_entry in grouped(cells, lambda cell: cell.entry).values():
        wanted = [cell for cell in of_entry if (cell.setting == CUT) == (asked.unit == BOUNDED)]
        kept += wanted or of_entry
    return kept


def _by_entry(cells: Sequence[Measured], datasets: Sequence[str]) -> list[list[Measured]]:
    """The cells of each entry on some data sets, in the order of those."""
    here = [cell for cell in cells if cell.dataset in datasets]
    ordered = sorted(here, key=lambda cell: datasets.index(cell.dataset))
    return list(grouped(ordered, lambda cell: cell.entry).values())


def _protects(claim: Claim, asked: Asked) -> bool:
    """Whether a claim is proved and implies the guarantee asked for."""
    bound = asked.degree_bound or claim.degree_bound if asked.unit == BOUNDED else None
    relations = UNIT_RELATIONS[asked.unit]  # type: ignore[index]
    return claim.status == "proved" and any(
        notion_implies(
            notion(claim),
            Notion(privacy_unit=asked.unit, relation=relation, degree_bound=bound),  # type: ignore[arg-type]
        )
        for relation in relations
        if asked.relation in (None, relation)
    )


def similar_graphs(cells: Sequence[Measured], asked: Asked) -> dict[str, tuple[int, int, int]]:
    """The graphs nearest to the asked one in nodes, mean degree and classes, by ratios; at most `SIMILAR`.

    Args:
        cells: of public graphs.
        asked: the question; only its numbers of nodes, edges and classes are read.

    Returns:
        data set -> nodes, edges (undirected) and classes; the nearest first.
    """
    sizes = {}
    for dataset in {cell.dataset for cell in cells}:
        facts = graph_facts(dataset)
        sizes[dataset] = (facts["num_nodes"], facts["num_edges"] // 2, facts["num_classes"])
    wanted = _shape(asked.nodes, asked.edges, asked.classes)

    def distance(dataset: str) -> tuple[float, str]:
        shape = _shape(*sizes[dataset])
        return sum(abs(math.log(a / b)) for a, b in zip(shape, wanted, strict=True)), dataset

    return {dataset: sizes[dataset] for dataset in sorted(sizes, key=distance)[:SIMILAR]}


def _shape(nodes: int, edges: int, classes: int) -> tuple[float, float, float]:
    return float(nodes), max(2 * edges / nodes, 0.1), float(classes)


def _advised(
    cells: Sequence[Measured], asked: Asked, copied: Mapping[tuple[str, str, str], Copied]
) -> Advised:
    """One entry, with the options that it has on the most similar graph."""
    first = cells[0]
    stated = first.stated
    scores = {cell.dataset: _interval(cell.scores) for cell in cells}
    claim, noise, reason = _planned(first, asked)
    return Advised(
        entry=first.entry, setting=first.setting, title=str(stated["title"]),
        method=str(stated["method"]), claim=claim,
        answers=first.answers, noise=noise, reason=reason, scores=scores, options=stated["options"],
        copied=copied.get((first.setting, first.epsilon, first.entry)),
    )  # fmt: skip


def _interval(scores: Sequence[float]) -> dict[str, Any]:
    found = mean_interval(list(scores)).within_0_and_1()
    return {"mean": found.mean, "n": found.n, "low": found.low, "high": found.high}


def _planned(cell: Measured, asked: Asked) -> tuple[Claim | None, dict[str, float], str]:
    """Claim and noise of the entry's plan for the asked graph, or the reason why there is none."""
    method = methods.get(str(cell.stated["method"]))
    names = ("name", "method", "mode", "privacy_unit", "relation")
    facts = Facts(
        num_nodes=asked.nodes, num_train=asked.training or asked.nodes,
        num_features=int(cell.facts["num_features"]), num_classes=asked.classes, task="multiclass",
        declared=True, structure=dict(method.asked.structure),
    )  # fmt: skip
    try:
        options: Any = strict.read(method.config, cell.stated["options"])
        entry = Entry(**{name: cell.stated[name] for name in names}, options=options)
        plan = method.plan(entry, facts, Budget(epsilon=asked.epsilon, delta=asked.failure))
    except (ValueError, TypeError) as error:
        return None, {}, str(error)
    claims = stated_claims(entry, plan, facts, asked.failure)
    if not _protects(claims[0], asked):
        return None, {}, f"its claim is of {notion(claims[0])}"
    noise = {
        m.name: m.noise_stddev / m.sensitivity if m.sensitivity else math.inf
        for m in plan.mechanisms
    }
    return claims[0], noise, ""


def _order(advised: Advised) -> tuple[bool, bool, int, float]:
    scores = [found["mean"] for found in advised.scores.values()]
    mean = sum(scores) / max(len(scores), 1)
    return bool(advised.reason), advised.answers == "none", -len(scores), -mean

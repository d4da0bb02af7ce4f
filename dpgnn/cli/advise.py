"""`dpgnn advise`: lawful methods for a graph of which public numbers alone are known."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgnn.release.advice import Advice, Advised


def add_parser(subparsers: Any) -> None:
    """Add `advise` to the command line."""
    parser = subparsers.add_parser(
        "advise",
        help="lawful methods, their noise, and what they reach on similar public graphs",
        epilog="Reads the numbers given and committed records of public graphs; no graph of yours.",
    )
    add = parser.add_argument
    add("--nodes", type=int, required=True, help="number of nodes; public")
    add("--edges", type=int, required=True, help="number of edges, undirected ones once; public")
    add("--classes", type=int, required=True, help="number of classes; public")
    add("--epsilon", type=float, required=True, help="budget")
    add("--unit", default="node", help="what is protected: node, node-record, edge, ...")
    add("--relation", help="how two graphs differ (default: any that the unit has)")
    add("--delta", type=float, help="default 1/(10 nodes)")
    add("--degree-bound", type=int, help="declared largest degree, of the unit node-bounded")
    add("--training", type=int, help="number of training nodes; public (default: all nodes)")
    add("--json", action="store_true", help="JSON in place of the table")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Print the advice.

    Raises:
        ValueError: a number is out of range, or there are no records.
    """
    from dpgnn.core.storage import canonical_json
    from dpgnn.release.advice import advise

    found = advise(
        nodes=args.nodes, edges=args.edges, classes=args.classes, epsilon=args.epsilon,
        unit=args.unit, relation=args.relation, delta=args.delta, degree_bound=args.degree_bound,
        training=args.training,
    )  # fmt: skip
    print(canonical_json(found) if args.json else as_text(found))
    return 0


def as_text(found: Advice) -> str:
    """The advice as a table, with what was read."""
    asked, similar = found.asked, found.similar
    sizes = "; ".join(
        f"{name} ({nodes:,} nodes, {edges:,} edges, {classes} classes)"
        for name, (nodes, edges, classes) in similar.items()
    )
    head = ("method", "protects", "answers may be shown to", "noise / sensitivity", *similar)
    rows = [head, *(_row(one, list(similar)) for one in found.advised if not one.reason)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(head))]
    lines = [
        f"{asked.nodes:,} nodes, {asked.edges:,} edges, {asked.classes} classes; unit {asked.unit}, "
        f"epsilon {asked.epsilon:g}, delta {asked.failure:.3g}.",
        "Only these numbers were read, and no graph of yours. Accuracies are of public graphs.",
        f"Most similar of those with records: {sizes}.",
        f"Accuracy: mean of the committed runs at epsilon {found.epsilon} in percent, with its 95 % "
        "interval over splits. On another graph it may differ by more than that.",
        "",
        *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows),
    ]
    lines += [
        f"no plan: {one.title} ({one.entry}): {one.reason}" for one in found.advised if one.reason
    ]
    return "\n".join(lines)


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

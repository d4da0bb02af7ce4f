"""`dpgnn advise`: methods that a graph allows, from public numbers only."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add `advise` to the command line."""
    parser = subparsers.add_parser(
        "advise",
        help="methods that a graph allows, their noise, and their accuracy on similar public graphs",
        epilog="Reads only the given numbers and committed records of public graphs, never your graph.",
    )
    add = parser.add_argument
    add("--nodes", type=int, required=True, help="number of nodes; public")
    add("--edges", type=int, required=True, help="number of edges, undirected ones once; public")
    add("--classes", type=int, required=True, help="number of classes; public")
    add("--epsilon", type=float, required=True, help="budget")
    add("--unit", default="node", help="what is protected: node, node-record, edge, ...")
    add("--relation", help="how neighbouring graphs differ (default: any relation of the unit)")
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
    print(canonical_json(found) if args.json else found)
    return 0

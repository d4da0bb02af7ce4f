"""`dpgnn methods`: the methods with their modes, units, relations, audience of answers, and run times."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add `methods` to the command line."""
    parser = subparsers.add_parser(
        "methods",
        help="methods with their modes, units and relations",
        epilog="Answers and seconds are those of the committed records: shortest and longest median over "
        "that many real graphs. What a guarantee means: docs/accounting.md.",
    )
    parser.add_argument("method", nargs="*", help="only these, by any name: dp_gnn, DP-GNN")
    parser.add_argument("--unit", help="only what protects it: node, node-record, edge, ...")
    parser.add_argument("--json", action="store_true", help="JSON in place of the table")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Print the table.

    Raises:
        ValueError: an unknown method or unit.
    """
    from dpgnn.core.storage import canonical_json
    from dpgnn.release.offers import offers

    found = offers(args.method, args.unit)
    print(canonical_json(found) if args.json else found)
    return 0

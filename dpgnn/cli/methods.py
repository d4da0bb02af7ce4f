"""`dpgnn methods`: what can be run: methods, modes, units, relations; who may see answers; what it takes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgnn.release.offers import Offer

HEAD = ("mode", "unit", "relation", "answers may be shown to", "seconds a run")


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
    from dpgnn.accountants.claims import PRIVACY_UNITS
    from dpgnn.core.checks import one_of
    from dpgnn.core.storage import canonical_json
    from dpgnn.release.offers import offers

    if args.unit is not None:
        one_of("unit", args.unit, PRIVACY_UNITS)
    found = offers(args.method, args.unit)
    print(canonical_json(found) if args.json else as_text(found))
    return 0


def as_text(found: Sequence[Offer]) -> str:
    """A block for each method, a line for each mode, unit and relation."""
    rows = [HEAD, *(_cells(offer) for offer in found)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines, before = [], ""
    for offer, row in zip(found, rows[1:], strict=True):
        if offer.method != before:
            before = offer.method
            lines += ["", f"{offer.method}  ({offer.title})  {offer.what}"]
        lines.append(_line(row, widths))
    return "\n".join([_line(HEAD, widths), *lines])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(["", *map(str.ljust, row, widths)]).rstrip()


def _cells(offer: Offer) -> tuple[str, ...]:
    shown = {"everyone": "everyone", "own-record": "the asked node", "none": "nobody"}
    cost = "-"
    if offer.seconds is not None:
        cost = f"{offer.seconds[0]:.2g} to {offer.seconds[1]:.2g} ({offer.graphs})"
    answers = " or ".join(shown[word] for word in offer.answers) or "-"
    return offer.mode, offer.privacy_unit or "-", offer.relation or "-", answers, cost

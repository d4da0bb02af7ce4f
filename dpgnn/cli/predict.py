"""`dpgnn predict BUNDLE nodes.csv --out answers.csv`: answers of a bundle for tables of nodes and edges."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add `predict` to the command line."""
    parser = subparsers.add_parser("predict", help="answers of a bundle, from tables to CSV")
    parser.add_argument("bundle", type=Path, help="a folder that `dpgnn release` wrote")
    parser.add_argument(
        "nodes",
        type=Path,
        help="CSV or Parquet: id (if any) and the features in the order of the model",
    )
    parser.add_argument(
        "--edges", type=Path, help="CSV or Parquet: source, target; not for methods without edges"
    )
    parser.add_argument("--out", type=Path, required=True, help="CSV: id, class, probability")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Write the answers and print who may see them.

    Raises:
        ValueError: the bundle was changed, a table does not fit it, or --out is a folder,
            one of the tables or in the bundle.
    """
    from dpgnn.core.checks import require
    from dpgnn.release.load import load
    from dpgnn.release.tables import read_asked, write_answers
    from dpgnn.release.words import SHOWN_TO

    rule, remedy = (
        "be a table, CSV or Parquet",
        "write x as one, or use `dpgnn.load(BUNDLE).predict`",
    )
    require(args.nodes.suffix not in (".pt", ".npz"), "nodes", rule, str(args.nodes), remedy)
    require(not args.out.is_dir(), "--out", "be a file", str(args.out), "add a name: answers.csv")
    read = [path.resolve() for path in (args.nodes, args.edges) if path]
    rule = "not be a table that is read"
    require(args.out.resolve() not in read, "--out", rule, str(args.out), "choose another name")
    inside = args.bundle.resolve() in args.out.resolve().parents
    rule = "lie outside the bundle"
    require(not inside, "--out", rule, str(args.out), "its files are those that were made")
    model = load(args.bundle)
    remedy = "give the table of edges: --edges edges.csv"
    rule = "be given for a method that reads edges"
    require(args.edges is not None or not model.reads_edges, "--edges", rule, None, remedy)
    asked = read_asked(model, args.nodes, args.edges)
    found = model.predict(asked.data, asked.nodes)
    write_answers(args.out, asked, found)
    print(f"{args.out}: {len(asked.ids)} answers. {SHOWN_TO[found.answers]}", file=sys.stderr)
    return 0

"""`dpgnn verify STUDY`: compare every file of a study with the checksum that it was made with."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any


def add_parser(subparsers: Any) -> None:
    """Add `verify` to the command line."""
    parser = subparsers.add_parser(
        "verify",
        help="check every file of a study: bit rot, edits, missing files",
        epilog="Exit status: 1 if a file is changed or missing, else 0. One without a checksum is whole.",
    )
    parser.add_argument("study", help="quick, another study's name, or a YAML file")
    parser.add_argument(
        "--tier", choices=("S", "M", "L"), default=None, help="the study's own if none"
    )
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Print a line for each file, and how many are in which state.

    Raises:
        ValueError: there is no such study.
    """
    from dpgnn.study import driver
    from dpgnn.study.verify import lines, verify
    from dpgnn.study.workflow import Workflow

    root = Path()
    path = driver.study_file(args.study, root=root)
    workflow = Workflow(study_file=str(path), tier=args.tier)
    found = list(verify(workflow, root=root))
    for line in lines(found, root):
        print(line)
    counts = Counter(item.state for item in found)
    said = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    print(f"study {workflow.study.name}, tier {workflow.study.tier}: {said}", file=sys.stderr)
    return int(any(item.is_bad for item in found))

"""`dpgnn verify STUDY|BUNDLE`: check that files are unchanged, and that a bundle's claim fits its events."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from dpgnn.cli.flags import add_study
from dpgnn.core.checks import printable

OTHER_DATA = (
    "records of other data than lie here: an own graph was changed, or another study means another split by "
    "the same names; `dpgnn run` makes those of a study again, and refuses those of a release"
)


def add_parser(subparsers: Any) -> None:
    """Add `verify` to the command line."""
    parser = subparsers.add_parser(
        "verify",
        help="check a study's files and releases, or a bundle: files, signature, plan, epsilon, tensors",
        epilog="Exit status: 1 if anything is wrong, else 0. A file without a checksum counts as unchanged.",
    )
    add_study(parser, "quick, another study's name, a YAML file, or a bundle's folder")
    parser.add_argument("--key", type=Path, help="of a bundle: PEM file of the maker's public key")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Print a line for each file, and the number of files in each state.

    Raises:
        ValueError: there is no such study.
    """
    from dpgnn.study import driver
    from dpgnn.study.verify import lines, verify
    from dpgnn.study.verify_releases import LOST, verify_releases
    from dpgnn.study.workflow import Workflow

    if Path(args.study).is_dir():
        return _bundle(Path(args.study), args.key)
    root = Path()
    try:
        path = driver.study_file(args.study, root=root)
    except ValueError as error:
        raise ValueError(f"{error}; a bundle is a folder, and {args.study} is none") from None
    workflow = Workflow(study_file=str(path), tier=args.tier)
    found = list(verify(workflow, root=root))
    released = list(verify_releases(workflow.study, root=root))
    found += released
    for line in lines(found, root):
        print(line)
    counts = Counter(item.state for item in found)
    said = ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))
    print(f"study {workflow.study.name}, tier {workflow.study.tier}: {said}", file=sys.stderr)
    if any(item.is_bad for item in released):
        print(LOST, file=sys.stderr)
    if counts["other data"]:
        print(OTHER_DATA, file=sys.stderr)
    return int(any(item.is_bad or item.state == "other data" for item in found))


def _bundle(folder: Path, key: Path | None) -> int:
    """Print a line for each check of a bundle."""
    from dpgnn.release.verify import verify

    found = []
    for check in verify(folder, key=key):
        print(f"{check.state:11}  {check.what}: {printable(check.note)}")
        found.append(check.state)
    wrong = found.count("wrong")
    said = f"{wrong} wrong" if wrong else "nothing wrong"
    print(f"{folder}: {said}, {found.count('not checked')} not checked", file=sys.stderr)
    return int(wrong > 0)

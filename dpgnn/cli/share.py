"""`dpgnn share STUDY`: version a finished study in git and DVC, and push it."""

from __future__ import annotations

import argparse
from typing import Any

from dpgnn.cli.flags import add_study, check_tier


def add_parser(subparsers: Any) -> None:
    """Add `share` to the command line."""
    parser = subparsers.add_parser(
        "share", help="version a finished study in git and DVC, and push it"
    )
    add_study(parser)
    parser.add_argument("--message", default="", help="of the git commit")
    parser.add_argument("--no-push", action="store_true", help="version and commit only")
    parser.add_argument("--git", action="store_true", help="push the git commit too")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Share the study and say what was done."""
    from pathlib import Path

    from dpgnn.core.checks import require
    from dpgnn.study import driver, sharing
    from dpgnn.study.study import load_study

    path = driver.study_file(args.study, root=Path())
    study = check_tier(load_study(path, args.tier), args.tier)
    require(not (args.git and args.no_push), "--git", "stand without --no-push", "both")
    push, message = not args.no_push, args.message
    print(sharing.share(study, path, root=Path(), push=push, git=args.git, message=message))
    return 0

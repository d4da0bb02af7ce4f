"""Arguments that several stages share."""

from __future__ import annotations

import argparse


def add_study(
    parser: argparse.ArgumentParser, help: str = "quick, a paper's study, or a YAML file"
) -> None:
    """Add the study, by name or by file, and its tier."""
    parser.add_argument("study", help=help)
    add_tier(parser)


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add `--tier`."""
    parser.add_argument("--tier", choices=("S", "M", "L"), help="the study's own if none")

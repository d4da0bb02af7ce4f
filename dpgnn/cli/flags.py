"""Arguments that several stages share."""

from __future__ import annotations

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line; the parsers of its stages are of this class too."""

    def error(self, message: str) -> NoReturn:
        """Print the message and where flags are listed; exit with status 2."""
        self.exit(2, f"{self.prog}: error: {message}; `{self.prog} --help` lists what there is\n")


def add_study(
    parser: argparse.ArgumentParser, help: str = "quick, a paper's study, or a YAML file"
) -> None:
    """Add the study, by name or by file, and its tier."""
    parser.add_argument("study", help=help)
    add_tier(parser)


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add `--tier`."""
    parser.add_argument("--tier", choices=("S", "M", "L"), help="the study's own if none")

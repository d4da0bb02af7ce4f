"""Arguments that several stages share."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dpgnn.core.checks import require

if TYPE_CHECKING:
    from dpgnn.study.study import Study


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


def add_study_file(parser: Any, *, required: bool = True) -> None:
    """Add `--study`, for stages that read one study file."""
    kwargs = {"required": True} if required else {}
    parser.add_argument(
        "--study", type=study_path, help="the study's YAML file, or its name", **kwargs
    )


def study_path(text: str) -> Path:
    """A study's file as it is named, or that of a name such as `quick` or `dpar`.

    Raises:
        argparse.ArgumentTypeError: no file, and no study's name; lists the names.
    """
    path = Path(text)
    if path.is_file() or path.suffix:
        return path
    from dpgnn.study.driver import study_file

    try:
        return study_file(text, root=Path())
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add `--tier`."""
    parser.add_argument("--tier", choices=("S", "M", "L"), help="the study's own if none")


def check_tier(study: Study, tier: str | None) -> Study:
    """The study, if it has the tier that was asked for; a study without tiers has its own alone.

    Raises:
        ValueError: `tier` would be the same runs under another name.
    """
    own = study.config.tier
    found = tier is None or tier == own or bool(study.config.tiers)
    rule = f"be {own}, because study {study.name} has no key `tiers`"
    require(found, "--tier", rule, tier, "leave it out")
    return study

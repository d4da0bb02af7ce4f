"""Every table and figure of the papers under its own name, from data/papers/captions.yaml, and where ours is.

A caption states facts of the paper: the name, what is shown, and what varies. The maps (`paper.map`,
`paper.figures`) must have a target of the same name, or the caption says why there is none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from dpgnn.core import config as strict
from dpgnn.core.config import ConfigError
from dpgnn.data.raw.sources import data_folder

Target = Literal["", "figure", "table", "made", "page"]


@dataclass(frozen=True, kw_only=True)
class Caption:
    """One table or figure of a paper.

    Attributes:
        shows: what it shows, in our words.
        varies: what differs along its axes or from line to line: epsilon, data, method, classes, or
        options of ours.
        values: the values of x, if stated.
        data, series, fixed: the data sets, the lines or rows, and the fixed values.
        target: where ours is: a figure or table of the maps, a table that is computed ("made"), a page.
        reason: why there is no target.
        absent: why we have no record on the paper's own data, and what we use instead.
    """

    shows: str
    varies: tuple[str, ...] = ()
    values: str = ""
    data: str = ""
    series: str = ""
    fixed: str = ""
    target: Target = ""
    reason: str = ""
    absent: str = ""


@dataclass(frozen=True, kw_only=True)
class _File:
    papers: Mapping[str, Mapping[str, Caption]] = field(default_factory=dict)


@cache
def load_captions() -> Mapping[str, Mapping[str, Caption]]:
    """Paper -> name -> caption, in the papers' order.

    Raises:
        ConfigError: something in the file is wrong, or a name has neither a target nor a reason.
    """
    import yaml

    path = data_folder() / "papers" / "captions.yaml"
    try:
        found = strict.read(
            _File, {"papers": yaml.safe_load(path.read_text(encoding="utf-8"))}
        ).papers
    except (ConfigError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from None
    for paper, captions in found.items():
        for name, caption in captions.items():
            if bool(caption.target) == bool(caption.reason):
                raise ConfigError(f"{path}: {paper}.{name} must state one of target and reason")
    return found


def place_of(name: str) -> tuple[str, str]:
    """(figure, letter) of a name: F5a is part a of F5; a name without a letter is itself."""
    found = re.fullmatch(r"(F\d+)([a-f])", name)
    return (found[1], found[2]) if found else (name, "")

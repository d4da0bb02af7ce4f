"""The page of words: what epsilon says is computed, and every relation has its line."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import get_args

from dpgnn.accountants.claims import Relation

PAGE = Path(__file__).parents[2] / "docs" / "terms.md"


def rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_what_an_attacker_can_reach_follows_from_epsilon() -> None:
    found = [row for row in rows(PAGE.read_text("utf-8")) if re.fullmatch(r"[\d.]+", row[0])]
    assert [row[0] for row in found] == ["0.1", "1", "2", "4", "8"]
    for epsilon, power, both in found:
        bound = math.exp(float(epsilon))
        assert power == ("no limit" if bound >= 100 else f"{bound:.1f} %")
        digits = 2 if bound > 1000 else 1
        assert both == f"{100 * bound / (bound + 1):.{digits}f} %"


def test_every_relation_has_its_line() -> None:
    named = {row[0].strip("`") for row in rows(PAGE.read_text("utf-8"))}
    assert set(get_args(Relation)) <= named

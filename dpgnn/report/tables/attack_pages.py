"""Pages whose `<!-- attacks NAME -->` blocks are tables of attack results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.storage import write_text
from dpgnn.records.attacks import AttackResult
from dpgnn.report.tables import attack_grid, attack_pivots, attack_repeats

BLOCK = re.compile(r"(<!-- attacks (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str, found: Sequence[AttackResult]) -> str:
    """The page with every `<!-- attacks NAME -->` ... `<!-- end -->` block replaced by its table.

    A page has all blocks of one or more of `attack_pivots`, `attack_grid` and `attack_repeats`.

    Raises:
        ValueError: there is no block, a block has no table, or a table no block.
    """
    names = {match[2] for match in BLOCK.finditer(page)}
    tables: dict[str, str] = {}
    for made in (attack_pivots.blocks, attack_grid.blocks, attack_repeats.blocks):
        family = made(found)
        tables |= family if names & set(family) else {}
    missing = sorted(names ^ set(tables))
    require(bool(names), "the page", "have blocks <!-- attacks NAME --> ... <!-- end -->", "none")
    require(not missing, "blocks of the page", "be one for each table", missing)
    return BLOCK.sub(lambda match: f"{match[1]}\n{tables[match[2]]}\n\n{match[3]}", page)


def fill_page(path: Path, found: Sequence[AttackResult]) -> None:
    """Write the tables of some attacks into a page."""
    write_text(path, fill(path.read_text(), found))

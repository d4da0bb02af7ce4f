"""What the explorer and the filter of docs/choose.md read: the committed cells as a script, and Vega."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from docs.site.stage import REPOSITORY, write

CELLS = REPOSITORY / "docs" / "reference" / "cells.csv"
# a page of wide tables: no list of contents beside them
WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n\n"
NUMBERS = ("nodes", "edges", "mean", "low", "high", "n", "majority", "degree_bound")


def write_scripts(static: Path) -> list[Path]:
    """Write cells.js and vega.js: a page that is opened from a folder may read scripts, but no data."""
    import vl_convert

    bundle = vl_convert.javascript_bundle()
    return [
        write(
            static / "cells.js",
            f"window.dpgnnCells = {json.dumps(columns(), separators=(',', ':'))};\n",
        ),
        write(static / "vega.js", f"(() => {{{bundle}}})();\n"),
    ]


def columns() -> dict[str, dict[str, list[object]]]:
    """Column -> its values; texts as positions in a list of words."""
    with CELLS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    found: dict[str, dict[str, list[object]]] = {}
    for name in rows[0]:
        values = [row[name] for row in rows]
        if name in NUMBERS:
            found[name] = {"values": [None if value == "" else _number(value) for value in values]}
        else:
            words = list(dict.fromkeys(values))
            places = {word: place for place, word in enumerate(words)}
            found[name] = {"words": [*words], "values": [places[value] for value in values]}
    return found


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() else round(value, 5)


def with_filter(page: str) -> str:
    """The page of docs/choose.md with the place of its filter, which knows how large each graph is."""
    with CELLS.open(encoding="utf-8", newline="") as file:
        nodes = {row["dataset"]: int(row["nodes"]) for row in csv.DictReader(file) if row["nodes"]}
    stated = json.dumps(nodes).replace('"', "&quot;")
    place = f'\n```{{raw}} html\n<div id="choose" data-nodes="{stated}"></div>\n```\n'
    head, _, rest = page.partition("\n\n## ")
    return f"{WIDE}{head}\n{place}\n## {rest}"

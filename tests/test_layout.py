"""The picture and the table of docs/layout.md are made from the imports and the packages' docstrings.

`PYTHONPATH=. python tests/test_layout.py` writes them anew.
"""

from __future__ import annotations

import ast

import networkx as nx
from helpers import ROOT
from test_imports import ORDER, imports_of

PAGE = ROOT / "docs" / "layout.md"
FIRST, LAST = "<!-- made by tests/test_layout.py -->\n", "<!-- end of what is made -->\n"


def made() -> str:
    """Mermaid picture of which package builds on which, without arrows that others imply, and a table."""
    packages = [name for name in ORDER if (ROOT / "dpgnn" / name).is_dir()]
    graph = nx.DiGraph()
    for name in packages:
        for path in (ROOT / "dpgnn" / name).rglob("*.py"):
            found = {
                imported.split(".")[1] for imported in imports_of(path) if "dpgnn." in imported
            }
            graph.add_edges_from((other, name) for other in found & set(packages) - {name})
    arrows = sorted(
        nx.transitive_reduction(graph).edges,
        key=lambda edge: (ORDER.index(edge[1]), ORDER.index(edge[0])),
    )
    picture = "".join(f"  {first} --> {second}\n" for first, second in arrows)
    rows = "".join(f"| `{name}` | {_summary(name)} |\n" for name in packages)
    table = f"| package | what it is for |\n| --- | --- |\n{rows}"
    return f"{FIRST}```mermaid\nflowchart LR\n{picture}```\n\n{table}{LAST}"


def _summary(package: str) -> str:
    text = (ROOT / "dpgnn" / package / "__init__.py").read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(text)) or ""
    return " ".join(doc.partition("\n\n")[0].split())


def test_the_page_shows_the_layout_as_it_is() -> None:
    assert made() in PAGE.read_text(encoding="utf-8"), "PYTHONPATH=. python tests/test_layout.py"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(FIRST)
    PAGE.write_text(before + made() + rest.partition(LAST)[2], encoding="utf-8")

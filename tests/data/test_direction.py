"""Inside data/: graph, rows and splits < raw < files < custom < datasets."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ORDER = ("raw", "files", "custom", "datasets")


def rank(module: str) -> int:
    """0 for a module of data/ itself, then the place of its folder; -1 outside data/."""
    parts = module.split(".")
    if parts[:2] != ["dpgnn", "data"] or len(parts) < 3:
        return -1
    return ORDER.index(parts[2]) + 1 if parts[2] in ORDER else 0


def imported(path: Path) -> set[str]:
    """Modules that a file imports anywhere, in functions and for type checkers too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def upward(path: Path, module: str) -> list[str]:
    """Imports of a file that go to a later folder of data/."""
    return sorted(name for name in imported(path) if rank(name) > rank(module))


def test_no_module_of_data_imports_from_a_later_folder(repository: Path) -> None:
    modules = sorted((repository / "dpgnn" / "data").rglob("*.py"))
    assert {path.parent.name for path in modules} == {"data", *ORDER}
    wrong = {}
    for path in modules:
        name = ".".join(path.relative_to(repository).with_suffix("").parts)
        if found := upward(path, name):
            wrong[name] = found
    assert wrong == {}


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("dpgnn.data.raw.files", "from dpgnn.data.datasets import listed", 1),
        ("dpgnn.data.splits", "def f():\n    from dpgnn.data.raw import files", 1),
        ("dpgnn.data.custom.read", "from dpgnn.data.files.content import PART_CODES", 0),
        ("dpgnn.data.datasets.ogb", "import dpgnn.data.graph", 0),
    ],
)
def test_an_import_of_a_later_folder_is_seen(
    tmp_path: Path, module: str, text: str, wrong: int
) -> None:
    path = tmp_path / "module.py"
    path.write_text(text)
    assert len(upward(path, module)) == wrong

"""The hash of the code that decides a result: a module and every `dpgnn` module it imports.

Comments, docstrings and layout do not count, because they cannot change a number; the lock file counts.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
LOCK = PACKAGE.parent / "envs" / "cpu.lock"


@cache
def code_sha256(*modules: str) -> str:
    """One hash for modules such as "dpgnn.methods.gcn", all they import transitively, and the lock.

    Args:
        modules: dotted names below `dpgnn`.

    Raises:
        FileNotFoundError: a module does not exist.
    """
    digest = hashlib.sha256()
    for name in sorted(imported_modules(*modules)):
        digest.update(name.encode() + b"\0" + _code(name).encode() + b"\0")
    if LOCK.exists():
        digest.update(LOCK.read_bytes())
    return digest.hexdigest()


def imported_modules(*modules: str) -> set[str]:
    """The modules and every `dpgnn` module they import, directly or not, lazily or not."""
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(direct_imports(name))
    return found


@cache
def direct_imports(name: str) -> frozenset[str]:
    """The `dpgnn` modules that a module imports by itself; imports for type checkers do not count."""
    imports: set[str] = set()
    for node in _runtime_nodes(ast.parse(_path(name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                imports.add(full if _exists(full) else node.module)
    return frozenset(item for item in imports if item.split(".")[0] == "dpgnn" and _exists(item))


def _runtime_nodes(tree: ast.AST) -> list[ast.AST]:
    nodes: list[ast.AST] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            waiting.extend(node.orelse)
            continue
        nodes.append(node)
        waiting.extend(ast.iter_child_nodes(node))
    return nodes


def _exists(name: str) -> bool:
    parts = name.split(".")[1:]
    path = PACKAGE.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _path(name: str) -> Path:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _code(name: str) -> str:
    tree = ast.parse(_path(name).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(
            node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        ) and isinstance(body, list):
            node.body = [
                item
                for item in body
                if not (
                    isinstance(item, ast.Expr)
                    and isinstance(item.value, ast.Constant)
                    and isinstance(item.value.value, str)
                )
            ]
    return ast.dump(tree)

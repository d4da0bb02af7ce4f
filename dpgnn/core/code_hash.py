"""The hash of the code that decides a result: a module and every `dpgnn` module it imports.

Comments, docstrings and layout do not count, because they cannot change a number; the lock file counts.
Parsing the modules takes half a second, so what was found is kept beside the byte code, each with the hash
of the bytes that it was found in, and used for those bytes only.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpgnn.core.storage import write_text

PACKAGE = Path(__file__).resolve().parents[1]
LOCK = PACKAGE.parent / "envs" / "cpu.lock"
KEPT = PACKAGE / "__pycache__" / "code_hash.json"


@cache
def code_sha256(*modules: str) -> str:
    """One hash for modules such as "dpgnn.methods.gcn", all they import transitively, and the lock.

    Args:
        modules: dotted names below `dpgnn`.

    Raises:
        FileNotFoundError: a module does not exist.
    """
    names = sorted(imported_modules(*modules))
    lock = LOCK.read_bytes() if LOCK.exists() else b""
    stated = json.dumps([[name, _sha256(_source(name))] for name in names])
    read = _sha256(stated.encode() + lock)
    kept = _kept()["hashes"]
    key = " ".join(modules)
    if kept.get(key, ("",))[0] != read:
        digest = hashlib.sha256()
        for name in names:
            digest.update(name.encode() + b"\0" + _code(name).encode() + b"\0")
        digest.update(lock)
        kept[key] = (read, digest.hexdigest())
        _keep()
    found: str = kept[key][1]
    return found


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
    read, kept = _sha256(_source(name)), _kept()["imports"]
    if kept.get(name, ("",))[0] != read:
        kept[name] = (read, _stated_imports(name))
    imports = {full if _exists(full) else module for module, full in kept[name][1]}
    return frozenset(item for item in imports if _exists(item))


def _stated_imports(name: str) -> list[tuple[str, str]]:
    """Each import below `dpgnn`: its module, and the longest name that may be a module too."""
    found: set[tuple[str, str]] = set()
    for node in _runtime_nodes(ast.parse(_source(name))):
        if isinstance(node, ast.Import):
            found.update((alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.update((node.module, f"{node.module}.{alias.name}") for alias in node.names)
    return sorted(pair for pair in found if pair[0].split(".")[0] == "dpgnn")


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


@cache
def _exists(name: str) -> bool:
    parts = name.split(".")[1:]
    path = PACKAGE.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _path(name: str) -> Path:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


@cache
def _source(name: str) -> bytes:
    return _path(name).read_bytes()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def _kept() -> dict[str, Any]:
    """What was found before by this very file and Python: imports by module, hashes by list of modules."""
    made_by = f"{_sha256(Path(__file__).read_bytes())} {sys.version}"
    try:
        kept = json.loads(KEPT.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        kept = {}
    fresh = {"made_by": made_by, "imports": {}, "hashes": {}}
    return kept if kept.get("made_by") == made_by else fresh


def _keep() -> None:
    try:
        write_text(KEPT, json.dumps(_kept()))
    except OSError:
        return  # the package's folder is read-only: it is found out again each time


@cache
def _code(name: str) -> str:
    tree = ast.parse(_source(name))
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

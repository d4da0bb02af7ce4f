"""The hash of the code that decides a result: a module and every `dpgnn` module it imports.

Only content counts. Comments, docstrings, layout, imports for type checkers and the names of `dpgnn` modules
do not, because they cannot change a number, so a module may be moved. An import counts by the name that it
binds and by the content that it binds it to. The pins of the lock file count, its comments do not.

Parsing the modules takes half a second, so results are cached beside the byte code, each with the hash of the
source that it was computed from.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
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
    """One hash for modules such as "dpgnn.methods.gcn", all they import transitively, and the pins.

    Args:
        modules: dotted names below `dpgnn`.

    Raises:
        FileNotFoundError: a module does not exist.
    """
    names = sorted(imported_modules(*modules))
    stated = json.dumps([[name, _sha256(_source(name))] for name in names] + [pins(LOCK)])
    read, kept, key = _sha256(stated.encode()), _kept()["hashes"], " ".join(modules)
    if kept.get(key, ("",))[0] != read:
        contents = sorted({_content_with_imports(name) for name in names})
        kept[key] = (read, _sha256(json.dumps([contents, pins(LOCK)]).encode()))
        _keep()
    found: str = kept[key][1]
    return found


def pins(lock: Path) -> list[str]:
    """The pinned requirements of a lock file, sorted; [] if the file does not exist."""
    lines = lock.read_text(encoding="utf-8").splitlines() if lock.exists() else []
    stated = (re.sub(r"(^|\s)#.*", "", line).strip() for line in lines)
    return sorted({line for line in stated if line})


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
        # its module, and the longest name that may be a module too
        kept[name] = (read, sorted({(module, full) for module, full, _ in _parsed(name)[1]}))
    imports = {full if _exists(full) else module for module, full in kept[name][1]}
    return frozenset(item for item in imports if _exists(item))


class _Content(ast.NodeTransformer):
    """Removes from a module's tree what does not count, and collects the imports below `dpgnn`.

    Attributes:
        imports: for each imported name: the module, the name with its module, and the name it binds.
    """

    def __init__(self) -> None:
        self.imports: list[tuple[str, str, str]] = []

    def visit_If(self, node: ast.If) -> Any:
        """Drop code for type checkers."""
        if "TYPE_CHECKING" in ast.dump(node.test):
            node.body = []
        return self.generic_visit(node) if node.body or node.orelse else None

    def visit_Import(self, node: ast.Import) -> ast.Import | None:
        """`import dpgnn.x as y`."""
        own = [alias for alias in node.names if _is_own(alias.name)]
        self.imports += [(item.name, item.name, item.asname or item.name) for item in own]
        node.names = [alias for alias in node.names if alias not in own]
        return node if node.names else None

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.ImportFrom | None:
        """`from dpgnn.x import y as z`."""
        if node.level or not _is_own(node.module or ""):
            return node
        self.imports += [
            (str(node.module), f"{node.module}.{alias.name}", alias.asname or alias.name)
            for alias in node.names
        ]
        return None

    def visit_Expr(self, node: ast.Expr) -> Any:
        """Drop docstrings."""
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if text else self.generic_visit(node)

    def visit_Dict(self, node: ast.Dict) -> Any:
        """Drop the lines of a table of modules, as of methods: a new one is no change of the others."""
        pairs = [
            pair for pair in zip(node.keys, node.values, strict=True) if not _is_named(pair[1])
        ]
        node.keys, node.values = [key for key, _ in pairs], [value for _, value in pairs]
        return self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        """A text that is a module's name counts as empty."""
        return ast.Constant("dpgnn") if _is_named(node) else node


def _is_named(node: ast.expr) -> bool:
    """Whether an expression is the name of a module, as text."""
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and _is_own(text) and _exists(text)


@cache
def _parsed(name: str) -> tuple[str, list[tuple[str, str, str]]]:
    """Hash of a module's content without its imports below `dpgnn`, and these (see `_Content`)."""
    reader = _Content()
    tree = reader.visit(ast.parse(_source(name)))
    return _sha256(ast.dump(tree).encode()), reader.imports


def _content_with_imports(name: str) -> str:
    """Hash of a module's content and of what its imports bind: names, each with its module's content."""
    content, imports = _parsed(name)
    bound = []
    for module, full, alias in imports:
        whole = _exists(full)
        if whole or _exists(module):
            attribute = "" if whole else full.rpartition(".")[2]
            bound.append([alias, attribute, _parsed(full if whole else module)[0]])
    return _sha256(json.dumps([content, sorted(bound)]).encode())


def _is_own(name: str) -> bool:
    return re.fullmatch(r"dpgnn(\.\w+)*", name) is not None


@cache
def _exists(name: str) -> bool:
    parts = name.split(".")[1:]
    path = PACKAGE.joinpath(*parts)
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


@cache
def _source(name: str) -> bytes:
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_bytes()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@cache
def _kept() -> dict[str, Any]:
    """The cache, if this file and this Python wrote it: imports by module, hashes by list of modules."""
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
        return  # the package's folder is read-only: hashes are computed each time

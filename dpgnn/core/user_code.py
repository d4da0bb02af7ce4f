"""The user's own code: found by name, hashed without being run, loaded when needed.

A name is `package.module:Class`. Modules are searched in Python's path, then in the working folder.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpgnn.core.checks import fail, one_line, require

FORM = "be `package.module:Class`"
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def check_name(name: str, where: str = "module") -> None:
    """Check that a text is the name of a class.

    Raises:
        ValueError: it is not.
    """
    require(_NAME.fullmatch(name) is not None, where, FORM, name)


def load(name: str, where: str = "module") -> Any:
    """The class of that name; runs its module.

    Args:
        name: `package.module:Class`.
        where: its name in messages.

    Raises:
        ValueError: there is no such module or class, or importing the module fails; names it.
    """
    check_name(name, where)
    module, _, parts = name.partition(":")
    try:
        with _working_folder():
            found: Any = importlib.import_module(module)
    except ImportError as error:
        fail(where, "name a module that can be imported", name, one_line(error))
    except Exception as error:
        fail(where, "name a module that runs", name, f"{type(error).__name__}: {one_line(error)}")
    for part in parts.split("."):
        if not hasattr(found, part):
            fail(where, f"name a class of {module}", name, f"it has no {part}")
        found = getattr(found, part)
    require(isinstance(found, type), where, "name a class", name)
    return found


def code_sha256(name: str) -> str:
    """Hash of the file of a class and of the files beside or below it that it imports; the code is not run.

    Files of installed packages count without their imports, because their versions are pinned elsewhere. A
    class without a file (in a notebook) has the hash of its compiled functions if it is loaded, otherwise "".

    Args:
        name: `package.module:Class`.
    """
    module = name.partition(":")[0]
    path = _file_of(module)
    if path is None:
        return _compiled(name)
    root = path.parents[module.count(".") + (path.name == "__init__.py")]
    files, waiting = {}, [path]
    while waiting:
        file = waiting.pop()
        if file not in files:
            files[file] = file.read_bytes()
            waiting += _local_imports(file, files[file], root)
    parts = sorted(hashlib.sha256(content).hexdigest() for content in files.values())
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()


@contextmanager
def _working_folder() -> Iterator[None]:
    """Search the working folder too, where the study is, and last if `sys.path` does not hold it already."""
    folder = os.getcwd()
    is_new = folder not in sys.path
    if is_new:
        sys.path.append(folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if is_new:
            sys.path.remove(folder)


def _file_of(module: str) -> Path | None:
    """The source file of a module."""
    loaded = sys.modules.get(module)
    if loaded is not None:
        file = getattr(loaded, "__file__", None)
    else:
        file = _unloaded(module)
    path = None if file is None else Path(file)
    return path if path is not None and path.suffix == ".py" and path.is_file() else None


def _unloaded(module: str) -> str | None:
    """Where a module that is not loaded lies; no package above it is run."""
    first, *rest = module.split(".")
    try:
        with _working_folder():
            spec = importlib.util.find_spec(
                first
            )  # of a part with a dot it would run what is above it
    except (ImportError, ValueError, AttributeError):
        return None
    if spec is None or not rest:
        return None if spec is None else spec.origin
    for folder in spec.submodule_search_locations or ():
        place = Path(folder).joinpath(*rest)
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return str(file)
    return None


def exists(name: str) -> bool:
    """Whether the module of a class can be found, without running it."""
    module = name.partition(":")[0]
    return module in sys.modules or _file_of(module) is not None


def _local_imports(file: Path, content: bytes, root: Path) -> list[Path]:
    """Files below `root` that a file imports; an installed package has none but its own."""
    if "site-packages" in root.parts:
        return []
    try:
        tree = ast.parse(content)
    except SyntaxError:
        return []
    names: list[tuple[Path, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(root, alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = root if not node.level else file.parents[node.level - 1]
            first = node.module.split(".") if node.module else []
            names += [(base, first), *((base, [*first, alias.name]) for alias in node.names)]
    found = []
    for base, parts in names:
        place = base.joinpath(*parts)
        found += [p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()]
    return found


def _compiled(name: str) -> str:
    """Hash of the functions of a class that is loaded."""
    module, _, parts = name.partition(":")
    found: Any = sys.modules.get(module)
    for part in parts.split("."):
        found = getattr(found, part, None)
    functions = sorted(
        (key, value.__code__) for key, value in vars(found or object).items()
        if hasattr(value, "__code__")
    )  # fmt: skip
    if not functions:
        return ""
    content = [
        f"{key} {code.co_code.hex()} {code.co_names} {code.co_consts!r}" for key, code in functions
    ]
    return hashlib.sha256(re.sub(r" at 0x\w+", "", "\n".join(content)).encode()).hexdigest()

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dpgnn.core import code_hash
from dpgnn.core.code_hash import direct_imports, imported_modules
from dpgnn.methods import TABLE

CACHES = ("code_sha256", "direct_imports", "_exists", "_source", "_kept", "_parsed")


def test_private_methods_depend_on_the_clipping_code_and_plain_ones_do_not() -> None:
    for name in ("mlp", "gcn"):
        modules = imported_modules(TABLE[name])
        assert "dpgnn.training.clipping" not in modules
        assert "dpgnn.accountants.pld" not in modules
        assert "dpgnn.training.nonprivate" in modules  # imported lazily, inside a function
    modules = imported_modules(TABLE["dp_mlp"])
    assert {"dpgnn.training.clipping", "dpgnn.accountants.pld", "dpgnn.samplers.batches"} <= modules


# what a method calls of another one; anything else that two share is a module of its own in `shared`
BUILDS_ON = {
    "dp_mlp_smooth": {"dp_mlp", "dp_gnn"},
    "votes": {"dp_mlp"},
    "dpdgc": {"gap"},
    "edgerand": {"gcn"},
    "lapgraph": {"gcn"},
    "progap": {"gap"},
}


@pytest.mark.parametrize("name", TABLE)
def test_a_change_of_one_method_reruns_no_other_but_those_that_call_it(name: str) -> None:
    found = {
        module.split(".")[2] for module in imported_modules(TABLE[name]) if ".methods." in module
    }
    assert (found & set(TABLE)) - {name} == BUILDS_ON.get(name, set())


def test_no_method_depends_on_the_study_layer_or_the_report() -> None:
    for name in TABLE.values():
        modules = imported_modules(name, "dpgnn.run.execute")
        assert not {"dpgnn.study.study", "dpgnn.study.workflow", "dpgnn.cli.report"} & modules


def test_imports_for_type_checkers_do_not_count() -> None:
    assert "dpgnn.data.graph" not in direct_imports("dpgnn.methods.mlp")


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two modules, `top` and `low`, which `top` imports."""
    folder = tmp_path / "dpgnn"
    folder.mkdir()
    (folder / "top.py").write_text("from dpgnn import low\nfrom dpgnn.low import f\n")
    (folder / "low.py").write_text("def f():\n    return 1\n")
    (folder / "other.py").write_text("")
    (tmp_path / "lock").write_text("numpy==1")
    monkeypatch.setattr(code_hash, "PACKAGE", folder)
    monkeypatch.setattr(code_hash, "LOCK", tmp_path / "lock")
    monkeypatch.setattr(code_hash, "KEPT", folder / "__pycache__" / "code_hash.json")
    return folder


@pytest.fixture
def hashed(package: Path) -> Callable[[], str]:
    """The hash of `top` as a new process finds it."""

    def forget() -> None:
        for name in CACHES:
            getattr(code_hash, name).cache_clear()

    def found() -> str:
        forget()
        value = code_hash.code_sha256("dpgnn.top")
        forget()
        return value

    return found


def test_what_was_kept_gives_the_hash_that_is_found_without_it(
    package: Path, hashed: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hashed()
    assert code_hash.KEPT.exists()
    with monkeypatch.context() as patch:
        patch.setattr(code_hash.ast, "parse", lambda text: pytest.fail("parsed again"))
        assert hashed() == first
    code_hash.KEPT.unlink()
    assert hashed() == first


def test_a_changed_byte_of_any_module_or_of_the_lock_is_noticed(
    package: Path, hashed: Callable[[], str]
) -> None:
    seen = {hashed()}
    (package / "low.py").write_text("def f():\n    return 2\n")
    seen.add(hashed())
    (package / "low.py").write_text("from dpgnn import other\n\ndef f():\n    return 2\n")
    seen.add(hashed())
    (package / "other.py").write_text("x = 1\n")
    seen.add(hashed())
    code_hash.LOCK.write_text("numpy==2")
    seen.add(hashed())
    (package / "low.py").unlink()
    (package / "low").mkdir()
    (package / "low" / "__init__.py").write_text("f = 3\n")
    seen.add(hashed())
    assert len(seen) == 6


def test_comments_and_docstrings_do_not_count(package: Path, hashed: Callable[[], str]) -> None:
    first = hashed()
    (package / "low.py").write_text('"""Says more."""\n\n\ndef f():\n    # why\n    return 1\n')
    assert hashed() == first
    code_hash.LOCK.write_text("# versions\n\nnumpy==1  # pinned\n")
    assert hashed() == first


@pytest.mark.parametrize("folder", ["base", "base/deep"])
def test_a_module_may_be_moved(folder: str, package: Path, hashed: Callable[[], str]) -> None:
    table = '\nTABLE = {"low": "dpgnn.low"}\n\ndef g():\n    from dpgnn.low import f as h\n'
    text = (package / "top.py").read_text() + table
    (package / "top.py").write_text(text)
    first = hashed()
    moved = package / folder
    moved.mkdir(parents=True)
    (package / "low.py").rename(moved / "low.py")
    new = f"dpgnn.{folder.replace('/', '.')}"
    text = text.replace("dpgnn.low", f"{new}.low").replace(
        "from dpgnn import", f"from {new} import"
    )
    (package / "top.py").write_text(text)
    assert direct_imports("dpgnn.top") == {f"{new}.low"}
    assert hashed() == first
    (moved / "low.py").write_text("def f():\n    return 2\n")
    assert hashed() != first


def test_a_new_line_in_the_table_of_methods_is_no_change_of_the_others(
    package: Path, hashed: Callable[[], str]
) -> None:
    text = (package / "top.py").read_text()
    (package / "top.py").write_text(text + 'TABLE = {"low": "dpgnn.low"}\n')
    first = hashed()
    (package / "top.py").write_text(text + 'TABLE = {"low": "dpgnn.low", "new": "dpgnn.other"}\n')
    assert hashed() == first
    (package / "top.py").write_text(text + 'TABLE = {"low": "dpgnn.low", "new": "other"}\n')
    assert hashed() != first


@pytest.mark.parametrize(
    "statement",
    ["from dpgnn.low import g as f", "from dpgnn.other import f", "from dpgnn import other as low"],
)
def test_an_import_of_something_else_is_noticed(
    statement: str, package: Path, hashed: Callable[[], str]
) -> None:
    """Both modules are imported before and after; only what a name stands for changes."""
    (package / "other.py").write_text("def f():\n    return 2\n")
    both = "import dpgnn.low\nimport dpgnn.other\n"
    named = "from dpgnn import low\nfrom dpgnn.low import f\n"
    (package / "top.py").write_text(both + named)
    first = hashed()
    (package / "top.py").write_text(both + named + statement + "\n")
    assert hashed() != first


def test_imports_for_type_checkers_do_not_change_a_hash(
    package: Path, hashed: Callable[[], str]
) -> None:
    top = package / "top.py"
    plain = "from typing import TYPE_CHECKING\n" + top.read_text()
    top.write_text(plain)
    first = hashed()
    top.write_text(plain + "\nif TYPE_CHECKING:\n    from dpgnn.other import x\n")
    assert hashed() == first


@pytest.mark.parametrize("text", ["", "{", '{"made_by": "another file"}'])
def test_what_another_code_or_python_kept_is_not_used(
    text: str, package: Path, hashed: Callable[[], str]
) -> None:
    first = hashed()
    code_hash.KEPT.write_text(text)
    assert hashed() == first
    assert json.loads(code_hash.KEPT.read_text())["hashes"]["dpgnn.top"][1] == first


def test_a_package_that_may_not_be_written_has_the_same_hash(
    package: Path, hashed: Callable[[], str]
) -> None:
    first = hashed()
    code_hash.KEPT.unlink()
    code_hash.KEPT.parent.rmdir()
    code_hash.KEPT.parent.write_text("no folder")
    assert hashed() == first

"""The user's own code is found by name, hashed with what it imports beside it, and loaded."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpgnn.core import user_code


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.split(".")[0].startswith("own_"):
            del sys.modules[name]


def test_a_class_of_the_working_folder_is_loaded(folder: Path) -> None:
    (folder / "own_a.py").write_text("class Net:\n    class Inner: pass\n")
    assert user_code.exists("own_a:Net")
    assert user_code.load("own_a:Net").__name__ == "Net"
    assert user_code.load("own_a:Net.Inner").__name__ == "Inner"
    assert str(folder) not in sys.path


def test_the_callers_own_search_path_stays_as_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script or notebook of the working folder has it first, before installed packages."""
    (folder / "own_d.py").write_text("class Net: pass\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    before = list(sys.path)
    assert user_code.exists("own_d:Net")
    user_code.code_sha256("own_d:Net")
    assert user_code.load("own_d:Net").__name__ == "Net"
    assert sys.path == before


def test_the_hash_is_that_of_the_file_and_what_it_imports_beside_it(folder: Path) -> None:
    package = folder / "own_pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "net.py").write_text("import torch\nfrom own_pack.layers import x\n")
    (package / "layers.py").write_text("from . import deep\nx = 1\n")
    (package / "deep.py").write_text("y = 1\n")
    (package / "other.py").write_text("z = 1\n")
    seen = [user_code.code_sha256("own_pack.net:Net")]
    for name in ("other", "deep", "layers", "net"):
        with (package / f"{name}.py").open("a") as file:
            file.write("more = 2\n")
        seen.append(user_code.code_sha256("own_pack.net:Net"))
    assert seen[0] == seen[1], "a file that nothing imports does not count"
    assert len(set(seen[1:])) == 4
    assert "own_pack.net" not in sys.modules, "nothing is run"


def test_a_class_without_a_file_has_the_hash_of_its_functions() -> None:
    import types

    codes = []
    for text in ("return 1", "return 2", "return 1"):
        module = types.ModuleType("own_notebook")
        exec(f"class Net:\n    def forward(self): {text}", module.__dict__)
        sys.modules["own_notebook"] = module
        codes.append(user_code.code_sha256("own_notebook:Net"))
    assert codes[0] == codes[2] != codes[1]
    assert user_code.code_sha256("own_nowhere:Net") == ""


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("own_a", "must be `package.module:Class`"),
        ("own_a.Net", "must be `package.module:Class`"),
        ("own_a:<locals>.Net", "must be `package.module:Class`"),
        ("own_nowhere:Net", "must name a module that can be imported"),
        ("own_a:Nett", "it has no Nett"),
        ("own_a:number", "must name a class"),
        ("own_broken:Net", "must name a module that runs"),
    ],
)
def test_a_bad_name_is_one_line(name: str, says: str, folder: Path) -> None:
    (folder / "own_a.py").write_text("class Net: pass\nnumber = 3\n")
    (folder / "own_broken.py").write_text("1 / 0\n")
    with pytest.raises(ValueError, match="module") as caught:
        user_code.load(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)

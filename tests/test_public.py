"""The names of `import dpgnn`: all there, and cheap until one is used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import version

import pytest

import dpgnn


def test_every_public_name_is_there_and_says_what_it_is() -> None:
    assert set(dpgnn.__all__) <= set(dir(dpgnn))
    for name in dpgnn.__all__:
        value = getattr(dpgnn, name)
        assert isinstance(value, str) or inspect.getdoc(value), name
    assert dpgnn.methods.get("mlp").name == "mlp"
    assert dpgnn.methods("DP-GNN", unit="node-record") == dpgnn.offers("dp_gnn", "node-record")
    assert str(dpgnn.methods("DP-GNN")).splitlines()[2].startswith("dp_gnn  (DP-GNN)")
    assert {offer.method for offer in dpgnn.methods()} == set(dpgnn.methods.TABLE)
    assert dpgnn.__version__ == version("dpgnn")
    with pytest.raises(AttributeError, match="no attribute 'method'"):
        dpgnn.method  # noqa: B018


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = (
        "import sys, time\n"
        "start = time.process_time()\n"
        "import dpgnn\n"
        "spent = time.process_time() - start\n"
        "heavy = [name for name in ('numpy', 'torch', 'yaml') if name in sys.modules]\n"
        "assert not heavy and spent < 0.1, (heavy, spent)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_package_says_what_it_is_for(repository) -> None:
    bare = []
    for path in sorted((repository / "dpgnn").rglob("__init__.py")):
        if not path.read_text(encoding="utf-8").startswith('"""'):
            bare.append(str(path.relative_to(repository)))
    assert not bare

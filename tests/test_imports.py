"""One direction: a module imports only from lines above its own, and no two modules need each other."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
import yaml

from dpgnn import methods

ORDER = (
    "core", "data", "samplers", "accountants", "models", "training", "methods", "records", "run",
    "audits", "attacks", "release", "study", "report", "cli", "__main__",
)  # fmt: skip

# parts of report/, in the order of their imports
REPORT = ("statistics", "tables", "figures", "paper", "pages")


def imports_of(path: Path) -> list[str]:
    """First part below dpgnn of each import at run time; imports for type checkers count too."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: write imports in full"
            assert node.module
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _modules(repository: Path) -> list[Path]:
    return sorted((repository / "dpgnn").rglob("*.py"))


def test_every_module_has_its_line(repository: Path) -> None:
    names = {path.relative_to(repository / "dpgnn").parts[0] for path in _modules(repository)}
    assert {name.removesuffix(".py") for name in names} - {"__init__"} <= set(ORDER)


def test_a_module_imports_only_from_lines_above(repository: Path) -> None:
    wrong = []
    for path in _modules(repository):
        own = path.relative_to(repository / "dpgnn").parts[0].removesuffix(".py")
        if own == "__init__":
            continue
        for name in imports_of(path):
            parts = name.split(".")
            inside = parts[0] == "dpgnn" and len(parts) > 1 and parts[1] in ORDER
            if inside and ORDER.index(parts[1]) > ORDER.index(own):
                wrong.append(f"{path.relative_to(repository)} imports {name}")
            assert parts[0] != "snakemake", f"{path} imports Snakemake"
    assert not wrong, "\n".join(wrong)


def test_no_file_is_longer_than_400_lines(repository: Path) -> None:
    lengths = {
        str(path.relative_to(repository)): len(path.read_text(encoding="utf-8").splitlines())
        for path in _modules(repository)
    }
    assert not {name: lines for name, lines in lengths.items() if lines > 400}


def test_few_functions_are_longer_than_40_lines(repository: Path) -> None:
    """Docstrings count; what is left are kernels, and functions whose arguments fill a screen."""
    long = [
        f"{path.relative_to(repository)}: {node.name}"
        for path in _modules(repository)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef)
        if node.end_lineno is not None and node.end_lineno - node.lineno >= 40
    ]
    assert len(long) <= 40, "\n".join(long)


def _circles(repository: Path) -> list[set[str]]:
    """Modules, named below dpgnn, that import one another in a circle."""
    modules = {
        ".".join(path.relative_to(repository).with_suffix("").parts).removesuffix(".__init__"): path
        for path in _modules(repository)
    }
    graph = nx.DiGraph()
    for name, path in modules.items():
        for found in imports_of(path):
            target = found if found in modules else found.rpartition(".")[0]
            if target in modules and target != name:
                graph.add_edge(name.removeprefix("dpgnn."), target.removeprefix("dpgnn."))
    return [part for part in nx.strongly_connected_components(graph) if len(part) > 1]


def test_no_modules_import_one_another_in_a_circle(repository: Path) -> None:
    """Imports inside functions and for type checkers count too."""
    found = [sorted(part) for part in _circles(repository)]
    assert not found, f"move what both need to a module that imports neither: {found}"


def test_parts_of_the_report_import_only_from_parts_before_them(repository: Path) -> None:
    """The order inside data/ has a test of its own, tests/data/test_direction.py."""
    found = set()
    for own in REPORT:
        for path in (repository / "dpgnn" / "report" / own).rglob("*.py"):
            parts = {name.split(".")[2] for name in imports_of(path) if "dpgnn.report." in name}
            found |= {(own, part) for part in parts & set(REPORT[REPORT.index(own) + 1 :])}
    assert found == set(), "move what both need to the earlier part"


def test_no_package_imports_what_is_private_to_another(repository: Path) -> None:
    """A module or name that begins with _ belongs to its package."""
    found = [
        f"{path.relative_to(repository)} imports {name}"
        for path in _modules(repository)
        for name in imports_of(path)
        if re.search(r"\._(?!_)", name) and name.startswith("dpgnn.")
        and name.split(".")[1] != path.relative_to(repository / "dpgnn").parts[0]
    ]  # fmt: skip
    assert not found, "\n".join(found)


def _private_or_named(path: Path) -> set[str]:
    """Names of methods in strings; private names of other packages, imported or as attributes."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    own = f"dpgnn.{path.parent.name}."
    outside = [name for name in imports_of(path) if not name.startswith(own)]
    private = {name for name in outside if any(part[0] == "_" for part in name.split("."))}
    modules = {name.rpartition(".")[2] for name in outside} | {
        alias.asname for node in nodes if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    used = {
        f"{node.value.id}.{node.attr}"
        for node in nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if re.match("_(?!_)", node.attr) and node.value.id in modules
    }
    return (texts & methods.TABLE.keys()) | (private - {"__future__.annotations"}) | used


def test_audits_and_attacks_ask_the_method_and_know_none(repository: Path) -> None:
    found = {
        f"{package}/{path.name}": names
        for package in ("audits", "attacks")
        for path in (repository / "dpgnn" / package).glob("*.py")
        if (names := _private_or_named(path))
    }
    assert not found, f"state it beside the method's own code and ask its `Method`: {found}"


@pytest.mark.parametrize("module", ["dpgnn.study.workflow", "dpgnn.__main__"])
def test_the_workflow_and_the_command_line_start_without_torch(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "from dpgnn import methods\n"
        "for name in methods.TABLE: methods.get(name)\n"
        "slow = [m for m in ('torch', 'torch_geometric', 'altair', 'ogb') if m in sys.modules]\n"
        "sys.exit(f'loaded {slow}' if slow else 0)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and its split."""
    folder = tmp_path_factory.mktemp("prepared")
    code = """
from dpgnn.__main__ import main
graph, part = "results/graphs/chains-s", "results/splits/chains-s.public.0.parquet"
axes = ["--dataset", "chains-s", "--setting", "public", "--repeat", "0", "--root-seed", "0"]
assert main(["data", "prepare", "chains-s", "--out", graph]) == 0
assert main(["split", "--graph", graph, *axes, "--kind", "public", "--out", part]) == 0
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize(
    ("run", "more"),
    [
        ("mlp/eps=inf", ("scipy", "numba")),
        ("gcn/eps=inf", ("scipy", "numba")),
        ("dp_mlp/eps=1", ("scipy.signal",)),
    ],
)
def test_a_run_leaves_out_what_takes_longer_to_import_than_to_run(
    run: str, more: tuple[str, ...], repository: Path, prepared: Path
) -> None:
    """torch's compiler, PyG, pandas and parts of scipy: together more than two seconds of each process.

    The study has these entries alone: one that has others reads the options of their methods as well.
    """
    stated = yaml.safe_load((repository / "config.yaml").read_text(encoding="utf-8"))
    stated["entries"] = {name: stated["entries"][name] for name in ("mlp", "gcn", "dp_mlp")}
    stated |= {"attacks": [], "audits": []}
    (prepared / "study.yaml").write_text(yaml.safe_dump(stated))
    slow = ("torch._dynamo", "torch_geometric", "sympy", "pandas", "pyarrow.compute", *more)
    code = f"""
import sys
from dpgnn.__main__ import main
assert main(["train", "--study", "study.yaml", "--run", "chains-s.public/{run}/0"]) == 0
print([name for name in {slow} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=prepared, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"

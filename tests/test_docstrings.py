"""What a user calls says what it takes, what it refuses, and where it carries a claim, what holds.

An entry point is a public function, or a public method of a public class, that takes arguments, in the
modules below: the homes of `dpgnn.__all__`, and the modules that decide what a claim says.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from helpers import ROOT

# modules whose functions take and give values for a user, or make and check what is handed on
FACE = (
    "data/datasets/__init__.py", "data/graph.py", "methods/__init__.py", "records/schema.py",
    "release/advice.py", "release/bundle.py", "release/fit.py", "release/from_run.py",
    "release/inputs.py", "release/load.py",
    "release/model.py", "release/offers.py", "release/verify.py", "run/account.py", "study/study.py",
)  # fmt: skip
# modules that decide what is guaranteed: functions that stand in a proof say so
CLAIMS = (
    "accountants/allocation.py", "accountants/amplification.py", "accountants/calibration.py",
    "accountants/composition.py", "accountants/gdp.py", "accountants/pld.py", "accountants/rdp.py",
    "accountants/zcdp.py", "samplers/batches.py", "samplers/own_list.py", "samplers/stable.py",
    "samplers/tree_sampler.py", "training/clipping.py", "training/dp_sgd.py", "training/noise.py",
)  # fmt: skip
# the papers' own formulas: each says whose they are
FORMULAS = (
    "accountants/gdp.py", "accountants/published.py", "accountants/published_drw.py",
    "accountants/published_heterpoisson.py", "accountants/zcdp.py",
)  # fmt: skip
# arithmetic on the way to a claim, and what is undone or only looked up
NO_CLAIM = {
    "bounded_range", "conversion_term", "parts", "per_coordinate", "poisson_tail",
    "smallest_population",
}  # fmt: skip
CHECKS = "require|fail|one_of|positive|at_least|non_negative|probability|open_probability"


def entry_points(module: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Name and definition of each."""
    path = ROOT / "dpgnn" / module
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner
        elif isinstance(node, ast.FunctionDef):
            yield node.name, node


def of(modules: tuple[str, ...]) -> list[object]:
    """The entry points of modules, without properties and those that take nothing."""
    found = []
    for module in modules:
        for name, node in entry_points(module):
            taken = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            named = [one.arg for one in taken if one.arg not in ("self", "cls")]
            public = not any(part.startswith("_") for part in name.split("."))
            if public and (named or node.args.vararg) and not _is_property(node):
                found.append(pytest.param(node, id=f"{module}:{name}"))
    return found


def _is_property(node: ast.FunctionDef) -> bool:
    return any("property" in ast.unparse(one) for one in node.decorator_list)


@pytest.mark.parametrize("node", of(tuple(dict.fromkeys((*FACE, *CLAIMS, *FORMULAS)))))
def test_an_entry_point_says_what_it_takes_and_refuses(node: ast.FunctionDef) -> None:
    text = ast.get_docstring(node) or ""
    assert re.search(r"^Args:$", text, re.MULTILINE), "state its arguments, with shape and unit"
    if re.search(rf"\b(?:raise |(?:checks\.)?(?:{CHECKS})\()", ast.unparse(node)):
        assert "Raises:" in text or "refuse" in text.lower(), "state what it raises"


@pytest.mark.parametrize("node", of(CLAIMS))
def test_what_decides_a_claim_says_what_it_guarantees(node: ast.FunctionDef) -> None:
    text = ast.get_docstring(node) or ""
    assert node.name in NO_CLAIM or "Guarantee" in text, "state unit, relation and what is public"


@pytest.mark.parametrize("node", of(FORMULAS))
def test_a_formula_says_whose_it_is(node: ast.FunctionDef) -> None:
    text = ast.get_docstring(node) or ""
    stated = "Source" in text or "docs/accounting.md" in text
    assert node.name in NO_CLAIM or stated, "name paper and theorem or equation"


def test_theorems_that_docstrings_name_exist() -> None:
    page = (ROOT / "docs" / "accounting.md").read_text(encoding="utf-8")
    known = {int(number) for number in re.findall(r"^## Theorem (\d+)", page, re.MULTILINE)}
    named = {
        int(number)
        for path in (ROOT / "dpgnn").rglob("*.py")
        for found in re.findall(
            r"accounting\.md,\s+theorems?\s+([\d, and to]+)", path.read_text(encoding="utf-8")
        )
        for number in re.findall(r"\d+", found)
    }
    assert named <= known

from __future__ import annotations

from dpgnn.code_hash import direct_imports, imported_modules
from dpgnn.methods import TABLE


def test_private_methods_depend_on_the_clipping_code_and_plain_ones_do_not() -> None:
    for name in ("mlp", "gcn"):
        modules = imported_modules(TABLE[name])
        assert "dpgnn.training.clipping" not in modules
        assert "dpgnn.accountants.pld" not in modules
        assert "dpgnn.training.nonprivate" in modules  # imported lazily, inside a function
    modules = imported_modules(TABLE["dp_mlp"])
    assert {"dpgnn.training.clipping", "dpgnn.accountants.pld", "dpgnn.samplers.batches"} <= modules


def test_no_method_depends_on_the_study_layer_or_the_report() -> None:
    for name in TABLE.values():
        modules = imported_modules(name, "dpgnn.runner")
        assert not {"dpgnn.study", "dpgnn.workflow", "dpgnn.cli.report"} & modules


def test_imports_for_type_checkers_do_not_count() -> None:
    assert "dpgnn.graph" not in direct_imports("dpgnn.methods.mlp")

"""What the entries of the CARIBOU study claim."""

from __future__ import annotations

import pytest
from helpers import ROOT
from studies import known

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Facts

STUDY = known(ROOT / "workflow/studies/caribou.yaml", "M")


@pytest.mark.parametrize("name", ["pertgraph-ndp", "pertgraph-ndp-paper"])
def test_pertgraph_at_node_level_claims_its_weights_and_no_answer(name: str) -> None:
    """The aggregate that an answer reads has no noise of its own, so no claim may cover answers."""
    entry = STUDY.entries[name].for_dataset("chains-50")
    facts = Facts(num_nodes=1500, num_train=250, num_features=5, num_classes=2, task="multiclass")
    plan = methods.get(entry.method).plan(entry, facts, Budget(epsilon=8.0, delta=1e-5))
    assert {claim.released for claim in plan.claims} == {"weights"}
    assert "inference-reads-private-graph" in plan.claims[0].caveats
    assert [mechanism.name for mechanism in plan.mechanisms] == ["train"]


def test_no_sweep_is_overridden_by_a_data_sets_own_options() -> None:
    """`options_for` wins over a sweep: then all its entries would be one configuration."""
    study = known(ROOT / "workflow/studies/caribou.yaml", "L")
    families: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for dataset, name in sorted({(key.dataset, key.entry) for key in study.keys}):
        base, *values = name.split("~")
        if values:
            family = (dataset, base, tuple(value.split("=")[0] for value in values))
            families.setdefault(family, []).append(name)
    assert families
    for (dataset, *_), names in families.items():
        options = [str(study.entries[name].for_dataset(dataset).options) for name in names]
        assert len(set(options)) == len(names), (dataset, names)

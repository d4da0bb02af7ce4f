from __future__ import annotations

from collections import Counter

import pytest
from studies import BASE, changed

from dpgnn.core.config import ConfigError
from dpgnn.study.study import resolve


def test_a_tier_names_entries_by_pattern() -> None:
    study = resolve(changed(tiers={"S": {"entries": ["d*"]}}))
    assert {key.entry for key in study.keys} == {"dp"}
    swept = changed(entries__dp__sweep={"options.width": [4, 8]})
    names = resolve(swept | {"tiers": {"S": {"entries": ["dp~width=*", "mlp"]}}})
    assert {key.entry for key in names.keys} == {"dp~width=4", "dp~width=8", "mlp"}


def test_a_tier_gives_a_data_set_its_own_repeats_and_entries() -> None:
    tier = {"repeats_for": {"digits": 4}, "entries_for": {"digits": ["m*"]}}
    study = resolve(changed(tiers={"S": tier}))
    there = [key for key in study.keys if key.dataset == "digits"]
    assert [(key.entry, key.repeat) for key in there] == [("mlp", repeat) for repeat in range(4)]
    elsewhere = [key for key in resolve(BASE).keys if key.dataset != "digits"]
    assert [key for key in study.keys if key.dataset != "digits"] == elsewhere


def test_a_tier_runs_a_data_set_at_some_budgets_only() -> None:
    study = resolve(changed(tiers={"S": {"epsilons_for": {"digits": ["8", "12"]}}}))
    there = {key.epsilon for key in study.keys if key.dataset == "digits"}
    assert there == {"8", "inf"}
    elsewhere = [key for key in resolve(BASE).keys if key.dataset != "digits"]
    assert [key for key in study.keys if key.dataset != "digits"] == elsewhere
    with pytest.raises(ConfigError, match=r"epsilons_for\.digits must hold numbers > 0"):
        resolve(changed(tiers={"S": {"epsilons_for": {"digits": ["0"]}}}))
    with pytest.raises(ConfigError, match=r"data set of tiers\.S 'nowhere'"):
        resolve(changed(tiers={"S": {"epsilons_for": {"nowhere": ["1"]}}}))


def test_a_tier_repeats_some_entries_less_often_and_none_more() -> None:
    tier = {"repeats": 4, "repeats_for": {"digits": 3}, "repeats_at_most": {"*": 9, "d*": 2}}
    study = resolve(changed(tiers={"S": tier}))
    most = {
        entry: max(
            key.repeat for key in study.keys if (key.entry, key.dataset) == (entry, "digits")
        )
        for entry in ("dp", "mlp")
    }
    assert most == {"dp": 1, "mlp": 2}
    one = resolve(changed(tiers={"S": {**tier, "repeats_at_most": {"*": 9, "digits/d*": 1}}}))
    counts = Counter((key.dataset, key.entry, key.epsilon) for key in one.keys)
    assert {(dataset, entry): number for (dataset, entry, _), number in counts.items()} == {
        ("digits", "dp"): 1,
        ("digits", "mlp"): 3,
        ("chains-s", "dp"): 4,
        ("chains-s", "mlp"): 4,
    }
    with pytest.raises(ConfigError, match=r"data set of tiers\.S\.repeats_at_most 'nowhere'"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"nowhere/dp": 1}}}))
    with pytest.raises(ConfigError, match="repeats_at_most: unknown entry 'nope'"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"nope": 1}}}))
    with pytest.raises(ConfigError, match=r"repeats_at_most\.dp must be >= 1"):
        resolve(changed(tiers={"S": {"repeats_at_most": {"dp": 0}}}))


def test_a_tier_changes_only_what_it_names() -> None:
    study = resolve(BASE, "M")
    assert {key.dataset for key in study.keys} == {"digits"}
    assert {key.repeat for key in study.keys} == set(range(5))
    assert resolve(BASE, "S").run_params(resolve(BASE).keys[0]) == study.run_params(
        resolve(BASE).keys[0]
    )

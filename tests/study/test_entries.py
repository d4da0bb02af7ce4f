from __future__ import annotations

from typing import Any

import pytest
from studies import BASE, changed

from dpgnn.core.config import ConfigError
from dpgnn.study.study import resolve


def test_extends_and_sweep_make_entries() -> None:
    mapping = changed()
    mapping["entries"]["dp-wide"] = {
        "extends": "dp",
        "sweep": {"options.width": [16, 32], "options.training.lr_": []},
    }
    mapping["entries"]["dp-wide"]["sweep"] = {
        "options.width": [16, 32],
        "options.training.clipping_norm": [0.5, 1.0],
    }
    study = resolve(mapping)
    made = [name for name in study.entries if name.startswith("dp~")]
    assert made == [
        "dp~width=16~clipping_norm=0.5",
        "dp~width=16~clipping_norm=1",
        "dp~width=32~clipping_norm=0.5",
        "dp~width=32~clipping_norm=1",
    ]
    options = study.entries[made[2]].for_dataset("digits").options
    assert (options.width, options.training.clipping_norm, options.training.num_steps) == (
        32,
        0.5,
        10,
    )


def test_options_for_one_data_set_override_the_entry() -> None:
    mapping = changed(entries__dp__options_for={"digits": {"training": {"num_steps": 99}}})
    entry = resolve(mapping).entries["dp"]
    assert entry.for_dataset("digits").options.training.num_steps == 99
    assert entry.for_dataset("chains-s").options.training.num_steps == 10
    assert entry.for_dataset("digits").options.width == 8
    wrong = changed(entries__dp__options_for={"digits": {"widht": 9}})
    with pytest.raises(ConfigError, match=r"dp\.options with options_for\.digits.*widht"):
        resolve(wrong)


def test_an_entry_may_be_kept_to_some_settings() -> None:
    both = {"settings": ["random", "public"]}
    mapping = changed(datasets={"digits": both}, entries__dp__settings=["public"])
    found = {(key.entry, key.setting) for key in resolve(mapping).keys}
    assert found == {("mlp", "random"), ("mlp", "public"), ("dp", "public")}


def test_tuned_entries_have_points() -> None:
    points = changed(entries__dp__sweep={"options.width": [4, 8]})
    points["entries"]["fixed"] = {**changed()["entries"]["dp"]}
    with pytest.raises(ConfigError, match="tuned: 'fixed' must be an entry with points"):
        resolve({**points, "tuned": ["fixed"]})


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"kind": "random", "val_fraction": 0.0}, "setting random leaves none; state val_fraction"),
        ({"kind": "per_class", "num_per_class": 5, "num_val": 0}, "setting random leaves none"),
        ({"kind": "membership", "num_per_class": 5, "num_test": 9}, "setting random leaves none"),
        ({"kind": "random", "val_fraction": 0.1}, ""),
        ({"kind": "caribou"}, ""),
        ({"kind": "public"}, ""),
    ],
)
def test_tuned_entries_have_validation_nodes(setting: dict[str, Any], rule: str) -> None:
    points = changed(settings={**BASE["settings"], "random": setting}) | {"tuned": ["dp"]}
    points["entries"]["grid"] = {"extends": "dp", "sweep": {"options.width": [4, 8]}}
    if not rule:
        assert resolve(points).keys
        return
    with pytest.raises(ConfigError, match=f"'dp' is chosen on validation nodes, and {rule}"):
        resolve(points)


def test_a_method_may_be_written_as_tables_show_it() -> None:
    written, named = resolve(changed(entries__dp__method="DP-MLP")), resolve(BASE)
    assert written.entries["dp"] == named.entries["dp"]
    assert written.run_params(written.keys[-1]) == named.run_params(named.keys[-1])

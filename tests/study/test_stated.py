from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from studies import changed, known, mapping_of

from dpgnn.core.config import ConfigError
from dpgnn.study.stated import study_schema
from dpgnn.study.study import resolve

BAD: list[tuple[dict[str, Any], str]] = [
    (changed(repeat=3), r"^repeat is not a known key; did you mean repeats\?"),
    (changed(repeats="3"), r"^repeats must be an integer, got '3'"),
    (changed(repeats=0), r"^repeats must be >= 1"),
    (changed(epsilons=["0"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=["-1"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=["1.0"]), r"^epsilons must write each number in its shortest form"),
    (changed(epsilons=[1]), r"^epsilons\[0\] must be a text, got 1 \(int\); put it in quotes"),
    (changed(epsilons=["one"]), r"^epsilons must hold numbers > 0"),
    (changed(epsilons=[]), r"^epsilons must hold a budget, got \(\); drop the key"),
    (changed(entries__dp__epsilons=[]), r"^entries\.dp\.epsilons must hold a budget"),
    (changed(tiers={"S": {"epsilons": []}}), r"^tiers\.S\.epsilons must hold a budget"),
    (
        changed(tiers={"S": {"epsilons_for": {"digits": []}}}),
        r"^tiers\.S\.epsilons_for\.digits must hold a budget",
    ),
    (
        changed(tiers={"S": {"epsilons_for": {"digits": ["3"]}}}),
        r"^tiers\.S\.epsilons_for\.digits must hold a budget of entry dp \(1, 8\), got 3; add one,",
    ),
    (changed(epsilons=["1", "1"]), r"^epsilons must hold each value once, got '1'; drop one"),
    (
        changed(datasets__digits={"settings": ["random", "random"]}),
        r"^datasets\.digits\.settings must hold each value once, got 'random'",
    ),
    (changed(delta=1.0), r"^delta must be in \(0, 1\)"),
    (changed(delta=0), r"^delta must be in \(0, 1\)"),
    (changed(datasets__digits={"settings": ["rnd"]}), r"unknown setting of datasets\.digits 'rnd'"),
    (
        changed(datasets__digits={"settings": []}),
        r"^datasets\.digits\.settings must name a setting",
    ),
    (
        changed(entries__dp__method="dp_mpl"),
        r"^entries\.dp\.method: unknown method 'dp_mpl'; known: .*; did you mean dp_mlp",
    ),
    (changed(entries__dp__mode="private"), r"^entries\.dp\.mode must be one of"),
    (changed(entries__dp__relation=None), r"^entries\.dp\.relation is required"),
    (changed(entries__dp__relation="add"), r"entries\.dp: privacy_unit / relation must be one of"),
    (changed(entries__dp__privacy_unit="edge"), r"entries\.dp: privacy_unit / relation must be"),
    (changed(entries__mlp__mode="sound"), r"entries\.mlp"),
    (
        changed(entries__dp__options__widht=3),
        r"^entries\.dp\.options\.widht is not .* mean width\?",
    ),
    (changed(entries__dp__options__width=0), r"^entries\.dp\.options: width must be >= 1, got 0"),
    (
        changed(entries__dp__options__training={"clipping_norm": 0}),
        r"^entries\.dp\.options\.training: clipping_norm must be > 0",
    ),
    (changed(entries__dp__extends="dp"), r"^entries\.dp\.extends must not form a circle"),
    (changed(entries__dp__extends="dq"), r"^entries\.dp\.extends: unknown entry 'dq'"),
    (
        changed(entries__dp__sweep={"width": [1]}),
        r"^entries\.dp\.sweep\.width must be options\.NAME",
    ),
    (
        changed(entries__dp__sweep={"options.width": []}),
        r"^entries\.dp\.sweep\.options\.width must",
    ),
    (changed(tiers={"X": {}}), r"unknown tier 'X'"),
    (changed(tiers={"S": {"entries": ["nope"]}}), r"^tiers\.S\.entries: unknown entry 'nope'"),
    (changed(entries__dp__settings=["rnd"]), r"unknown setting of entries\.dp 'rnd'"),
    (changed(tiers={"S": {"datasets": ["nope"]}}), r"unknown data set of tiers\.S 'nope'"),
    (changed(tiers={"S": {"repeats_for": {"nope": 2}}}), r"unknown data set of tiers\.S 'nope'"),
    (changed(tiers={"S": {"repeats_for": {"digits": 0}}}), r"repeats_for\.digits must be >= 1"),
    (
        changed(tiers={"S": {"entries_for": {"digits": ["nope"]}}}),
        r"^tiers\.S\.entries_for\.digits: unknown entry 'nope'",
    ),
    (changed(baseline="nope"), r"^baseline: unknown entry 'nope'; known: dp, mlp"),
    (changed(name="a/b"), r"^name must match"),
    (changed(settings__random={"train_fraction": 1.5}), r"^settings\.random: "),
    ([], r"^configuration must be a mapping"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("mapping", "message"), BAD)
def test_a_wrong_study_stops_before_any_job(mapping: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(mapping)


def test_the_schema_file_is_generated_from_the_dataclasses(repository: Path) -> None:
    path = repository / "workflow" / "schemas" / "generate.py"
    spec = importlib.util.spec_from_file_location("generate_schema", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.FILE.read_text() == module.text(), "run python workflow/schemas/generate.py"


def test_every_study_file_resolves_and_fits_the_schema(repository: Path) -> None:
    validator = jsonschema.validators.validator_for(study_schema())(study_schema())
    files = [repository / "config.yaml", *(repository / "workflow" / "studies").glob("*.yaml")]
    for path in files:
        validator.validate(mapping_of(path))
        study = known(path)
        assert study.keys
        for tier in set(study.config.tiers) - {study.tier}:
            assert known(path, tier).keys

"""Numbers that nobody means, in every numeric key of a study, option of a method and flag of `account`.

Keys are those of the configuration's schema, so a new option is tested without being named here.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from contract import DELTA, EPSILON, GRAPH, PRIVATE, SPLIT, entry_of, inputs_of, options_of

from dpgnn import methods
from dpgnn.__main__ import main
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.cli.account import _parser
from dpgnn.cli.numbers import integer, number
from dpgnn.core import config as strict
from dpgnn.core.checks import positive, shown
from dpgnn.core.config import ConfigError
from dpgnn.core.yaml_text import parse_yaml
from dpgnn.methods.base import Entry, Method, Support, facts_of
from dpgnn.run.plan import plan_within
from dpgnn.study.stated import StudyConfig
from dpgnn.study.study import resolve

STUDY = {
    "name": "toy", "epsilons": ["1"], "datasets": {"chains-s": {"settings": ["half"]}},
    "settings": {"half": {"kind": "random", "train_fraction": 0.5, "val_fraction": 0.2}},
    "entries": {
        "dp_mlp": {
            "method": "dp_mlp", "mode": "sound", "privacy_unit": "node", "relation": "add-remove",
            "options": {"width": 4, "training": {"num_steps": 5, "expected_batch_size": 8}},
        },
    },
}  # fmt: skip
# as YAML writes them; the first three are no value of any key
NEVER = {
    "10^400": "1" + 400 * "0",
    "nan": ".nan",
    "5,000 digits": 5000 * "9",
}
NUMBERS = {
    **NEVER, "-1": "-1", "-1.5": "-1.5", "0": "0", "1e300": "1.0e+300", "-1e300": "-1.0e+300", "inf": ".inf",
    "10^200": "1" + 200 * "0", "2^63": str(1 << 63), "2^63 - 1": str((1 << 63) - 1), "1e-300": "1.0e-300",
}  # fmt: skip
# what a free key of a mapping is called in the study of the tests
NAMES = {
    "datasets": "chains-s", "settings": "half", "entries": "dp_mlp", "tiers": "S", "delta_for": "chains-s",
    "repeats_for": "chains-s", "repeats_at_most": "dp_mlp",
}  # fmt: skip
# of a plan: numbers that a configuration may hold
LARGE = ("1e300", "2^63 - 1", "1e-300")
ONE_OF_EACH = {(case.values[0], case.values[1]): case for case in reversed(PRIVATE)}


def numeric(schema: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of all keys of a schema that may hold a number; "*" is any key, "[]" an item of a list."""
    for kind in schema.get("anyOf", [schema]):
        if kind.get("type") in ("integer", "number"):
            yield path
        elif kind.get("type") == "array" and "items" in kind:
            yield from numeric(kind["items"], (*path, "[]"))
        elif kind.get("type") == "object":
            for name, value in kind.get("properties", {}).items():
                yield from numeric(value, (*path, name))
            if isinstance(kind.get("additionalProperties"), dict):
                yield from numeric(kind["additionalProperties"], (*path, "*"))


def placed(mapping: Mapping[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """A copy of a mapping with a value at a path."""
    changed = copy.deepcopy(dict(mapping))
    if path[-1] == "[]":
        path, value = path[:-1], [value]
    named = [NAMES[path[i - 1]] if key == "*" else key for i, key in enumerate(path)]
    place = changed
    for key in named[:-1]:
        if not isinstance(place.get(key), dict):
            place[key] = {}
        place = place[key]
    place[named[-1]] = value
    return changed


def check_message(error: Exception, key: str) -> None:
    """One line that names the key, the rule and the value."""
    text = str(error)
    assert text.isprintable()
    assert len(text) < 600
    assert key in text
    assert "must" in text or "unknown" in text
    assert "got" in text or "unknown" in text


STUDY_KEYS = sorted(set(numeric(strict.schema(StudyConfig))))


@pytest.mark.parametrize("path", STUDY_KEYS, ids=".".join)
def test_a_study_with_such_a_number_is_read_or_refused_in_one_line(path: tuple[str, ...]) -> None:
    refused = []
    for name, text in NUMBERS.items():
        study = placed(json.loads(json.dumps(STUDY)), path, "@")
        if path[-1] in ("nodes", "training"):
            place = study["datasets"]["chains-s"]["public_population"]
            place |= {"nodes": 48, "training": 24} | place
        if path[-1].startswith("num_") and path[0] == "settings":
            study["settings"]["half"] = {
                "kind": "per_class", "num_per_class": 2, "num_val": 5, "num_test": 5, path[-1]: "@",
            }  # fmt: skip
        yaml = json.dumps(study, ensure_ascii=False).replace('"@"', text)
        try:
            resolve(parse_yaml(yaml, "study file"))
        except ConfigError as error:
            check_message(error, path[-1] if path[-1] != "*" else path[-2])
            refused.append(name)
    assert set(NEVER) <= set(refused)


@pytest.mark.parametrize("name", methods.TABLE)
def test_an_option_with_such_a_number_is_read_or_refused_in_one_line(name: str) -> None:
    method = methods.get(name)
    keys = sorted(set(numeric(strict.schema(method.config))))
    assert keys
    for path in keys:
        refused = []
        for named, text in NUMBERS.items():
            try:
                value = parse_yaml(text, "options")
                strict.read(method.config, placed(method.example, path, value), "options")
            except ConfigError as error:
                check_message(error, "options")
                refused.append(named)
        assert set(NEVER) <= set(refused), path
        assert "2^63" in refused or is_float(method, path), path


def test_more_layers_than_memory_holds_are_refused() -> None:
    layers = [
        (method, path)
        for method in map(methods.get, methods.TABLE)
        for path in sorted(set(numeric(strict.schema(method.config))))
        if path[-1].endswith("_layers")
    ]
    assert len(layers) > 10
    for method, path in layers:
        with pytest.raises(ConfigError, match=rf"{path[-1]} must be (<= 1,000|1 or 2), got 1001"):
            strict.read(method.config, placed(method.example, path, 1001), "options")


def is_float(method: Method, path: tuple[str, ...]) -> bool:
    """Whether an option may be a number with a fraction."""
    found: Any = strict.schema(method.config)
    for key in path:
        kinds = found.get("anyOf", [found])
        found = next(
            kind["items"] if key == "[]" else kind["properties"][key]
            for kind in kinds
            if "items" in kind or key in kind.get("properties", {})
        )
    return any(kind.get("type") == "number" for kind in found.get("anyOf", [found]))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode", "support"), ONE_OF_EACH.values())
def test_a_plan_of_such_numbers_is_made_or_refused_in_one_line(
    name: str, mode: Any, support: Support
) -> None:
    """What a configuration may hold: no plan above its budget, no error but one that names a rule."""
    method, base = methods.get(name), entry_of(name, mode, support)
    facts = facts_of(GRAPH, SPLIT, inputs_of(base).prepared)
    made = 0
    for path in sorted(set(numeric(strict.schema(method.config)))):
        for named in LARGE:
            options = placed(options_of(method, support), path, parse_yaml(NUMBERS[named], "n"))
            plan = planned(base, options, facts)
            made += plan is not None
            if plan is not None and mode == "sound":
                assert plan.claims[0].epsilon <= EPSILON * (1 + 1e-9), (path, named)
    assert made


def planned(base: Entry, options: dict[str, Any], facts: Any) -> Plan | None:
    """The plan of an entry with these options; None where it is refused as it should be."""
    method = methods.get(base.method)
    try:
        read = strict.read(method.config, options, "options")
        entry = Entry(
            name=base.name, method=base.method, mode=base.mode, privacy_unit=base.privacy_unit,
            relation=base.relation, options=read,
        )  # fmt: skip
        method.check_entry(entry, "options")
        return plan_within(method, entry, facts, Budget(epsilon=EPSILON, delta=DELTA))
    except ValueError as error:
        check_message(error, "")
        return None


def flags_of(method: Method) -> list[str]:
    """Numeric flags of `dpgnn account METHOD`."""
    actions = _parser(method)._actions
    return [a.option_strings[0] for a in actions if a.type in (integer, number)]


@pytest.mark.parametrize("name", [n for n in methods.TABLE if methods.get(n).supports])
def test_a_flag_of_account_with_such_a_number_is_answered_or_refused_in_one_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"--num-train-nodes": "600", "--delta": "1e-5", "--target-epsilon": "1"}
    flags = flags_of(methods.get(name))
    assert set(good) <= set(flags)
    for flag in flags:
        for text in ("9" * 5000, "1" + 400 * "0", "nan", "-1", "0", "inf", "1e300"):
            words = [word for pair in (good | {flag: text}).items() for word in pair]
            try:
                status = main(["account", name, *words])
            except SystemExit as error:  # argparse: no number at all
                status = int(error.code or 0)
            err = capsys.readouterr().err.strip().splitlines()
            assert (status == 0) == (not err), (flag, text[:9], err)
            if err:
                assert len(err[-1]) < 600
                assert "must" in err[-1], (flag, text[:9], err)
                assert "got" in err[-1], (flag, text[:9], err)


def test_values_that_python_cannot_write_are_named() -> None:
    huge = 10**5000
    with pytest.raises(ValueError, match="xceeds the limit"):
        repr(huge)
    assert shown(huge) == "a number of more than 4,300 digits"
    with pytest.raises(
        ValueError, match="lr must be a finite number > 0, got a number of more than 4,300 digits"
    ):
        positive("lr", huge)
    assert positive("lr", sys.float_info.max) == sys.float_info.max

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import jsonschema
import pytest

from dpgnn.core import config
from dpgnn.core.checks import positive
from dpgnn.core.config import ConfigError


@dataclass(frozen=True, kw_only=True)
class Inner:
    """An inner part.

    Attributes:
        lr: step size,
            on two lines.
    """

    lr: float = 0.1

    def __post_init__(self) -> None:
        positive("lr", self.lr)


@dataclass(frozen=True, kw_only=True)
class Outer:
    """A whole.

    Attributes:
        name: its name.
        widths: layers.
    """

    name: str
    widths: tuple[int, ...] = (8,)
    kind: Literal["a", "b"] = "a"
    parts: Mapping[str, Inner] = field(default_factory=dict)
    rate: float | Literal["auto"] = "auto"
    flag: bool = False


def test_a_good_mapping_becomes_the_dataclass() -> None:
    read = config.read(Outer, {"name": "x", "widths": [1, 2], "parts": {"p": {"lr": 1}}})
    assert read == Outer(name="x", widths=(1, 2), parts={"p": Inner(lr=1.0)})


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"nam": "x"}, r"^nam is not a known key; did you mean name\?"),
        ({}, r"^name is required and missing"),
        ({"name": 3}, r"^name must be a text, got 3 \(int\)"),
        ({"name": "x", "widths": 3}, r"^widths must be a list"),
        ({"name": "x", "widths": [1, "2"]}, r"^widths\[1\] must be an integer, got '2'"),
        ({"name": "x", "widths": [True]}, r"^widths\[0\] must be an integer, got True"),
        ({"name": "x", "kind": "c"}, r"^kind must be one of a, b, got 'c'"),
        ({"name": "x", "parts": {"p": {"lr": 0}}}, r"^parts\.p: lr must be > 0, got 0"),
        ({"name": "x", "parts": {"p": {"r": 0}}}, r"^parts\.p\.r is not a known key"),
        ({"name": "x", "rate": "often"}, r"^rate must be"),
        ({"name": "x", "rate": float("nan")}, r"^rate must be a number, got nan"),
        ({"name": "x", "flag": "yes"}, r"^flag must be true or false"),
        ([1], r"^configuration must be a mapping"),
    ],
)
def test_a_bad_mapping_is_refused_with_the_path_of_the_key(mapping: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.read(Outer, mapping)


def test_the_schema_accepts_and_refuses_what_read_does() -> None:
    schema = config.schema(Outer)
    jsonschema.validate({"name": "x", "parts": {"p": {"lr": 1}}, "rate": 0.5}, schema)
    for bad in ({"nam": "x"}, {"name": 3}, {"name": "x", "kind": "c"}, {"name": "x", "widths": 3}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)
    assert schema["properties"]["parts"]["additionalProperties"]["properties"]["lr"] == {
        "type": "number",
        "description": "step size, on two lines.",
        "default": 0.1,
    }


def test_a_partial_mapping_leaves_the_rest_as_in_the_default_of_its_field() -> None:
    """`head: {hidden: 8}` must not change how many layers the method's own default head has."""
    from dpgnn import methods

    stated = config.read(methods.get("dpdgc").config, {"head": {"hidden": 8}})
    assert (stated.head.hidden, stated.head.base_layers, stated.head.head_layers) == (8, 2, 2)
    deep = config.read(
        methods.get("dp_mlp").config, {"training": {"optimizer": {"weight_decay": 0.1}}}
    )
    assert (deep.training.optimizer.lr, deep.training.optimizer.weight_decay) == (0.01, 0.1)
    with pytest.raises(config.ConfigError, match=r"head\.hiden"):
        config.read(methods.get("dpdgc").config, {"head": {"hiden": 8}})


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1e-5", "write 1.0e-5"),
        ("2.5E3", "write 2.5e+3"),
        ("-1e+2", "write -1.0e+2"),
        ("3.", "quotes"),
    ],
)
def test_a_number_that_came_as_a_text_is_written_right(text: str, says: str) -> None:
    with pytest.raises(config.ConfigError, match=re.escape(says)):
        config.read_value(float, text, "path")


def test_a_later_field_is_stated_where_it_is_not_at_its_default() -> None:
    @dataclass(frozen=True)
    class Added:
        old: tuple[int, ...] = (1, 2)
        new: int = config.later(1)

    @dataclass(frozen=True)
    class Outer:
        parts: dict[str, Added]

    assert config.stated(Outer({"a": Added()})) == {"parts": {"a": {"old": [1, 2]}}}
    assert config.stated(Added(new=2)) == {"old": [1, 2], "new": 2}
    assert config.read(Added, {}) == Added(new=1)

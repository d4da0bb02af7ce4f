"""Strict reading of a mapping into a frozen dataclass, and a JSON schema from a dataclass.

The dataclass is the only definition: unknown keys, wrong types and values that its `__post_init__`
refuses are errors whose message starts with the key's path, e.g.
`methods.dp_mlp.options.num_steps must be an integer, got 'ten'`.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import re
import sys
import types
import typing
from collections.abc import Mapping
from typing import Any, Literal, TypeVar, Union

from dpgnn.core.checks import shown

T = TypeVar("T")
LATER = "later"
# the largest integer in an array
LARGEST = (1 << 63) - 1
# a study of 2,600 entries reads 8,000 dataclasses of a few types
_hints = functools.cache(typing.get_type_hints)


class ConfigError(ValueError):
    """A configuration value is wrong; the message starts with the key's path."""


def later(default: Any) -> Any:
    """A field added after records were committed: `stated` leaves it out at its default."""
    return dataclasses.field(default=default, metadata={LATER: True})


def stated(value: Any) -> Any:
    """Nested dataclasses as mappings, without `later` fields at their default; the input of hashes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: stated(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if not (field.metadata.get(LATER) and getattr(value, field.name) == field.default)
        }
    if isinstance(value, Mapping):
        return {key: stated(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [stated(item) for item in value]
    return value


def read(cls: type[T], value: Any, path: str = "") -> T:
    """Read a mapping into the frozen dataclass `cls`, strictly.

    Args:
        cls: a dataclass whose fields are scalars, Literals, tuples, dicts or dataclasses.
        value: parsed YAML or JSON.
        path: the key's path so far, for messages.

    Raises:
        ConfigError: an unknown or missing key, a wrong type, or a value the dataclass refuses.
    """
    if not isinstance(value, Mapping):
        raise ConfigError(f"{path or 'configuration'} must be a mapping, got {shown(value)}")
    hints = _hints(cls)  # type: ignore[arg-type]
    fields = _fields(cls)  # type: ignore[arg-type]
    for key in value:
        if key not in fields:
            raise ConfigError(_unknown_key(join(path, str(key)), str(key), list(fields)))
    arguments = {}
    for name, field in fields.items():
        if name in value:
            given = _on_default(field.default, value[name])
            arguments[name] = read_value(hints[name], given, join(path, name))
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"{join(path, name)} is required and missing")
    try:
        return cls(**arguments)
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{path}: {error}" if path else str(error)) from None


@functools.cache
def _fields(cls: type) -> dict[str, dataclasses.Field[Any]]:
    """The fields that a constructor takes, by name; not to be changed."""
    return {field.name: field for field in dataclasses.fields(cls) if field.init}


def _on_default(default: Any, value: Any) -> Any:
    """Complete a mapping for a field whose default is a dataclass with the values of that default.

    The class's own defaults may differ: `head: Head = Head(layers=2)` with {"width": 8} has 2 layers.
    """
    if not isinstance(value, Mapping) or not dataclasses.is_dataclass(default):
        return value
    names = _fields(type(default))  # type: ignore[arg-type]
    rest = {name: getattr(default, name) for name in names}
    return rest | {key: _on_default(rest.get(key), item) for key, item in value.items()}


def read_value(hint: Any, value: Any, path: str) -> Any:
    """Read one value of the annotated type `hint`; see `read`."""
    if hint is Any:
        return value
    if hint is str or hint is int or hint is float or hint is bool:
        return _read_scalar(hint, value, path)  # nearly every value; what follows takes longer
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, path)
    if origin is Literal:
        if value not in arguments or type(value) not in {type(item) for item in arguments}:
            known = ", ".join(str(item) for item in arguments)
            raise ConfigError(f"{path} must be one of {known}, got {shown(value)}")
        return value
    if origin is tuple:
        return _read_tuple(arguments, value, path)
    if origin in (dict, Mapping, typing.Mapping) or (
        isinstance(origin, type) and issubclass(origin, Mapping)
    ):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{path} must be a mapping, got {shown(value)}")
        if arguments == (str, Any) and all(isinstance(key, str) for key in value):
            return dict(value)  # nothing to convert, and the most common case
        return {
            read_value(arguments[0], key, f"{path} (key)"): read_value(
                arguments[1], item, join(path, str(key))
            )
            for key, item in value.items()
        }
    if dataclasses.is_dataclass(hint):
        if isinstance(value, typing.cast(type, hint)):
            return value
        return read(typing.cast(type, hint), value, path)
    return _read_scalar(hint, value, path)


def schema(cls: type) -> dict[str, Any]:
    """The JSON schema of what `read(cls, ...)` accepts, with field docs from the class docstring."""
    hints = _hints(cls)
    docs = attribute_docs(cls)
    properties, required = {}, []
    for name, field in _fields(cls).items():
        entry = _schema_of(hints[name])
        if name in docs:
            entry["description"] = docs[name]
        if field.default is not dataclasses.MISSING:
            entry["default"] = _plain(field.default)
        elif field.default_factory is dataclasses.MISSING:
            required.append(name)
        properties[name] = entry
    result: dict[str, Any] = {
        "type": "object",
        "properties": properties,
        "additionalProperties": False,
    }
    if required:
        result["required"] = required
    return result


def attribute_docs(cls: type) -> dict[str, str]:
    """The texts under `Attributes:` of a class docstring, by field name."""
    doc = cls.__doc__ or ""
    if "Attributes:" not in doc:
        return {}
    body = re.split(r"\n\s*(?:Raises|Source|Guarantee):", doc.split("Attributes:", 1)[1])[0]
    docs: dict[str, str] = {}
    names: list[str] = []
    for line in body.splitlines():
        head = re.match(r"^\s{4,8}([a-z_0-9, ]+): (.*)$", line)
        if head and len(line) - len(line.lstrip()) <= 8:
            names = [name.strip() for name in head.group(1).split(",")]
            for name in names:
                docs[name] = head.group(2).strip()
        elif names and line.strip():
            for name in names:
                docs[name] += " " + line.strip()
    return docs


def join(path: str, key: str) -> str:
    """The path of `key` below `path`."""
    return f"{path}.{key}" if path else key


def _unknown_key(path: str, key: str, known: list[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{path} is not a known key{hint} (known: {', '.join(sorted(known))})"


def _read_union(options: tuple[Any, ...], value: Any, path: str) -> Any:
    if value is None:
        if type(None) in options:
            return None
        raise ConfigError(f"{path} must not be empty")
    messages = []
    for option in options:
        if option is type(None):
            continue
        try:
            return read_value(option, value, path)
        except ConfigError as error:
            messages.append(str(error))
    raise ConfigError(messages[0] if len(messages) == 1 else " or ".join(messages))


def _read_tuple(arguments: tuple[Any, ...], value: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(value, (list, tuple)):
        raise ConfigError(f"{path} must be a list, got {shown(value)}")
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(read_value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))
    if len(value) != len(arguments):
        raise ConfigError(f"{path} must have {len(arguments)} items, got {len(value)}")
    return tuple(
        read_value(hint, item, f"{path}[{i}]")
        for i, (hint, item) in enumerate(zip(arguments, value))
    )


def _read_scalar(hint: Any, value: Any, path: str) -> Any:
    if (hint is str and isinstance(value, str)) or (hint is bool and isinstance(value, bool)):
        return value
    if hint in (int, float) and isinstance(value, (int, float)) and not isinstance(value, bool):
        _check_size(hint, value, path)
        if hint is float or isinstance(value, int):
            return hint(value)
    names = {bool: "true or false", int: "an integer", float: "a number", str: "a text"}
    given = f"{shown(value)} ({type(value).__name__})"
    hintless = "; put it in quotes" if hint is str else _number_form(hint, value)
    raise ConfigError(f"{path} must be {names.get(hint, hint)}, got {given}{hintless}")


def _check_size(hint: Any, value: float, path: str) -> None:
    """Refuse nan, and integers that are too large for arrays or floats."""
    largest = LARGEST if hint is int else sys.float_info.max
    if isinstance(value, int) and abs(value) > largest:
        raise ConfigError(f"{path} must be {largest} at most, got {shown(value)}; lower it")
    if math.isnan(value):
        raise ConfigError(f"{path} must be a number, got nan; write one")


def _number_form(hint: Any, value: Any) -> str:
    """How to write a number that YAML 1.1 reads as a text, such as 1e-5 (no point) or 1e5 (no sign)."""
    if hint not in (int, float) or not isinstance(value, str):
        return ""
    found = re.fullmatch(r"([-+]?)(\d+)(\.\d*)?(?:[eE]([-+]?)(\d+))?", value.strip())
    if found is None:
        return ""
    sign, whole, rest, power_sign, power = found.groups()
    if power is None:
        return f"; write {value.strip()} without quotes"
    rest = rest if rest and len(rest) > 1 else ".0"
    return f"; write {sign}{whole}{rest}e{power_sign or '+'}{power}"


def _schema_of(hint: Any) -> dict[str, Any]:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(option) for option in arguments]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin is tuple:
        item = arguments[0]
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return {"type": "array", "items": _schema_of(item)}
        return {"type": "array", "minItems": len(arguments), "maxItems": len(arguments)}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {"type": "object", "additionalProperties": _schema_of(arguments[1])}
    if dataclasses.is_dataclass(hint):
        return schema(typing.cast(type, hint))
    names = {bool: "boolean", int: "integer", float: "number", str: "string", type(None): "null"}
    return {"type": names[hint]}


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value

"""Entries of a study, with `extends` and `sweep` applied."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpgnn import methods
from dpgnn.core import config as strict
from dpgnn.core.checks import unknown
from dpgnn.core.config import ConfigError
from dpgnn.methods.base import Entry, Mode

# fields that override the extended entry's (FILTERS unless empty); MERGED are merged
STATED = ("method", "mode", "privacy_unit", "relation", "epsilons", "delta")
FILTERS = ("datasets", "settings", "title")
MERGED = ("options", "options_for", "epsilons_for", "delta_for")
ENTRY_NAME = r"[A-Za-z0-9][A-Za-z0-9_\-+.~=]*"


@dataclass(frozen=True, kw_only=True)
class EntryConfig:
    """One entry of a study, or a family of entries by `sweep`.

    Attributes:
        method: name in the table of methods; inherited by `extends`.
        mode: nonprivate, published or sound.
        privacy_unit: what one neighbouring graph differs in.
        relation: how it differs (add-remove, replace-one, null-one).
        options: the method's own options.
        options_for: options for one data set, by its name; they override `options`.
        extends: an entry whose fields and options this one starts from.
        sweep: option path -> values; one entry for each combination, named BASE~option=value.
        epsilons: overrides the study's list.
        epsilons_for: budgets on one data set, by its name; they override `epsilons`.
        delta: overrides the study's delta; "auto" or a number in (0, 1).
        delta_for: delta on one data set, by its name; it overrides `delta`.
        datasets: only these data sets; empty for all.
        settings: only these settings; empty for all.
        title: its name in tables; empty takes the method's title.
    """

    method: str | None = None
    mode: Mode | None = None
    privacy_unit: str | None = None
    relation: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    options_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    extends: str | None = None
    sweep: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    epsilons: tuple[str, ...] | None = None
    epsilons_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delta: float | Literal["auto"] | None = None
    delta_for: Mapping[str, float | Literal["auto"]] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class StudyEntry:
    """An entry after `extends` and `sweep`; `for_dataset` gives the entry that a method gets."""

    name: str
    method: str
    mode: Mode
    title: str = ""
    privacy_unit: str | None = None
    relation: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    options_for: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    epsilons: tuple[str, ...] | None = None
    epsilons_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delta: float | Literal["auto"] | None = None
    delta_for: Mapping[str, float | Literal["auto"]] = field(default_factory=dict)
    datasets: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    def for_dataset(self, dataset: str) -> Entry:
        """The entry with its options read into the method's dataclass for one data set."""
        path = f"entries.{self.name}"
        method = methods.get(self.method)
        own = self.options_for.get(dataset, {})
        where = f"{path}.options" + (f" with options_for.{dataset}" if own else "")
        entry = Entry(
            name=self.name,
            method=self.method,
            mode=self.mode,
            privacy_unit=self.privacy_unit,
            relation=self.relation,
            options=strict.read(method.config, merge(self.options, own), where),
        )
        try:
            method.check_entry(entry, path)
        except ValueError as error:
            raise ConfigError(str(error)) from None
        return entry


def expand_entries(stated: Mapping[str, EntryConfig]) -> dict[str, StudyEntry]:
    """Apply `extends` and `sweep`; every resulting name must be new."""
    expanded: dict[str, StudyEntry] = {}
    for name, entry in stated.items():
        base = _inherit(name, stated, ())
        for suffix, overrides in _sweep(name, entry.sweep):
            made = f"{entry.extends or name}{suffix}" if suffix else name
            if made in expanded:
                raise ConfigError(f"entries.{name}: entry {made} exists twice; rename one")
            if not re.fullmatch(ENTRY_NAME, made):
                raise ConfigError(f"entries.{name}: name {made!r} must match {ENTRY_NAME}")
            fields = _apply(base, overrides, f"entries.{name}.sweep")
            expanded[made] = _study_entry(made, fields)
    return expanded


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` on top of `base`; nested mappings are merged key by key."""
    merged = dict(base)
    for key, value in over.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value)
        else:
            merged[key] = value
    return merged


def _inherit(name: str, stated: Mapping[str, EntryConfig], seen: tuple[str, ...]) -> dict[str, Any]:
    entry = stated[name]
    own = {field: getattr(entry, field) for field in STATED}
    own |= {field: getattr(entry, field) or None for field in FILTERS}
    own = {field: value for field, value in own.items() if value is not None}
    merged = {field: dict(getattr(entry, field)) for field in MERGED}
    if entry.extends is None:
        return own | merged
    if entry.extends in (*seen, name):
        raise ConfigError(f"entries.{name}.extends must not form a circle, got {entry.extends!r}")
    if entry.extends not in stated:
        raise ConfigError(f"entries.{name}.extends: {unknown('entry', entry.extends, stated)}")
    base = _inherit(entry.extends, stated, (*seen, name))
    base.pop("title", None)
    return base | own | {key: merge(base[key], value) for key, value in merged.items()}


def _sweep(name: str, sweep: Mapping[str, tuple[Any, ...]]) -> list[tuple[str, dict[str, Any]]]:
    if not sweep:
        return [("", {})]
    for path, values in sweep.items():
        if not values:
            raise ConfigError(f"entries.{name}.sweep.{path} must list at least one value")
    made = []
    for values in itertools.product(*sweep.values()):
        chosen = dict(zip(sweep, values))
        parts = [f"~{path.rsplit('.', 1)[-1]}={_text(value)}" for path, value in chosen.items()]
        made.append(("".join(parts), chosen))
    return made


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (list, tuple)):
        return "+".join(_text(item) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _apply(base: dict[str, Any], overrides: Mapping[str, Any], path: str) -> dict[str, Any]:
    fields = dict(base)
    for key, value in overrides.items():
        parts = key.split(".")
        if parts[0] == "options" and len(parts) >= 2:
            nested: Any = value
            for part in reversed(parts[1:]):
                nested = {part: nested}
            fields["options"] = merge(fields["options"], nested)
        elif len(parts) == 1 and key in ("mode", "privacy_unit", "relation", "method"):
            fields[key] = value
        else:
            raise ConfigError(
                f"{path}.{key} must be options.NAME, mode, method, privacy_unit or relation"
            )
    return fields


def _study_entry(name: str, fields: dict[str, Any]) -> StudyEntry:
    path = f"entries.{name}"
    for required in ("method", "mode"):
        if required not in fields:
            raise ConfigError(f"{path}.{required} is required and missing")
    try:
        fields["method"] = methods.name_of(fields["method"])
    except ValueError as error:
        raise ConfigError(f"{path}.method: {error}") from None
    if fields["mode"] != "nonprivate":
        for required in ("privacy_unit", "relation"):
            if required not in fields:
                raise ConfigError(f"{path}.{required} is required for mode {fields['mode']}")
    return StudyEntry(name=name, **fields)

"""Plans, claims and versions in the form that a record holds them."""

from __future__ import annotations

import dataclasses
import platform
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.events import Event
from dpgnn.core.checks import one_of
from dpgnn.core.config import stated

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpgnn.accountants.plan import Plan

PACKAGES = ("numpy", "scipy", "torch", "torch_geometric", "scikit-learn", "numba", "dp-accounting")


def plan_of(plan: Plan) -> dict[str, Any]:
    """A plan as the record holds it."""
    mechanisms = []
    for mechanism in plan.mechanisms:
        fields = stated(mechanism)
        fields["event"] = event_of(mechanism.event)
        mechanisms.append(fields)
    return {
        "mechanisms": mechanisms,
        "num_steps": plan.num_steps,
        "details": dict(plan.details),
    }


def event_of(event: Any) -> dict[str, Any]:
    """An event as JSON: its type and its fields."""
    fields: dict[str, Any] = {"type": type(event).__name__}
    for field in dataclasses.fields(event):
        value = getattr(event, field.name)
        if isinstance(value, tuple):
            value = [_event_item(item) for item in value]
        elif dataclasses.is_dataclass(value):
            value = event_of(value)
        fields[field.name] = value
    return fields


def event_from(values: Mapping[str, Any]) -> Event[Any]:
    """The event that `event_of` wrote.

    Raises:
        ValueError, TypeError: its type is unknown, or a field is missing or out of range.
    """
    kinds = {kind.__name__: kind for kind in _kinds(Event)}
    fields = {name: value for name, value in values.items() if name != "type"}
    one_of("event type", str(values.get("type")), kinds)
    if "parts" in fields:
        fields["parts"] = tuple((event_from(part), count) for part, count in fields["parts"])
    return kinds[values["type"]](**fields)


def _kinds(kind: type[Event[Any]]) -> set[type[Event[Any]]]:
    below = kind.__subclasses__()
    return {*below, *(found for one in below for found in _kinds(one))}


def claim_of(claim: Any) -> dict[str, Any]:
    """A claim as the record holds it, with its words."""
    from dpgnn.accountants.claims import in_words

    return claim.to_dict() | {"words": in_words(claim)}


def versions() -> dict[str, str]:
    """Versions that decide numbers: python, platform and packages."""
    from importlib.metadata import PackageNotFoundError, version

    from dpgnn.core.version import VERSION

    found = {
        "dpgnn": VERSION,
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
    }
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "none"
    return found


def _event_item(item: Any) -> Any:
    if dataclasses.is_dataclass(item):
        return event_of(item)
    if isinstance(item, tuple):
        return [_event_item(part) for part in item]
    return item

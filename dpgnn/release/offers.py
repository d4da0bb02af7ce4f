"""The offers of the table of methods: every method, mode, unit and relation, with facts from records."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from dpgnn import methods
from dpgnn.accountants.claims import ANSWERS, PRIVACY_UNITS, Answers
from dpgnn.core import config as strict
from dpgnn.core.checks import one_of
from dpgnn.core.wording import aligned
from dpgnn.methods.base import Entry, Method, Mode, Support
from dpgnn.records.committed import Measured, committed

HEAD = ("mode", "unit", "relation", "answers may be shown to", "seconds a run")


@dataclass(frozen=True, kw_only=True)
class Offer:
    """One way to run a method.

    Attributes:
        method, title: its name in configurations, and in tables.
        what: a description in one line.
        mode: nonprivate, published or sound.
        privacy_unit, relation: of the guarantee; None without privacy.
        answers: who may see answers, from committed records; () without any.
        seconds: shortest and longest median of a run over the real graphs of committed records; None without.
        graphs: number of these real graphs.
    """

    method: str
    title: str
    what: str
    mode: str
    privacy_unit: str | None
    relation: str | None
    answers: tuple[Answers, ...]
    seconds: tuple[float, float] | None
    graphs: int


class Offers(tuple[Offer, ...]):
    """Ways to run methods; shown as a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        return _as_text(self)

    __str__ = __repr__


def offers(names: str | Sequence[str] = (), unit: str | None = None) -> Offers:
    """All ways to run the methods; `dpgnn.methods()` gives it too.

    Args:
        names: names or titles of methods; empty for all.
        unit: only offers that protect it.

    Returns:
        one offer for each method, mode, unit and relation.

    Raises:
        ValueError: an unknown method or unit; names near misses.
    """
    asked = [names] if isinstance(names, str) else names
    chosen = [methods.name_of(name) for name in asked] or list(methods.TABLE)
    if unit is not None:
        one_of("unit", unit, PRIVACY_UNITS)
    known: dict[tuple[object, ...], list[Measured]] = {}
    for cell in committed():
        stated = cell.stated
        key = tuple(stated[name] for name in ("method", "mode", "privacy_unit", "relation"))
        known.setdefault(key, []).append(cell)
    found = []
    for name in chosen:
        method = methods.get(name)
        for mode, pair in _ways(method):
            if unit is None or (pair is not None and pair.privacy_unit == unit):
                key = (name, mode, *((pair.privacy_unit, pair.relation) if pair else (None, None)))
                found.append(_offer(method, mode, pair, known.get(key, [])))
    return Offers(found)


def _ways(method: Method) -> list[tuple[Mode, Support | None]]:
    """Modes with the pairs of unit and relation that each has."""
    # edge-level options of an example are refused at node level, where the defaults do
    stated = [dict(each) for each in (method.example, *method.more_examples)]
    read: Any = [strict.read(method.config, each) for each in (*stated, {})]
    ways: list[tuple[Mode, Support | None]] = []
    for mode in method.modes:
        if mode == "nonprivate":
            ways.append((mode, None))
            continue
        for pair in method.supports:
            entries = [
                Entry(
                    name=method.name, method=method.name, mode=mode, options=options,
                    privacy_unit=pair.privacy_unit, relation=pair.relation,
                )
                for options in read
            ]  # fmt: skip
            if any(method.has(entry) for entry in entries):
                ways.append((mode, pair))
    return ways


def _offer(method: Method, mode: str, pair: Support | None, cells: Sequence[Measured]) -> Offer:
    by_graph: dict[str, list[float]] = {}
    for cell in cells:
        by_graph.setdefault(cell.dataset, []).extend(cell.seconds)
    medians = [median(seconds) for seconds in by_graph.values() if seconds]
    doc = importlib.import_module(methods.TABLE[method.name]).__doc__ or ""
    return Offer(
        method=method.name, title=method.title, what=doc.splitlines()[0], mode=mode,
        privacy_unit=pair.privacy_unit if pair else None, relation=pair.relation if pair else None,
        answers=tuple(word for word in ANSWERS if word in {cell.answers for cell in cells}),
        seconds=(min(medians), max(medians)) if medians else None, graphs=len(medians),
    )  # fmt: skip


def _as_text(found: Sequence[Offer]) -> str:
    """A block for each method, a line for each mode, unit and relation."""
    rows = [HEAD, *(_cells(offer) for offer in found)]
    head, *told = (f"  {line}" for line in aligned(rows))
    lines, before = [], ""
    for offer, line in zip(found, told, strict=True):
        if offer.method != before:
            before = offer.method
            lines += ["", f"{offer.method}  ({offer.title})  {offer.what}"]
        lines.append(line)
    return "\n".join([head, *lines])


def _cells(offer: Offer) -> tuple[str, ...]:
    shown = {"everyone": "everyone", "own-record": "the asked node", "none": "nobody"}
    cost = "-"
    if offer.seconds is not None:
        cost = f"{offer.seconds[0]:.2g} to {offer.seconds[1]:.2g} ({offer.graphs})"
    answers = " or ".join(shown[word] for word in offer.answers) or "-"
    return offer.mode, offer.privacy_unit or "-", offer.relation or "-", answers, cost

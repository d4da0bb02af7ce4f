"""Checks of a bundle's record by itself: facts that stand twice, plausible sizes, and texts on its cards."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.population import reads_population
from dpgnn.core.checks import one_of, require
from dpgnn.methods.entry import MODES, Entry

if TYPE_CHECKING:
    from dpgnn.release.released import Released

# relative tolerance between platforms for plans
TOLERANCE = 1e-6
# larger numbers than any graph, network and fit have, which would keep a check busy for hours; of options by
# what their names say
MOST_NODES, MOST_COLUMNS = 10**10, 10**7
MOST = {"layers": 10_000, "hops": 10_000, "steps": 10**7, "epochs": 10**7}
# fields of a record's parts; others could carry anything
PARTS = {
    "entry": {*(field.name for field in fields(Entry)), "title"},
    "budget": {"target_epsilon", "delta", "spent_epsilon"},
    "randomness": {"kind", "root_seed"},
}
VERSION = r"[A-Za-z0-9_.+-]{1,80}"


def check_record(model: Released) -> None:
    """Check that its method runs the entry, that repeated facts agree, and that a release records no seed.

    Guarantee: what `fit` refuses is refused here, such as a unit that the method has no proof for, or options
    that no proof covers; no code of a user is run. Every text of the record that a card shows is the method's
    own or one word of plain characters.

    Args:
        model: of a bundle.

    Raises:
        ValueError: a fact is wrong, too large, or says something else elsewhere; names it.
    """
    record, key = model.record, model.record.key
    for part, names in PARTS.items():
        there = set(getattr(record, part))
        require(there == names, part, f"have the fields {sorted(names)}", sorted(there))
    same("status", "ok", record.status)
    same("reason", "", record.reason)
    same("entry of the key", record.entry["name"], key["entry"])
    wanted = record.budget["target_epsilon"] if record.claims else "inf"
    same("epsilon of the key", f"{float(wanted):g}", f"{float(key['epsilon']):g}")
    same("title", model.method.title, record.entry["title"])
    same("source", model.method.source, record.source)
    one_of("mode", str(record.entry["mode"]), MODES)
    one_of("randomness kind", record.randomness["kind"], ("study", "release"))
    for name, version in record.versions.items():
        plain = isinstance(version, str) and re.fullmatch(VERSION, version) is not None
        require(plain, f"version of {name}", "be one word of plain characters", version)
    for name in ("study", "dataset", "setting"):
        require(isinstance(key[name], str) and key[name] != "", name, "be a text", key[name])
    _check_sizes(model)
    _check_lawful(model)
    require(isinstance(key["repeat"], int) and key["repeat"] >= 0, "repeat", "be >= 0", key)
    for name in ("config_sha256", "code_sha256"):
        known = re.fullmatch("[0-9a-f]{64}", getattr(record, name))
        require(known is not None, name, "be 64 hexadecimal digits", getattr(record, name))
    for kind, number in (("classes", "num_classes"), ("features", "num_features")):
        told = getattr(model.names, kind)
        require(len(told) in (0, record.facts[number]), kind, "name all of them", told)
    board, ids = model.state.get("board"), model.names.ids
    if ids and board is not None:
        require(len(ids) == len(board), "ids", f"name the {len(board)} nodes of the fit", len(ids))
    if model.claim.is_release:
        same("root_seed of a release", None, record.randomness.get("root_seed"))


def _check_lawful(model: Released) -> None:
    """Refuse what no fit makes: an entry that its method does not run, a population that no plan reads."""
    entry, facts = model.entry, model.facts
    model.method.check_entry(_found_elsewhere(entry), "entry")
    reads = reads_population(entry.mode, entry.privacy_unit, entry.relation)
    rule = f"be counted under {entry.privacy_unit} / {entry.relation} in mode {entry.mode}"
    require(reads or not facts.declared, "population", rule, "declared numbers")
    rule = f"be at most {facts.num_nodes}, the number of nodes"
    require(facts.num_train <= facts.num_nodes, "num_train", rule, facts.num_train)
    scores = model.record.metrics.get("test", {})
    for name in ("accuracy", "num_nodes") if scores else ():
        plain = isinstance(scores.get(name), (int, float))
        require(plain, f"test {name}", "be a number", scores.get(name))


def _found_elsewhere(entry: Entry) -> Entry:
    """The entry whose module, if it has one, need not be found here: it is its owner's."""
    options: Any = entry.options
    if entry.method == "selected" and options.base_options.get("module"):
        given = {**options.base_options, "module_given": "elsewhere"}
        return replace(entry, options=replace(options, base_options=given))
    if getattr(options, "module", ""):
        return replace(entry, options=replace(options, module_given="elsewhere"))
    return entry


def _check_sizes(model: Released) -> None:
    """Refuse numbers that are none, or larger than any graph, network and fit have."""
    record = model.record
    counts = {name: record.facts[name] for name in ("num_nodes", "num_train", "num_features")}
    for name, number in {"num_threads": record.num_threads, **counts}.items():
        require(isinstance(number, int) and number >= 1, name, "be a whole number", number)
        require(number <= MOST_NODES, name, f"be <= {MOST_NODES}", number)
    for name in ("num_features", "num_classes"):
        number = record.facts[name]
        require(1 <= number <= MOST_COLUMNS, name, f"be in 1..{MOST_COLUMNS}", number)
    for name, number, most in _sizes(record.entry["options"]):
        require(number <= most, name, f"be <= {most}", number)


def _sizes(options: Any) -> Iterator[tuple[str, int, int]]:
    """Options for depths and counts, with their largest plausible values."""
    for name, value in options.items() if isinstance(options, dict) else ():
        yield from _sizes(value)
        for word, most in MOST.items():
            if isinstance(value, int) and word in name:
                yield name, value, most


def same(name: str, wanted: Any, found: Any) -> None:
    """Compare two JSON values, numbers up to the tolerance.

    Args:
        name: of the place, in the message.
        wanted, found: the values.

    Raises:
        ValueError: they differ; names the place.
    """
    if isinstance(wanted, dict) and isinstance(found, dict):
        require(set(wanted) == set(found), name, f"have the fields {sorted(wanted)}", sorted(found))
        for key in wanted:
            same(f"{name} {key}", wanted[key], found[key])
    elif isinstance(wanted, (list, tuple)) and isinstance(found, (list, tuple)):
        require(len(wanted) == len(found), name, f"have {len(wanted)} parts", len(found))
        for place, (one, other) in enumerate(zip(wanted, found, strict=True)):
            same(f"{name} {place}", one, other)
    elif isinstance(wanted, float) and isinstance(found, (int, float)):
        right = wanted == found or math.isclose(wanted, found, rel_tol=TOLERANCE)
        require(right, name, f"be {wanted!r}", found)
    else:
        require(wanted == found, name, f"be {wanted!r}", found)

"""Every (method, mode, unit, relation) of the table on a toy graph, for the tests of the contract."""

from __future__ import annotations

import copy
import functools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import two_community_graph

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Plan
from dpgnn.core import config as strict
from dpgnn.core import seeds
from dpgnn.data.splits import Split
from dpgnn.methods.base import Entry, Facts, Method, Support, facts_of
from dpgnn.methods.shared.head_options import EDGE_LEVEL_ONLY
from dpgnn.methods.shared.node_level import CHANGED
from dpgnn.records.schema import read_record
from dpgnn.run.execute import run_one
from dpgnn.run.specification import RunInputs

EPSILON, DELTA = 4.0, 1e-3
GRAPH = two_community_graph()
ORDER = np.random.default_rng(1).permutation(GRAPH.num_nodes)
PARTS = [np.sort(part) for part in np.split(ORDER, [30, 45])]
SPLIT = Split(train_idx=PARTS[0], val_idx=PARTS[1], test_idx=PARTS[2], inductive=False)


def cases() -> list[Any]:
    """Every (method, mode, support) of the table."""
    found = []
    for name in methods.TABLE:
        method = methods.get(name)
        for mode in method.modes:
            supports: tuple[Support | None, ...] = (
                (None,) if mode == "nonprivate" else method.supports
            )
            for support in supports:
                words = [name, mode, *([support.privacy_unit, support.relation] if support else [])]
                found.append(pytest.param(name, mode, support, id=" ".join(words)))
    return found


CASES = cases()
PRIVATE = [case for case in CASES if case.values[1] != "nonprivate"]


# trainings at edge level and without privacy that a method's example leaves at 100 epochs
LONG = {"progap": ("training.num_epochs",), "dpdgc": ("head.encoder_training.num_epochs",)}
FEW_EPOCHS = 5
# what a mode does not have, by the method's own words; everything else in the table must run
NOT_THERE = {
    *(("dp_gnn", "published", "node-bounded", relation) for relation in CHANGED),
    *(("drw", "published", "node-record", relation) for relation in CHANGED),
    ("dpar", "sound", "node", "add-remove"),
    ("heterpoisson", "sound", "node", "add-remove"),
    *(("heterpoisson", "published", "node-record", relation) for relation in CHANGED),
    *(("progap", "published", "node-record", relation) for relation in CHANGED),
    *(
        ("progap", "published", "node-bounded", relation)
        for relation in ("null-one", "replace-one")
    ),
}


def options_of(method: Method, support: Support | None) -> dict[str, Any]:
    """The method's example, without what has no effect (and is refused) where the head is private."""
    example: dict[str, Any] = copy.deepcopy(dict(method.example))
    for other in method.more_examples:
        if support is not None and not method.has(_stated(method, support, example)):
            example = copy.deepcopy(dict(other))
    if support is not None and support.privacy_unit != "edge":
        for name in EDGE_LEVEL_ONLY:
            example.get("head", {}).pop(name, None)
    for path in LONG.get(method.name, ()):
        if support is None or support.privacy_unit == "edge":
            _shorten(example, path)
    return example


def _shorten(options: dict[str, Any], path: str) -> None:
    """Train for a few epochs where an example leaves the default of 100."""
    *folders, last = path.split(".")
    for folder in folders:
        options = options.setdefault(folder, {})
    options.setdefault(last, FEW_EPOCHS)


def _stated(method: Method, support: Support, options: dict[str, Any]) -> Entry:
    return Entry(
        name=method.name, method=method.name, mode="sound", privacy_unit=support.privacy_unit,
        relation=support.relation, options=strict.read(method.config, options),
    )  # fmt: skip


def entry_of(name: str, mode: Any, support: Support | None) -> Entry:
    """The method's example options as an entry; skips what `NOT_THERE` lists and nothing else."""
    method = methods.get(name)
    entry = Entry(
        name=name,
        method=name,
        mode=mode,
        privacy_unit=support.privacy_unit if support else None,
        relation=support.relation if support else None,
        options=strict.read(method.config, options_of(method, support)),
    )
    if (name, mode, entry.privacy_unit, entry.relation) in NOT_THERE:
        assert not method.has(entry)
        pytest.skip(f"{name} has no mode {mode} under {entry.privacy_unit} / {entry.relation}")
    method.check_entry(entry, name)
    return entry


def inputs_of(entry: Entry, randomness: str = "study", **changes: Any) -> RunInputs:
    """One run on the toy graph."""
    method, split = methods.get(entry.method), changes.get("split", SPLIT)
    spec = method.sampler(entry)
    prepared = None
    if spec is not None:
        assert method.prepare is not None
        rng = seeds.child(0, "sampler", sampler=spec.label)
        prepared = method.prepare(GRAPH, split, spec, rng)
    private = entry.mode != "nonprivate"
    values: dict[str, Any] = {
        "key": {
            "study": "contract", "dataset": "two", "setting": "random", "entry": entry.name,
            "epsilon": "4" if private else "inf", "repeat": 0,
        },
        "entry": entry,
        "epsilon": EPSILON if private else math.inf,
        "delta": DELTA,
        "graph": GRAPH,
        "split": SPLIT,
        "prepared": prepared,
        "hashes": {"graph_sha256": "g", "split_sha256": "s", "prepared_sha256": None},
        "randomness": randomness,
    }  # fmt: skip
    return RunInputs(**(values | changes))


@functools.cache
def planned(name: str, mode: Any, support: Support | None) -> tuple[Entry, Facts, Plan]:
    """The entry, the facts of the toy graph and the method's plan, made once for all tests of a process."""
    entry = entry_of(name, mode, support)
    facts = facts_of(GRAPH, SPLIT, inputs_of(entry).prepared)
    return entry, facts, methods.get(name).plan(entry, facts, Budget(epsilon=EPSILON, delta=DELTA))


def run(tmp_path: Path, entry: Entry, **changes: Any) -> dict[str, Any]:
    """Make the run and give its record's JSON."""
    run_one(inputs_of(entry, **changes), tmp_path, work=tmp_path / "work")
    read_record(tmp_path / "record.json")
    return dict(json.loads((tmp_path / "record.json").read_text()))

"""What every method of the table must hold, in every mode and under every unit and relation it names."""

from __future__ import annotations

import dataclasses
import functools
import json
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from contract import (
    CASES,
    DELTA,
    EPSILON,
    GRAPH,
    PRIVATE,
    SPLIT,
    entry_of,
    inputs_of,
    planned,
    run,
)
from safetensors.numpy import load_file

from dpgnn import methods
from dpgnn.accountants.plan import Budget, Ledger, LedgerError
from dpgnn.core import config as strict
from dpgnn.core.randomness import SECRET_STREAMS, Streams
from dpgnn.core.storage import read_parquet
from dpgnn.methods.base import Method, Support
from dpgnn.run.plan import with_caveats
from dpgnn.run.specification import specify
from dpgnn.training import evaluation


@pytest.mark.parametrize(("name", "mode", "support"), CASES)
def test_a_run_is_recorded_and_the_same_seed_gives_the_same_bytes(
    tmp_path: Path, name: str, mode: Any, support: Support | None
) -> None:
    record, files, _, _ = made(name, mode, support)
    assert record["status"] == "ok", record["reason"]
    assert record["metrics"]["test"]["num_nodes"] == len(SPLIT.test_idx)
    assert 0 <= record["metrics"]["test"]["accuracy"] <= 1
    with read_only_arrays_are_left_alone():
        run(tmp_path, entry_of(name, mode, support))
    for file, content in files.items():
        assert (tmp_path / file).read_bytes() == content, file


@contextmanager
def read_only_arrays_are_left_alone() -> Iterator[None]:
    """torch's warning about an array that it must not write, each time, is an error; users would read it."""
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", message="The given NumPy array is not writable")
            yield
    finally:
        torch.set_warn_always(False)


class Made(NamedTuple):
    """A run in a study, made once for all tests; not to be changed.

    `entered` are names of mechanisms in the order of the ledger, `drawn` the secret draws with their axes.
    """

    record: dict[str, Any]
    files: dict[str, bytes]
    entered: list[str]
    drawn: list[Any]


@functools.cache
def made(name: str, mode: Any, support: Support | None) -> Made:
    """Make the run with ledger and streams watched; a test compares its bytes with a run that is not."""
    entered: list[str] = []
    drawn: list[Any] = []
    enter, stream_of = Ledger.enter, Streams.numpy

    def watched(self: Streams, stream: str, **extra: Any) -> Any:
        if stream.split("/")[0] in SECRET_STREAMS:
            drawn.append((stream, *sorted({**self.axes, **self.secret_axes, **extra}.items())))
        return stream_of(self, stream, **extra)

    def spy(self: Ledger, mechanism: str) -> Any:
        entered.append(mechanism)
        with pytest.raises(LedgerError):
            enter(self, "not planned")
        return enter(self, mechanism)

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr(Ledger, "enter", spy)
        patch.setattr(Streams, "numpy", watched)
        record = run(Path(folder), entry_of(name, mode, support))
        names = ("record.json", "model.safetensors", "history.parquet")
        files = {file: (Path(folder) / file).read_bytes() for file in names}
    return Made(record, files, entered, drawn)


def record_of(name: str, mode: Any, support: Support) -> dict[str, Any]:
    """The record of a run in a study; not to be changed."""
    return made(name, mode, support).record


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_what_is_claimed_is_within_the_budget_and_was_planned(
    name: str, mode: Any, support: Support
) -> None:
    record = record_of(name, mode, support)
    claims, mechanisms = record["claims"], record["plan"]["mechanisms"]
    assert claims, "a private run states a claim"
    assert mechanisms, "a private run plans at least one mechanism"
    first = claims[0]
    assert (first["privacy_unit"], first["relation"]) == (support.privacy_unit, support.relation)
    assert float(first["epsilon"]) <= EPSILON * (1 + 1e-9)
    assert first["delta"] <= DELTA
    assert record["budget"]["spent_epsilon"] == first["epsilon"]
    if mode == "sound":
        assert first["status"] == "proved"
        assert all(
            mechanism["noise_stddev"] > 0 for mechanism in mechanisms if _is_noisy(mechanism)
        )
    assert "nan" not in json.dumps(record).lower().replace("nano", "")


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_claim_with_a_delta_says_when_it_is_too_large(
    name: str, mode: Any, support: Support
) -> None:
    entry, facts, plan = planned(name, mode, support)
    asked = specify(inputs_of(entry))
    for delta, said in ((DELTA, False), (0.05, True)):
        claims = with_caveats(plan, dataclasses.replace(asked, delta=delta), facts).claims
        caveats = [claim.caveats for claim in claims if claim.delta > 0]
        assert all(found.count("delta-too-large") == int(said) for found in caveats)


def test_a_run_with_too_large_a_delta_says_so(tmp_path: Path) -> None:
    support = Support(privacy_unit="node", relation="add-remove")
    for delta, said in ((DELTA, False), (0.01, True)):
        record = run(tmp_path, entry_of("dp_mlp", "sound", support), delta=delta)
        assert ("delta-too-large" in record["claims"][0]["caveats"]) == said


def _is_noisy(mechanism: dict[str, Any]) -> bool:
    """Whether the mechanism adds Gaussian or Laplace noise (randomised response has its own coins)."""
    return mechanism["event"]["type"] not in ("RandomizedResponse", "GumbelTopK", "BestOf")


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_a_plan_reads_public_facts_only(name: str, mode: Any, support: Support) -> None:
    entry, facts, first = planned(name, mode, support)
    again = methods.get(name).plan(entry, facts, Budget(epsilon=EPSILON, delta=DELTA))
    assert first == again


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_planned_mechanism_is_entered_once(name: str, mode: Any, support: Support) -> None:
    record, _, entered, drawn = made(name, mode, support)
    planned_names = sorted(m["name"] for m in record["plan"]["mechanisms"])
    if name == "selected":  # each of its runs has a ledger of its own
        entered = [one for one in entered if one.startswith("choice")]
    assert sorted(entered) == planned_names
    # the same secret draw twice is one draw whose noise cancels
    again = [draw for draw in drawn if drawn.count(draw) > 1]
    assert not again, f"drawn twice: {again[:2]}"
    assert drawn or not record["plan"]["mechanisms"]


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_sound_records_hold_no_measured_degree(name: str, mode: Any, support: Support) -> None:
    record = record_of(name, mode, support)
    measured = record["facts"]["depends_on_structure"]
    if mode == "sound":
        # what is left is a function of options and public sizes
        assert set(measured) <= {"promise", "num_subgraphs"}
    if "num_subgraphs" in measured:
        assert support.privacy_unit == "node-features", "edges are public there"


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_a_release_shows_no_metric_no_loss_and_no_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: Any, support: Support
) -> None:
    entry = entry_of(name, mode, support)
    if mode == "published":
        pytest.skip("release is for sound entries")
    # a score that is thrown away could raise, and so tell of one node
    monkeypatch.delattr(evaluation, "metrics")
    record = run(tmp_path / "a", entry, randomness="release")
    run(tmp_path / "b", entry, randomness="release")
    assert record["metrics"] == {}
    assert record["inputs"] == {}, "a hash tells neighbouring graphs apart"
    assert record["randomness"] == {"kind": "release", "root_seed": None}
    columns = set(read_parquet(tmp_path / "a" / "history.parquet").column_names)
    assert columns <= {"step", "epsilon"}
    first, second = (load_file(tmp_path / x / "model.safetensors") for x in "ab")
    assert any(not np.array_equal(first[key], second[key]) for key in first), "noise was repeated"


@pytest.mark.parametrize(("name", "mode", "support"), CASES)
def test_a_split_without_validation_nodes_is_trained_on(
    tmp_path: Path, name: str, mode: Any, support: Support | None
) -> None:
    entry, rest = entry_of(name, mode, support), np.concatenate([SPLIT.val_idx, SPLIT.test_idx])
    split = dataclasses.replace(SPLIT, val_idx=np.zeros(0, dtype=np.int64), test_idx=np.sort(rest))
    if name == "selected":
        with pytest.raises(ValueError, match="validation nodes must be there"):
            run(tmp_path, entry, split=split)
        return
    record = run(tmp_path, entry, split=split)
    assert record["status"] == "ok", record["reason"]
    assert record["metrics"]["test"]["num_nodes"] == len(rest)
    assert "val" not in record["metrics"]


@pytest.mark.parametrize(("name", "mode", "support"), CASES)
def test_prepare_gives_the_same_sample_for_the_same_seed(
    name: str, mode: Any, support: Support | None
) -> None:
    entry = entry_of(name, mode, support)
    method = methods.get(name)
    spec = method.sampler(entry)
    if spec is None:
        pytest.skip(f"the example of {name} needs no sample")
    assert method.prepare is not None
    first, again = (method.prepare(GRAPH, SPLIT, spec, np.random.default_rng(0)) for _ in range(2))
    assert first.table.equals(again.table)
    assert first.facts == again.facts


def test_names_titles_and_options_are_documented() -> None:
    for name in methods.TABLE:
        method: Method = methods.get(name)
        assert method.name == name
        assert method.title
        assert method.source
        docs = strict.attribute_docs(method.config)
        fields = strict.schema(method.config)["properties"]
        assert set(fields) <= set(docs), f"{name}: undocumented options {set(fields) - set(docs)}"

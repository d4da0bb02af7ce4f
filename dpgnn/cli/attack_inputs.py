"""What an attack reads of a run: graph, split, sample, and the model if it is from this very run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgnn.attacks.request import AttackRequest, Sizes
    from dpgnn.core.paths import Paths
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Entry, Prepared
    from dpgnn.run.specification import RunInputs
    from dpgnn.study.study import RunKey, Study


@dataclass(frozen=True, kw_only=True, eq=False)
class Loaded:
    """The inputs that one run would read now.

    Attributes:
        inputs: as `dpgnn train` loads them; a sample that is not on disk is drawn and has no hash.
        full_graph: the graph with all edges.
        model: file of the released tensors if their record has these options, code and inputs; else None.
        model_of: hashes of that record; None without it.
        stale: what differs from the record on disk; () without a record or a difference.
    """

    inputs: RunInputs
    full_graph: Graph
    model: Path | None
    model_of: Mapping[str, Any] | None
    stale: tuple[str, ...]

    @property
    def recorded(self) -> dict[str, Any]:
        """The part that decides an attack's result, as JSON."""
        return {"inputs": dict(self.inputs.hashes), "model": self.model_of}


def load(study: Study, key: RunKey, paths: Paths) -> Loaded:
    """Inputs of a run, and its model if it was fitted with this configuration, code and inputs."""
    from dpgnn.study.inputs import graph_in, inputs_of

    inputs = inputs_of(study, key, paths, draw=lambda *args: _drawn(study, key, *args))
    folder = paths.run(study.name, key.folder)
    found, stale = _record_of(folder, inputs)
    return Loaded(
        inputs=inputs,
        full_graph=graph_in(paths.graph(key.dataset), inputs.hashes["graph_sha256"]),
        model=folder / "model.safetensors" if found else None,
        model_of=found,
        stale=stale,
    )


def request_of(key: RunKey, loaded: Loaded, sizes: Sizes) -> AttackRequest:
    """A run to attack; says on standard error if the model on disk is not from this run."""
    import sys

    from safetensors.torch import load_file

    from dpgnn.accountants.plan import Budget
    from dpgnn.attacks.request import AttackRequest
    from dpgnn.run.specification import checked_delta

    inputs = loaded.inputs
    if loaded.stale:
        print(
            f"{key.folder}: fitted again, because the model on disk has other {' and '.join(loaded.stale)}",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    delta = checked_delta(inputs)
    return AttackRequest(
        entry=inputs.entry,
        budget=Budget(epsilon=inputs.epsilon, delta=delta),
        graph=inputs.graph,
        full_graph=loaded.full_graph,
        split=inputs.split,
        prepared=inputs.prepared,
        state=None if loaded.model is None else load_file(loaded.model),
        axes=key.axes,
        root_seed=inputs.root_seed,
        randomness=inputs.randomness,
        sizes=sizes,
        population=inputs.population,
    )


def _record_of(folder: Path, inputs: RunInputs) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    """Hashes of a finished run's record if a run would have the same ones now, else what differs."""
    from dpgnn.core.checksums import check
    from dpgnn.core.storage import sha256_json
    from dpgnn.records.schema import read_record
    from dpgnn.run import specification

    path = folder / "record.json"
    if not path.exists():
        return None, ()
    for name in ("record.json", "model.safetensors"):
        check(folder / name)
    record = read_record(path)
    if record.status != "ok":
        return None, ()
    # the same comparison as in `run.execute.run_one`
    now = {
        "options": sha256_json(specification.config_of(inputs)),
        "code": specification.entry_code(inputs.entry),
        "inputs": specification.recorded_inputs(inputs),
    }
    then = {
        "options": record.config_sha256,
        "code": record.code_sha256,
        "inputs": dict(record.inputs),
    }
    stale = tuple(name for name, value in now.items() if then[name] != value)
    return (None if stale else then), stale


def _drawn(study: Study, key: RunKey, entry: Entry, graph: Graph, split: Split) -> Prepared | None:
    """The sample of a run that has none on disk, drawn as `dpgnn prepare` would."""
    from dpgnn import methods
    from dpgnn.core import seeds

    method = methods.get(entry.method)
    spec = method.sampler(entry)
    assert spec is not None
    assert method.prepare is not None
    rng = seeds.child(
        study.config.root_seed, "sampler", dataset=key.dataset, setting=key.setting,
        repeat=key.repeat, sampler=spec.label,
    )  # fmt: skip
    return method.prepare(graph, split, spec, rng)

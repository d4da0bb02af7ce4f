"""Faults, planted in the running code by name; each is caught by the test that docs/audits.md names.

Every case is first audited as it is and passes; with the fault in place the named test must fail, and the
replaced function must have been called.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.audits.entry_audit import Finding, audit, forget
from dpgnn.audits.request import AuditRequest
from dpgnn.core import config as strict
from dpgnn.methods.base import Entry

FULL = {"num_steps": 2, "expected_batch_size": "full"}
TRAINING = {"num_steps": 40, "expected_batch_size": 8}
LEVEL = 0.001


def request(method: str, unit: str, options: dict[str, Any], **changes: Any) -> AuditRequest:
    """A small audit of a sound entry."""
    chosen = methods.get(method)
    entry = Entry(
        name=method, method=method, mode="sound", privacy_unit=unit,
        relation=changes.pop("relation", "add-remove"),
        options=strict.read(chosen.config, options),
    )  # fmt: skip
    values = {"num_runs": 160, "max_steps": 2, "level": LEVEL, "root_seed": 3}
    return AuditRequest(entry=entry, budget=Budget(epsilon=8.0, delta=1e-4), **(values | changes))


def dp_mlp(training: dict[str, Any] = FULL, **changes: Any) -> AuditRequest:
    return request("dp_mlp", "node", {"width": 8, "training": training}, **changes)


def dp_gnn(**changes: Any) -> AuditRequest:
    options = {"width": 8, "max_degree": 2, "activation": "tanh", "training": FULL}
    return request("dp_gnn", "node-record", options | changes.pop("options", {}), **changes)


def dp_mlp_in_batches() -> AuditRequest:
    return dp_mlp(TRAINING)


def dp_mlp_in_few_runs() -> AuditRequest:
    """For what the claim test cannot see: exact tests watch one run of 40 steps however many there are."""
    return dp_mlp(TRAINING, num_runs=20)


def dp_mlp_replaced() -> AuditRequest:
    return dp_mlp(relation="replace-one", num_runs=20)


def gap() -> AuditRequest:
    options = {
        "num_hops": 1,
        "head": {"hidden": 4, "encoder_layers": 0},
        "node": {"max_degree": 2, "encoder": {"batch_size": 10, "num_epochs": 2},
                 "head": {"batch_size": 10, "num_epochs": 2}},
    }  # fmt: skip
    return request("gap", "node-record", options, num_runs=240)


def less_noise(factor: float) -> Callable[[Any], Any]:
    return lambda real: lambda total, stddev, *, rng: real(total, stddev * factor, rng=rng)


def same_noise(real: Any) -> Any:
    return lambda total, stddev, *, rng: real(total, stddev, rng=np.random.default_rng(0))


def no_clipping(real: Any) -> Any:
    def add(self: Any, named: Any, chunk: Any, parts: Any, *rest: Any, **keys: Any) -> Any:
        return real(self, named, chunk, (parts[0], np.asarray(parts[1]) * 1e4), *rest, **keys)

    return add


def no_cap(real: Any) -> Any:
    def slots(arcs: Any, num_nodes: int, capacity: int, **keys: Any) -> Any:
        return real(arcs, num_nodes, 1000, **keys)

    return slots


def with_replacement(real: Any) -> Any:
    def draw(self: Any, *, rng: np.random.Generator) -> np.ndarray:
        size = rng.binomial(self.num_roots, self.sampling_probability)
        return np.sort(rng.integers(0, self.num_roots, size))

    return draw


def size_near(batches: Any, rng: np.random.Generator) -> int:
    return int(batches.num_roots * batches.sampling_probability + rng.random())


def one_size(real: Any) -> Any:
    def draw(self: Any, *, rng: np.random.Generator) -> np.ndarray:
        return np.sort(rng.choice(self.num_roots, size_near(self, rng), replace=False))

    return draw


def in_turn(real: Any) -> Any:
    """Roots in one order, each as often as all others, without a coin."""
    place = [0]

    def draw(self: Any, *, rng: np.random.Generator) -> np.ndarray:
        size = size_near(self, rng)
        found = (place[0] + np.arange(size)) % self.num_roots
        place[0] = (place[0] + size) % self.num_roots
        return np.sort(found)

    return draw


def the_last(real: Any) -> Any:
    def draw(self: Any, *, rng: np.random.Generator) -> np.ndarray:
        return np.arange(self.num_roots - size_near(self, rng), self.num_roots)

    return draw


def balanced_classes(real: Any) -> Any:
    """Each clipped gradient is divided by the private number of training nodes of its class."""

    def summed(self: Any, parameters: Any, roots: np.ndarray) -> Any:
        y = np.asarray(self.trees.y)
        own = [np.asarray(roots)[y[roots] == label] for label in range(int(y.max()) + 1)]
        sizes = np.maximum(np.bincount(y), 1)
        return sum(real(self, parameters, each).clone() / n for each, n in zip(own, sizes))

    return summed


def realised_divisor(real: Any) -> Any:
    """The mean over the realised batch: its size is read off the sums that the loop just asked for."""
    from dpgnn.samplers.batches import PoissonBatches

    def draw(self: Any, *, rng: np.random.Generator) -> np.ndarray:
        roots = PLAIN_DRAW(self, rng=rng)
        LAST["factor"] = self.expected_batch_size / max(len(roots), 1)
        return roots

    assert PoissonBatches.draw is PLAIN_DRAW
    PATCH.setattr(PoissonBatches, "draw", draw)
    return lambda total, stddev, *, rng: real(total, stddev, rng=rng) * LAST["factor"]


LAST: dict[str, float] = {}
PATCH = pytest.MonkeyPatch()
PLAIN_DRAW = importlib.import_module("dpgnn.samplers.batches").PoissonBatches.draw


def rejected(finding: Finding) -> bool:
    tests = (finding.verdict, finding.step_verdict)
    return any(verdict is not None and verdict.rejected for verdict in tests)


def fails(name: str) -> Callable[[Finding], bool]:
    return lambda finding: any(c.name == name and not c.passed for c in finding.checks)


def hub_is_kept(real: Any) -> Any:
    return lambda both, num_nodes, max_degree, *, rng: both


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """What is replaced, in which audit, and what notices.

    `claim_test`: the claim test notices by itself. `refused`: a check at run time stops it first, with this
    message; the audit then runs without that check.
    """

    target: str
    attribute: str
    plant: Callable[[Any], Any]
    request: Callable[[], AuditRequest]
    noticed: Callable[[Finding], bool]
    claim_test: bool = False
    refused: str = ""


FAULTS = {
    "noise halved": Fault(
        target="dpgnn.training.dp_sgd", attribute="add_noise", plant=less_noise(0.5),
        request=dp_mlp, noticed=fails("noise deviation"), claim_test=True,
    ),
    "noise over sqrt 2": Fault(
        target="dpgnn.training.dp_sgd", attribute="add_noise", plant=less_noise(0.5**0.5),
        request=dp_mlp, noticed=fails("noise deviation"),
    ),
    "clipping off": Fault(
        target="dpgnn.training.compiled:CompiledEngine", attribute="add_clipped_sum",
        plant=no_clipping, request=dp_mlp, noticed=fails("clipping"), claim_test=True,
    ),
    "occurrence cap off": Fault(
        target="dpgnn.samplers.own_list", attribute="top_k_slots", plant=no_cap,
        request=dp_gnn, noticed=fails("changed roots"), refused="hold every node at most",
    ),
    "N(K, r) missing": Fault(
        target="dpgnn.samplers.own_list", attribute="occurrence_bound", plant=lambda _: lambda k, r: 1,
        request=dp_gnn, noticed=fails("changed roots"), claim_test=True,
        refused="hold every node at most",
    ),
    "batch with replacement": Fault(
        target="dpgnn.samplers.batches:PoissonBatches", attribute="draw", plant=with_replacement,
        request=dp_mlp_in_batches, noticed=fails("batch without replacement"),
    ),
    "batches of one size": Fault(
        target="dpgnn.samplers.batches:PoissonBatches", attribute="draw", plant=one_size,
        request=dp_mlp_in_few_runs, noticed=fails("spread of batch sizes"),
    ),
    "roots taken in turn": Fault(
        target="dpgnn.samplers.batches:PoissonBatches", attribute="draw", plant=in_turn,
        request=dp_mlp_in_few_runs, noticed=fails("fresh batches"),
    ),
    "same roots in every step": Fault(
        target="dpgnn.samplers.batches:PoissonBatches", attribute="draw", plant=the_last,
        request=dp_mlp_in_few_runs, noticed=fails("share of every root"),
    ),
    "classes balanced by private counts": Fault(
        target="dpgnn.training.gradients:RootGradients", attribute="__call__", plant=balanced_classes,
        request=dp_mlp_replaced, noticed=fails("changed roots"),
    ),
    "noise reused": Fault(
        target="dpgnn.training.dp_sgd", attribute="add_noise", plant=same_noise,
        request=dp_mlp, noticed=fails("fresh noise"),
    ),
    "divisor of the realised batch": Fault(
        target="dpgnn.training.dp_sgd", attribute="add_noise", plant=realised_divisor,
        request=dp_mlp_in_batches, noticed=fails("noise of every step"),
    ),
    "hub not capped": Fault(
        target="dpgnn.methods.shared.aggregate_bounds", attribute="own_list_edges", plant=hub_is_kept,
        request=gap, noticed=rejected, claim_test=True,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Any:
    forget()
    yield
    PATCH.undo()
    forget()


@functools.cache
def correct(request: Callable[[], AuditRequest]) -> tuple[Finding, ...]:
    """What an audit finds of the code as it is; several faults are planted in the same audit."""
    return audit(request())


@pytest.mark.parametrize("name", sorted(FAULTS))
def test_the_planted_fault_is_caught_and_the_correct_system_is_not_accused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = FAULTS[name]
    found = correct(fault.request)
    assert all(f.passed for f in found), [f for f in found if not f.passed]
    forget()
    module, _, owner = fault.target.partition(":")
    home = importlib.import_module(module)
    home = getattr(home, owner) if owner else home
    planted, called = fault.plant(getattr(home, fault.attribute)), []

    def counted(*arguments: Any, **keys: Any) -> Any:
        called.append(name)
        return planted(*arguments, **keys)

    monkeypatch.setattr(home, fault.attribute, counted)
    if fault.refused:
        with pytest.raises(ValueError, match=fault.refused):
            audit(fault.request())
        monkeypatch.setattr("dpgnn.samplers.subgraphs.Subgraphs.check", lambda self, size: self)
        # the reader of the prepared sample checks it too
        forget()
    findings = audit(fault.request())
    assert called, f"{fault.target}.{fault.attribute} is not used any more"
    assert any(fault.noticed(f) for f in findings), findings
    if fault.claim_test:
        assert any(rejected(f) for f in findings), [f.verdict for f in findings]


def test_noise_per_group_counted_as_joint_is_refused_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from dpgnn.training import noise

    asked = dp_gnn(options={"noise": "scaled", "clipping": "group"})
    assert all(f.passed for f in audit(asked))
    forget()
    called = []

    def per_group(clipping: Any, stddev: float) -> Any:
        called.append(1)
        multiplier = stddev / clipping.total_norm
        return noise.Noise(
            stddev={part: multiplier * norm for part, norm in clipping.norms.items()}
        )

    monkeypatch.setattr(noise, "scaled_noise", per_group)
    with pytest.raises(ValueError, match="noise over clipping norm must be the planned"):
        audit(asked)
    assert called

"""What a fit really draws is what its plan's events count."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from helpers import planned_run, two_community_graph

from dpgnn import methods
from dpgnn.accountants.events import FixedSizeRoots, PoissonRoots, parts
from dpgnn.accountants.plan import Budget, Ledger
from dpgnn.core import config as strict
from dpgnn.core.randomness import Streams
from dpgnn.core.storage import Store
from dpgnn.data.splits import Split
from dpgnn.methods.base import Context, Entry, facts_of
from dpgnn.methods.caribou import fit as caribou_fit
from dpgnn.methods.dpdgc import fit as dpdgc_fit
from dpgnn.methods.gap import fit as gap_fit
from dpgnn.methods.shared import edge_level
from dpgnn.methods.shared.aggregate import symmetric_operator
from dpgnn.methods.shared.edge_level import normal_draw
from dpgnn.methods.shared.undirected import adjacency_of

GRAPH = two_community_graph()
ORDER = np.random.default_rng(1).permutation(GRAPH.num_nodes)
PARTS = [np.sort(part) for part in np.split(ORDER, [30, 45])]
SPLIT = Split(train_idx=PARTS[0], val_idx=PARTS[1], test_idx=PARTS[2], inductive=False)
HEAD = {"hidden": 4}
EDGE_HEAD = HEAD | {"encoder_training": {"num_epochs": 2}, "training": {"num_epochs": 2}}
STAGES = {"max_degree": 30, "encoder": {"batch_size": 10, "num_epochs": 1},
          "head": {"batch_size": 10, "num_epochs": 1}}  # fmt: skip
TRAINING = {"num_steps": 3, "expected_batch_size": 10}


def fitted(
    method: str, unit: str, relation: str, options: dict[str, Any], streams: Any = None
) -> Any:
    """(plan, fit) of a sound entry on the toy graph."""
    known = methods.get(method)
    entry = Entry(
        name="e", method=method, mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(known.config, options),
    )  # fmt: skip
    known.check_entry(entry, "entries.e")
    spec, prepared = known.sampler(entry), None
    if spec is not None:
        assert known.prepare is not None
        prepared = known.prepare(GRAPH, SPLIT, spec, np.random.default_rng(0))
    plan = known.plan(entry, facts_of(GRAPH, SPLIT, prepared), Budget(epsilon=6.0, delta=1e-3))
    context = Context(
        ledger=Ledger(plan),
        streams=streams or Streams(root_seed=0, axes={"r": 0}),
        store=Store(None),
    )
    return plan, known.fit(planned_run(entry, GRAPH, SPLIT, prepared, plan, context))


class Scales:
    """A generator that remembers the scales of its Gumbel and Laplace draws."""

    def __init__(self, real: np.random.Generator, seen: dict[str, set[float]]) -> None:
        self._real, self._seen = real, seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def gumbel(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        self._seen.setdefault("gumbel", set()).add(float(scale))
        return self._real.gumbel(loc, scale, size)

    def laplace(self, loc: float = 0.0, scale: float = 1.0, size: Any = None) -> Any:
        self._seen.setdefault("laplace", set()).add(float(scale))
        return self._real.laplace(loc, scale, size)


class Watched(Streams):
    """Streams whose Gumbel and Laplace draws are remembered in `SEEN`."""

    def numpy(self, stream: str, **extra: Any) -> Any:
        real = super().numpy(stream, **extra)
        return Scales(real, SEEN) if stream in ("gumbel", "laplace") else real


SEEN: dict[str, set[float]] = {}
QUANTILES = {"width": 4, "max_degree": 2, "clipping": "group", "thresholds": "private-quantile",
             "quantile_epsilon": 2.0, "training": TRAINING}  # fmt: skip
DPAR = {"width": 4, "batch_size": 8, "num_steps": 3, "num_vectors": 6, "subsample_rate": 0.9}


@pytest.mark.parametrize(
    ("method", "unit", "relation", "options"),
    [
        ("lapgraph", "edge", "add-remove", {"gcn": {"training": {"num_epochs": 1}}}),
        ("pertgraph", "edge", "add-remove", {"head": {"hidden": 4, "training": {"num_epochs": 1}}}),
        ("dpar", "node", "replace-one", DPAR | {"rows": "em0"}),
        ("dpar", "node", "replace-one", DPAR | {"rows": "em1"}),
        ("dp_gnn", "node-record", "add-remove", QUANTILES),
    ],
)
def test_gumbel_and_laplace_noise_have_the_planned_scales(
    method: str, unit: str, relation: str, options: dict[str, Any]
) -> None:
    SEEN.clear()
    plan, _ = fitted(method, unit, relation, options, Watched(root_seed=0, axes={"r": 0}))
    planned = sorted(
        event.scale
        for m in plan.mechanisms
        for event, _ in parts(m.event)
        if hasattr(event, "scale")
    )
    drawn = sorted(scale for kind in SEEN.values() for scale in kind)
    assert drawn == pytest.approx(sorted(set(planned)))
    assert planned


def test_gaussian_page_rank_rows_have_the_planned_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpgnn.methods.dpar import rows as _dpar_rows

    seen, real = [], _dpar_rows.select_gaussian

    def spy(exact: Any, norm: float, noise: float, k: int, **named: Any) -> Any:
        seen.append((norm, noise))
        return real(exact, norm, noise, k, **named)

    monkeypatch.setattr(_dpar_rows, "select_gaussian", spy)
    plan, _ = fitted("dpar", "node", "replace-one", DPAR | {"rows": "gm"})
    ((event, _),) = parts(plan.mechanism("perturb").event)
    ((norm, noise),) = seen
    assert noise == event.noise_stddev
    assert event.sensitivity == pytest.approx(np.sqrt(2) * norm)


@pytest.mark.parametrize("method", ["gap", "caribou"])
@pytest.mark.parametrize(
    ("unit", "relation"), [("edge", "add-remove"), ("node-bounded", "null-one")]
)
def test_every_hop_gets_fresh_noise_of_the_planned_deviation(
    method: str, unit: str, relation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, name = {
        "gap": (gap_fit, "noisy_sums"),
        "caribou": (caribou_fit, "contractive_iteration"),
    }[method]
    seen, real = [], getattr(home, name)

    def spy(*arguments: Any, **named: Any) -> Any:
        seen.append(named)
        return real(*arguments, **named)

    monkeypatch.setattr(home, name, spy)
    options = {"num_hops": 3, "head": EDGE_HEAD if unit == "edge" else HEAD, "node": STAGES}
    plan, _ = fitted(method, unit, relation, options)
    (call,) = seen
    ((event, _),) = parts(plan.mechanism("aggregate").event)
    assert call["noise_stddev"] == plan.mechanism("aggregate").noise_stddev == event.noise_stddev
    draws = np.stack([call["draw"](hop, (200, 5)) for hop in (1, 2, 3)])
    assert np.abs(np.corrcoef(draws.reshape(3, -1)) - np.eye(3)).max() < 5 / np.sqrt(1000)
    assert draws.std() == pytest.approx(1.0, abs=0.1)


def test_stages_of_one_run_do_not_share_their_noise() -> None:
    streams = Streams(root_seed=0, axes={"r": 0})
    context = Context(ledger=Ledger(plan=None), streams=streams, store=Store(None))  # type: ignore[arg-type]
    first, second = (normal_draw(context, stage)(1, (100, 10)) for stage in ("aggregate", "other"))
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / np.sqrt(1000)


def test_padding_that_lowered_the_noise_is_what_is_aggregated_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen, real = [], caribou_fit.contractive_iteration

    def spy(layer: Any, operator: Any, *rest: Any, **named: Any) -> Any:
        seen.append((layer, operator))
        return real(layer, operator, *rest, **named)

    monkeypatch.setattr(caribou_fit, "contractive_iteration", spy)
    options = {"head": EDGE_HEAD, "padding": 8, "contraction": 0.7, "alpha1": 0.6}
    plan, _ = fitted("caribou", "edge", "add-remove", options)
    ((layer, operator),) = seen
    expected = symmetric_operator(adjacency_of(GRAPH), padding=8)
    assert abs(operator - expected).max() < 1e-12
    ((event, _),) = parts(plan.mechanism("aggregate").event)
    assert (layer.contraction, layer.alpha1) == (event.contraction, 0.6)
    assert event.sensitivity == pytest.approx(0.7 * 0.6 * 2 * np.sqrt(2) / 8)


def test_dpdgc_releases_its_sums_with_the_planned_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        edge_level, "normal_draw", lambda context, stage: lambda step, shape: np.ones(shape)
    )
    options = {"head": HEAD | {"training": {"num_epochs": 1}}, "norm_scale": 2.0, "node": STAGES}
    plan, fit = fitted("dpdgc", "edge", "add-remove", options)
    config = strict.read(methods.get("dpdgc").config, options)
    sums = dpdgc_fit.embedding_sums(config, adjacency_of(GRAPH), fit.state["encoder.weight"])
    noise = fit.state["noisy_state"].numpy() * 2.0 - sums
    ((event, _),) = parts(plan.mechanism("aggregate").event)
    np.testing.assert_allclose(noise, event.noise_stddev, rtol=1e-4)


ROOTS = [
    ("dp_mlp", "node", "add-remove", {"width": 4, "training": TRAINING}),
    ("dp_gnn", "node-record", "add-remove", {"width": 4, "max_degree": 2, "training": TRAINING}),
    ("drw", "node-features", "replace-one", {"width": 4, "batch_size": 6, "num_steps": 3,
                                             "noise_multiplier": None}),
    ("drw", "node-features", "replace-one", {"width": 4, "batch_size": 6, "num_steps": 3,
                                             "noise_multiplier": None, "batches": "poisson"}),
    ("drw", "node-features", "replace-one", {"width": 4, "batch_size": 6, "num_steps": 3,
                                             "noise_multiplier": None, "resample_every": 1}),
    ("drw", "node-record", "add-remove", {"width": 4, "batch_size": 6, "num_steps": 3,
                                          "noise_multiplier": None, "batches": "poisson"}),
    ("dpar", "node", "replace-one", DPAR | {"rows": "none"}),
    ("gap", "node-bounded", "null-one", {"num_hops": 1, "head": HEAD, "node": STAGES}),
    ("dpdgc", "node-record", "add-remove", {"head": HEAD, "node": STAGES}),
]  # fmt: skip


@pytest.mark.parametrize(("method", "unit", "relation", "options"), ROOTS)
def test_the_loop_that_runs_is_the_one_that_is_counted(
    method: str, unit: str, relation: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise, clipping norm, law of batches and steps of the loop, against the event of its mechanism."""
    from dpgnn.training import dp_sgd

    seen: dict[str, Any] = {}
    real = dp_sgd.train

    def spy(spec: Any, *arguments: Any, **named: Any) -> Any:
        sizes = []
        draw = type(spec.batches).draw

        class Counted:
            def __getattr__(self, name: str) -> Any:
                return getattr(spec.batches, name)

            def draw(self, *, rng: Any) -> Any:
                drawn = draw(spec.batches, rng=rng)
                # the same law often, from draws of its own
                more = [draw(spec.batches, rng=np.random.default_rng(i)) for i in range(200)]
                sizes.append((len(drawn), spec.batches.num_roots, [len(m) for m in more]))
                return drawn

        found = real(dataclasses.replace(spec, batches=Counted()), *arguments, **named)
        seen[named.get("stage", "train")] = (spec, sizes)
        return found

    monkeypatch.setattr(dp_sgd, "train", spy)
    plan, _ = fitted(method, unit, relation, options)
    trainings = [m for m in plan.mechanisms if m.clipping_norm is not None]
    assert set(seen) == {m.name for m in trainings}
    for mechanism in trainings:
        ((event, count),) = parts(mechanism.event)
        spec, sizes = seen[mechanism.name]
        wanted = event.noise_stddev / event.clipping_norm
        assert spec.noise.multiplier(spec.clipping) == pytest.approx(wanted)
        assert spec.clipping.total_norm == pytest.approx(event.clipping_norm)
        assert spec.num_steps == len(sizes) == count
        for size, num_roots, more in sizes:
            if isinstance(event, FixedSizeRoots):
                assert {size, *more} == {event.batch_size}
                assert num_roots >= event.population
            else:
                assert isinstance(event, PoissonRoots)
                rate = event.sampling_probability
                spread = np.sqrt(rate * (1 - rate) / (200 * num_roots))
                assert abs(np.mean(more) / num_roots - rate) <= 5 * spread + 1e-12

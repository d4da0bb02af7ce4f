"""What a plan executes is what its events count, and what must be secret comes from secret streams."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from contract import PRIVATE, inputs_of, planned

from dpgnn.accountants import calibration
from dpgnn.accountants.events import (
    BestOf,
    ContractiveIteration,
    FixedSizeRoots,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    RandomizedResponse,
    parts,
)
from dpgnn.core.randomness import SECRET_STREAMS, Streams
from dpgnn.methods.base import Support
from dpgnn.run.execute import run_one

# streams that a proof does not need secret; a new name must be thought about, so it is not here by itself
PUBLIC_STREAMS = {"weights", "dropout", "sampler", "column-cap", "random-rows", "resample"}
SECRET_OF = {
    PoissonRoots: {"batches", "noise"}, FixedSizeRoots: {"batches", "noise"},
    GaussianRelease: {"noise"}, ContractiveIteration: {"noise"}, GumbelTopK: {"gumbel"},
    LaplaceRelease: {"laplace"}, RandomizedResponse: {"response"},
}  # fmt: skip
DEVIATION = {GumbelTopK: math.pi / math.sqrt(6), LaplaceRelease: math.sqrt(2)}
SOUND = [case for case in PRIVATE if case.values[1] == "sound"]


@pytest.mark.parametrize(("name", "mode", "support"), SOUND)
def test_what_the_plan_executes_spends_no_more_than_it_claims(
    name: str, mode: Any, support: Support
) -> None:
    _, _, plan = planned(name, mode, support)
    claim = plan.claims[0]
    # a pure claim is tested at a small delta, on a grid of losses that rounds up
    delta, slack = (claim.delta, 1e-9) if claim.delta else (1e-9, 1e-3)
    for whole in plan.composed():
        spent = calibration.epsilon(whole, delta=delta, relation=claim.relation)
        assert spent <= claim.epsilon * (1 + slack) + slack


@pytest.mark.parametrize(("name", "mode", "support"), SOUND)
def test_what_is_executed_has_the_noise_and_steps_of_its_event(
    name: str, mode: Any, support: Support
) -> None:
    _, _, plan = planned(name, mode, support)
    for mechanism in plan.mechanisms:
        ((event, count),) = parts(mechanism.event)
        if isinstance(event, (RandomizedResponse, BestOf)):
            continue
        scale = getattr(event, "noise_stddev", None) or getattr(event, "scale", None)
        deviation = scale * DEVIATION.get(type(event), 1.0)
        assert mechanism.noise_stddev == pytest.approx(deviation, rel=1e-9), mechanism.name
        if type(event) in DEVIATION:
            assert mechanism.details["scale"] == scale
        if isinstance(event, PoissonRoots):
            assert (mechanism.clipping_norm, mechanism.num_steps) == (event.clipping_norm, count)
            shift = event.clipping_norm * (event.d_plus + event.d_minus)
            assert mechanism.sensitivity == pytest.approx(shift)


def secrets_of(whole: Any) -> set[str]:
    """Streams that the parts of an event, and runs among which is chosen, need secret."""
    needed: set[str] = set()
    for event, _ in parts(whole):
        runs = event.runs if isinstance(event, BestOf) else ()
        needed |= {"selection"} if runs else SECRET_OF[type(event)]
        # one run may be of any candidate
        needed |= set.intersection(*(secrets_of(run) for run in runs)) if runs else set()
    return needed


@pytest.mark.parametrize(("name", "mode", "support"), SOUND)
def test_a_release_draws_from_secret_streams_all_that_its_events_need_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: Any, support: Support
) -> None:
    entry, _, plan = planned(name, mode, support)
    drawn = set()

    def spied(real: Any) -> Any:
        def draw(self: Streams, stream: str, **extra: Any) -> Any:
            drawn.add(stream.split("/")[0])
            return real(self, stream, **extra)

        return draw

    for kind in ("numpy", "torch"):
        monkeypatch.setattr(Streams, kind, spied(getattr(Streams, kind)))
    run_one(inputs_of(entry, randomness="release"), tmp_path, work=None)
    needed = set()
    for mechanism in plan.mechanisms:
        needed |= secrets_of(mechanism.event)
    if (
        getattr(entry.options, "training", None) is not None
        and getattr(entry.options.training, "expected_batch_size", None) == "full"
    ):
        needed.discard("batches")
    assert needed <= drawn & set(SECRET_STREAMS)
    assert drawn - set(SECRET_STREAMS) <= PUBLIC_STREAMS

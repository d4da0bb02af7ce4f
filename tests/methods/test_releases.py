from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from contract import GRAPH, PRIVATE, SPLIT, entry_of, inputs_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn import methods
from dpgnn.accountants.claims import Claim, in_words
from dpgnn.accountants.events import Event, LaplaceRelease
from dpgnn.accountants.plan import Ledger, Mechanism, Plan
from dpgnn.core.randomness import Streams
from dpgnn.core.rounded_noise import grid_of
from dpgnn.methods import releases
from dpgnn.methods.base import Performance, Support, facts_of
from dpgnn.methods.releases import RoundedDraw, noised, rounding_of, summable
from dpgnn.methods.shared.aggregate import symmetric_operator, unit_rows
from dpgnn.records.schema import read_record
from dpgnn.run.execute import run_one
from dpgnn.run.plan import propose, release_arithmetic, with_caveats
from dpgnn.run.specification import specify


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_rows=st.integers(1, 40),
    width=st.integers(1, 6),
    norm=st.floats(1e-6, 1e6),
)
def test_sums_of_cut_rows_are_exact_and_rows_no_longer_than_their_norm(seed, num_rows, width, norm):
    rng = np.random.default_rng(seed)
    rows = norm * unit_rows(rng.standard_normal((num_rows, width)))
    cut = summable(rows, num_rows, norm)
    for row in cut:
        assert sum(Fraction(value) ** 2 for value in row.tolist()) <= Fraction(norm) ** 2
    exact = [sum(map(Fraction, column), Fraction(0)) for column in cut.T.tolist()]
    # in any order the sum in float64 is the exact one, so nothing of the order shows
    for order in (np.arange(num_rows), rng.permutation(num_rows)):
        total = np.zeros(width)
        for row in cut[order]:
            total += row
        assert [Fraction(value) for value in total.tolist()] == exact
    assert np.abs(cut - rows).max() <= 2.0**-28 * norm


@pytest.mark.parametrize("num_nodes", [10, 120])
def test_a_layer_in_float64_is_within_its_bound_of_the_real_one(num_nodes):
    import mpmath
    import scipy.sparse as sp

    rng = np.random.default_rng(num_nodes)
    dense = np.triu(rng.random((num_nodes, num_nodes)) < 0.2, 1)
    adjacency = sp.csr_array((dense | dense.T).astype(np.float64))
    x = unit_rows(rng.standard_normal((num_nodes, 3)))
    found = symmetric_operator(adjacency) @ x
    degree = adjacency.sum(axis=1) + 1
    with mpmath.workprec(120):
        root = [1 / mpmath.sqrt(int(d)) for d in degree]
        error = mpmath.mpf(0)
        for v in range(num_nodes):
            own = [*np.flatnonzero(adjacency[[v]].toarray()[0]), v]
            for j in range(3):
                real = sum(root[v] * root[u] * mpmath.mpf(float(x[u, j])) for u in own)
                error += (real - mpmath.mpf(float(found[v, j]))) ** 2
        assert 2 * mpmath.sqrt(error) < rounding_of(x.shape) / 2


def test_the_deviation_of_a_rounded_draw_covers_the_rounding_of_its_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = entry_of("gap", "sound", Support(privacy_unit="edge", relation="add-remove"))
    plan = propose(specify(inputs_of(entry, randomness="release")), facts_of(GRAPH, SPLIT, None))
    (mechanism,) = plan.mechanisms
    streams = Streams(root_seed=0, axes={}, randomness="release")
    draw = RoundedDraw(streams=streams, ledger=Ledger(plan), stage=mechanism.name)
    scales = []

    def spy(value, scale, *, rng):
        scales.append(scale)
        return value

    monkeypatch.setattr(releases, "add_rounded", spy)
    draw.add_to(np.zeros((1000, 8)), mechanism.noise_stddev, 1)
    share = rounding_of((1000, 8)) / mechanism.sensitivity
    assert scales[0] >= mechanism.noise_stddev * (1 + share) > mechanism.noise_stddev


EXACT_SUMS = [
    case
    for case in PRIVATE
    if case.values[0] in ("gap", "dpdgc", "votes") and case.values[1] == "sound"
]


@pytest.mark.parametrize(("name", "mode", "support"), EXACT_SUMS)
def test_what_gets_noise_in_a_release_is_a_sum_that_float64_holds_exactly(
    tmp_path, name, mode, support
):
    """Entries are whole multiples of what the rows of the toy graph's 60 nodes are cut to."""
    entered = []

    def spy(value, *arguments, **named):
        entered.append(np.array(value))
        return noised.function(value, *arguments, **named)

    with noised.answered_by(spy):
        run_one(
            inputs_of(entry_of(name, mode, support), randomness="release"),
            tmp_path, work=tmp_path / "work",
        )  # fmt: skip
    assert entered
    for value in entered:
        steps = value * 2.0**47
        assert np.array_equal(steps, np.rint(steps))
        assert np.abs(value).max() > 0


def test_noise_of_a_release_is_on_the_grid_and_larger_by_the_rounding_it_pays_for() -> None:
    entry = entry_of("gap", "sound", Support(privacy_unit="edge", relation="add-remove"))
    plan = propose(specify(inputs_of(entry, randomness="release")), facts_of(GRAPH, SPLIT, None))
    draw = RoundedDraw(
        streams=Streams(root_seed=0, axes={}, randomness="release"),
        ledger=Ledger(plan),
        stage="aggregate",
    )
    value = np.full((3000, 2), 0.1)
    released = noised(value, 3.0, draw)
    step = float(grid_of(3.0))
    assert np.array_equal(released, np.rint(released / step) * step)
    assert (released - value).std() == pytest.approx(3.0, rel=0.05)
    assert not np.array_equal(released, noised(value, 3.0, draw))


@pytest.mark.parametrize("name", ["gap", "dp_mlp", "edgerand", "lapgraph"])
def test_claims_of_studies_say_that_floating_point_is_not_covered(name):
    inputs = inputs_of(entry_of(name, "sound", methods.get(name).supports[0]))
    run, facts = specify(inputs), facts_of(GRAPH, SPLIT, inputs.prepared)
    plan: Plan = with_caveats(propose(run, facts), run, facts)
    assert {claim.arithmetic for claim in plan.claims} == {"float-caveat"}


def test_an_event_that_no_release_draws_exactly_keeps_the_caveat() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Other(Event[Any]):
        """An event that theorem 16 says nothing of."""

    known: Any = LaplaceRelease(relation="add-remove", scale=1.0, sensitivity=1.0)
    claim = Claim(
        privacy_unit="edge", relation="add-remove", epsilon=1.0, delta=0.0, accountant="pure",
        status="proved",
    )  # fmt: skip

    def plan_with(*events: Event[Any]) -> Plan:
        return Plan(
            mechanisms=tuple(
                Mechanism(name=f"m{i}", event=event, noise_stddev=1.0, sensitivity=1.0)
                for i, event in enumerate(events)
            ),
            claims=(claim,),
        )

    assert release_arithmetic(plan_with(known)) == "real"
    assert release_arithmetic(plan_with(known, Other(relation="add-remove"))) == "float-caveat"


@pytest.mark.parametrize(
    ("device", "stated"), [("cpu", "rounded-sums"), ("cuda", "rounded-sums-assumed")]
)
def test_the_claim_of_a_release_from_a_gpu_says_what_is_assumed(device: str, stated: str) -> None:
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    for randomness in ("release", "study"):
        inputs = inputs_of(entry, randomness=randomness, performance=Performance(device=device))
        run, facts = specify(inputs), facts_of(GRAPH, SPLIT, None)
        (claim, *_) = with_caveats(propose(run, facts), run, facts).claims
        assert claim.arithmetic == (stated if randomness == "release" else "float-caveat")
        assert ("is assumed of the GPU" in in_words(claim)) == (
            claim.arithmetic == "rounded-sums-assumed"
        )
    # cells and their number are counted on the CPU
    cells = entry_of("lapgraph", "sound", Support(privacy_unit="edge", relation="add-remove"))
    run = specify(inputs_of(cells, randomness="release", performance=Performance(device=device)))
    (claim, *_) = with_caveats(propose(run, facts), run, facts).claims
    assert claim.arithmetic == "real"


class WholeNumbers:
    """A generator that gives uniform bits, coins and choices, and no law of floating point."""

    ALLOWED = frozenset({"integers", "random", "choice", "permutation", "bit_generator"})

    def __init__(self, real: np.random.Generator) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        assert name in self.ALLOWED, f"a release drew {name}"
        return getattr(self._real, name)


# what is released is made of 0/1 cells and their number alone
CELLS_ALONE = {"edgerand", "lapgraph", "lpgnet", "pertgraph"}
# one relation for every method, mode and unit
ONCE = {(c.values[0], c.values[1], c.values[2].privacy_unit): c for c in reversed(PRIVATE)}


@pytest.mark.parametrize(
    ("name", "mode", "support", "options"),
    [
        *(pytest.param(*case.values, {}, id=case.id) for case in ONCE.values()),
        *(
            pytest.param("dpar", "sound", Support(privacy_unit="node", relation="replace-one"),
                         {"rows": rows}, id=f"dpar sound {rows}")
            for rows in ("em0", "em1", "gm")
        ),
    ],
)  # fmt: skip
def test_a_release_draws_by_no_law_of_floating_point_and_its_claims_say_so(
    tmp_path, monkeypatch, name, mode, support, options
):
    entry, drawn, real = entry_of(name, mode, support), set(), Streams.numpy
    entry = dataclasses.replace(entry, options=dataclasses.replace(entry.options, **options))

    def numpy(self: Streams, stream: str, **extra: Any) -> Any:
        if not self.is_secret(stream):
            return real(self, stream, **extra)
        drawn.add(stream)
        return WholeNumbers(real(self, stream, **extra))

    monkeypatch.setattr(Streams, "numpy", numpy)
    run_one(inputs_of(entry, randomness="release"), tmp_path, work=None)
    assert drawn
    expected = "real" if name in CELLS_ALONE else "rounded-sums"
    for claim in read_record(tmp_path / "record.json").claims:
        assert claim["arithmetic"] == (expected if claim["status"] == "proved" else "float-caveat")
        assert "float-arithmetic" not in claim["caveats"]

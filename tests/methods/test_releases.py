from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from contract import GRAPH, SPLIT, entry_of, inputs_of
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgnn import methods
from dpgnn.accountants.plan import Ledger, Plan
from dpgnn.core.randomness import Streams
from dpgnn.core.rounded_noise import grid_of
from dpgnn.methods.base import Support, facts_of
from dpgnn.methods.releases import RoundedDraw, noised, rounding_of, summable
from dpgnn.methods.shared.aggregate import symmetric_operator, unit_rows
from dpgnn.run.plan import propose, with_caveats
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


@pytest.mark.parametrize(
    ("method", "arithmetic"),
    [("gap", "rounded-sums"), ("dp_mlp", "rounded-sums"), ("votes", "rounded-sums"),
     ("edgerand", "float-caveat"), ("lapgraph", "float-caveat")],
)  # fmt: skip
@pytest.mark.parametrize("randomness", ["study", "release"])
def test_claims_of_releases_on_the_grid_say_so(method, arithmetic, randomness):
    entry = entry_of(method, "sound", methods.get(method).supports[0])
    inputs = inputs_of(entry, randomness=randomness)
    run, facts = specify(inputs), facts_of(GRAPH, SPLIT, inputs.prepared)
    plan: Plan = with_caveats(propose(run, facts), run, facts)
    expected = arithmetic if randomness == "release" else "float-caveat"
    assert {claim.arithmetic for claim in plan.claims if claim.status == "proved"} == {expected}

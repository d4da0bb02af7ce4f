"""Every mechanism of every method stays within its event on the neighbours of a small graph."""

from __future__ import annotations

from typing import Any

import pytest
from contract import DELTA, EPSILON, GRAPH, PRIVATE, SPLIT, entry_of, inputs_of
from exhaustive.method_neighbours import examine_method

from dpgnn import methods
from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Entry, Support, facts_of

# what a caveat of a published claim breaks on a small graph: fault -> caveats that say so
FAULTS_OF_CAVEATS = {
    "changed roots": {"sampler-ripple", "undirected-edges"},
    "shift of the clipped sum": {"sampler-ripple", "undirected-edges", "clip-thresholds-from-data"},
    "clipping norm or divisor depends on the data": {"clip-thresholds-from-data"},
    "a gradient depends on other roots": {"clip-thresholds-from-data"},
    "the sum over a batch is not that of its roots one by one": {"batch-padding", "dedupe-order"},
    "number of roots": {"population-changes", "output-universe"},
    "the fit refuses a neighbour": {"population-changes", "output-universe"},
    "shift of the release": {
        "directed-sensitivity", "two-directions-perturbed", "density-noise-scale", "appr-sensitivity",
        "node-sensitivity", "normalization-not-applied", "degree-bound-unstable", "output-universe",
    },
}  # fmt: skip
# caveats that a graph of 12 nodes must show wherever they stand
ALWAYS_SHOWN = {
    "sampler-ripple", "clip-thresholds-from-data", "directed-sensitivity",
    "two-directions-perturbed", "density-noise-scale",
}  # fmt: skip
# of the 66 pairs of an edge unit, and of the lists of replaced nodes; half of the pairs are edges
SOME_EDGES, SOME_NEIGHBOURS = 20, 12


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_mechanism_stays_within_its_event_on_neighbours_of_a_small_graph(
    name: str, mode: Any, support: Support
) -> None:
    entry = entry_of(name, mode, support)
    number: int | None = SOME_EDGES if support.privacy_unit == "edge" else None
    if mode == "published" or support.relation == "replace-one":
        number = SOME_NEIGHBOURS
    _neighbours_are_within_the_claim(entry, number)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "mode", "support"),
    [c for c in PRIVATE if c.values[1] == "sound" and c.values[2].privacy_unit == "edge"],
)
def test_every_mechanism_stays_within_its_event_on_all_pairs_of_a_small_graph(
    name: str, mode: Any, support: Support
) -> None:
    _neighbours_are_within_the_claim(entry_of(name, mode, support), None)


def _neighbours_are_within_the_claim(entry: Entry, max_neighbours: int | None) -> None:
    """No fault in a sound entry; in a published one only what its caveats name, and all that must show."""
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    reports = examine_method(entry, budget, max_neighbours=max_neighbours)
    assert reports, "a private entry has mechanisms"
    faults = [(report.mechanism, fault) for report in reports for fault in report.faults]
    assert all(report.num_neighbours >= 10 for report in reports)
    if entry.mode == "sound":
        assert not faults
        return
    plan = methods.get(entry.method).plan(
        entry, facts_of(GRAPH, SPLIT, inputs_of(entry).prepared), budget
    )
    caveats = set(plan.claims[0].caveats)
    for mechanism, fault in faults:
        assert caveats & FAULTS_OF_CAVEATS[fault.partition(":")[0]], (mechanism, fault, caveats)
    if caveats & ALWAYS_SHOWN:
        assert faults, f"the claim's caveats {sorted(caveats & ALWAYS_SHOWN)} do not show"

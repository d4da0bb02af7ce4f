"""Each variant that the proof refuses, planted in the running code, fails the audit of neighbours.

The audit runs the method's own fit on all neighbours of a small directed graph.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contract import DELTA, EPSILON, entry_of
from exhaustive.method_neighbours import MechanismReport, examine_method
from exhaustive.worlds import World, make_world

from dpgnn.accountants.plan import Budget
from dpgnn.methods.base import Support
from dpgnn.methods.votes import fit as votes_fit

SIZE, NUM_TRAIN = 12, 9
RELATIONS = ("add-remove", "null-one", "replace-one")


def directed_world() -> World:
    """A hub, an empty list (node 3), mutual mentions and mentions that go one way only."""
    rng = np.random.default_rng(4)
    arcs = rng.integers(SIZE, size=(2, 36))
    hub = np.stack([np.zeros(SIZE - 1, np.int64), np.arange(1, SIZE)])
    arcs = np.concatenate([arcs, arcs[::-1, :6], hub], axis=1)
    return make_world(arcs[:, (arcs[0] != arcs[1]) & (arcs[0] != 3)], SIZE, np.arange(NUM_TRAIN))


def examined(relation: str = "add-remove", **options: Any) -> dict[str, MechanismReport]:
    entry = entry_of("votes", "sound", Support(privacy_unit="node-record", relation=relation))
    entry = dataclasses.replace(entry, options=dataclasses.replace(entry.options, **options))
    number = 40 if relation == "replace-one" else None
    found = examine_method(
        entry, Budget(epsilon=EPSILON, delta=DELTA), world=directed_world(), max_neighbours=number
    )
    return {report.mechanism: report for report in found}


@pytest.mark.parametrize("options", [{}, {"max_pushes": 2}, {"subtract": False}, {"reads": "row"}],
                         ids=str)  # fmt: skip
@pytest.mark.parametrize("relation", RELATIONS)
def test_the_code_as_it_is_passes_and_boards_move_as_far_as_is_counted(
    relation: str, options: dict[str, Any]
) -> None:
    found = examined(relation, **options)
    assert [report.faults for report in found.values()] == [(), (), ()]
    if relation != "replace-one":
        assert found["board"].worst == pytest.approx(1.0)
        assert found["second-board"].worst == pytest.approx(1.0)
    assert found["train"].worst == 1.0


Planted = Callable[[Any], Any]


def _receivers(edge_index: np.ndarray, size: int) -> np.ndarray:
    return np.bincount(edge_index[0], minlength=size)


def divided_by_receivers_degree(real: Any) -> Any:
    def pushed(arcs: np.ndarray, size: int, *rest: Any, **named: Any) -> Any:
        degree = np.maximum(_receivers(arcs, size), 0.25)
        return real(arcs, size, *rest, **named) / np.sqrt(degree)[:, None]

    return pushed


def capped_by_receiver(real: Any) -> Any:
    """A row takes the first two of its mentions only, and who is not taken pushes more elsewhere."""

    def pushed(arcs: np.ndarray, size: int, *rest: Any, **named: Any) -> Any:
        order = np.lexsort(arcs)
        arcs = arcs[:, order]
        first = np.searchsorted(arcs[1], arcs[1])
        return real(arcs[:, np.arange(arcs.shape[1]) - first < 2], size, *rest, **named)

    return pushed


def mutual_edges_only(real: Any) -> Any:
    def pushed(arcs: np.ndarray, size: int, *rest: Any, **named: Any) -> Any:
        mutual = np.isin(arcs[0] * size + arcs[1], arcs[1] * size + arcs[0])
        return real(arcs[:, mutual], size, *rest, **named)

    return pushed


def divided_by_true_number_of_voters(real: Any) -> Any:
    def pushed(arcs: np.ndarray, size: int, voters: np.ndarray, *rest: Any, **named: Any) -> Any:
        count = np.bincount(arcs[1][np.isin(arcs[0], voters)], minlength=size)
        # the mean of votes of norm 1
        votes = rest[0] * np.sqrt(np.maximum(_receivers(arcs, size)[voters], 1))[:, None]
        sums = real(arcs, size, voters, votes, *rest[1:], **named)
        return sums / np.maximum(count, 1)[:, None]

    return pushed


def votes_of_norm_one_a_row(real: Any) -> Any:
    """No division by the voter's own degree."""

    def pushed(arcs: np.ndarray, size: int, voters: np.ndarray, *rest: Any, **named: Any) -> Any:
        votes = rest[0] * np.sqrt(_receivers(arcs, size)[voters])[:, None]
        return real(arcs, size, voters, votes, *rest[1:], **named)

    return pushed


def read_with_others_lists(real: Any) -> Any:
    return lambda arcs, size, nodes: real(arcs[::-1], size, nodes)


def clipped_at_observed_quantile(real: Any) -> Any:
    def clipped(values: np.ndarray, scale: float) -> Any:
        norms = np.linalg.norm(values, axis=-1)
        return real(values, float(np.median(norms)))

    return clipped


def training_nodes_vote_twice(real: Any) -> Any:
    return lambda voters: np.arange(len(voters))


FAULTS: dict[str, tuple[Planted, str, str]] = {
    "the receiver's degree": (divided_by_receivers_degree, "pushed", "board"),
    "a cap by the receiver": (capped_by_receiver, "pushed", "board"),
    "mutual edges": (mutual_edges_only, "pushed", "board"),
    "the true number of voters": (divided_by_true_number_of_voters, "pushed", "board"),
    "no division by the own degree": (votes_of_norm_one_a_row, "pushed", "board"),
    "others' lists": (read_with_others_lists, "own_lists", "train"),
    "an observed quantile": (clipped_at_observed_quantile, "clipped", "train"),
    "second votes of training nodes": (training_nodes_vote_twice, "second_voters", "second-board"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, place, mechanism = FAULTS[name]
    calls = []
    fault = plant(getattr(votes_fit, place))

    def counted(*given: Any, **named: Any) -> Any:
        calls.append(place)
        return fault(*given, **named)

    monkeypatch.setattr(votes_fit, place, counted)
    found = examined()
    assert calls
    assert found[mechanism].faults

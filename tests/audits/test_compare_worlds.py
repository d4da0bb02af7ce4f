"""What mechanisms were handed in two worlds: equal where it must be, and each kind of fault by its name."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_requests import FACTS, FULL, request
from exhaustive.compare_worlds import (
    Observed,
    compare_release,
    compare_sums,
    engine_of,
    engines_keep_features,
    examples_of,
)

from dpgnn.accountants.events import compose, parts
from dpgnn.accountants.plan import Mechanism
from dpgnn.audits.capture import Training
from dpgnn.audits.request import case_of
from dpgnn.methods.releases import Calls, Move, release


@pytest.fixture(scope="module")
def audited() -> tuple[Training, Training, Mechanism]:
    case = case_of(request(options=FULL, facts=FACTS))
    with engines_keep_features():
        sides = (case.training(True, "train"), case.training(False, "train"))
    return *sides, case.plan.mechanism("train")


def seen(training: Training) -> Observed:
    found = Observed()
    found.keep(training, "train")
    return found


def broken(first: Training, second: Training, mechanism: Mechanism) -> list[str]:
    return compare_sums(mechanism, seen(first), seen(second))[2]


def test_one_root_of_one_is_changed_and_the_sum_moves_by_no_more(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, second, mechanism = audited
    share, found, faults = compare_sums(mechanism, seen(first), seen(second))
    assert faults == []
    assert share == 1.0
    assert found.startswith("(1, 0) of (1, 0) roots")


def test_equal_worlds_differ_in_nothing(audited: tuple[Training, Training, Mechanism]) -> None:
    first, _, mechanism = audited
    share, found, faults = compare_sums(mechanism, seen(first), seen(first))
    assert (share, faults) == (0.0, [])
    assert "shift 0 of" in found


def test_the_other_direction_adds_a_root_that_no_event_counts(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, second, mechanism = audited
    assert broken(second, first, mechanism) == ["changed roots"]
    (event, count), *_ = parts(mechanism.event)
    wider = replace(event, d_plus=1, d_minus=1)  # type: ignore[call-arg]
    both = replace(mechanism, event=compose(wider, count))
    assert broken(second, first, both) == broken(first, second, both) == []


def test_a_divisor_or_bound_that_depends_on_the_data_is_named(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, second, mechanism = audited
    other = replace(second, spec=replace(second.spec, divisor=second.spec.divisor + 1))
    assert broken(first, other, mechanism) == ["clipping norm or divisor depends on the data"]


def test_a_mechanism_that_one_world_never_ran_is_not_compared(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, _, mechanism = audited
    assert compare_sums(mechanism, seen(first), Observed()) == (0.0, "", [])


def test_examples_are_bytes_of_what_a_root_reads(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, second, _ = audited
    sides = [examples_of(side) for side in (first, second)]
    assert len(sides[0]) == len(sides[1]) + 1
    assert len(set(sides[0]) - set(sides[1])) == 1


def test_the_engine_is_found_inside_what_wraps_it(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    first, _, _ = audited
    engine = engine_of(first)

    class Wrapped:
        current = engine

    assert engine_of(replace(first, gradients=Wrapped())) is engine
    with pytest.raises(ValueError, match="be RootGradients or hold them"):
        engine_of(replace(first, gradients=object.__new__(type("Bare", (), {}))))


def moved_rows(seen: Calls) -> Move:
    first, second = seen.only
    value = np.linalg.norm(first["rows"] - second["rows"])
    return Move(moved=float(value), allowed=1.0)


@release({"rows": moved_rows})
def noisy_rows(rows: np.ndarray) -> np.ndarray:
    return rows


@pytest.mark.parametrize(
    ("distance", "share", "faults"),
    [(0.0, 0.0, []), (0.5, 0.5, []), (1.0, 1.0, []), (1.1, 1.1, ["shift of the release"])],
)
def test_a_release_may_move_by_what_its_measure_allows(
    audited: tuple[Training, Training, Mechanism], distance: float, share: float, faults: list[str]
) -> None:
    mechanism = replace(audited[2], name="rows")
    sides = (Observed(), Observed())
    for side, shift in zip(sides, (0.0, distance)):
        side.calls[noisy_rows.name].append({"rows": np.array([shift, 0.0])})
    found = compare_release([noisy_rows], mechanism, *sides, where=None)  # type: ignore[arg-type]
    assert found[0] == pytest.approx(share)
    assert found[1] == f"noisy_rows moves {distance:g} of 1"
    assert found[2] == faults


def test_a_release_that_was_not_called_moves_nothing(
    audited: tuple[Training, Training, Mechanism],
) -> None:
    mechanism = replace(audited[2], name="rows")
    nothing = compare_release([noisy_rows], mechanism, Observed(), Observed(), where=None)  # type: ignore[arg-type]
    assert nothing == (0.0, "", [])

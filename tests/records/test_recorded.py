from __future__ import annotations

import json
from typing import Any

import pytest
from contract import DELTA, EPSILON, GRAPH, PRIVATE, SPLIT, entry_of, inputs_of

from dpgnn import methods
from dpgnn.accountants.events import GaussianRelease, compose
from dpgnn.accountants.plan import Budget
from dpgnn.core.storage import canonical_json
from dpgnn.methods.base import Support, facts_of
from dpgnn.records.recorded import event_from, event_of


@pytest.mark.parametrize(("name", "mode", "support"), PRIVATE)
def test_every_event_of_every_method_is_read_again_as_it_was(
    name: str, mode: Any, support: Support
) -> None:
    entry = entry_of(name, mode, support)
    facts = facts_of(GRAPH, SPLIT, inputs_of(entry).prepared)
    plan = methods.get(name).plan(entry, facts, Budget(epsilon=EPSILON, delta=DELTA))
    for mechanism in plan.mechanisms:
        written = json.loads(canonical_json(event_of(mechanism.event)))
        assert event_from(written) == mechanism.event


def test_an_event_of_another_type_or_with_a_wrong_number_is_refused() -> None:
    good = event_of(
        compose(GaussianRelease(relation="add-remove", noise_stddev=1.0, sensitivity=1.0), 3)
    )
    assert event_from(good).parts[0][1] == 3
    with pytest.raises(ValueError, match="event type"):
        event_from(good | {"type": "Event"})
    with pytest.raises(ValueError, match="noise_stddev"):
        event_from(good | {"parts": [[{**good["parts"][0][0], "noise_stddev": -1.0}, 3]]})

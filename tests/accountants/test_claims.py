"""Claims: what they accept, how they read, that they travel."""

import json
import math
from dataclasses import replace
from itertools import product

import pytest

from dpgnn.accountants import claims
from dpgnn.accountants.claims import Claim, from_dict, in_words
from dpgnn.accountants.events import RELATIONS
from dpgnn.core import storage

CLAIM = Claim(
    privacy_unit="node-record", relation="add-remove", epsilon=6.774, delta=1.1e-6,
    accountant="pld", status="proved", assumed_public=("number of training nodes",),
)  # fmt: skip


def test_a_claim_reads_as_sentences():
    words = in_words(CLAIM)
    for part in (
        "(6.774, 1.1e-06)-differential privacy",
        "own edge list of one node",
        "but not that a neighbour's record still mentions it",
        "present in one graph and absent in the other",
        "is proved (accountant: pld)",
        "number of training nodes",
    ):
        assert part in words


def test_every_unit_relation_status_and_selection_has_words():
    for unit, relation in product(claims.PRIVACY_UNITS, RELATIONS):
        if relation not in claims.UNIT_RELATIONS[unit]:
            continue
        bound = 20 if unit == "node-bounded" else None
        for selection in claims._SELECTION_WORDS:
            words = in_words(
                replace(CLAIM, privacy_unit=unit, relation=relation, degree_bound=bound,
                        selection=selection)
            )  # fmt: skip
            assert "{" not in words
            assert ("at most 20" in words) == (unit == "node-bounded")


@pytest.mark.parametrize(
    ("epsilon", "delta", "shown"),
    [
        (1.00049, 1.004e-5, "(1.001, 1.01e-05)"),
        (7.9999999999, 1e-5, "(8, 1e-05)"),  # calibrated to its target from below
        (8.0, 1.1e-6, "(8, 1.1e-06)"),
        (8.000001, 1.0996096e-06, "(8.001, 1.1e-06)"),
        (0.0012341, 0.0, "(0.001235, 0)"),
        (9999.1, 9.991e-5, "(1e+04, 0.0001)"),
        (0.0, 0.1, "(0, 0.1)"),
        (12, 0.002, "(12, 0.002)"),
    ],
)
def test_what_is_shown_is_rounded_up(epsilon, delta, shown):
    words = in_words(replace(CLAIM, epsilon=epsilon, delta=delta))
    assert words.startswith(shown + "-differential privacy")
    numbers = [float(part) for part in shown.strip("()").split(",")]
    assert numbers[0] >= epsilon
    assert numbers[1] >= delta


def test_an_infinite_epsilon_is_an_answer():
    words = in_words(replace(CLAIM, epsilon=math.inf))
    assert words.startswith("No finite epsilon at delta 1.1e-06")
    assert "guarantee is proved" not in words
    assert "proof" not in words


def test_caveats_are_named_with_their_titles():
    claim = replace(CLAIM, status="as-published", caveats=("sampler-ripple",))
    assert "one node changes more roots than the sampler's bound says (sampler-ripple)" in in_words(
        claim
    )
    assert "not proved here" in in_words(claim)


@pytest.mark.parametrize("epsilon", [1.5, math.inf])
def test_a_claim_survives_a_record(epsilon):
    claim = replace(CLAIM, epsilon=epsilon, caveats=("preprocessing",))
    assert from_dict(json.loads(storage.canonical_json(claim.to_dict()))) == claim
    assert from_dict(json.loads(storage.canonical_json(claim))) == claim


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"privacy_unit": "graph"}, "unknown privacy_unit 'graph'"),
        ({"privacy_unit": "edge", "relation": "replace-one"}, "relation must be one of add-remove"),
        ({"privacy_unit": "node-bounded"}, "degree_bound must be declared"),
        ({"degree_bound": 5}, "degree_bound must be None"),
        ({"epsilon": -1.0}, "epsilon must be >= 0 or inf"),
        ({"epsilon": math.nan}, "epsilon must be >= 0 or inf"),
        ({"delta": 1.0}, "delta must be in"),
        ({"status": "likely"}, "unknown status"),
        ({"caveats": ("nothing",)}, "unknown caveat 'nothing'"),
        ({"caveats": ("sampler-ripple",)}, "status must not be proved.*sampler-ripple breaks"),
        ({"released": "everything"}, "unknown released"),
        ({"selection": "best"}, "unknown selection"),
        ({"arithmetic": "complex"}, "unknown arithmetic"),
    ],
)
def test_bad_claims_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        replace(CLAIM, **changes)

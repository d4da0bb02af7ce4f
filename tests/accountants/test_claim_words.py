"""What a claim says is written out, word for word."""

import pytest

from dpgnn.accountants import claims
from dpgnn.accountants.claims import Claim, in_words

# a reader takes these sentences for the guarantee: no word may promise more than the unit's definition
PROTECTS = {
    "node-features": "the features and the label of one node; the structure is public",
    "node-record": (
        "the features, the label and the own edge list of one node, but not that a neighbour's record "
        "still mentions it"
    ),
    "node-bounded": "one node with all its edges, in graphs whose degrees are at most 7",
    "node": "one node with all its edges",
    "edge": "one undirected edge; features and labels are public",
}
RELATIONS = {
    "add-remove": "is present in one graph and absent in the other",
    "replace-one": "has one value in one graph and any other value in the other",
    "null-one": (
        "is as it is in one graph and emptied (features zero, label the first class, no edges) in the "
        "other"
    ),
}
SELECTIONS = {
    "none": "no choice was made from results",
    "public": "choices were made on public data",
    "validation-unaccounted": "choices were made on private validation nodes and are not counted",
    "accounted": "choices were made privately and are counted",
}
PAIRS = [(unit, relation) for unit, all_ in claims.UNIT_RELATIONS.items() for relation in all_]


@pytest.mark.parametrize(("unit", "relation"), PAIRS)
@pytest.mark.parametrize("selection", SELECTIONS)
def test_a_claim_says_this_and_no_more(unit, relation, selection):
    claim = Claim(
        privacy_unit=unit, relation=relation, degree_bound=7 if unit == "node-bounded" else None,
        epsilon=2.0, delta=1e-5, accountant="pld", status="proved", selection=selection,
        assumed_public=("all options",),
    )  # fmt: skip
    assert in_words(claim) == (
        f"(2, 1e-05)-differential privacy for {PROTECTS[unit]}. "
        f"Two graphs are compared in which that element {RELATIONS[relation]}. "
        "The guarantee is proved (accountant: pld). What is released: weights. "
        f"Taken as public: all options. Selection: {SELECTIONS[selection]}. "
        "The proof is for real numbers; the run used floating point."
    )

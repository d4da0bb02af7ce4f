import pytest

from dpgnn.core.storage import canonical_json
from dpgnn.samplers.own_list import OwnList
from dpgnn.samplers.promise import occurrence_bound
from dpgnn.samplers.published import Published
from dpgnn.samplers.stable import Stable


def test_occurrence_bound_is_the_geometric_sum():
    assert [occurrence_bound(3, hops) for hops in (-1, 0, 1, 2)] == [0, 1, 4, 13]
    assert occurrence_bound(0, 3) == 1
    assert occurrence_bound(7, 1) == 8


def test_the_table_of_accounting_is_what_own_list_promises():
    promise = OwnList(max_degree=7, degree_bound=30).promise
    pairs = {pair: (change.d_plus, change.d_minus) for pair, change in promise.changes.items()}
    assert pairs["node-record", "add-remove"] == (8, 7)
    assert pairs["node-record", "null-one"] == (8, 8)
    assert pairs["node-features", "replace-one"] == (8, 8)
    assert pairs["node-record", "replace-one"] == (15, 15)
    assert pairs["node-bounded", "add-remove"] == (1 + 7 + 30, 7 + 30)
    assert promise.max_occurrences == 8


def test_stable_promises_the_published_fix_numbers():
    one = Stable(max_in_degree=7, max_out_degree=7).promise
    two = Stable(max_in_degree=3, max_out_degree=3, num_hops=2).promise
    assert one.change("node-record", "replace-one").d_plus == 22
    assert two.change("node-record", "replace-one").d_plus == 37


def test_the_published_claim_is_not_called_proved():
    promise = Published(max_degree=7).promise
    assert not promise.change("node-record", "add-remove").proved
    assert promise.change("node-features", "replace-one").proved


def test_an_unpromised_pair_is_an_error_that_lists_what_is_promised():
    with pytest.raises(ValueError, match="node-record / add-remove"):
        OwnList(max_degree=3).promise.change("node", "replace-one")


def test_a_promise_can_be_written_as_json():
    text = canonical_json(OwnList(max_degree=3).promise.recorded())
    assert '"max_occurrences":4' in text
    assert '"node-record/add-remove":[4,3,true]' in text

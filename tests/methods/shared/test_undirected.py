"""Undirected edges of small graphs, counted by hand, and the degrees that a claim is about."""

from __future__ import annotations

import numpy as np
import pytest

from dpgnn.methods.shared.undirected import (
    check_degree_promise,
    degrees,
    symmetric_adjacency,
    undirected_pairs,
)

# a path 0 - 1 - 2 with one edge in both directions, one in one direction, twice, and a loop
EDGES = np.array([[0, 1, 2, 2, 1], [1, 0, 1, 1, 1]])


def test_an_edge_counts_once_whichever_way_it_is_stated() -> None:
    assert undirected_pairs(EDGES, 3).tolist() == [[0, 1], [1, 2]]
    assert undirected_pairs(EDGES[:, :0], 3).shape == (2, 0)


def test_the_adjacency_is_symmetric_without_loops() -> None:
    adjacency = symmetric_adjacency(undirected_pairs(EDGES, 3), 3)
    assert adjacency.toarray().tolist() == [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    assert degrees(adjacency).tolist() == [1, 2, 1]
    assert adjacency.has_sorted_indices


@pytest.mark.parametrize(
    ("minimum", "maximum", "refused"),
    [(1, 2, ""), (0, None, ""), (2, None, "minimum_degree 2"), (0, 1, "max_degree 1")],
)
def test_a_graph_outside_the_class_is_refused_without_a_number_of_it(
    minimum: int, maximum: int | None, refused: str
) -> None:
    adjacency = symmetric_adjacency(undirected_pairs(EDGES, 3), 3)
    asked = {"minimum": minimum, "maximum": maximum, "name": "m"}
    if not refused:
        check_degree_promise(adjacency, **asked)
        return
    with pytest.raises(ValueError, match=refused) as caught:
        check_degree_promise(adjacency, **asked)
    # what is said is the promise; the degrees, 1 and 2, are private
    assert not ({"1", "2"} - set(refused)) & set(str(caught.value))

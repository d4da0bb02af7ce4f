"""Which roots' examples differ between two samples."""

from __future__ import annotations

import numpy as np
from numba import njit

from dpgnn.core.checks import require
from dpgnn.samplers.subgraphs import Subgraphs


def changed_roots(
    first: Subgraphs, second: Subgraphs, first_values: np.ndarray, second_values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which roots' examples differ between two samples, byte for byte.

    Args:
        first, second: subgraphs with ascending roots.
        first_values, second_values: int64 per node of the id universe, representing its features and label:
            an example differs if a node in it has another value.

    Returns:
        bool, shape (first.num_roots,): absent or different in `second`; and the same for `second`.

    Raises:
        ValueError: roots do not ascend.
    """
    for sample in (first, second):
        ascending = bool((np.diff(sample.roots) > 0).all())
        require(ascending, "roots", "ascend, each once", "another order")
    changed_first = np.zeros(len(first), np.bool_)
    changed_second = np.zeros(len(second), np.bool_)
    _compare(
        first.roots, first.node_ptr, first.nodes, first.edge_ptr, first.edge_source,
        first.edge_target, first_values, second.roots, second.node_ptr, second.nodes,
        second.edge_ptr, second.edge_source, second.edge_target, second_values,
        changed_first, changed_second,
    )  # fmt: skip
    return changed_first, changed_second


@njit(cache=True, nogil=True)
def _compare(
    roots_a, node_ptr_a, nodes_a, edge_ptr_a, heads_a, tails_a, values_a,
    roots_b, node_ptr_b, nodes_b, edge_ptr_b, heads_b, tails_b, values_b,
    changed_a, changed_b,
):  # fmt: skip
    """Mark roots whose example is absent or different on the other side; roots ascend.

    values_*: int64 per node of the universe, representing its features and label.
    """
    a, b = 0, 0
    while a < len(roots_a) or b < len(roots_b):
        if b == len(roots_b) or (a < len(roots_a) and roots_a[a] < roots_b[b]):
            changed_a[a] = True
            a += 1
            continue
        if a == len(roots_a) or roots_b[b] < roots_a[a]:
            changed_b[b] = True
            b += 1
            continue
        n = node_ptr_a[a + 1] - node_ptr_a[a]
        m = edge_ptr_a[a + 1] - edge_ptr_a[a]
        same = n == node_ptr_b[b + 1] - node_ptr_b[b] and m == edge_ptr_b[b + 1] - edge_ptr_b[b]
        if same:
            for place in range(n):
                node_a = nodes_a[node_ptr_a[a] + place]
                node_b = nodes_b[node_ptr_b[b] + place]
                same = same and node_a == node_b and values_a[node_a] == values_b[node_b]
            for place in range(m):
                arc_a, arc_b = edge_ptr_a[a] + place, edge_ptr_b[b] + place
                same = (
                    same and heads_a[arc_a] == heads_b[arc_b] and tails_a[arc_a] == tails_b[arc_b]
                )
        if not same:
            changed_a[a] = True
            changed_b[b] = True
        a += 1
        b += 1

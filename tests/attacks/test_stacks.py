"""An expression followed for many queries against the expression computed anew for each."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.attacks.stacks import Stack
from dpgnn.methods.shared.layers import (
    Features,
    Joined,
    Layers,
    Offset,
    Product,
    RowWise,
    Spread,
    Step,
    Sum,
)

SIZE = 12


def computed(step: Step, x: np.ndarray, operator: np.ndarray) -> np.ndarray:
    """The expression on dense features."""
    match step:
        case Features():
            return step.encode(np.arange(SIZE), x)
        case Product():
            return computed(step.source, x, operator) @ step.weight
        case Spread():
            return step.factor * operator @ computed(step.source, x, operator)
        case Offset():
            return computed(step.source, x, operator) + step.value
        case Sum():
            return computed(step.left, x, operator) + step.weight * computed(
                step.right, x, operator
            )
        case RowWise():
            return step.layer(np.arange(SIZE), computed(step.source, x, operator))
        case Joined():
            return np.concatenate([computed(s, x, operator) for s in step.sources], axis=1)


@pytest.mark.parametrize("exact", [True, False])
def test_a_query_changes_what_the_expression_changes(exact: bool) -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.standard_normal((SIZE, 3)), rng.standard_normal((SIZE, 4))
    operator = sp.random_array((SIZE, SIZE), density=0.2, rng=rng, format="csr")
    first = Features(rows=np.tanh(x), encode=lambda node, rows: np.tanh(rows))
    narrow = Product(source=first, weight=rng.standard_normal((3, 4)))
    hop = Sum(left=Spread(source=narrow, factor=0.7), right=narrow, weight=0.3)
    state = RowWise(
        source=hop, layer=lambda node, rows: np.maximum(rows + noise[node], 0), exact=exact
    )
    beside = Joined(sources=(first, Spread(source=state)))
    head = RowWise(source=beside, layer=lambda node, rows: np.tanh(rows))
    logits = Offset(source=Product(source=head, weight=rng.standard_normal((7, 2))), value=x[0, :2])
    stack = Stack(Layers(logits=logits, operator=operator), SIZE)
    assert (stack.num_spreads, stack.width) == (2, 7)
    nodes = np.array([4, 0, 4])
    after = x[nodes] + rng.standard_normal((3, 3))
    keep = rng.random((3, SIZE)) < 0.5
    found = stack.ask(nodes, x[nodes], after, keep)
    base = computed(logits, x, operator.toarray())
    for query, node in enumerate(nodes):
        changed = x.copy()
        changed[node] = after[query]
        truth = computed(logits, changed, operator.toarray()) - base
        rows = np.zeros((SIZE, 2))
        mine = found.query == query
        rows[found.node[mine]] = found.value[mine]
        assert np.allclose(rows[keep[query]], truth[keep[query]])


def test_a_query_without_hops_changes_its_own_answer_only() -> None:
    x = np.arange(2.0 * SIZE).reshape(SIZE, 2)
    raw = Features(rows=x, encode=lambda node, rows: rows)
    stack = Stack(Layers(logits=Product(source=raw, weight=np.eye(2)), operator=None), SIZE)
    keep = np.ones((1, SIZE), dtype=bool)
    found = stack.ask(np.array([5]), x[[5]], x[[5]] + 1, keep)
    assert stack.rows_of_a_query == 1
    assert (found.node.tolist(), found.value.tolist()) == ([5], [[1.0, 1.0]])

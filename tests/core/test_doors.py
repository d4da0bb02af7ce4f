"""A door is answered by another for a while, wherever it was imported."""

from __future__ import annotations

import pickle

import pytest

from dpgnn.core.doors import Door


@Door
def twice(number: int) -> int:
    """Two times a number."""
    return 2 * number


def test_a_door_is_the_function_it_wraps() -> None:
    assert twice(3) == 6
    assert twice.__doc__ == "Two times a number."
    assert pickle.loads(pickle.dumps(twice)) is twice


def test_another_answers_until_the_end_also_after_an_error() -> None:
    with twice.answered_by(lambda number: twice.function(number) + 1):
        assert twice(3) == 7
        with twice.answered_by(lambda number: 0):
            assert twice(3) == 0
        assert twice(3) == 7
    with pytest.raises(KeyError), twice.answered_by(lambda number: {}[number]):
        twice(3)
    assert twice(3) == 6

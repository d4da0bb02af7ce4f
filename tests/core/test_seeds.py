from __future__ import annotations

import numpy as np
import pytest

from dpgnn.core import seeds


def test_a_stream_depends_on_exactly_the_axes_named() -> None:
    base = seeds.child_seed(1, "split", dataset="cora", repeat=0)
    assert base == seeds.child_seed(1, "split", repeat=0, dataset="cora")
    others = [
        seeds.child_seed(2, "split", dataset="cora", repeat=0),
        seeds.child_seed(1, "noise", dataset="cora", repeat=0),
        seeds.child_seed(1, "split", dataset="cora", repeat=1),
        seeds.child_seed(1, "split", dataset="cora", repeat="0"),
        seeds.child_seed(1, "split", dataset="cora"),
    ]
    assert len({base, *others}) == 6


def test_the_numbers_of_a_stream_never_change() -> None:
    drawn = seeds.child(0, "split", dataset="cora", repeat=0).integers(0, 1000, 4)
    again = seeds.child(0, "split", dataset="cora", repeat=0).integers(0, 1000, 4)
    assert np.array_equal(drawn, again)
    assert list(drawn) == [453, 461, 844, 198]


def test_an_axis_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="axis repeat must be a str or an int, got True"):
        seeds.child_seed(0, "split", repeat=True)

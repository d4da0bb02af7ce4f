from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpgnn.core import checks


@pytest.mark.parametrize(
    ("check", "good", "bad", "rule"),
    [
        (checks.positive, (1, 0.5, np.float32(2)), (0, -1.0), "be > 0"),
        (checks.positive, (), (math.inf, math.nan, "1", True), "be a finite number > 0"),
        (checks.positive, (), (np.float32("inf"), np.float16("nan")), "be a finite number > 0"),
        (checks.non_negative, (0, 3.5, np.int64(1)), (-1e-9,), "be >= 0"),
        (checks.non_negative, (), (math.inf, None, np.float16("inf")), "be a finite number >= 0"),
        (checks.probability, (0, 1, 0.5), (-0.1, 1.1, math.nan, "0"), "be in [0, 1]"),
        (checks.open_probability, (1e-300, 0.5), (0, 1, math.nan), "be in (0, 1)"),
    ],
)
def test_numbers_outside_their_range_are_refused(
    check: Callable[..., Any], good: tuple[Any, ...], bad: tuple[Any, ...], rule: str
) -> None:
    for value in good:
        assert check("x", value) == value
    for value in bad:
        with pytest.raises(ValueError) as caught:
            check("x", value, "raise y")
        assert str(caught.value) == f"x must {rule}, got {value!r}; raise y"


def test_an_integer_is_no_float() -> None:
    assert checks.at_least("n", np.int32(3), 3) == 3
    for value in (2, 3.0, True, "3"):
        with pytest.raises(ValueError, match="n must be"):
            checks.at_least("n", value, 3)  # type: ignore[arg-type]


def test_an_unknown_name_lists_what_exists_and_long_values_are_cut() -> None:
    assert checks.one_of("method", "mlp", ["gap", "mlp"]) == "mlp"
    with pytest.raises(ValueError) as caught:
        checks.one_of("method", "gapp", ["mlp", "gap"])
    assert str(caught.value) == "unknown method 'gapp'; known: gap, mlp; did you mean gap?"
    with pytest.raises(ValueError) as caught:
        checks.one_of(
            "entry", "gapp", [f"{name}~lr={k}" for name in ("gap", "mlp") for k in range(99)]
        )
    text = str(caught.value)
    assert text.startswith("unknown entry 'gapp'; the nearest of the 198 known: gap~lr=")
    assert text.count("lr=") == 5
    assert "mlp" not in text
    with pytest.raises(ValueError, match="x must be a finite number > 0, got 1000"):
        checks.positive("x", 10**400)
    with pytest.raises(ValueError) as caught:
        checks.fail("x", "be short", "a" * 1000)
    assert len(str(caught.value)) == len("x must be short, got ") + 200

"""Argument checks with one message form: the name, the rule, the value, then the remedy.

noise_multiplier must be > 0, got -1.0; raise epsilon or lower num_steps
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable
from typing import NoReturn, TypeVar

T = TypeVar("T")
MOST_LAYERS = 1000
# names that a message lists; of more it names the nearest
MOST_LISTED, NEAREST = 120, 5


def fail(name: str, rule: str, value: object, remedy: str = "") -> NoReturn:
    """Raise ValueError(`NAME must RULE, got VALUE; REMEDY`).

    Args:
        name: the wrong item as the user wrote it: an option, a flag, a file.
        rule: what it must be, such as "be > 0".
        value: what was given; shown in 200 characters or fewer.
        remedy: what to do about it.

    Raises:
        ValueError: always.
    """
    text = f"{name} must {rule}, got {shown(value)}" + (f"; {remedy}" if remedy else "")
    raise ValueError(text if text.isprintable() else printable(text))


def one_line(error: object) -> str:
    """A library's error message in one line of at most 200 characters."""
    text = printable(" ".join(str(error).split()))
    return text if len(text) <= 200 else text[:197] + "..."


def printable(text: str) -> str:
    """The text with characters that end a line or change the writing direction replaced by their codes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shown(value: object) -> str:
    """A value for a message, in at most 200 characters."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of more than 4,300 digits
        return "a number of more than 4,300 digits"
    return text if len(text) <= 200 else text[:197] + "..."


def require(condition: bool, name: str, rule: str, value: object, remedy: str = "") -> None:
    """Raise the error of `fail` unless `condition` holds.

    Args:
        condition: what must hold.
        name, rule, value, remedy: as in `fail`.

    Raises:
        ValueError: the condition is false.
    """
    if not condition:
        fail(name, rule, value, remedy)


def positive(name: str, value: float, remedy: str = "") -> float:
    """Return a finite number > 0.

    Args:
        name: of the value, for the message.
        value: what was given; a bool or a text is refused.
        remedy: what to do about it.

    Raises:
        ValueError: it is not a finite number > 0.
    """
    require(_is_finite(value), name, "be a finite number > 0", value, remedy)
    require(value > 0, name, "be > 0", value, remedy)
    return value


def non_negative(name: str, value: float, remedy: str = "") -> float:
    """Return a finite number >= 0.

    Args:
        name: of the value, for the message.
        value: what was given; a bool or a text is refused.
        remedy: what to do about it.

    Raises:
        ValueError: it is not a finite number >= 0.
    """
    require(_is_finite(value), name, "be a finite number >= 0", value, remedy)
    require(value >= 0, name, "be >= 0", value, remedy)
    return value


def at_least(name: str, value: int, minimum: int, remedy: str = "") -> int:
    """Return an integer >= `minimum`.

    Args:
        name: of the value, for the message.
        value: what was given; a float is refused, even 3.0.
        minimum: the smallest value that is allowed.
        remedy: what to do about it.

    Raises:
        ValueError: it is not an integer, or too small.
    """
    require(_is_integer(value), name, "be an integer", value, remedy)
    require(value >= minimum, name, f"be >= {minimum}", value, remedy)
    return int(value)


def layers(name: str, value: int, minimum: int) -> int:
    """Return a number of layers: an integer from `minimum` to `MOST_LAYERS`, as each one takes memory.

    Raises:
        ValueError: it is not an integer, too small or too large.
    """
    require(at_least(name, value, minimum) <= MOST_LAYERS, name, f"be <= {MOST_LAYERS:,}", value)
    return int(value)


def probability(name: str, value: float, remedy: str = "") -> float:
    """Return a number in [0, 1].

    Args:
        name: of the value, for the message.
        value: what was given; a bool or a text is refused.
        remedy: what to do about it.

    Raises:
        ValueError: it is not a number in [0, 1].
    """
    require(_is_number(value) and 0 <= value <= 1, name, "be in [0, 1]", value, remedy)
    return value


def open_probability(name: str, value: float, remedy: str = "") -> float:
    """Return a number in (0, 1).

    Args:
        name: of the value, for the message.
        value: what was given; a bool or a text is refused.
        remedy: what to do about it.

    Raises:
        ValueError: it is not a number in (0, 1).
    """
    require(_is_number(value) and 0 < value < 1, name, "be in (0, 1)", value, remedy)
    return value


def one_of(kind: str, value: T, known: Iterable[T]) -> T:
    """Return `value` if it is known; otherwise say what is.

    Args:
        kind: what `value` names, such as "method".
        value: what was given.
        known: all that exist.

    Raises:
        ValueError: `unknown method 'gapp'; known: gap, mlp`.
    """
    known = list(known)
    if value not in known:
        raise ValueError(unknown(kind, value, known))
    return value


def unknown(kind: str, value: object, known: Iterable[object]) -> str:
    """`unknown method 'gapp'; known: gap, mlp; did you mean gap?`; of many names the nearest alone."""
    names = sorted({str(item) for item in known})
    if len(names) > MOST_LISTED:
        near = difflib.get_close_matches(str(value), names, n=NEAREST, cutoff=0.0)
        listed = f"the nearest of the {len(names)} known: {', '.join(near)}"
    else:
        listed = f"known: {', '.join(names) or 'none'}"
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.7)
    meant = f"; did you mean {close[0]}?" if close else ""
    return f"unknown {kind} {value!r}; {listed}{meant}"


def is_number_text(text: str) -> bool:
    """Whether Python reads the text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_number(value: object) -> bool:
    return (isinstance(value, (int, float)) and not isinstance(value, bool)) or _is_numpy(value)


def _is_finite(value: object) -> bool:
    try:
        return _is_number(value) and math.isfinite(value)  # type: ignore[arg-type]
    except OverflowError:  # an integer that is larger than any float
        return False


def _is_integer(value: object) -> bool:
    import numbers

    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_numpy(value: object) -> bool:
    import numpy as np

    return isinstance(value, (np.floating, np.integer))

"""Types of numeric flags on the command line."""

from __future__ import annotations

import argparse
import math

from dpgnn.core.config import LARGEST


def integer(text: str) -> int:
    """An integer that fits in an array; argparse names the flag.

    Args:
        text: as the user wrote it.

    Raises:
        ArgumentTypeError: it is not an integer, or too large.
    """
    given = text if len(text) <= 50 else f"{text[:47]}..."
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be an integer, got {given!r}") from None
    if abs(value) > LARGEST:
        raise argparse.ArgumentTypeError(f"must be {LARGEST} at most, got {given}; lower it")
    return value


def number(text: str) -> float:
    """A number; argparse names the flag.

    Args:
        text: as the user wrote it.

    Raises:
        ArgumentTypeError: it is not a number.
    """
    given = text if len(text) <= 50 else f"{text[:47]}..."
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise argparse.ArgumentTypeError(f"must be a number, got {given!r}")
    return value

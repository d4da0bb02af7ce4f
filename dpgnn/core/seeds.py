"""Named child generators from one root seed.

`child(root_seed, "split", dataset="cora", repeat=0)` depends on exactly the axes named: all methods get the
same split at a repeat, and adding a method does not change the others' numbers.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

Axis = str | int
_COMPACT = json.JSONEncoder(separators=(",", ":"))


def child_seed(root_seed: int, stream: str, **axes: Axis) -> int:
    """A 128-bit seed that depends on the root seed, the stream's name and the axes named.

    Args:
        root_seed: the study's only configured seed.
        stream: purpose of the numbers: split, sampler, weights, batches, noise, audit, ...
        axes: what the stream may depend on (dataset, setting, entry, epsilon, repeat, step, ...).

    Returns:
        an integer in [0, 2**128), the same on every platform.
    """
    for name, value in axes.items():
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise TypeError(f"axis {name} must be a str or an int, got {value!r}")
    text = _COMPACT.encode([root_seed, stream, sorted(axes.items())])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "little")


def child(root_seed: int, stream: str, **axes: Axis) -> np.random.Generator:
    """A numpy generator for the stream and axes named.

    Args:
        root_seed: the study's only configured seed.
        stream: purpose of the numbers.
        axes: what the stream may depend on; see `child_seed`.

    Raises:
        TypeError: an axis is neither a text nor an integer.
    """
    return np.random.Generator(np.random.PCG64DXSM(child_seed(root_seed, stream, **axes)))

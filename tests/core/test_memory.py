"""Freed arrays are given out again without a page being mapped."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, sys
import numpy as np
from dpgnn.core.memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(5):
        np.empty(50_000_000, dtype=np.uint8).fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] == "kept":
    assert keep_freed_memory()
faults()
print(faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library is not glibc")
def test_a_freed_array_is_used_again() -> None:
    def faults(kind: str) -> int:
        done = subprocess.run(
            [sys.executable, "-c", COUNT, kind], check=True, capture_output=True, text=True
        )
        return int(done.stdout)

    # five arrays of some 12,000 pages of 4 KiB, or of 25 pages of 2 MiB
    assert faults("plain") > 60
    assert faults("kept") < 20

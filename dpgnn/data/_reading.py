"""Reading many pieces of a file in one compiled loop."""

from __future__ import annotations

import ctypes

from numba import njit

_pread = ctypes.CDLL(None).pread
_pread.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64]
_pread.restype = ctypes.c_ssize_t


@njit(nogil=True)
def read_runs(descriptor, offset, first, sizes, out):  # type: ignore[no-untyped-def]
    """Read bytes first[i]..first[i]+sizes[i]-1 after `offset`, run by run; False if one is short."""
    at, address = 0, out.ctypes.data
    for i in range(len(first)):
        done = 0
        while done < sizes[i]:
            size = sizes[i] - done
            got = _pread(descriptor, address + at + done, size, offset + first[i] + done)
            if got <= 0:
                return False
            done += got
        at += sizes[i]
    return True

"""Reads raw pickles without executing them.

A pickle is a program: loading it may call anything that it names. The published graphs need only four names.
Each is replaced here by a plain holder that checks its arguments, so neither Python code nor numpy's or
scipy's C code runs on unchecked bytes.
"""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import require

NUMERIC_KINDS = "biuf"
MAX_SIZE = 2**31  # graph files keep column numbers as int32


class UnsafePickleError(ValueError):
    """A raw pickle names a class that is not allowed, or is malformed."""


def load_pickle(path: Path) -> Any:
    """Read one raw pickle of numbers: lists, dictionaries, numeric arrays, CSR matrices.

    Args:
        path: a Python 2 or 3 pickle, protocol 0 to 5.

    Returns:
        built-in containers, read-only numpy arrays and checked scipy CSR arrays.

    Raises:
        UnsafePickleError: it names a global that is not on the list (nothing is executed), is truncated, or
            has an array whose bytes and shape disagree.
    """
    with open(path, "rb") as file:
        return load_pickle_bytes(file.read(), where=str(path))


def load_pickle_bytes(content: bytes, *, where: str) -> Any:
    """`load_pickle` for bytes in memory; `where` names them in messages."""
    try:
        _refuse_wild_memo(content)
        return _finish(_AllowListUnpickler(io.BytesIO(content), where).load(), {})
    except UnsafePickleError:
        raise
    except Exception as error:  # a damaged pickle raises many exception types
        raise UnsafePickleError(
            f"{where} must be a whole pickle of numeric arrays: {error}; fetch it again"
        ) from None


def _refuse_wild_memo(content: bytes) -> None:
    """Refuse a memo slot far beyond the file's length, which would make the reader allocate gigabytes."""
    for opcode, argument, _ in pickletools.genops(content):
        if opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and (argument or 0) > len(content):
            raise UnsafePickleError(
                f"a pickle of {len(content)} bytes must not use slot {argument}"
            )


class _Dtype:
    """Stands in for numpy.dtype: numbers only, no objects, no fields."""

    def __init__(self, code: Any = "", align: Any = False, copy: Any = False) -> None:
        text = code.decode("latin1") if isinstance(code, bytes) else code
        if not isinstance(text, str) or len(text) > 4 or np.dtype(text).kind not in NUMERIC_KINDS:
            raise UnsafePickleError(f"array dtype must be a number, got {code!r}")
        self.dtype = np.dtype(text)

    def __setstate__(self, state: Any) -> None:
        order = state[1].decode("latin1") if isinstance(state[1], bytes) else state[1]
        if any(item is not None for item in state[2:5]):
            raise UnsafePickleError("array dtype must be plain, got fields")
        if order == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """Stands in for numpy.ndarray; the array is made once the number of bytes is checked."""

    array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, content = state
        if isinstance(content, str):  # bytes of a Python 2 pickle
            content = content.encode("latin1")
        shape = tuple(int(size) for size in shape)
        require(isinstance(dtype, _Dtype), "array dtype", "be a number", type(dtype).__name__)
        wanted = int(np.prod(shape, dtype=object)) * dtype.dtype.itemsize
        if min(shape, default=0) < 0 or len(content) != wanted:
            raise UnsafePickleError(f"array of shape {shape} must have {wanted} bytes")
        flat = np.frombuffer(content, dtype=dtype.dtype)
        self.array = flat.reshape(shape, order="F" if fortran else "C")


class _Csr:
    """Stands in for scipy.sparse.csr_matrix; `_finish` turns it into a checked CSR array."""

    def __setstate__(self, state: Any) -> None:
        self.state = dict(state)


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Bytes, which Python 3 writes as latin1 text in a protocol 2 pickle."""
    if not isinstance(text, str) or encoding != "latin1":
        raise UnsafePickleError(f"bytes must be spelled in latin1, got {encoding!r}")
    return text.encode("latin1")


# (module, name) in pickles of Python 2 and 3 and of numpy 1 and 2
ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("scipy.sparse.csr", "csr_matrix"): _Csr,
    ("scipy.sparse._csr", "csr_matrix"): _Csr,
    ("collections", "defaultdict"): collections.defaultdict,
    ("collections", "OrderedDict"): collections.OrderedDict,
    ("_codecs", "encode"): _encode,
    ("__builtin__", "list"): list,
    ("builtins", "list"): list,
}


class _AllowListUnpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, where: str) -> None:
        super().__init__(file, encoding="latin1")
        self.where = where

    def find_class(self, module: str, name: str) -> Any:
        found = ALLOWED.get((module, name))
        if found is None:
            known = ", ".join(sorted({".".join(key) for key in ALLOWED}))
            raise UnsafePickleError(
                f"{self.where} must name only {known}, got {module}.{name}; nothing of it was "
                "executed; fetch the file again from its source"
            )
        return found

    def persistent_load(self, pid: Any) -> Any:
        raise UnsafePickleError(f"{self.where} must hold no outside reference, got {pid!r}")


def _finish(value: Any, done: dict[int, Any]) -> Any:
    """Holders -> arrays, inside lists and dictionaries too.

    `done` keeps finished values by identity, so a value with many references is processed once and nested
    references cannot take exponential time.
    """
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        return value
    if id(value) not in done:
        done[id(value)] = _finish_new(value, done)
    return done[id(value)]


def _finish_new(value: Any, done: dict[int, Any]) -> Any:
    if isinstance(value, _Array):
        if value.array is None:
            raise UnsafePickleError("an array without content")
        return value.array
    if isinstance(value, _Csr):
        state = value.state
        data, indices, indptr = (_finish(state[key], done) for key in ("data", "indices", "indptr"))
        return checked_csr(data, indices, indptr, state.get("_shape", state.get("shape")))
    if isinstance(value, dict):
        return {key: _finish(item, done) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_finish(item, done) for item in value)
    raise UnsafePickleError(f"a pickle must hold arrays and numbers, got {type(value).__name__}")


def checked_csr(
    data: Any, indices: Any, indptr: Any, shape: Any, where: str = "CSR"
) -> sp.csr_array:
    """A float32 CSR array whose index arrays are checked before scipy's C code reads them.

    Raises:
        ValueError: lengths disagree, indptr falls, or an index lies outside the shape.
    """
    sizes = np.asarray(shape)
    right = sizes.shape == (2,) and sizes.dtype.kind in "iuf"
    right = right and bool(((sizes >= 0) & (sizes < MAX_SIZE)).all())
    require(right, f"{where}: shape", f"be two sizes < {MAX_SIZE}", shape)
    num_rows, num_columns = (int(size) for size in sizes)
    for part, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        ok = isinstance(array, np.ndarray) and array.ndim == 1 and array.dtype.kind in NUMERIC_KINDS
        require(ok, f"{where}: {part}", "be a flat numeric array", getattr(array, "shape", array))
    require(indices.dtype.kind in "iu", f"{where}: indices", "be integers", str(indices.dtype))
    require(indptr.dtype.kind in "iu", f"{where}: indptr", "be integers", str(indptr.dtype))
    pointers = indptr.astype(np.int64)
    rising = (
        len(pointers) == num_rows + 1 and pointers[0] == 0 and bool((np.diff(pointers) >= 0).all())
    )
    require(
        rising, f"{where}: indptr", f"rise from 0 over {num_rows} rows", f"{len(pointers)} values"
    )
    size = int(pointers[-1])
    require(len(indices) == len(data) == size, f"{where}: data", f"have {size} values", len(data))
    inside = size == 0 or (int(indices.min()) >= 0 and int(indices.max()) < num_columns)
    require(inside, f"{where}: indices", f"lie in 0..{num_columns - 1}", "an index outside")
    matrix = sp.csr_array(
        (data.astype(np.float32), indices.astype(np.int64), pointers), shape=(num_rows, num_columns)
    )
    matrix.sum_duplicates()
    return matrix

"""Reads raw .npz and .npy files; refuses pickles, zip bombs, and headers larger than the data."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from dpgnn.core.checks import fail, require
from dpgnn.data.raw.safe_pickle import NUMERIC_KINDS, checked_csr

# A bomb expands a thousand times, and so does an array of zeros: what it may take is bounded, not how well it
# shrinks. Larger files of the field expand 1 to 12 times as a whole.
HARMLESS_BYTES = 1 << 30
MAX_EXPANSION = 200
MAX_ARRAY_BYTES = 64 << 30
# exceptions of zipfile and gzip for damaged, encrypted and unknown members
DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)


def read_npz(
    path: Path, names: Sequence[str] | None = None, *, inside: str = ""
) -> dict[str, np.ndarray]:
    """Read numeric arrays of an .npz file; arrays of objects are never opened.

    Args:
        path: a zip file of .npy members.
        names: the arrays to read; None reads every numeric one and skips the others.
        inside: name of the .npz file if `path` is an archive of several.

    Returns:
        name -> array.

    Raises:
        ValueError: not a zip file, damaged, expands to more than 1 GiB and 200 times its size, or a requested
            array is missing or not numeric.
    """
    try:
        with ExitStack() as stack:
            archive = _opened(path, inside, stack)
            present = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
            for name in names or ():
                if name not in present:
                    listed = ", ".join(sorted(present)) or "none"
                    fail(f"{path}: array {name}", "be in the file", "nothing", f"it has {listed}")
            found = {}
            for name in names or present:
                item, where = archive.getinfo(f"{name}.npy"), f"{path}: array {name}"
                with archive.open(item) as file:
                    array = _read_array(file, item.file_size, where, required=names is not None)
                if array is not None:
                    found[name] = array
            return found
    except DAMAGED as error:
        if isinstance(error, FileNotFoundError):
            raise
        fail(str(path), "be a whole .npz file", str(error), "fetch it again")


def _opened(path: Path, inside: str, stack: ExitStack) -> zipfile.ZipFile:
    """The archive, or the one inside it; `stack` closes the open files."""
    archive = stack.enter_context(zipfile.ZipFile(path))
    _refuse_bomb(path, archive)
    if inside:
        require(inside in archive.namelist(), str(path), f"hold {inside}", "nothing")
        member = stack.enter_context(archive.open(inside))
        archive = stack.enter_context(zipfile.ZipFile(member))
        _refuse_bomb(path, archive)
    return archive


def read_npy(path: Path) -> np.ndarray:
    """Read one numeric .npy file.

    Raises:
        ValueError: no .npy header, objects instead of numbers, or fewer bytes than its shape needs.
    """
    with open(path, "rb") as file:
        found = _read_array(file, path.stat().st_size, str(path), required=True)
    assert found is not None
    return found


def csr_from(arrays: dict[str, np.ndarray], prefix: str, where: str) -> sp.csr_array:
    """The CSR array stored as PREFIX_data, PREFIX_indices, PREFIX_indptr, PREFIX_shape."""
    names = [f"{prefix}_{part}" for part in ("data", "indices", "indptr", "shape")]
    for name in names:
        if name not in arrays:
            fail(f"{where}: array {name}", "be there", ", ".join(sorted(arrays)))
    data, indices, indptr, shape = (arrays[name] for name in names)
    return checked_csr(data, indices, indptr, shape, where=f"{where}: {prefix}")


def _refuse_bomb(path: Path, archive: zipfile.ZipFile) -> None:
    total = sum(item.file_size for item in archive.infolist())
    limit = min(MAX_ARRAY_BYTES, max(HARMLESS_BYTES, MAX_EXPANSION * path.stat().st_size))
    require(
        total <= limit,
        f"{path}: size after unpacking",
        f"be <= {limit} bytes",
        total,
        f"beyond {HARMLESS_BYTES >> 20} MiB, {MAX_EXPANSION} times the size of the file is the most: do not "
        "unpack it, or if you made it save it without compression, features as a sparse matrix",
    )


def _read_array(
    file: IO[bytes], available: int, where: str, *, required: bool
) -> np.ndarray | None:
    """One .npy stream; None for one that is not numeric and not required."""
    try:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran, dtype = read(file)
    except (ValueError, KeyError) as error:
        fail(where, "have a .npy header", str(error), "fetch the file again")
    if dtype.kind not in NUMERIC_KINDS + "U":
        if required:
            fail(where, "be numeric", str(dtype))
        return None
    wanted = int(np.prod(shape, dtype=object)) * dtype.itemsize
    # one byte more than needed: reading to the end makes zipfile check the member's CRC
    content = file.read(min(wanted, available) + 1)
    require(
        len(content) == wanted, where, f"have {wanted} bytes", len(content), "fetch the file again"
    )
    return np.frombuffer(content, dtype=dtype).reshape(shape, order="F" if fortran else "C")

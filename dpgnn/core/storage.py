"""Atomic writes, checksummed Parquet, hashes.

Every file of the project is written to a temporary name in its own folder, flushed to disk and then renamed,
so that a reader sees the old file, the new file or none, never a partial one.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from dpgnn.core.checks import one_line

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


# temporary names, of `atomic_write` and of `locks.held_folder`: a killed process leaves them behind
UNFINISHED = re.compile(r"\..+\.[a-z0-9_]{8}")
_ONE_PAGE = 1 << 27  # bytes of a page, rows of a group: most columns fit one


class DamagedFileError(ValueError):
    """A file of ours is missing, truncated or changed; the message names it and the remedy."""


class UnwritableError(OSError):
    """A file of ours cannot be written; the message names it and the remedy."""

    def __str__(self) -> str:
        return str(self.args[1])


REMEDIES = {
    errno.ENOSPC: "free some space or choose a folder on another disk",
    errno.EDQUOT: "free some of your quota or choose a folder on another disk",
    errno.EFBIG: "raise the limit on file sizes",
    errno.EROFS: "choose a folder that is not read-only",
    errno.EACCES: "choose a folder you may write to",
    errno.EPERM: "choose a folder you may write to",
    errno.ENOTDIR: "choose a folder: a part of this path is a file",
    errno.EEXIST: "choose a folder: a part of this path is a file",
}


@contextmanager
def atomic_write(
    path: str | os.PathLike[str], mode: str = "wb", *, owner_only: bool = False
) -> Iterator[IO[Any]]:
    """Open a temporary file beside `path`; rename it to `path` if the block ends without an error.

    Args:
        path: of the file; parent folders are created.
        mode: "wb" or "w" (UTF-8).
        owner_only: whether only the owner may read and write the file.

    Raises:
        OSError: the folder cannot be written or the disk is full; nothing is left at `path`.
    """
    target, encoding = Path(path), None if "b" in mode else "utf-8"
    with explain_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(descriptor, mode, encoding=encoding) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(temporary, 0o600 if owner_only else 0o666 & ~umask)
            os.replace(temporary, target)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise


@contextmanager
def explain_os_errors(target: Path) -> Iterator[None]:
    """Convert errors of the system into ones that name the file and a remedy.

    Raises:
        UnwritableError: the system refused for a reason with a remedy (no space, no permission, read-only).
    """
    try:
        yield
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0)
        if remedy is None or isinstance(error, UnwritableError):
            raise
        raise UnwritableError(
            error.errno, f"{target} must be writable, got {error.strerror}; {remedy}"
        ) from None


def sync_folder(folder: Path) -> None:
    """Flush a folder's names to disk, so that a rename in it survives a power failure."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_private(folder: Path, root: Path) -> None:
    """Create a folder below `root`; all folders from `root` to it are accessible only to their owner."""
    with explain_os_errors(folder):
        root.parent.mkdir(parents=True, exist_ok=True)
        below = folder.relative_to(root)
        for path in (root, *(root / part for part in reversed(below.parents[:-1])), folder):
            path.mkdir(mode=0o700, exist_ok=True)
            path.chmod(0o700)


def write_text(path: str | os.PathLike[str], text: str, *, owner_only: bool = False) -> None:
    """Write UTF-8 text atomically: readers see the old file or the new one, even after a crash.

    Args:
        path: of the file; its folder is made.
        text: of the whole file.
        owner_only: whether only the owner may read it.

    Raises:
        UnwritableError: it cannot be written; names the file and a remedy.
    """
    with atomic_write(path, "w", owner_only=owner_only) as file:
        file.write(text)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no NaN, and infinities as the strings "inf" and "-inf"."""
    return json.dumps(_jsonable(value), sort_keys=True, separators=(",", ":"), allow_nan=False)


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write indented JSON with sorted keys atomically; the same value gives the same bytes.

    Args:
        path: of the file.
        value: of mappings, lists, texts, numbers and None; infinities become the texts "inf" and "-inf".

    Raises:
        ValueError: a number is NaN.
        UnwritableError: as for `write_text`.
    """
    write_text(path, json_text(value))


def json_text(value: Any) -> str:
    """The text that `write_json` writes."""
    return json.dumps(_jsonable(value), sort_keys=True, indent=1, allow_nan=False) + "\n"


def read_json(path: str | os.PathLike[str]) -> Any:
    """Read a JSON file of ours.

    Raises:
        DamagedFileError: missing or not JSON; names the file and the remedy.
    """
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedFileError(f"{path} does not exist; run the stage that makes it") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DamagedFileError(f"{path} must be JSON: {error}; delete it and rerun") from None


def sha256_file(path: str | os.PathLike[str]) -> str:
    """The sha256 of a file's bytes as 64 hexadecimal digits, read in bounded memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """The sha256 of a value's canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def write_parquet(
    path: str | os.PathLike[str],
    table: pa.Table,
    *,
    metadata: Mapping[str, Any] | None = None,
    row_group_size: int = 1 << 16,
    small: bool = False,
) -> None:
    """Write a Parquet file atomically: Zstandard, a checksum on every page, metadata as JSON.

    Args:
        path: of the file.
        table: the columns.
        metadata: small values stored in the schema under the key `dpgnn`.
        row_group_size: rows held in memory when the file is streamed.
        small: for committed files, as small as Zstandard makes them: three seconds for the records of a
            thousand runs.
    """
    import pyarrow.parquet as pq

    if metadata is not None:
        table = table.replace_schema_metadata({"dpgnn": canonical_json(metadata)})
    with atomic_write(path) as file:
        pq.write_table(
            table,
            file,
            compression="zstd",
            compression_level=22 if small else 3,
            row_group_size=_ONE_PAGE if small else row_group_size,
            data_page_size=_ONE_PAGE if small else None,
            use_dictionary=not small,
            write_page_checksum=True,
        )


def read_parquet(
    path: str | os.PathLike[str],
    columns: list[str] | None = None,
    *,
    remedy: str = "delete it and rerun",
) -> pa.Table:
    """Read a Parquet file and verify every page's checksum.

    Args:
        path: the file.
        columns: the columns to read; None reads all.
        remedy: what to do if it is damaged; not the default for files that no stage can remake.

    Raises:
        DamagedFileError: missing, truncated, changed, or a column is missing.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not Path(path).exists():
        raise DamagedFileError(f"{path} does not exist; run the stage that makes it")
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            present = set(file.schema_arrow.names)
            missing = sorted(set(columns or ()) - present)
            if missing:
                raise DamagedFileError(
                    f"{path} must have the columns {', '.join(missing)}; it has "
                    f"{', '.join(sorted(present))}"
                )
            return file.read(columns=columns)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, DamagedFileError):
            raise
        raise DamagedFileError(
            f"{path} must be an undamaged Parquet file: {one_line(error)}; {remedy}"
        ) from None


def values_of(column: pa.ChunkedArray) -> np.ndarray:
    """All values of a column of numbers without nulls in one writable array.

    The same as pyarrow's `to_numpy`, which imports pandas for it.
    """
    import numpy as np

    if not column.num_chunks:
        return column.to_numpy()
    return np.concatenate([np.from_dlpack(chunk) for chunk in column.chunks])


def column_of(values: np.ndarray, missing: np.ndarray | None = None) -> pa.Array:
    """A column of numbers; the same as `pyarrow.array`, which imports pandas for it.

    Args:
        values: of a numeric dtype, any shape; taken in C order.
        missing: bool, same shape: entries that are null; None if none are.
    """
    import numpy as np
    import pyarrow as pa

    flat = np.ascontiguousarray(values)
    valid = None
    if missing is not None and missing.any():
        valid = pa.py_buffer(np.packbits(~missing, bitorder="little"))
    kind = pa.from_numpy_dtype(flat.dtype)
    return pa.Array.from_buffers(kind, len(flat), [valid, pa.py_buffer(flat)])


def parquet_metadata(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The values stored under `metadata` by `write_parquet` ({} when there are none)."""
    import pyarrow.parquet as pq

    stored = pq.read_schema(path).metadata or {}
    return json.loads(stored.get(b"dpgnn", b"{}"))


def _jsonable(value: Any) -> Any:
    import dataclasses

    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {field.name: _jsonable(getattr(value, field.name)) for field in fields}
    if isinstance(value, Mapping):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_jsonable(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(_jsonable(item) for item in value)
    if isinstance(value, (str, bool, int)) or value is None:
        return value
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return _jsonable(value.item())
    if hasattr(value, "tolist"):
        return _jsonable(value.tolist())
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"cannot write {type(value).__name__} as JSON: {value!r}")


class Store:
    """Checkpoints of one run under `work/`, never in a declared output.

    A checkpoint is one safetensors file: named arrays, and small values as JSON. A damaged one, or one of
    another configuration, is removed, and the run starts again.

    Args:
        folder: where the checkpoints live; None keeps none.
        fingerprint: hash of what decides the run; checkpoints with another hash are not used.
        owner_only: only their owner may read them.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None,
        fingerprint: str = "",
        *,
        owner_only: bool = False,
    ) -> None:
        self.folder = None if folder is None else Path(folder)
        self.fingerprint, self._owner_only = fingerprint, owner_only

    def save(self, name: str, arrays: Mapping[str, Any], values: Mapping[str, Any]) -> None:
        """Write checkpoint `name`: numpy arrays and JSON values."""
        if self.folder is None:
            return
        import numpy as np
        from safetensors.numpy import save

        plain = {key: np.ascontiguousarray(array) for key, array in arrays.items()}
        note = {"dpgnn": canonical_json({"fingerprint": self.fingerprint, "values": values})}
        path = self.folder / f"{name}.safetensors"
        with atomic_write(path, owner_only=self._owner_only) as file:
            file.write(save(plain, metadata=note))

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """The arrays and values of checkpoint `name`, or None when there is none to resume from."""
        if self.folder is None or not (self.folder / f"{name}.safetensors").exists():
            return None
        from safetensors import SafetensorError, safe_open

        path = self.folder / f"{name}.safetensors"
        try:
            with safe_open(path, framework="numpy") as file:
                note = json.loads((file.metadata() or {})["dpgnn"])
                if note["fingerprint"] == self.fingerprint:
                    return {key: file.get_tensor(key) for key in file.keys()}, note["values"]  # noqa: SIM118
        except (SafetensorError, KeyError, json.JSONDecodeError, OSError):
            pass
        path.unlink(missing_ok=True)
        return None

    def clear(self) -> None:
        """Remove all checkpoints of the run."""
        import shutil

        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

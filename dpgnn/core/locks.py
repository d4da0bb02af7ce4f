"""Kernel locks on files and folders; they are released when the process ends, in any way."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class BusyError(RuntimeError):
    """Another process works on the same thing."""


@contextmanager
def exclusive(path: Path, what: str = "another run works in this folder") -> Iterator[int]:
    """Hold a kernel lock on `path`; it is released when the last process that inherited it ends or is killed.

    Args:
        path: the lock's file; created if missing, removed at the end.
        what: beginning of the error message.

    Yields:
        the file descriptor, to be passed to children.

    Raises:
        BusyError: another process holds it; names process and machine.
        OSError: the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = _open_locked(path, what)
    try:
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} on {socket.gethostname()}".encode(), 0)
        yield descriptor
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


@contextmanager
def waiting(path: Path) -> Iterator[None]:
    """Wait for a kernel lock on `path`, then hold it; for short work. The file stays.

    Raises:
        OSError: the folder cannot be written, or the file system has no locks.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Hold a lock so that one of several processes makes a file and the others wait for it.

    Args:
        path: the lock's file; its folder is created if missing.

    Raises:
        OSError: as `waiting`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if is_held(path):
        print(f"{path.parent}: waits for the process that makes it", file=sys.stderr)
    with waiting(path):
        yield


def is_held(path: Path) -> bool:
    """Whether a process holds the lock on `path` now."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder(path: Path) -> int | None:
    """The process on this machine that holds the lock on `path`; None if there is none."""
    if not is_held(path):
        return None
    number, _, machine = path.read_text(encoding="utf-8").partition(" on ")
    return int(number) if machine == socket.gethostname() and number.isdigit() else None


@contextmanager
def held_folder(root: Path, prefix: str) -> Iterator[Path]:
    """A new folder ROOT/PREFIX.xxxxxxxx for this process, removed at the end.

    Folders of the same prefix left by killed processes are removed first. A lock on the folder shows that its
    process is alive; on file systems without such locks, none is removed.
    """
    root.mkdir(parents=True, exist_ok=True)
    for folder, descriptor in _left(root, prefix):
        shutil.rmtree(folder, ignore_errors=True)
        os.close(descriptor)
    folder, held = _new_folder(root, prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if held is not None:
            os.close(held)


def left_folders(root: Path, prefix: str) -> list[Path]:
    """Folders of `held_folder` whose processes were killed."""
    found = []
    for folder, descriptor in _left(root, prefix):
        os.close(descriptor)
        found.append(folder)
    return found


def _left(root: Path, prefix: str) -> Iterator[tuple[Path, int]]:
    """Folders that no process holds, each with a descriptor that holds its lock until it is closed."""
    name = re.compile(re.escape(prefix) + r"\.[a-z0-9_]{8}")
    for folder in sorted(root.iterdir()):
        if name.fullmatch(folder.name) and folder.is_dir():
            try:
                descriptor = os.open(folder, os.O_RDONLY)
            except OSError:  # removed in the meantime, or not ours
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                continue
            yield folder, descriptor


def _new_folder(root: Path, prefix: str) -> tuple[Path, int | None]:
    """A new folder and the descriptor of its lock; retries if another process removed it first."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=f"{prefix}.", dir=root))
        try:
            descriptor = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:  # removed as a leftover by another process
            os.close(descriptor)
            shutil.rmtree(folder, ignore_errors=True)
            continue
        except OSError:  # no locks on folders here, so no process removes it
            os.close(descriptor)
            return folder, None
        if _is_at(descriptor, folder):
            return folder, descriptor
        os.close(descriptor)


def _open_locked(path: Path, what: str) -> int:
    """A descriptor that holds the lock; tries for a quarter of a second, as `is_held` holds it briefly."""
    for attempt in range(6):
        time.sleep(0.05 if attempt else 0)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
            name = "one that just ended"
        except BlockingIOError:
            name = _holders(descriptor, path)
        except OSError as error:
            os.close(descriptor)
            if error.errno not in NO_LOCKS:
                raise
            raise OSError(
                error.errno,
                f"{path} must lie on a file system with locks, got {error.strerror}; make "
                f"{path.parts[0]} a link to a folder on one",
            ) from None
        os.close(descriptor)
    raise BusyError(f"{what} (process {name}); wait for it or stop it")


def _holders(descriptor: int, path: Path) -> str:
    """The holder of the lock: the process written in it, or its children if that was killed."""
    written = os.pread(descriptor, 200, 0).decode()
    number, _, machine = written.partition(" on ")
    if machine != socket.gethostname() or (number.isdigit() and _has_open(int(number), path)):
        return written or "unknown"
    numbers = sorted(int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
    living = [str(n) for n in numbers if n != os.getpid() and _has_open(n, path)]
    return f"{', '.join(living)} on {machine}, of {number}, which was killed" if living else written


def _has_open(process: int, path: Path) -> bool:
    """Whether a process of this user has the file open; False if the system cannot tell."""
    try:
        opened = [os.readlink(entry) for entry in Path(f"/proc/{process}/fd").iterdir()]
    except OSError:
        return False
    return str(path.resolve()) in opened


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`: the previous holder removes it at its end."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False

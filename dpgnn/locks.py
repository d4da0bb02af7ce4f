"""Kernel locks on files: they end with the process that holds them, however that dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)


class BusyError(RuntimeError):
    """Another process is at work on the same thing."""


@contextmanager
def exclusive(path: Path, what: str = "another run works in this folder") -> Iterator[int]:
    """Hold a kernel lock on `path`; it ends with the last process that inherited it, however that dies.

    Args:
        path: the lock's file; made when missing, removed at the end.
        what: beginning of the message when it is held.

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
    """The process that holds the lock on `path`, where that is on this machine; None when nobody does."""
    if not is_held(path):
        return None
    number, _, machine = path.read_text(encoding="utf-8").partition(" on ")
    return int(number) if machine == socket.gethostname() and number.isdigit() else None


def _open_locked(path: Path, what: str) -> int:
    """A descriptor that holds the lock; tries for a quarter of a second, as a look by `is_held` is short."""
    for attempt in range(6):
        time.sleep(0.05 if attempt else 0)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                return descriptor
            name = "one that just ended"
        except BlockingIOError:
            name = os.pread(descriptor, 200, 0).decode() or "unknown"
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


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is still the one at `path`: the holder before us removes it at its end."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False

"""Downloads that resume, are verified before use, and leave no partial file in place."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dpgnn.core.storage import UnwritableError, explain_os_errors, sha256_file

BLOCK_BYTES = 1 << 20
TIMEOUT_SECONDS = 30.0
FINAL = (401, 403, 404, 410)  # status codes for which a retry is useless
PAGES = (b"<!doctype html", b"<html")
Progress = Callable[[int, int | None], None]


class ChecksumError(ValueError):
    """A raw file is not the published one."""


class DownloadError(OSError):
    """A file could not be fetched; the received part is kept and the next call resumes."""


def download(
    url: str,
    target: Path,
    *,
    sha256: str,
    num_bytes: int | None = None,
    partial_folder: Path = Path("work/downloads"),
    by_hand: Path | None = None,
    attempts: int = 4,
    wait_seconds: float = 1.0,
    progress: Progress | None = None,
) -> Path:
    """Fetch one file, resuming an earlier call, and move it to `target` once it is verified.

    Args:
        url: http or https (file: for tests and mounted media).
        target: path of the verified file.
        sha256: 64 hexadecimal digits; "" accepts the file and prints what to write in sources.csv.
        num_bytes: the published size; None when unknown. More bytes than that are never read.
        partial_folder: folder of the unfinished file, which is named after the address.
        by_hand: path where a user without a network may place the file, for the message; None is `target`.
        attempts: tries in this call before giving up.
        wait_seconds: pause after the first failed try; doubled after each.
        progress: called with (bytes received, total bytes or None); the default writes to standard error.

    Returns:
        `target`.

    Raises:
        DownloadError: no answer, or the connection broke on every try; the received part is kept.
        ChecksumError: the complete file is not the published one; it is deleted.
    """
    part = _part_of(url, target, partial_folder)
    report, place = progress or _Printer(target.name), by_hand or target
    _fetch(url, part, num_bytes, report, place, attempts=attempts, wait_seconds=wait_seconds)
    _check(url, part, sha256, num_bytes)
    with explain_os_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        move(part, target)
    return target


def _part_of(url: str, target: Path, folder: Path) -> Path:
    """Path of the unfinished file of an address; its folder is created."""
    with explain_os_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{target.name}.{hashlib.sha256(url.encode()).hexdigest()[:12]}.part"


def _fetch(
    url: str,
    part: Path,
    num_bytes: int | None,
    report: Progress,
    place: Path,
    *,
    attempts: int,
    wait_seconds: float,
) -> None:
    """Fetch the missing bytes in several tries.

    Raises:
        DownloadError: the last one failed too; says that the file may be put at `place`.
        UnwritableError: the disk cannot be written, so a retry is useless.
    """
    last: Exception | None = None
    for attempt in range(attempts):
        if attempt:
            time.sleep(wait_seconds * 2 ** (attempt - 1))
        try:
            with explain_os_errors(part):
                _fetch_rest(url, part, num_bytes, report)
            return
        except UnwritableError:
            raise
        except (OSError, http.client.HTTPException) as error:
            last = error
            if isinstance(error, urllib.error.HTTPError) and error.code in FINAL:
                break
    raise _gave_up(url, place, part, last)


def _fetch_rest(url: str, part: Path, num_bytes: int | None, report: Progress) -> None:
    """Append the missing bytes to `part`; raises OSError if the connection ends early."""
    have = part.stat().st_size if part.exists() else 0
    if num_bytes is not None and have == num_bytes:
        return
    request = urllib.request.Request(
        url, headers={"User-Agent": "dpgnn", "Accept-Encoding": "identity"}
    )
    if have:
        request.add_header("Range", f"bytes={have}-")
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is at least as long as the file: start over
            part.unlink()
            raise OSError("the server has no more bytes than the unfinished file") from None
        raise
    with answer:
        if have and getattr(answer, "status", None) != 206:
            have = 0  # the server does not resume
        elif have and _first_byte(answer) != have:
            part.unlink()
            raise OSError(f"another range came than from byte {have} on")
        total = _total(answer, have) or num_bytes
        block = answer.read1(BLOCK_BYTES)
        if not have and block.lstrip()[:14].lower().startswith(PAGES):
            raise OSError("a page of HTML came instead, as login pages of networks do")
        with open(part, "ab" if have else "wb") as file:
            while block:
                file.write(block)
                have += len(block)
                report(have, total)
                if num_bytes is not None and have > num_bytes:
                    return  # `_check` refuses it; an endless answer must not fill the disk
                block = answer.read1(BLOCK_BYTES)  # received bytes are written even before a stall
            file.flush()
            os.fsync(file.fileno())
    if total is not None and have < total:
        raise OSError(f"the connection ended after {have} of {total} bytes")


def _first_byte(answer: Any) -> int | None:
    """Position of the first byte in the file; None without a valid Content-Range."""
    stated = re.match(r"bytes (\d{1,18})-", answer.headers.get("Content-Range", ""))
    return int(stated[1]) if stated else None


def _total(answer: Any, have: int) -> int | None:
    """Size of the whole file, as stated in the answer.

    Raises:
        OSError: Content-Length is not a number, or Content-Range states another size.
    """
    stated, length = re.search(r"/(\d{1,18})$", answer.headers.get("Content-Range", "")), None
    text = answer.headers.get("Content-Length")
    if text is not None:
        if not re.fullmatch(r"\d{1,18}", text.strip()):
            raise OSError(f"its Content-Length must be a whole number, got {text.strip()[:40]!r}")
        length = have + int(text)
    if have and stated is not None:
        whole = int(stated[1])
        if length not in (None, whole):
            raise OSError(f"its Content-Range says {whole} bytes, its Content-Length {length}")
        return whole
    return length


def _check(url: str, part: Path, sha256: str, num_bytes: int | None) -> None:
    size, found = part.stat().st_size, sha256_file(part)
    if num_bytes is not None and size != num_bytes:
        part.unlink()
        raise ChecksumError(
            f"{url} must have {num_bytes} bytes, got {size}; it was deleted, try again"
        )
    if sha256 and found != sha256:
        part.unlink()
        raise ChecksumError(
            f"{url} must have sha256 {sha256}, got {found}; it was deleted; if the publisher changed "
            "the file, compare it with the counts in data/sources.csv before writing the new sha256"
        )
    if not sha256:
        print(f"{url}: no sha256 is known; this one is {found}, {size} bytes", file=sys.stderr)


def move(part: Path, target: Path) -> None:
    """Rename, or copy and rename when the folders are on different disks."""
    try:
        os.replace(part, target)
    except OSError:
        import shutil

        temporary = target.with_name(f".{target.name}.part")
        try:
            shutil.copyfile(part, temporary)
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
        part.unlink()


def _gave_up(url: str, target: Path, part: Path, error: Exception | None) -> DownloadError:
    kept = part.stat().st_size if part.exists() else 0
    reason = " ".join(str(error).split())[:200] or type(error).__name__
    named = [folder for folder in os.environ.get("DPGNN_MIRROR", "").split(os.pathsep) if folder]
    missing = [folder for folder in named if not Path(folder).is_dir()]
    mirror = f"; DPGNN_MIRROR names {', '.join(missing)}, where no folder is" if missing else ""
    return DownloadError(
        f"{url} could not be fetched: {reason}; {kept} bytes are kept and the next run resumes. "
        f"Without a network, place the file at {target} or name a mirror folder in DPGNN_MIRROR{mirror}"
    )


class _Printer:
    """One line on standard error, at most twice a second."""

    def __init__(self, name: str) -> None:
        self.name, self.last = name, 0.0

    def __call__(self, have: int, total: int | None) -> None:
        now = time.monotonic()
        if now - self.last < 0.5 and have != total:
            return
        self.last = now
        share = f" of {total / 1e6:.1f} MB ({100 * have / total:.0f} %)" if total else " MB"
        print(f"{self.name}: {have / 1e6:.1f}{share}", file=sys.stderr)

"""Servers that misbehave, each on 127.0.0.1."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from faults.row import Row

from dpgnn.data.raw import download as downloads
from dpgnn.data.raw.download import ChecksumError, DownloadError, download
from dpgnn.data.raw.files import RawFiles
from dpgnn.data.raw.sources import RawFile, Source

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()
OK, PART = b"HTTP/1.1 200 OK", b"HTTP/1.1 206 Partial Content"
PAGE = b"\n<!DOCTYPE html><html><body>Please log in</body></html>"
# what is sent before the server closes; a number is a pause in seconds
Answer = list[bytes | float]


def answer(body: bytes, *fields: str, status: bytes = OK) -> bytes:
    lines = [status, *(field.encode() for field in fields), b"Connection: close", b"", body]
    return b"\r\n".join(lines)


def whole(body: bytes = CONTENT) -> Answer:
    return [answer(body, f"Content-Length: {len(body)}")]


def cut(at: int) -> Answer:
    return [answer(CONTENT[:at], f"Content-Length: {len(CONTENT)}")]


def rest(start: int, *, stated: int | None = None, total: int = len(CONTENT)) -> Answer:
    first = start if stated is None else stated
    body = CONTENT[start:]
    span = f"Content-Range: bytes {first}-{len(CONTENT) - 1}/{total}"
    return [answer(body, span, f"Content-Length: {len(body)}", status=PART)]


@contextmanager
def server(*answers: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """Gives one answer a request, the last one again and again; yields its address and what was asked."""
    listening = socket.create_server(("127.0.0.1", 0))
    asked: list[bytes] = []

    def reply(connection: socket.socket) -> None:
        with connection:
            asked.append(connection.recv(65536))
            try:
                for piece in answers[min(len(asked), len(answers)) - 1]:
                    if isinstance(piece, bytes):
                        connection.sendall(piece)
                    else:
                        time.sleep(piece)
            except OSError:
                return  # the other side has closed

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=reply, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/graph.npz", asked
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def fetch(url: str, folder: Path, **more: Any) -> Path:
    known: dict[str, Any] = {"sha256": SHA256, "num_bytes": len(CONTENT)}
    return download(
        url, folder / "raw" / "graph.npz", partial_folder=folder / "work", wait_seconds=0.01,
        progress=lambda have, total: None, **{**known, **more},
    )  # fmt: skip


def kept(folder: Path) -> list[int]:
    return [path.stat().st_size for path in (folder / "work").glob("*.part")]


def comes_whole(folder: Path, *, answers: list[Answer], requests: int, **more: Any) -> None:
    """The file arrives as it is published, after so many requests, and no part is left."""
    with server(*answers) as (url, asked):
        assert fetch(url, folder, **more).read_bytes() == CONTENT
    assert (len(asked), kept(folder)) == (requests, [])


def refused(
    folder: Path, *, answers: list[Answer], says: str, left: int, requests: int = 4, **more: Any
) -> None:
    """One line, nothing in place, so many bytes kept for the next call (0: no part)."""
    with server(*answers) as (url, asked), pytest.raises((DownloadError, ChecksumError)) as error:
        fetch(url, folder, **more)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
    assert not (folder / "raw").exists()
    assert sum(kept(folder)) == left
    assert len(asked) == requests


def stalls(folder: Path) -> None:
    """What arrived before a silence is kept, and the rest asked for."""
    before = downloads.TIMEOUT_SECONDS
    downloads.TIMEOUT_SECONDS = 0.3
    try:
        silent: Answer = [*cut(5000), 1.0]
        comes_whole(folder, answers=[silent, rest(5000)], requests=2)
    finally:
        downloads.TIMEOUT_SECONDS = before


def endless(folder: Path) -> None:
    body: Answer = [answer(CONTENT + b"more" * 10**6)]
    refused(folder, answers=[body], says=f"must have {len(CONTENT)} bytes", left=0, requests=1)


def unknown(folder: Path, url: str) -> RawFiles:
    """A data set of one file whose checksum nobody has published."""
    raw = RawFile(file="a.npz", mirror_path="A/a.npz", url=url, sha256="", num_bytes=None)
    source = Source(
        name="a", version="1", files=(raw,), licence="MIT", redistribute="yes", citation="",
        num_nodes=None, num_edges=None, num_features=None, num_classes=None,
    )  # fmt: skip
    return RawFiles(
        source=source, folder=folder / "raw", mirrors=(), partial_folder=folder / "work"
    )


def read(path: Path) -> None:
    """A loader: takes the file as it is published alone."""
    if path.read_bytes() != CONTENT:
        raise ValueError(f"{path} must be a whole graph")


def not_what_its_loader_reads(folder: Path, *, body: Answer) -> None:
    """Refused by the loader: nothing is left, neither in place nor to be read the next time."""
    with server(body, whole()) as (url, _):
        files = unknown(folder, url)
        with pytest.raises(ValueError, match="just been fetched and was deleted"), files.accepted():
            read(files.only_path())
        assert not [path for path in folder.rglob("*") if path.is_file()]
        with files.accepted():
            read(files.only_path())
    assert (folder / "raw" / "A" / "a.npz").read_bytes() == CONTENT


def interrupted(path: Path) -> None:
    raise KeyboardInterrupt


def killed_before_it_was_read(folder: Path) -> None:
    """Neither in place nor fetched again."""
    with server(whole()) as (url, asked):
        files = unknown(folder, url)
        with pytest.raises(KeyboardInterrupt), files.accepted():
            interrupted(files.only_path())
        assert not (folder / "raw").exists()
        with files.accepted():
            read(files.only_path())
    assert len(asked) == 1
    assert (folder / "raw" / "A" / "a.npz").read_bytes() == CONTENT


def page_for_a_file_of_unknown_checksum(folder: Path) -> None:
    with server(whole(PAGE)) as (url, _):
        files = unknown(folder, url)
        with pytest.raises(DownloadError, match="a page of HTML came instead"), files.accepted():
            download_now(files)
    assert not [path for path in folder.rglob("*") if path.is_file() and path.stat().st_size]


def download_now(files: RawFiles) -> None:
    """`files.only_path()` without pauses between tries."""
    pause, time.sleep = time.sleep, lambda seconds: None
    try:
        files.only_path()
    finally:
        time.sleep = pause


def row(what: str, must: str, run: Callable[..., None], **given: Any) -> Row:
    return Row(what=what, must=must, run=partial(run, **given))


NUMBER = "its Content-Length must be a whole number"
CHUNKED = answer(b"400\r\n" + CONTENT[:1024] + b"\r\n", "Transfer-Encoding: chunked")
ROWS: list[Row] = [
    row("the connection ends in the middle, twice", "the rest is asked for, and no byte twice",
        comes_whole, answers=[cut(10), [], rest(10)], requests=3),
    row("the connection ends before the answer", "tried again", comes_whole,
        answers=[[], whole()], requests=2),
    row("bytes, then silence", "what arrived is kept, the rest asked for", stalls),
    row("a chunked answer that ends early", "tried again", comes_whole,
        answers=[[CHUNKED], rest(1024)], requests=2),
    row("206 from another byte than was asked for", "the part is dropped, the file read from its start",
        comes_whole, answers=[cut(100), rest(100, stated=7), whole()], requests=3),
    row("206 without Content-Range", "the part is dropped, the file read from its start",
        comes_whole, requests=3,
        answers=[cut(100), [answer(CONTENT[100:], "Content-Length: 102300", status=PART)], whole()]),
    row("Content-Range and Content-Length disagree", "one line; the part is kept", refused,
        answers=[cut(100), rest(100, total=7)], says="Content-Range says 7 bytes", left=100),
    row("Content-Length: many", "one line", refused,
        answers=[[answer(CONTENT, "Content-Length: many")]], says=f"{NUMBER}, got 'many'", left=0),
    row("Content-Length: -5", "one line", refused,
        answers=[[answer(CONTENT, "Content-Length: -5")]], says=f"{NUMBER}, got '-5'", left=0),
    row("Content-Length of 5,000 digits", "one line", refused,
        answers=[[answer(CONTENT, "Content-Length: " + "9" * 5000)]], says=NUMBER, left=0),
    row("an answer longer than the published file", "read to the published size, deleted", endless),
    row("another file of the published size", "deleted; both checksums named", refused,
        answers=[whole(bytes(len(CONTENT)))], says="must have sha256", left=0, requests=1),
    row("a login page", "named as a page of HTML", refused, answers=[whole(PAGE)],
        says="a page of HTML came instead", left=0),
    row("a login page when the rest is asked for", "the part stays as it is", refused,
        answers=[cut(100), whole(PAGE)], says="a page of HTML came instead", left=100),
    row("status 404", "not tried again", refused, requests=1, left=0, says="404",
        answers=[[answer(b"", "Content-Length: 0", status=b"HTTP/1.1 404 Not Found")]]),
    row("status 503, then the file", "tried again", comes_whole, requests=2,
        answers=[[answer(b"", "Content-Length: 0", status=b"HTTP/1.1 503 Busy")], whole()]),
    row("no HTTP", "one line", refused, answers=[[b"hello\r\n"]], says="could not be fetched", left=0),
    row("a redirect to itself", "one line", refused, says="could not be fetched", left=0, requests=5,
        attempts=1, answers=[[answer(b"", "Location: /graph.npz", "Content-Length: 0",
                                     status=b"HTTP/1.1 302 Found")]]),
    row("unknown checksum and length, cut", "the loader refuses it; nothing is left",
        not_what_its_loader_reads, body=[answer(CONTENT[:5000])]),
    row("unknown checksum, another file", "the loader refuses it; nothing is left",
        not_what_its_loader_reads, body=whole(b"no graph")),
    row("unknown checksum, a login page", "refused before it is kept",
        page_for_a_file_of_unknown_checksum),
    row("unknown checksum, killed before it was read", "read the next time, not fetched again",
        killed_before_it_was_read),
]  # fmt: skip

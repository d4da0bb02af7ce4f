"""Downloads against a real HTTP server on 127.0.0.1."""

import hashlib
import http.server
import os
import threading

import pytest

from dpgnn.data.raw.download import ChecksumError, DownloadError, download

CONTENT = bytes(range(256)) * 4000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    resumes = True
    cut_after: list  # one entry a request: bytes sent before the connection is cut, or None
    ranges: list
    status = 200
    content = CONTENT


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.ranges.append(wanted)
        if server.status != 200:
            self.send_error(server.status)
            return
        start = int(wanted[6:-1]) if wanted and server.resumes else 0
        if start >= len(server.content):
            self.send_error(416)
            return
        body = server.content[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            last = len(server.content) - 1
            self.send_header("Content-Range", f"bytes {start}-{last}/{last + 1}")
        self.end_headers()
        cut = server.cut_after.pop(0) if server.cut_after else None
        self.wfile.write(body if cut is None else body[:cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    found = Server(("127.0.0.1", 0), Handler)
    found.cut_after, found.ranges = [], []
    thread = threading.Thread(target=found.serve_forever, daemon=True)
    thread.start()
    yield found
    found.shutdown()
    found.server_close()
    thread.join()


def fetch(server, tmp_path, **more):
    more = {"sha256": SHA256, "num_bytes": len(CONTENT), "wait_seconds": 0.01} | more
    return download(
        f"http://127.0.0.1:{server.server_port}/graph.npz",
        tmp_path / "raw" / "graph.npz",
        partial_folder=tmp_path / "work",
        **more,
    )


def parts(tmp_path):
    return [path.stat().st_size for path in (tmp_path / "work").glob("*.part")]


def test_a_file_is_fetched_verified_and_leaves_no_part(server, tmp_path):
    seen = []
    path = fetch(server, tmp_path, progress=lambda have, total: seen.append((have, total)))
    assert path.read_bytes() == CONTENT
    assert parts(tmp_path) == []
    assert seen[-1] == (len(CONTENT), len(CONTENT))


def test_a_cut_connection_is_resumed_where_it_ended(server, tmp_path):
    server.cut_after = [100_000, 50_000]
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-", "bytes=150000-"]


def test_what_arrived_is_kept_for_the_next_call(server, tmp_path):
    server.cut_after = [100_000]
    with pytest.raises(DownloadError, match=r"100000 bytes are kept and the next run resumes"):
        fetch(server, tmp_path, attempts=1)
    assert not (tmp_path / "raw").exists()
    assert parts(tmp_path) == [100_000]
    assert fetch(server, tmp_path, attempts=1).read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]


def test_a_server_that_does_not_resume_is_read_from_the_start(server, tmp_path):
    server.resumes, server.cut_after = False, [100_000]
    assert fetch(server, tmp_path).read_bytes() == CONTENT


def test_a_whole_part_of_an_interrupted_call_needs_no_request(server, tmp_path):
    server.cut_after = [1]
    with pytest.raises(DownloadError):
        fetch(server, tmp_path, attempts=1)
    (part,) = (tmp_path / "work").glob("*.part")
    part.write_bytes(CONTENT)
    assert fetch(server, tmp_path).read_bytes() == CONTENT
    assert len(server.ranges) == 1


def test_a_part_longer_than_the_file_starts_over(server, tmp_path):
    server.cut_after = [1]
    with pytest.raises(DownloadError):
        fetch(server, tmp_path, attempts=1, num_bytes=None)
    (part,) = (tmp_path / "work").glob("*.part")
    part.write_bytes(CONTENT + b"more")
    assert fetch(server, tmp_path, num_bytes=None).read_bytes() == CONTENT


def test_a_wrong_checksum_names_both_and_deletes_the_file(server, tmp_path):
    with pytest.raises(ChecksumError, match=rf"must have sha256 {'0' * 64}, got {SHA256}; it was"):
        fetch(server, tmp_path, sha256="0" * 64)
    assert parts(tmp_path) == []
    assert not (tmp_path / "raw").exists()


def test_an_answer_longer_than_published_is_not_read_to_its_end(server, tmp_path):
    server.content = bytes(20_000_000)
    seen = []
    with pytest.raises(ChecksumError, match="must have 1000 bytes"):
        fetch(server, tmp_path, num_bytes=1000, progress=lambda have, total: seen.append(have))
    assert max(seen) <= 2 << 20


def test_a_missing_page_is_not_tried_again(server, tmp_path):
    server.status = 404
    with pytest.raises(DownloadError, match=r"404.*name a mirror folder in DPGNN_MIRROR"):
        fetch(server, tmp_path)
    assert len(server.ranges) == 1


def test_a_mirror_folder_that_is_not_there_is_named(server, tmp_path, monkeypatch):
    server.status = 404
    monkeypatch.setenv("DPGNN_MIRROR", os.pathsep.join((str(tmp_path), f"{tmp_path}/miror")))
    with pytest.raises(DownloadError, match=r"DPGNN_MIRROR names \S+/miror, where no folder is$"):
        fetch(server, tmp_path)


def test_a_server_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DownloadError, match=r"http://127.0.0.1:9/x could not be fetched"):
        download(
            "http://127.0.0.1:9/x", tmp_path / "x", sha256="", partial_folder=tmp_path, attempts=1
        )


def test_an_unknown_checksum_is_printed_to_be_written_down(server, tmp_path, capsys):
    fetch(server, tmp_path, sha256="", num_bytes=None)
    assert f"this one is {SHA256}, {len(CONTENT)} bytes" in capsys.readouterr().err

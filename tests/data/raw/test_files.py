import hashlib
import os

import pytest

from dpgnn.data.raw.download import ChecksumError
from dpgnn.data.raw.files import RawFiles, mirror_folders
from dpgnn.data.raw.sources import RawFile, Source

CONTENT = b"a graph"


def source(**more):
    values = {
        "file": "a.npz",
        "mirror_path": "A/raw/a.npz",
        "url": "",
        "sha256": hashlib.sha256(CONTENT).hexdigest(),
        "num_bytes": len(CONTENT),
    }
    return Source(
        name="a",
        version="1",
        files=(RawFile(**(values | more)),),
        licence="MIT",
        redistribute="yes",
        citation="",
        num_nodes=None,
        num_edges=None,
        num_features=None,
        num_classes=None,
    )


def place(folder, content=CONTENT):
    (folder / "A" / "raw").mkdir(parents=True)
    (folder / "A" / "raw" / "a.npz").write_bytes(content)
    return folder / "A" / "raw" / "a.npz"


def test_mirror_folders_come_from_the_environment_in_order(monkeypatch):
    monkeypatch.setenv("DPGNN_MIRROR", os.pathsep.join(["/one", "/two"]))
    assert [str(path) for path in mirror_folders()] == ["/one", "/two"]


def test_the_raw_folder_comes_before_the_mirrors(tmp_path):
    second = place(tmp_path / "mirror")
    files = RawFiles(source=source(), folder=tmp_path / "raw", mirrors=(tmp_path / "mirror",))
    assert files.only_path() == second
    first = place(tmp_path / "raw")
    assert files.path("a.npz") == first


def test_a_changed_file_in_a_mirror_is_refused(tmp_path):
    place(tmp_path, b"A graph")
    files = RawFiles(source=source(), folder=tmp_path / "raw", mirrors=(tmp_path,))
    with pytest.raises(ChecksumError, match=r"must have sha256 .* delete it and fetch it again"):
        files.only_path()


def test_a_file_of_another_size_is_refused_without_hashing(tmp_path):
    place(tmp_path, b"a graph and more")
    files = RawFiles(source=source(), folder=tmp_path / "raw", mirrors=(tmp_path,))
    with pytest.raises(ChecksumError, match="must have 7 bytes, got 16"):
        files.only_path()


def test_a_file_without_an_address_says_where_to_place_it(tmp_path):
    files = RawFiles(source=source(), folder=tmp_path / "raw", mirrors=(tmp_path / "mirror",))
    with pytest.raises(
        FileNotFoundError, match=r"A/raw/a.npz of a must be placed by hand in one of"
    ):
        files.only_path()


def test_a_file_from_an_address_lands_in_the_raw_folder(tmp_path):
    published = tmp_path / "published.npz"
    published.write_bytes(CONTENT)
    files = RawFiles(
        source=source(url=published.as_uri()),
        folder=tmp_path / "raw",
        mirrors=(),
        partial_folder=tmp_path / "work",
    )
    assert files.only_path() == tmp_path / "raw" / "A" / "raw" / "a.npz"
    assert files.only_path().read_bytes() == CONTENT

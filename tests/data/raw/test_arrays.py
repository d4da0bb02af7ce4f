import os
import struct
import zipfile

import numpy as np
import pytest

from dpgnn.data.raw import arrays as raw_arrays
from dpgnn.data.raw.arrays import csr_from, read_npz


class Hostile:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (os.mkdir, (str(self.folder),))


def test_numeric_arrays_come_back_and_objects_stay_closed(tmp_path):
    victim = tmp_path / "made_by_the_pickle"
    path = tmp_path / "a.npz"
    hostile = np.array([Hostile(victim)], dtype=object)
    np.savez_compressed(path, labels=np.arange(5), names=hostile)
    found = read_npz(path)
    assert list(found) == ["labels"]
    np.testing.assert_array_equal(found["labels"], np.arange(5))
    with pytest.raises(ValueError, match="array names must be numeric, got 'object'"):
        read_npz(path, ["names"])
    assert not victim.exists()


def test_a_missing_array_is_named_with_those_that_exist(tmp_path):
    np.savez(tmp_path / "a.npz", labels=np.arange(5))
    with pytest.raises(ValueError, match=r"array adj_data must be in the file.*it has labels"):
        read_npz(tmp_path / "a.npz", ["adj_data"])


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(raw_arrays, "HARMLESS_BYTES", 32 << 20)
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w") as f,
    ):
        for _ in range(64):
            f.write(bytes(1 << 20))
    assert path.stat().st_size < 100_000
    with pytest.raises(ValueError, match="size after unpacking must be <="):
        read_npz(path)


def test_features_of_mostly_zeros_are_read_however_well_they_shrink(tmp_path):
    """CiteSeer's features as dense float64 shrink to one 247th."""
    x = np.zeros((1000, 2000))
    x[np.arange(1000), np.arange(1000)] = 1
    np.savez_compressed(tmp_path / "a.npz", x=x)
    assert x.nbytes > 400 * (tmp_path / "a.npz").stat().st_size
    np.testing.assert_array_equal(read_npz(tmp_path / "a.npz")["x"], x)


def test_a_header_that_promises_more_than_is_there_is_refused(tmp_path):
    path = tmp_path / "liar.npz"
    head = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "x.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + bytes(64)
        )
    with pytest.raises(ValueError, match="array x must have 8000000000000 bytes, got 64"):
        read_npz(path)


def headers_changed(content, offset, value):
    """The 16-bit field `offset` bytes after the start of a local header, and its copy in the directory."""
    for signature, place in ((b"PK\x03\x04", offset), (b"PK\x01\x02", offset + 2)):
        at = content.find(signature)
        content[at + place : at + place + 2] = struct.pack("<H", value)


@pytest.mark.parametrize("damage", ["truncate", "flip", "text", "stream", "encrypted", "method"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "a.npz"
    save = np.savez_compressed if damage == "stream" else np.savez
    save(path, x=np.random.default_rng(0).random(1000))
    content = bytearray(path.read_bytes())
    if damage == "truncate":
        content = content[: len(content) // 2]
    elif damage == "flip":
        content[2000] ^= 1
    elif damage == "stream":  # zlib.error
        content[100:110] = bytes(10)
    elif damage == "encrypted":
        headers_changed(content, 6, 1)
    elif damage == "method":
        headers_changed(content, 8, 97)
    else:
        content = bytearray(b"not a zip file")
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.npz must be a whole \.npz file"):
        read_npz(path)


@pytest.mark.parametrize("shape", [2, [2, 2, 1], [-1, 2], [[2, 2]]])
def test_a_shape_of_a_sparse_matrix_is_two_sizes(tmp_path, shape):
    parts = {"data": [2.0], "indices": [1], "indptr": [0, 1, 1], "shape": shape}
    arrays = {f"adj_{part}": np.array(value) for part, value in parts.items()}
    with pytest.raises(ValueError, match=r"a\.npz: adj: shape must be two sizes"):
        csr_from(arrays, "adj", "a.npz")


def test_csr_parts_are_joined_and_checked(tmp_path):
    path = tmp_path / "a.npz"
    parts = {"data": [2.0, 3.0], "indices": [1, 0], "indptr": [0, 1, 2], "shape": [2, 2]}
    np.savez(path, **{f"adj_{part}": np.array(value) for part, value in parts.items()})
    found = csr_from(read_npz(path), "adj", "a.npz")
    np.testing.assert_array_equal(found.toarray(), [[0, 2], [3, 0]])

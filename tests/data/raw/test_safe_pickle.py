import collections
import io
import os
import pickle
import struct
import subprocess

import numpy as np
import pytest
import scipy.sparse as sp

from dpgnn.data.raw.safe_pickle import (
    UnsafePickleError,
    checked_csr,
    load_pickle,
    load_pickle_bytes,
)


class Hostile:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (os.mkdir, (str(self.folder),))


class HostileShell:
    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return (subprocess.check_call, (["mkdir", str(self.folder)],))


@pytest.mark.parametrize("kind", [Hostile, HostileShell])
@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_hostile_pickle_is_refused_and_does_nothing(tmp_path, kind, protocol):
    victim = tmp_path / "made_by_the_pickle"
    path = tmp_path / "ind.cora.x"
    path.write_bytes(pickle.dumps({"x": [kind(victim)]}, protocol=protocol))
    with pytest.raises(UnsafePickleError, match=r"must name only .* got .*; nothing of it was"):
        load_pickle(path)
    assert not victim.exists()


def test_a_hostile_pickle_behind_an_allowed_array_is_refused(tmp_path):
    victim = tmp_path / "made_by_the_pickle"
    content = pickle.dumps(np.array([Hostile(victim), 1], dtype=object), protocol=2)
    with pytest.raises(UnsafePickleError):
        load_pickle_bytes(content, where="bytes")
    assert not victim.exists()


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "|u1", "|b1"])
def test_numeric_arrays_come_back_equal(protocol, dtype):
    array = np.arange(12).reshape(3, 4).astype(dtype)
    for order in ("C", "F"):
        content = pickle.dumps(np.array(array, order=order), protocol=protocol)
        found = load_pickle_bytes(content, where="bytes")
        np.testing.assert_array_equal(found, array)
        assert found.dtype == array.dtype


def test_csr_matrices_and_dictionaries_of_lists_come_back_equal():
    matrix = sp.random(20, 7, density=0.2, format="csr", rng=np.random.default_rng(0))
    lists = collections.defaultdict(list, {0: [1, 2], 1: [0]})
    found = load_pickle_bytes(pickle.dumps([matrix, lists], protocol=2), where="bytes")
    np.testing.assert_allclose(found[0].toarray(), matrix.toarray(), rtol=1e-6)
    assert found[1] == lists


@pytest.mark.parametrize("length", [0, 1, 10, 60])
def test_a_truncated_pickle_is_refused(length):
    content = pickle.dumps(np.arange(100), protocol=2)[:length]
    with pytest.raises(UnsafePickleError, match="whole pickle"):
        load_pickle_bytes(content, where="bytes")


def test_an_object_of_another_class_in_the_structure_is_refused():
    with pytest.raises(UnsafePickleError):
        load_pickle_bytes(pickle.dumps(io.BytesIO), where="bytes")


def test_random_damage_of_a_pickle_gives_a_value_error_or_checked_arrays():
    content = bytearray(pickle.dumps(sp.csr_matrix(np.eye(5, dtype=np.float32)), protocol=2))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        try:
            found = load_pickle_bytes(bytes(damaged), where="bytes")
        except ValueError:
            refused += 1
        else:
            found.sum(axis=1)  # index arrays were checked, so this cannot read outside memory
    assert refused > 100


def test_a_memo_slot_that_would_cost_gigabytes_is_refused():
    content = b"\x80\x02K\x01r" + struct.pack("<I", 0xFFFFFFFF) + b"."
    with pytest.raises(UnsafePickleError, match="must not use slot 4294967295"):
        load_pickle_bytes(content, where="bytes")


def test_nested_references_take_no_exponential_time():
    value: list = [0]
    for _ in range(60):
        value = [value, value]
    found = load_pickle_bytes(pickle.dumps(value, protocol=2), where="bytes")
    assert found[0] is found[1]


def test_index_arrays_that_point_outside_are_refused():
    data, indptr = np.ones(2, np.float32), np.array([0, 1, 2])
    with pytest.raises(ValueError, match=r"indices must lie in 0\.\.2"):
        checked_csr(data, np.array([0, 3]), indptr, (2, 3))
    with pytest.raises(ValueError, match="indptr must rise"):
        checked_csr(data, np.array([0, 1]), np.array([0, 2, 1]), (2, 3))
    with pytest.raises(ValueError, match="data must have 2 values"):
        checked_csr(data[:1], np.array([0, 1]), indptr, (2, 3))

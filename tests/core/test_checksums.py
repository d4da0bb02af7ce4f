from __future__ import annotations

import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

from dpgnn.core.checksums import OF_FOLDER, check, list_of, read_checksums, write_checksums
from dpgnn.core.storage import DamagedFileError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.bin", "b.json"):
        (tmp_path / name).write_bytes(name.encode() * 9)
    write_checksums(
        tmp_path / OF_FOLDER, [tmp_path / "a.bin"], {"b.json": sha256(b"b.json" * 9).hexdigest()}
    )
    return tmp_path


def test_the_list_is_one_that_sha256sum_reads(folder: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", OF_FOLDER], cwd=folder, check=True)
    assert set(read_checksums(folder / OF_FOLDER)) == {folder / "a.bin", folder / "b.json"}
    assert check(folder / "a.bin")
    assert check(folder / "b.json")


def test_every_changed_byte_is_found(folder: Path) -> None:
    whole = (folder / "a.bin").read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1
        (folder / "a.bin").write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"a\.bin must be as it was made"):
            check(folder / "a.bin")
    (folder / "a.bin").write_bytes(whole[:-1])
    with pytest.raises(DamagedFileError, match="other bytes"):
        check(folder / "a.bin")
    (folder / "a.bin").unlink()
    with pytest.raises(DamagedFileError, match=r"a\.bin does not exist; run the stage"):
        check(folder / "a.bin")


def test_a_file_that_no_list_names_has_no_checksum(folder: Path) -> None:
    (folder / "c.bin").write_bytes(b"")
    assert not check(folder / "c.bin")
    assert not check(folder.parent / "nothing")


def test_a_list_of_one_name_goes_before_the_folders(folder: Path) -> None:
    write_checksums(folder / "a.sha256", [folder / "a.bin"])
    assert list_of(folder / "a.bin") == folder / "a.sha256"
    (folder / OF_FOLDER).unlink()
    assert check(folder / "a.bin")


@pytest.mark.parametrize("text", [b"", b"abc  a.bin\n", b"\xff\xfe", b"0" * 64 + b" a.bin\n"])
def test_a_damaged_list_is_named(folder: Path, text: bytes) -> None:
    (folder / OF_FOLDER).write_bytes(text)
    with pytest.raises(DamagedFileError, match=r"checksums\.sha256 must be a list"):
        check(folder / "a.bin")

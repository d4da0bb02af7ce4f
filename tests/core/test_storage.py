from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dpgnn.core import storage
from dpgnn.core.storage import DamagedFileError, Store


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "a" / "file.json"
    storage.write_json(path, {"v": 1})
    with pytest.raises(TypeError), storage.atomic_write(path) as file:
        file.writelines([b"half", None])
    assert storage.read_json(path) == {"v": 1}
    assert [p.name for p in path.parent.iterdir()] == ["file.json"]


def test_json_is_canonical_and_holds_no_nan(tmp_path: Path) -> None:
    value = {"b": math.inf, "a": np.float32(0.5), "c": (1, None), "n": math.nan}
    storage.write_json(tmp_path / "x.json", value)
    read = json.loads((tmp_path / "x.json").read_text())
    assert read == {"a": 0.5, "b": "inf", "c": [1, None], "n": None}
    assert storage.sha256_json({"a": 1, "b": 2}) == storage.sha256_json({"b": 2, "a": 1})


@pytest.mark.parametrize("small", [False, True])
def test_parquet_comes_back_with_its_metadata(tmp_path: Path, small: bool) -> None:
    table = pa.table({"a": [1, 2], "b": [[1.0], [2.0, 3.0]]})
    storage.write_parquet(tmp_path / "t.parquet", table, metadata={"k": 1}, small=small)
    assert storage.read_parquet(tmp_path / "t.parquet").to_pydict() == table.to_pydict()
    assert storage.parquet_metadata(tmp_path / "t.parquet") == {"k": 1}


@pytest.mark.parametrize("small", [False, True])
def test_a_flipped_bit_in_parquet_is_found(tmp_path: Path, small: bool) -> None:
    path = tmp_path / "t.parquet"
    values = np.random.default_rng(0).integers(0, 1 << 40, 5000)
    storage.write_parquet(path, pa.table({"a": values}), small=small)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(bytes(data))
    with pytest.raises(DamagedFileError, match=r"t\.parquet must be an undamaged Parquet file"):
        storage.read_parquet(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    storage.write_parquet(tmp_path / "t.parquet", pa.table({"a": [1]}))
    with pytest.raises(DamagedFileError, match="must have the columns b; it has a"):
        storage.read_parquet(tmp_path / "t.parquet", ["a", "b"])


def test_a_checkpoint_is_used_only_by_the_run_that_wrote_it(tmp_path: Path) -> None:
    arrays = {"w": np.arange(3.0)}
    Store(tmp_path, "mine").save("train", arrays, {"step": 3})
    found = Store(tmp_path, "mine").load("train")
    assert found is not None
    assert found[1] == {"step": 3}
    np.testing.assert_array_equal(found[0]["w"], arrays["w"])
    assert Store(tmp_path, "other").load("train") is None
    assert Store(tmp_path, "mine").load("train") is None  # the stranger's checkpoint is removed


def test_a_checkpoint_of_a_release_is_its_owners(tmp_path: Path) -> None:
    Store(tmp_path, "mine", owner_only=True).save("train", {"w": np.arange(3.0)}, {})
    assert (tmp_path / "train.safetensors").stat().st_mode & 0o777 == 0o600


def test_a_damaged_checkpoint_is_ignored(tmp_path: Path) -> None:
    Store(tmp_path, "mine").save("train", {"w": np.arange(3.0)}, {})
    (tmp_path / "train.safetensors").write_bytes(b"not a checkpoint")
    assert Store(tmp_path, "mine").load("train") is None
    assert Store(None).load("train") is None


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("some_missing", [False, True])
def test_a_column_is_the_one_pyarrow_makes_to_the_byte(
    kind: type, some_missing: bool, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    for length in (0, 1, 7, 8, 9, 1000):
        values = rng.integers(0, 100, length).astype(kind)[::-1]
        missing = rng.random(length) < 0.3 if some_missing else None
        columns = storage.column_of(values, missing), pa.array(values, mask=missing)
        assert columns[0].equals(columns[1])
        for name, column in zip(("own", "pyarrow"), columns, strict=True):
            storage.write_parquet(tmp_path / name, pa.table({"x": column}))
        assert (tmp_path / "own").read_bytes() == (tmp_path / "pyarrow").read_bytes()


def test_private_folders_are_their_owners_alone(tmp_path: Path) -> None:
    root = tmp_path / "a" / "root"
    root.mkdir(parents=True, mode=0o755)
    storage.make_private(root / "b" / "c", root)
    for folder in (root, root / "b", root / "b" / "c"):
        assert folder.stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    storage.make_private(root, root)
    storage.write_text(root / "x", "text", owner_only=True)
    assert (root / "x").stat().st_mode & 0o777 == 0o600

"""Attacks in one Parquet file: the same texts, the same results, nothing lost on the way."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpgnn.__main__ import main
from dpgnn.core.storage import write_json
from dpgnn.records.attack_archive import NAME, pack_attacks, read_attack_texts, unpack_attacks
from dpgnn.report.tables.attacks import read_attacks

KEY = {"dataset": "toy", "setting": "random", "entry": "gap", "epsilon": "1", "repeat": 0}
FILE = "toy.random.gap.eps=1.0.leak.json"


def attack(folder: Path, name: str, auc: float) -> None:
    results = [{"attack": "leak", "auc": auc, "curve": [[0.1, 1 / 3]]}]
    content = {"key": KEY, "title": "GAP", "method": "gap", "mode": "sound", "claim": None}
    write_json(folder / name, content | {"results": results})


def test_packed_attacks_are_read_as_the_files_were(tmp_path: Path) -> None:
    attack(tmp_path, FILE, 0.5)
    attack(tmp_path, "toy.random.gap.eps=1.0.gmia.json", 1 / 7)
    texts, results = read_attack_texts(tmp_path), read_attacks(tmp_path)
    assert main(["records", "pack-attacks", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    assert read_attack_texts(tmp_path) == texts
    assert read_attacks(tmp_path) == results
    assert read_attacks(tmp_path, "*.leak.json") == [r for r in results if r["auc"] == 0.5]


def test_a_new_file_replaces_its_row_and_the_same_texts_give_the_same_bytes(
    tmp_path: Path,
) -> None:
    attack(tmp_path, FILE, 0.5)
    pack_attacks(tmp_path)
    before = (tmp_path / NAME).read_bytes()
    assert pack_attacks(tmp_path) == (1, 0)
    assert (tmp_path / NAME).read_bytes() == before
    attack(tmp_path, FILE, 0.75)
    assert [result["auc"] for result in read_attacks(tmp_path)] == [0.75]
    assert pack_attacks(tmp_path) == (1, 1)
    assert [result["auc"] for result in read_attacks(tmp_path)] == [0.75]


def test_unpacked_files_have_the_bytes_that_were_packed(tmp_path: Path) -> None:
    attack(tmp_path, FILE, 0.5)
    written = (tmp_path / FILE).read_bytes()
    pack_attacks(tmp_path)
    assert main(["records", "unpack-attacks", str(tmp_path), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / FILE).read_bytes() == written


def test_nothing_to_pack_and_names_that_lead_elsewhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="hold attacks"):
        pack_attacks(tmp_path)
    monkeypatch.setattr(
        "dpgnn.records.attack_archive.read_attack_texts", lambda folder: {"../x.json": "{}"}
    )
    with pytest.raises(ValueError, match="be a name without a folder"):
        unpack_attacks(tmp_path, tmp_path / "out")
    assert not (tmp_path / "x.json").exists()


def test_a_damaged_attack_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ValueError, match=f"{FILE} is not JSON"):
        read_attacks(tmp_path)

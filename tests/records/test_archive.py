"""Records and attacks in archives: nothing is lost, unplanned runs leave, hostile names stay out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import tells
from made_runs import write_runs

from dpgnn.__main__ import main
from dpgnn.core.paths import Paths
from dpgnn.core.storage import DamagedFileError, write_json
from dpgnn.records.archive import (
    keep_graphs,
    pack,
    pack_texts,
    read_archive,
    read_texts,
    unpack,
    unpack_texts,
    write_archive,
)
from dpgnn.records.attacks import read_attacks
from dpgnn.records.frame import Run, load_runs
from dpgnn.report.tables.claims_table import read_audits


@pytest.fixture
def folder(runs: list[Run], tmp_path: Path) -> Path:
    write_runs(tmp_path / "toy", runs)
    return tmp_path / "toy" / "runs"


def test_packed_runs_are_read_as_files_are(folder: Path, runs: list[Run], tmp_path: Path) -> None:
    names = [run.name for run in runs]
    path = tmp_path / "kept" / "runs.parquet"
    assert pack(path, folder, names) == (len(runs), len(runs))
    from_files, packed = load_runs(folder, names), load_runs(tmp_path / "kept" / "runs", names)
    assert [run.record for run in packed] == [run.record for run in from_files]
    assert [run.resources for run in packed] == [run.resources for run in from_files]
    assert [run.name for run in load_runs(tmp_path / "kept" / "runs")] == sorted(names)
    # the same texts give the same bytes, and unpacking gives the files back
    again = tmp_path / "again.parquet"
    write_archive(again, read_archive(path))
    assert again.read_bytes() == path.read_bytes()
    assert unpack(path, tmp_path / "out") == len(runs)
    for record in folder.rglob("*.json"):
        assert (tmp_path / "out" / record.relative_to(folder)).read_bytes() == record.read_bytes()


def test_new_runs_join_the_archive_and_unplanned_ones_leave_it(
    folder: Path, runs: list[Run], tmp_path: Path
) -> None:
    names = [run.name for run in runs]
    path = tmp_path / "runs.parquet"
    pack(path, folder, names[:4])
    changed = folder / names[1] / "record.json"
    value = json.loads(changed.read_text()) | {"reason": "made again"}
    changed.write_text(json.dumps(value))
    (folder / names[0] / "record.json").unlink()
    assert pack(path, folder, names[:3]) == (3, 2)
    kept = read_archive(path)
    assert list(kept) == sorted(names[:3])
    assert "made again" in kept[names[1]][0]


def test_nothing_to_keep_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="run the study first"):
        pack(tmp_path / "runs.parquet", tmp_path / "none", ["a.b/c/eps=1/0"])
    assert not (tmp_path / "runs.parquet").exists()


def test_what_is_said_of_public_graphs_is_kept_and_nothing_of_a_users_own(tmp_path: Path) -> None:
    results, kept = Paths(results=tmp_path / "results"), Paths(results=tmp_path / "kept")
    for name in ("cora", "facebook-Rutgers89", "patients"):
        (folder := results.graph(name)).mkdir(parents=True)
        (folder / "graph.json").write_text(json.dumps({"num_edges": 7, "name": name}))
        (folder / "edges.parquet").write_bytes(b"private")
    keep_graphs(results, kept, ["cora", "facebook-Rutgers89", "patients", "digits"])
    found = sorted(path for path in (tmp_path / "kept").rglob("*") if path.is_file())
    assert found == [kept.graph(name) / "graph.json" for name in ("cora", "facebook-Rutgers89")]
    for path in found:
        assert path.read_bytes() == (results.graph(path.parent.name) / path.name).read_bytes()


def test_a_damaged_archive_names_the_run(folder: Path, runs: list[Run], tmp_path: Path) -> None:
    path = tmp_path / "kept" / "runs.parquet"
    name = runs[0].name
    write_archive(path, {name: ("{", "")})
    with pytest.raises(DamagedFileError, match=name):
        load_runs(path.with_suffix(""))
    write_archive(path, {runs[1].name: ((folder / name / "record.json").read_text(), "")})
    with pytest.raises(ValueError, match="key must be that of its folder"):
        load_runs(path.with_suffix(""))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedFileError, match="undamaged Parquet"):
        load_runs(path.with_suffix(""))


def test_what_a_damaged_archive_names_as_the_cure_helps(
    folder: Path, runs: list[Run], tmp_path: Path
) -> None:
    path, names = tmp_path / "runs.parquet", [run.name for run in runs]
    pack(path, folder, names)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DamagedFileError, match="take it from git, or delete it and pack again"):
        pack(path, folder, names)
    path.unlink()
    assert pack(path, folder, names) == (len(names), len(names))


@pytest.mark.parametrize("name", ["../../eps=1/0", "a.b/../eps=1/0", "../x"])
def test_a_name_that_leads_out_of_the_folder_writes_nothing(name: str, tmp_path: Path) -> None:
    path = tmp_path / "hostile.parquet"
    write_archive(path, {"a.b/c/eps=1/0": ("{}", ""), name: ("{}", "")})
    with pytest.raises(ValueError, match="must"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_show_prints_a_record_and_says_how_to_find_its_name(
    folder: Path, runs: list[Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, name = tmp_path / "runs.parquet", runs[0].name
    pack(path, folder, [run.name for run in runs])
    assert main(["records", "show", str(path), name]) == 0
    assert json.loads(capsys.readouterr().out)["key"] == dict(runs[0].record.key)
    assert main(["records", "show", str(path)]) == 0
    assert name in capsys.readouterr().out.splitlines()
    assert main(["records", "show", str(path), "a.b/c/eps=1/0"]) != 0
    assert "lists them" in capsys.readouterr().err


def test_a_reader_that_stops_early_gets_no_error(
    folder: Path, runs: list[Run], tmp_path: Path
) -> None:
    path = tmp_path / "runs.parquet"
    names = [run.name for run in runs]
    pack(path, folder, names)
    texts = read_archive(path)
    # more than a pipe holds
    write_archive(path, {f"a.b/c/eps=1/{i}": texts[names[0]] for i in range(20_000)})
    command = f"{sys.executable} -m dpgnn records show {path} | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "a.b/c/eps=1/0\n"
    assert done.stderr == ""


def test_what_is_no_archive_is_not_called_a_damaged_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("name: good")
    for words in (["show", str(good)], ["unpack", str(good), str(tmp_path / "out")]):
        assert main(["records", *words]) == 1
        error = capsys.readouterr().err
        tells(error, "archive must", "runs.parquet")
        assert "delete" not in error
    assert main(["records", "show", str(tmp_path / "none.parquet")]) == 1
    tells(capsys.readouterr().err, "archive must", "runs.parquet")


KEY = {"dataset": "toy", "setting": "random", "entry": "gap", "epsilon": "1", "repeat": 0}
FILE = "toy.random.gap.eps=1.0.leak.json"


def attack(folder: Path, name: str, auc: float) -> None:
    results = [{"attack": "leak", "status": "ok", "auc": auc, "curve": [[0.1, 1 / 3]]}]
    content = {"key": KEY, "title": "GAP", "method": "gap", "mode": "sound", "claim": None}
    write_json(folder / name, content | {"results": results})


def test_packed_attacks_are_read_as_the_files_were(tmp_path: Path) -> None:
    attack(tmp_path, FILE, 0.5)
    attack(tmp_path, "toy.random.gap.eps=1.0.gmia.json", 1 / 7)
    texts, results = read_texts(tmp_path, "attacks"), read_attacks(tmp_path)
    assert main(["records", "pack-attacks", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["attacks.parquet"]
    assert read_texts(tmp_path, "attacks") == texts
    assert read_attacks(tmp_path) == results
    assert read_attacks(tmp_path, "*.leak.json") == [r for r in results if r.auc == 0.5]


def test_a_new_file_replaces_its_row_and_the_same_texts_give_the_same_bytes(
    tmp_path: Path,
) -> None:
    attack(tmp_path, FILE, 0.5)
    pack_texts(tmp_path, "attacks")
    before = (tmp_path / "attacks.parquet").read_bytes()
    assert pack_texts(tmp_path, "attacks") == (1, 0)
    assert (tmp_path / "attacks.parquet").read_bytes() == before
    attack(tmp_path, FILE, 0.75)
    assert [result.auc for result in read_attacks(tmp_path)] == [0.75]
    assert pack_texts(tmp_path, "attacks") == (1, 1)
    assert [result.auc for result in read_attacks(tmp_path)] == [0.75]


def test_unpacked_files_have_the_bytes_that_were_packed(tmp_path: Path) -> None:
    attack(tmp_path, FILE, 0.5)
    written = (tmp_path / FILE).read_bytes()
    pack_texts(tmp_path, "attacks")
    assert main(["records", "unpack-attacks", str(tmp_path), str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / FILE).read_bytes() == written


def test_packed_audits_are_read_in_the_order_of_their_files(tmp_path: Path) -> None:
    folder = tmp_path / "audits"
    folder.mkdir()
    for repeat in ("", ".repeat=1"):
        write_json(
            folder / f"toy.random.gap.eps=1{repeat}.json", [{"key": KEY, "outcome": "passed"}]
        )
    assert main(["records", "sums", str(tmp_path)]) == 0
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    found = read_audits(folder)
    assert main(["records", "pack-audits", str(folder)]) == 0
    assert [path.name for path in folder.iterdir()] == ["audits.parquet"]
    assert "audits/audits.parquet" in (tmp_path / "SHA256SUMS").read_text()
    assert read_audits(folder) == found
    assert main(["records", "unpack-audits", str(folder), str(tmp_path / "out")]) == 0
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before
    (folder / "broken.json").write_bytes(b"\xff")
    for read in (read_audits, lambda folder: pack_texts(folder, "audits")):
        with pytest.raises(
            DamagedFileError, match=r"broken.json is not JSON .*; delete it and audit"
        ):
            read(folder)
    (folder / "broken.json").write_text("{")
    with pytest.raises(
        DamagedFileError, match=r"broken.json is not JSON .*; audit the entry again"
    ):
        read_audits(folder)


def test_nothing_to_pack_and_names_that_lead_elsewhere_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="hold attacks"):
        pack_texts(tmp_path, "attacks")
    monkeypatch.setattr(
        "dpgnn.records.archive.read_texts", lambda folder, kind: {"../x.json": "{}"}
    )
    with pytest.raises(ValueError, match="be a name without a folder"):
        unpack_texts(tmp_path, "attacks", tmp_path / "out")
    assert not (tmp_path / "x.json").exists()


def test_a_damaged_attack_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(ValueError, match=f"{FILE} is not JSON"):
        read_attacks(tmp_path)

"""A bundle is read without the graph, and holds nothing of the owner's."""

from __future__ import annotations

import dataclasses
import json
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bundles import forged, is_wrong, states
from helpers import tells
from models_in_memory import data_of, small

import dpgnn
from dpgnn.core.locks import BusyError, exclusive
from dpgnn.core.storage import sha256_file
from dpgnn.release.load import load
from dpgnn.release.verify import verify


def test_a_bundle_read_again_answers_as_the_model_did(tmp_path: Path) -> None:
    model = small(seed=None, classes=("left", "right"))
    again = dpgnn.load(model.save(tmp_path / "bundle"))
    assert again.claim == model.claim
    assert again.names == model.names
    first, second = (m.predict(data_of(), [1, 2]) for m in (model, again))
    assert np.array_equal(first.probabilities, second.probabilities)
    assert (first.names, first.answers) == (second.names, second.answers)


PRIVATE = {"batch_size": 5, "num_epochs": 1}
KEEPS_ROWS: dict[str, Any] = {
    "method": "GAP", "unit": "node-record", "relation": "replace-one", "num_hops": 1, "epsilon": 16,
    "node": {"max_degree": 5, "encoder": PRIVATE, "head": PRIVATE}, "head": {"hidden": 4},
}  # fmt: skip


def test_kept_rows_are_their_owners_alone_and_no_part_of_what_is_handed_on(tmp_path: Path) -> None:
    model = small(**KEEPS_ROWS)
    folder = model.save(tmp_path / "bundle")
    assert stat.S_IMODE((folder / "own_rows.safetensors").stat().st_mode) == 0o600
    certificate = json.loads((folder / "certificate.json").read_text())
    assert "own_rows.safetensors" not in certificate["files"]
    (said,) = [check for check in verify(folder) if check.what == "owner's files"]
    assert said.state == "not checked"
    tells(said.note, "own_rows.safetensors, own.sha256: present, private", "before handing on")
    tells(said.note, "not covered by the signature")
    found = dpgnn.load(folder).predict(data_of(), [4])
    assert np.array_equal(found.probabilities, model.predict(data_of(), [4]).probabilities)
    for path in folder.glob("own*"):
        path.unlink()
    assert "owner's files" not in states(folder)
    with pytest.raises(ValueError, match="released weights alone"):
        dpgnn.load(folder).predict(data_of(), [4])


@pytest.mark.parametrize("name", ["own_rows.safetensors", "own_ids.json", "own.sha256"])
def test_a_changed_file_of_the_owner_is_refused(name: str, tmp_path: Path) -> None:
    model = small(**KEEPS_ROWS)
    named = dataclasses.replace(model.names, ids=tuple(f"n{i}" for i in range(60)))
    folder = dataclasses.replace(model, names=named).save(tmp_path / "bundle")
    assert stat.S_IMODE((folder / "own.sha256").stat().st_mode) == 0o600
    assert "wrong" not in states(folder).values()
    content = bytearray((folder / name).read_bytes())
    content[10] ^= 1
    (folder / name).write_bytes(bytes(content))
    assert states(folder)["files"] == "wrong"
    with pytest.raises(ValueError, match=r"own"):
        load(folder)
    for path in folder.glob("own*"):  # what is handed on
        path.unlink()
    assert "wrong" not in states(folder).values()


IDS = tuple(f"n{i}" for i in range(60))
OF_VOTES: dict[str, Any] = {
    "method": "votes", "unit": "node-record", "relation": "replace-one", "least_signal": 0.0,
    "training": {"num_steps": 5},
}  # fmt: skip


def everything_in(folder: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in folder.iterdir())


def test_ids_are_in_no_file_that_is_handed_on_until_they_are_declared_public(
    tmp_path: Path,
) -> None:
    asked = small(**OF_VOTES, ids=IDS)
    private = asked.save(tmp_path / "private")
    assert load(private).names == asked.names
    assert stat.S_IMODE((private / "own_ids.json").stat().st_mode) == 0o600
    for path in private.glob("own*"):
        path.unlink()
    assert "n59" not in everything_in(private)
    assert load(private).names.ids == ()
    # a model that answers about any node keeps none
    unasked = small(ids=IDS).save(tmp_path / "unasked")
    assert "n59" not in everything_in(unasked)


@pytest.mark.parametrize("options", [OF_VOTES, {}], ids=["votes", "dp_mlp"])
def test_ids_that_are_public_stand_in_the_bundle_and_are_checked(
    options: dict[str, Any], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = small(**options, ids=IDS, public_ids=True).save(tmp_path / "bundle", key=keys[0])
    model = load(folder)
    assert (model.names.ids, model.names.public_ids) == (IDS, True)
    assert not is_wrong(folder, keys[1])
    assert not list(folder.glob("own*"))
    stated = json.loads((folder / "certificate.json").read_text())
    assert [text for text in stated["public"] if "ids of the graph's nodes" in text]
    assert any("its nodes are published" in text for text in stated["not_covered"])
    tells((folder / "MODEL_CARD.md").read_text(), "in the graph")
    listed = stated["files"]["ids.json"]
    for content in (b"[]", b"{}", b"[1, 2]", b'["n0", "n0"]', b'[""]', b"null", b'["n0"]'):
        (folder / "ids.json").write_bytes(content)
        assert states(folder)["files"] == "wrong"
        # and with the checksums made again
        files = stated["files"] | {"ids.json": sha256_file(folder / "ids.json")}
        forged(folder, stated, ("files",), files)
        assert is_wrong(folder, keys[1]), content
        assert is_wrong(folder) or (content == b'["n0"]' and not options), content
        forged(folder, stated, ("files", "ids.json"), listed)
    (folder / "ids.json").unlink()
    assert states(folder)["files"] == "wrong"
    # left out of the certificate as well: other words
    files = {name: sha for name, sha in stated["files"].items() if name != "ids.json"}
    forged(folder, stated, ("files",), files)
    assert is_wrong(folder)


def test_votes_on_a_directed_graph_answer_from_the_asked_nodes_own_list_alone(
    tmp_path: Path,
) -> None:
    """With edges of other lists turned round, an answer would read other nodes' records."""
    data = data_of()
    data.edge_index = data.edge_index[:, data.edge_index[0] < data.edge_index[1]]
    model = dpgnn.fit(
        data, epsilon=8, delta=1e-3, num_classes=2, seed=1, directed_graph=True, **OF_VOTES
    )
    model = load(model.save(tmp_path / "bundle"))
    assert model.directed_graph
    everyone, turned = (model.predict(data, directed_graph=d) for d in (None, False))
    for node in (7, 30, 59):
        own = data.clone()
        own.edge_index = data.edge_index[:, data.edge_index[0] == node]
        alone = model.predict(own, [node]).probabilities
        assert np.array_equal(alone, everyone.probabilities[[node]])
    assert not np.array_equal(everyone.probabilities, turned.probabilities)


def test_ids_are_one_for_each_node_and_public_only_where_there_are_some() -> None:
    with pytest.raises(ValueError, match="ids must name each of the 60 nodes, got 2"):
        small(ids=("a", "b"))
    with pytest.raises(ValueError, match="ids must be different names"):
        small(ids=("a",) * 60)
    with pytest.raises(ValueError, match="names of ids must be texts"):
        small(ids=range(60))
    with pytest.raises(ValueError, match="public_ids must stand beside the ids, got 'no ids'"):
        small(public_ids=True)


def test_a_release_says_no_score_and_no_detail_of_the_fit(saved: Path) -> None:
    record = json.loads((saved / "certificate.json").read_text())["record"]
    assert (record["metrics"], record["details"], record["inputs"]) == ({}, {}, {})


def test_a_bundle_is_written_into_a_new_folder_alone(saved: Path) -> None:
    with pytest.raises(ValueError, match="be new or empty"):
        small().save(saved)


def test_a_missing_key_is_named_before_anything_is_written(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="file of the private key must exist"):
        small().save(tmp_path / "bundle", key=tmp_path / "none.pem")
    assert not list(tmp_path.iterdir())
    found = {check.what: check for check in verify(saved, key=tmp_path / "none.pem")}
    assert found["signature"].state == "wrong"
    assert "file of the public key must exist" in found["signature"].note


@pytest.mark.parametrize("is_new", [True, False])
def test_a_save_that_is_interrupted_leaves_nothing(
    is_new: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bundle"
    if not is_new:
        folder.mkdir()

    def stopped(*_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgnn.release.bundle.certificate_of", stopped)
    with pytest.raises(KeyboardInterrupt):
        small().save(folder)
    assert folder.exists() != is_new
    assert is_new or not list(folder.iterdir())
    monkeypatch.undo()
    small().save(folder)


def test_two_processes_do_not_write_one_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    with (
        exclusive(tmp_path / ".bundle.lock"),
        pytest.raises(BusyError, match=r"another process writes the bundle .*wait for it or stop"),
    ):
        small().save(folder)
    assert not list(tmp_path.iterdir())
    small().save(folder)
    assert list(tmp_path.iterdir()) == [folder]

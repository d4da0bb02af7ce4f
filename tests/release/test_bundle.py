"""A bundle is read without the graph, and whoever changes a file or a number of it is found."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import re
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from helpers import tells
from models_in_memory import data_of, small
from safetensors.torch import load_file, save_file

import dpgnn
from dpgnn import methods
from dpgnn.core.locks import BusyError, exclusive
from dpgnn.core.storage import json_text, sha256_file, sha256_json
from dpgnn.records.schema import claim_of
from dpgnn.release.bundle import save
from dpgnn.release.load import load
from dpgnn.release.verify import verify


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder, key = tmp_path_factory.mktemp("keys"), Ed25519PrivateKey.generate()
    private, public = folder / "key.pem", folder / "public.pem"
    plain = serialization.NoEncryption()
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    private.write_bytes(key.private_bytes(pem, pkcs8, plain))
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    public.write_bytes(key.public_key().public_bytes(pem, spki))
    return private, public


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Path:
    model = small(
        seed=None, classes=("left", "right"), features=tuple("abcdef"), population=(90, 30)
    )
    return model.save(tmp_path_factory.mktemp("bundle") / "bundle", key=keys[0])


def states(folder: Path, key: Path | None = None) -> dict[str, str]:
    return {check.what: check.state for check in verify(folder, key=key)}


def copy_of(folder: Path, target: Path) -> Path:
    shutil.copytree(folder, target)
    return target


def test_a_bundle_read_again_answers_as_the_model_did(tmp_path: Path) -> None:
    model = small(seed=None, classes=("left", "right"))
    again = dpgnn.load(model.save(tmp_path / "bundle"))
    assert again.claim == model.claim
    assert again.names == model.names
    first, second = (m.predict(data_of(), [1, 2]) for m in (model, again))
    assert np.array_equal(first.probabilities, second.probabilities)
    assert (first.names, first.answers) == (second.names, second.answers)


def test_kept_rows_are_their_owners_alone_and_no_part_of_what_is_handed_on(tmp_path: Path) -> None:
    private = {"batch_size": 5, "num_epochs": 1}
    model = small(
        method="GAP", unit="node-record", relation="replace-one", num_hops=1, epsilon=16,
        node={"max_degree": 5, "encoder": private, "head": private}, head={"hidden": 4},
    )  # fmt: skip
    folder = model.save(tmp_path / "bundle")
    assert stat.S_IMODE((folder / "own_rows.safetensors").stat().st_mode) == 0o600
    certificate = json.loads((folder / "certificate.json").read_text())
    assert "own_rows.safetensors" not in certificate["files"]
    found = dpgnn.load(folder).predict(data_of(), [4])
    assert np.array_equal(found.probabilities, model.predict(data_of(), [4]).probabilities)
    (folder / "own_rows.safetensors").unlink()
    with pytest.raises(ValueError, match="released weights alone"):
        dpgnn.load(folder).predict(data_of(), [4])


@pytest.mark.parametrize("name", ["own_rows.safetensors", "own_ids.json", "own.sha256"])
def test_a_changed_file_of_the_owner_is_refused(name: str, tmp_path: Path) -> None:
    model = small(
        method="votes", unit="node-record", relation="replace-one", least_signal=0.0,
        training={"num_steps": 5},
    )  # fmt: skip
    rows = {"rows": torch.ones(3)}
    named = dataclasses.replace(model.names, ids=tuple(f"n{i}" for i in range(60)))
    folder = dataclasses.replace(model, kept=rows, names=named).save(tmp_path / "bundle")
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


def test_ids_are_one_for_each_node_and_public_only_where_there_are_some() -> None:
    with pytest.raises(ValueError, match="ids must name each of the 60 nodes, got 2"):
        small(ids=("a", "b"))
    with pytest.raises(ValueError, match="ids must be different names"):
        small(ids=("a",) * 60)
    with pytest.raises(ValueError, match="names of ids must be texts"):
        small(ids=range(60))
    with pytest.raises(ValueError, match="public_ids must stand beside the ids, got 'no ids'"):
        small(public_ids=True)


def test_a_certificate_lists_no_file_but_those_of_a_bundle(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    (folder / "run.py").write_text("")
    stated = json.loads((folder / "certificate.json").read_text())
    files = stated["files"] | {"run.py": sha256_file(folder / "run.py")}
    forged(folder, stated, ("files",), files)
    (found,) = verify(folder)
    tells(found.note, "files of the certificate must", "['run.py']")


@pytest.mark.parametrize("name", ["model.pkl", "ids.json", ".hidden", "folder", "a\nb"])
def test_a_file_that_is_no_part_of_a_bundle_is_named_and_refused(
    name: str, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    (folder / name).mkdir() if name == "folder" else (folder / name).write_bytes(b"")
    (found,) = [check for check in verify(folder) if check.state == "wrong"]
    shown = " ".join(name.split())
    tells(found.note, "no part of the bundle", shown)


def test_a_whole_bundle_passes_and_says_what_it_could_not_check(
    saved: Path, keys: tuple[Path, Path]
) -> None:
    found = states(saved, keys[1])
    unknown = [what for what, state in found.items() if state == "not checked"]
    assert unknown == ["run"]
    assert {what for what, state in found.items() if state == "ok"} == {
        "files", "signature", "tensors", "network", "words", "record", "code", "plan", "claims", "epsilon",
    }  # fmt: skip
    assert states(saved)["signature"] == "not checked"


def test_a_release_says_no_score_and_no_detail_of_the_fit(saved: Path) -> None:
    record = json.loads((saved / "certificate.json").read_text())["record"]
    assert (record["metrics"], record["details"], record["inputs"]) == ({}, {}, {})


@pytest.mark.parametrize(
    "name",
    [
        "model.safetensors",
        "certificate.json",
        "MODEL_CARD.md",
        "MODEL_CARD.html",
        "certificate.sig",
    ],
)
def test_a_changed_or_missing_file_is_refused(
    name: str, saved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(bytes(content))
    assert "wrong" in states(folder, keys[1]).values()
    (folder / name).unlink()
    assert "wrong" in states(folder, keys[1]).values()


def numbers(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where the numbers of a JSON value stand."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from numbers(item, (*path, key))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path


def changed(stated: Any, path: tuple[Any, ...]) -> Any:
    found = copy.deepcopy(stated)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = place[path[-1]] / 2 if place[path[-1]] else 1
    return found


def test_every_number_of_a_certificate_that_is_changed_is_found(
    saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    places = list(numbers(stated))
    assert len(places) >= 40
    for path in places:
        (folder / "certificate.json").write_text(json_text(changed(stated, path)))
        assert states(folder)["files"] == "wrong", path


def test_a_smaller_epsilon_in_all_words_is_found_by_the_count(saved: Path, tmp_path: Path) -> None:
    model = load(saved)
    lower = dataclasses.replace(model.claim.claims[0], epsilon=1.0)
    record = dataclasses.replace(
        model.record,
        claims=(claim_of(lower), *model.record.claims[1:]),
        budget={**model.record.budget, "spent_epsilon": 1.0},
    )
    folder = save(dataclasses.replace(model, record=record), tmp_path / "bundle")
    found = states(folder)
    assert (found["plan"], found["claims"], found["epsilon"]) == ("ok", "wrong", "wrong")


def test_a_tensor_that_the_claim_does_not_let_out_is_found(saved: Path, tmp_path: Path) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    path = folder / "model.safetensors"
    save_file({**load_file(path), "activations": torch.ones(3)}, path)
    stated = json.loads((folder / "certificate.json").read_text())
    stated["files"]["model.safetensors"] = sha256_file(path)
    stated["sha256"] = sha256_json({k: v for k, v in stated.items() if k != "sha256"})
    (folder / "certificate.json").write_text(json_text(stated))
    assert states(folder)["tensors"] == "wrong"


def test_another_key_and_a_missing_signature_are_refused(
    saved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    other = Ed25519PrivateKey.generate().public_key()
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    path = tmp_path / "other.pem"
    path.write_bytes(other.public_bytes(serialization.Encoding.PEM, spki))
    assert states(saved, path)["signature"] == "wrong"
    folder = small().save(tmp_path / "bundle")
    assert states(folder, keys[1])["signature"] == "wrong"
    with pytest.raises(ValueError, match="hold a private key"):
        small().save(tmp_path / "third", key=keys[1])


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


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each number, text and null of a JSON value, and where it stands."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    return _at(value[path[0]], path[1:]) if path else value


def forged(folder: Path, stated: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    """Write a certificate with another value and the checksum that goes with it."""
    found = copy.deepcopy(stated)
    place = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    found["sha256"] = sha256_json({k: v for k, v in found.items() if k != "sha256"})
    text = json.dumps(found, sort_keys=True, indent=1) + "\n"  # as written, also of NaN
    (folder / "certificate.json").write_text(text)


# what a forger who makes the checksum again may change unseen, and a signature alone holds: names, where the
# run stood and with what versions, hashes of what is not here, and options that no event counts
UNSEEN = (
    "names", "record.code_sha256", "record.config_sha256", "record.facts.num_nodes",
    "record.key.dataset", "record.key.repeat", "record.key.setting", "record.key.study",
    "record.num_threads", "record.entry.options.width", "record.entry.options.training.optimizer",
    "record.versions",
)  # fmt: skip


def is_wrong(folder: Path, key: Path | None = None) -> bool:
    return any(check.state == "wrong" for check in verify(folder, key=key))


def test_every_value_that_is_changed_is_found_where_the_checksum_is_made_again(
    keys: tuple[Path, Path], tmp_path: Path
) -> None:
    model = small(
        seed=None, classes=("left", "right"), features=tuple("abcdef"), population=(90, 30),
        training={"num_steps": 5, "expected_batch_size": "full"},
    )  # fmt: skip
    folder = model.save(tmp_path / "bundle", key=keys[0])
    stated = json.loads((folder / "certificate.json").read_text())
    unseen, claims = [], 0
    for path, value in leaves(stated):
        other: Any = "f" * 64 if "sha256" in path[-1:] or str(path[-1]).endswith("sha256") else "x"
        if isinstance(value, bool | None):
            other = 0.5 if value is None else not value
        elif isinstance(value, int):
            other = value + 1
        elif isinstance(value, float):
            other = value / 2 or 0.5
        forged(folder, stated, path, other)
        claims += path[:2] == ("record", "claims")
        if path != ("sha256",) and not is_wrong(folder):
            unseen.append(".".join(map(str, path)))
            signature = [c for c in verify(folder, key=keys[1]) if c.what == "signature"]
            assert signature[0].state == "wrong", path
    assert claims >= 15
    assert [one for one in unseen if not one.startswith(UNSEEN)] == []


@pytest.mark.parametrize("value", [0, -1, None, [], {}, "", 1e308])
def test_a_value_that_makes_no_sense_is_wrong_and_stops_nothing(
    value: Any, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    for path in (
        ("record", "facts", "num_nodes"), ("record", "facts", "num_train"), ("record", "entry"),
        ("record", "entry", "relation"), ("record", "plan", "mechanisms"), ("record", "claims", 0),
        ("record", "budget"), ("record", "key"), ("names",), ("files",),
    ):  # fmt: skip
        forged(folder, stated, path, value)
        assert is_wrong(folder), path


MAKES_NO_SENSE: tuple[Any, ...] = (
    0, -1, math.nan, math.inf, 1e308, 10**400, -(10**400), 2**53 + 1, "1", "x", None, [], [1], {},
)  # fmt: skip
# numbers that are refused before anything is made of them, and how
NO_NUMBERS = {
    "NaN": "be finite, got 'NaN'", "-Infinity": "be finite", "1e400": "be finite, got '1e400'",
    "9" * 400: "be whole numbers up to 9007199254740992", "9" * 5000: "be whole numbers up to",
    "-" + "9" * 400: "be whole numbers up to", "9007199254740993": "be whole numbers up to",
}  # fmt: skip


@pytest.mark.parametrize("number", NO_NUMBERS, ids=lambda number: number[:9] + str(len(number)))
def test_a_number_that_is_none_is_refused_in_one_line(
    number: str, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    text = (folder / "certificate.json").read_text()
    places = list(re.finditer(r"(?<=: )-?[0-9.e-]+(?=,?\n)", text))
    assert len(places) >= 30
    for place in places:
        forged_text = text[: place.start()] + number + text[place.end() :]
        (folder / "certificate.json").write_text(forged_text)
        (found,) = verify(folder)
        assert (found.what, found.state) == ("files", "wrong")
        assert NO_NUMBERS[number] in found.note
        assert len(found.note.splitlines()) == 1
        assert len(found.note) <= 300
    with pytest.raises(ValueError, match=r"numbers of certificate\.json must be"):
        load(folder)


@pytest.mark.parametrize("value", MAKES_NO_SENSE, ids=lambda value: str(value)[:9])
def test_each_number_that_makes_no_sense_is_wrong(
    value: Any, saved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    seen = 0
    for path in numbers(stated):
        if json.dumps(value) == json.dumps(_at(stated, path)):
            continue  # the value that it has
        forged(folder, stated, path, value)
        wrong = next((check for check in verify(folder) if check.state == "wrong"), None)
        if wrong is None:  # 0 and large numbers are lawful there, and no event counts them
            assert path[2:5] == ("options", "training", "optimizer")
            wrong = next(c for c in verify(folder, key=keys[1]) if c.state == "wrong")
            assert wrong.what == "signature"
        assert len(wrong.note.splitlines()) == 1, path
        seen += 1
    assert seen >= 35


@pytest.mark.parametrize("value", [10**8, 2**53])
@pytest.mark.parametrize(
    "path",
    [
        ("entry", "options", "num_layers"), ("entry", "options", "training", "num_steps"),
        ("facts", "num_features"), ("facts", "num_classes"),
    ],
)  # fmt: skip
def test_a_number_that_would_keep_the_check_busy_is_refused_before(
    path: tuple[str, ...], value: int, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    stated = json.loads((folder / "certificate.json").read_text())
    forged(folder, stated, ("record", *path), value)
    found = list(verify(folder))
    assert (found[-1].what, found[-1].state) == ("record", "wrong")
    assert f"{path[-1]} must be" in found[-1].note


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("{", '{"format": 1,', 1), "in the form in which it was written"),
        (lambda text: " " + text, "in the form in which it was written"),
        (lambda text: "[" * 100_000, "be JSON"),
        (lambda text: "", "be JSON"),
        (lambda text: "null\n", "hold a certificate"),
    ],
)
def test_another_text_of_the_same_values_is_refused(
    change: Any, says: str, saved: Path, tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    path = folder / "certificate.json"
    path.write_text(change(path.read_text()))
    (found,) = verify(folder)
    assert (found.state, says in found.note) == ("wrong", True), found


def test_a_file_that_is_cut_or_replaced_is_refused(
    saved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    folder = copy_of(saved, tmp_path / "bundle")
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        step = max(len(whole) // 40, 1)
        cut = [whole[:size] for size in range(0, len(whole), step)]
        flipped = [
            whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :]
            for place in range(0, len(whole), step)
        ]
        for content in (*cut, *flipped, whole + b"\n", whole * 2):
            path.write_bytes(content)
            assert is_wrong(folder, keys[1]), (path.name, len(content))
        path.unlink()
        path.mkdir()
        assert is_wrong(folder, keys[1]), path.name
        path.rmdir()
        path.write_bytes(whole)
    assert not is_wrong(folder, keys[1])


def test_the_second_accountant_finds_a_claim_that_ours_would_pass(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpgnn.accountants import composition

    assert states(saved)["epsilon"] == "ok"
    monkeypatch.setattr(composition, "epsilon", lambda *_, **__: 0.1)
    assert states(saved)["epsilon"] == "ok"  # our accountant says less than is claimed
    monkeypatch.setattr("dpgnn.release.verify.recount_any", lambda *_: 4.1)
    (found,) = [check for check in verify(saved) if check.what == "epsilon"]
    assert found.state == "wrong"
    tells(found.note, ">= 4.1", "dp-accounting")


def test_a_part_with_a_hundredth_of_the_budget_is_counted_too(tmp_path: Path) -> None:
    """DPAR's Gaussian rows: much noise beside steps of DP-SGD."""
    model = dpgnn.fit(
        data_of(), method="dpar", unit="node", relation="replace-one", epsilon=1, num_classes=2,
        seed=1, delta=1e-3, rows="gm", rows_share=0.01, num_steps=200, batch_size=4,
    )  # fmt: skip
    (found,) = [check for check in verify(model.save(tmp_path / "b")) if check.what == "epsilon"]
    assert found.state == "ok", found.note
    tells(found.note, "dpgnn", "dp-accounting")


# the first guarantee that each sound method supports, with its example's options
SOUND = [name for name in sorted(methods.TABLE) if "sound" in methods.get(name).modes]


@pytest.mark.parametrize("method", SOUND)
def test_a_bundle_of_each_method_passes_and_half_its_epsilon_does_not(
    method: str, tmp_path: Path
) -> None:
    chosen = methods.get(method)
    pair = chosen.supports[0]
    data = data_of()
    data.val_mask = data.train_mask.roll(1)  # every third node trains
    model = dpgnn.fit(
        data, method=method, unit=pair.privacy_unit, relation=pair.relation, epsilon=8,
        num_classes=2, seed=1, delta=1e-3, **chosen.example,
    )  # fmt: skip
    folder = model.save(tmp_path / "bundle")
    found = states(folder)
    assert "wrong" not in found.values()
    assert (found["plan"], found["claims"]) == ("ok", "ok")
    lower = dataclasses.replace(model.claim.claims[0], epsilon=model.claim.epsilon / 2)
    record = dataclasses.replace(
        model.record,
        claims=(claim_of(lower), *model.record.claims[1:]),
        budget={**model.record.budget, "spent_epsilon": lower.epsilon},
    )
    half = save(dataclasses.replace(model, record=record), tmp_path / "half")
    assert states(half)["claims"] == "wrong"

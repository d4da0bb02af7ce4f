"""Whoever changes a file of a bundle, its key or its claim is found, by the second accountant too."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from bundles import copy_of, forged, is_wrong, states
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from helpers import tells
from models_in_memory import data_of, small
from safetensors.torch import load_file, save_file

import dpgnn
from dpgnn import methods
from dpgnn.core.storage import json_text, sha256_file, sha256_json
from dpgnn.records.schema import claim_of
from dpgnn.release.bundle import save
from dpgnn.release.load import load
from dpgnn.release.verify import verify


def test_a_whole_bundle_passes_and_says_what_it_could_not_check(
    saved: Path, keys: tuple[Path, Path]
) -> None:
    found = states(saved, keys[1])
    unknown = [what for what, state in found.items() if state == "not checked"]
    assert unknown == ["run"]
    assert {what for what, state in found.items() if state == "ok"} == {
        "files", "signature", "tensors", "network", "answers", "words", "record", "release", "code",
        "plan", "claims", "epsilon",
    }  # fmt: skip
    assert states(saved)["signature"] == "not checked"


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

"""A signed bundle, and certificates that a forger changes: for the tests of `dpgnn/release`."""

from __future__ import annotations

import copy
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from models_in_memory import small

from dpgnn.core.storage import sha256_json
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


def is_wrong(folder: Path, key: Path | None = None) -> bool:
    return any(check.state == "wrong" for check in verify(folder, key=key))


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

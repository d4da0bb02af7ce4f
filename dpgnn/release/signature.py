"""Ed25519 signatures of certificates (RFC 8032), by `cryptography`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dpgnn.core.checks import fail, require

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

MAKE_ONE = "make one with `openssl genpkey -algorithm ed25519 -out key.pem`"


def sign(content: bytes, key: Path) -> bytes:
    """The signature of some bytes, 64 bytes.

    Args:
        content: what is signed.
        key: PEM file of an Ed25519 private key without a password.

    Raises:
        ValueError: the file holds no such key.
    """
    return private_key(key).sign(content)


def private_key(key: Path) -> Ed25519PrivateKey:
    """The private key in a PEM file.

    Raises:
        ValueError: there is no such file, or it holds no Ed25519 private key without a password.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    require(key.is_file(), "file of the private key", "exist", str(key), MAKE_ONE)
    try:
        found = load_pem_private_key(key.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        fail(str(key), "hold a private key without a password", str(error)[:80], MAKE_ONE)
    if not isinstance(found, Ed25519PrivateKey):
        fail(str(key), "hold an Ed25519 key", type(found).__name__, MAKE_ONE)
    return found


def public_key(key: Path) -> Ed25519PublicKey:
    """The public key in a PEM file.

    Raises:
        ValueError: there is no such file, or it holds no such key.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    remedy = "`openssl pkey -in key.pem -pubout -out public.pem` makes it"
    require(key.is_file(), "file of the public key", "exist", str(key), remedy)
    try:
        found = load_pem_public_key(key.read_bytes())
    except ValueError as error:
        fail(str(key), "hold a public key", str(error)[:80], remedy)
    if not isinstance(found, Ed25519PublicKey):
        fail(str(key), "hold an Ed25519 key", type(found).__name__, remedy)
    return found


def is_signed(content: bytes, signature: bytes, key: Path) -> bool:
    """Whether the owner of a key signed the bytes."""
    from cryptography.exceptions import InvalidSignature

    try:
        public_key(key).verify(signature, content)
    except InvalidSignature:
        return False
    return True

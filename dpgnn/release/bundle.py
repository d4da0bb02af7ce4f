"""A model's folder: written once, read without the training graph and without executing code from it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.checks import fail, one_line, require
from dpgnn.core.checksums import read_checksums
from dpgnn.core.locks import exclusive
from dpgnn.core.storage import atomic_write, json_text, read_json, sha256_file, write_text
from dpgnn.release.card import html_card, markdown_card
from dpgnn.release.certificate import certificate_of, check_itself, parse, signed_bytes
from dpgnn.release.expected import check_exact
from dpgnn.run.method_checks import check_state
from dpgnn.run.record import OWN_ROWS, ROWS_FOR

if TYPE_CHECKING:
    from torch import Tensor

    from dpgnn.release.released import Released

STATE, CERTIFICATE, SIGNATURE = "model.safetensors", "certificate.json", "certificate.sig"
CARDS = ("MODEL_CARD.md", "MODEL_CARD.html")
LARGEST_BYTES = 1 << 28  # largest certificate; fits the names of a million classes and features
NO_BUNDLE = "`dpgnn release` and `Model.save` write bundles"
# listed if the owner declares ids public
IDS = "ids.json"
# the owner's alone, as OWN_ROWS: never part of what is handed on, so the certificate does not list them
OWN_IDS = "own_ids.json"
OWN_SUMS = "own.sha256"  # of these two and of the certificate that they belong to


def save(model: Released, folder: Path, *, key: Path | None = None) -> Path:
    """Write a bundle; the certificate is written last.

    Guarantee: a save that fails or is interrupted leaves nothing, or a whole bundle. The files that the
    certificate lists hold released tensors, the record (of a release without scores) and names that are
    declared public. Rows for the nodes' own answers, and ids of nodes that are not declared public, are in
    files that only their owner may read and that are not published; ids that no answer needs are not written.

    Args:
        model: what is saved.
        folder: new or empty.
        key: PEM file of an Ed25519 private key, to sign with.

    Raises:
        ValueError: the folder is not empty, or the key is invalid.
        BusyError: another process writes a bundle there.
    """
    with _alone(folder):
        return _save(model, folder, key)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold the folder's lock, so that two processes do not write one bundle; its file does not stay."""
    lock = folder.absolute().parent / f".{folder.name}.lock"
    with exclusive(lock, f"another process writes the bundle {folder}"):
        try:
            yield
        except BaseException:
            lock.unlink(missing_ok=True)
            raise


def _save(model: Released, folder: Path, key: Path | None) -> Path:
    is_new = not folder.exists()
    empty = is_new or (folder.is_dir() and not any(folder.iterdir()))
    remedy = "name another folder, or delete it first"
    require(empty, "folder of a bundle", "be new or empty", str(folder), remedy)
    check_released(model)
    if key is not None:
        from dpgnn.release.signature import private_key

        private_key(key)
    try:
        _write(model, folder, key)
    except BaseException:
        # with a certificate the bundle is whole
        if not (folder / CERTIFICATE).exists():
            _remove(folder, is_new)
        raise
    return folder


def _write(model: Released, folder: Path, key: Path | None) -> None:
    """All files; the certificate is last, because nobody reads a folder without it."""
    _write_tensors(folder / STATE, model.state, note=note_for(model))
    if model.kept:
        _write_tensors(folder / OWN_ROWS, model.kept, owner_only=True)
    listed = [STATE, *CARDS]
    if model.names.public_ids:
        write_text(folder / IDS, json_text(model.names.ids))
        listed.append(IDS)
    elif model.names.ids and model.knows_nodes:
        write_text(folder / OWN_IDS, json_text(model.names.ids), owner_only=True)
    write_text(folder / CARDS[0], markdown_card(model))
    write_text(folder / CARDS[1], html_card(model))
    stated = certificate_of(model, {name: sha256_file(folder / name) for name in listed})
    if key is not None:
        _sign(folder, stated, key)
    certificate = json_text(stated)
    parse(certificate)  # what no reader would take is not written
    _list_own(folder, certificate)
    write_text(folder / CERTIFICATE, certificate)


def _remove(folder: Path, is_new: bool) -> None:
    """Remove what a failed save wrote, and the folder if the save made it."""
    for name in (SIGNATURE, STATE, *CARDS, IDS, OWN_ROWS, OWN_IDS, OWN_SUMS):
        (folder / name).unlink(missing_ok=True)
    if is_new and folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()


def _sign(folder: Path, stated: Mapping[str, Any], key: Path) -> None:
    from dpgnn.release.signature import sign

    with atomic_write(folder / SIGNATURE) as file:
        file.write(sign(signed_bytes(stated), key))


def _list_own(folder: Path, certificate: str) -> None:
    """Write the checksums of the owner's files, if any, and of the certificate they belong to."""
    own = [folder / name for name in (OWN_ROWS, OWN_IDS) if (folder / name).exists()]
    if own:
        sums = {path.name: sha256_file(path) for path in own}
        sums[CERTIFICATE] = hashlib.sha256(certificate.encode()).hexdigest()
        listed = "".join(f"{sums[name]}  {name}\n" for name in sorted(sums))
        write_text(folder / OWN_SUMS, listed, owner_only=True)


def read_certificate(folder: Path) -> dict[str, Any]:
    """The statement of a bundle, compared with its own checksum.

    Args:
        folder: of the bundle.

    Raises:
        ValueError: it is missing or was changed.
    """
    path = folder / CERTIFICATE
    require(path.is_file(), f"{folder}", f"hold {CERTIFICATE}", "no such file", NO_BUNDLE)
    require(
        path.stat().st_size <= LARGEST_BYTES, str(path), f"have <= {LARGEST_BYTES} bytes", "more"
    )
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        fail(str(path), "be UTF-8", one_line(error))
    stated: dict[str, Any] = parse(text)
    check_itself(stated)
    return stated


def check_files(folder: Path, stated: Mapping[str, Any]) -> None:
    """Compare each listed file with its checksum.

    Args:
        folder: of the bundle.
        stated: the certificate.

    Raises:
        ValueError: a file is missing, not listed, changed, or not part of a bundle; names it.
    """
    more = sorted(set(stated["files"]) - {STATE, *CARDS, IDS})
    require(not more, "files of the certificate", "be those of a bundle", more)
    for name in (STATE, *CARDS):
        require(name in stated["files"], "files of the certificate", f"list {name}", "nothing")
    for name, wanted in stated["files"].items():
        path = folder / name
        require(path.is_file(), f"{folder}", f"hold {name}", "no such file")
        if sha256_file(path) != wanted:
            fail(
                str(path), "be as it was made", "other bytes", "ask its maker for the bundle again"
            )


def read_ids(folder: Path, stated: Mapping[str, Any]) -> tuple[tuple[str, ...], bool]:
    """The ids of the nodes of the fit, if present, and whether they are public.

    Guarantee: ids that are not declared public are read only from the owner's own file.

    Args:
        folder: of the bundle.
        stated: the certificate.

    Raises:
        ValueError: the file is not a list of texts.
    """
    public = IDS in stated["files"]
    path = folder / (IDS if public else OWN_IDS)
    if not path.exists():
        return (), False
    found = read_json(path)
    require(isinstance(found, list) and found != [], str(path), "be a list of ids", found)
    return tuple(found), public


def check_own(folder: Path) -> list[str]:
    """Compare the owner's own files, if present, with their checksums.

    Args:
        folder: of the bundle.

    Returns:
        their names.

    Raises:
        ValueError: a file was changed or has no checksum, or they belong to another certificate.
    """
    found = [name for name in (OWN_ROWS, OWN_IDS) if (folder / name).exists()]
    if found:
        stated = read_checksums(folder / OWN_SUMS)
        for name in (CERTIFICATE, *found):
            same = stated.get(folder / name) == sha256_file(folder / name)
            rule = f"be the file that {OWN_SUMS} lists"
            remedy = "take the owner's files of this bundle, or none"
            require(same, str(folder / name), rule, "other bytes", remedy)
    return found


def owners_files(folder: Path) -> list[str]:
    """Names of the files in a bundle's folder that are private and stay with its owner.

    Args:
        folder: of the bundle.
    """
    return [name for name in (OWN_ROWS, OWN_IDS, OWN_SUMS) if (folder / name).exists()]


def strangers(folder: Path, stated: Mapping[str, Any]) -> list[str]:
    """Names in a bundle's folder that do not belong to it.

    Args:
        folder: of the bundle.
        stated: the certificate.
    """
    public = {IDS} if IDS in stated["files"] else set()
    own = public | {STATE, CERTIFICATE, SIGNATURE, *CARDS, OWN_ROWS, OWN_IDS, OWN_SUMS}
    return sorted(path.name for path in folder.iterdir() if path.name not in own)


def check_released(model: Released) -> bool:
    """Check that a private model releases only tensors that its first claim covers and its method makes.

    Guarantee: unit and relation of the first claim, which covers the tensors in its `released`; a model with
    other tensors is not written. The tensors of a user's own module are compared by their prefix alone.

    Args:
        model: what is saved.

    Returns:
        whether names and shapes are those that the method makes; False where only the module knows them, or
        no privacy is claimed.

    Raises:
        ValueError: the model has another tensor, one of another shape, or one that is not finite; names it.
    """
    for name, rows in model.state.items():
        finite = not rows.is_floating_point() or bool(rows.isfinite().all())
        require(finite, f"tensor {name}", "be finite", "a value that is not")
    if not model.record.claims:
        return False
    released = str(model.record.claims[0]["released"])
    check_state(model.entry, released, model.state, STATE)
    kept = {name: rows for name, rows in model.kept.items() if name != ROWS_FOR}
    return check_exact(model.entry, model.facts, released, model.state, kept)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file.

    Args:
        path: of the file; no code in it is executed.

    Raises:
        ValueError: it is none.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(path)
    except SafetensorError as error:
        fail(str(path), "hold tensors", str(error)[:80])


def note_for(model: Released) -> dict[str, str]:
    """The metadata of a model's file of tensors.

    Args:
        model: to be saved, or loaded from a bundle.
    """
    return {"released": str(model.record.entry["method"])}


def note_of(path: Path) -> dict[str, str]:
    """The metadata of a file of tensors.

    Args:
        path: of a safetensors file.
    """
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        return dict(file.metadata() or {})


def _write_tensors(
    path: Path, tensors: Mapping[str, Tensor], *, note: dict[str, str] | None = None,
    owner_only: bool = False,
) -> None:  # fmt: skip
    from safetensors.torch import save as as_bytes

    plain = {name: rows.contiguous().cpu() for name, rows in tensors.items()}
    with atomic_write(path, owner_only=owner_only) as file:
        file.write(as_bytes(plain, metadata=note))

"""One ledger for each graph: all its releases, by any study or call.

An entry is in its release's folder, so that one rename creates both. It names its graph by a checksum of
features and edges under a secret key, which is kept in the same place: without the key, an entry does not
reveal whether it is of a given graph. A changed graph is another graph; for people in both, the epsilons add
up.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.accountants.claims import Claim, from_dict
from dpgnn.core.checks import require
from dpgnn.core.storage import (
    DamagedFileError,
    canonical_json,
    json_text,
    make_private,
    read_json,
    write_text,
)
from dpgnn.records.schema import event_of

if TYPE_CHECKING:
    from dpgnn.accountants.plan import Plan

ENTRY, KEY = "ledger.json", "ledger.key"
STAGED, BUDGETS = ".staged", "budgets"


@dataclass(frozen=True, kw_only=True)
class Release:
    """One release, as its graph's ledger holds it.

    Attributes:
        name: STUDY/RUN of a run, or api/NAME/TIME of a call.
        dataset: name of the graph.
        when: UTC, as 2026-01-02T03:04:05Z.
        method: its name in the table of methods.
        claims: all claims; the first is the calibrated one.
        mechanisms: event (as records hold it) and population of each.
    """

    name: str
    dataset: str
    when: str
    method: str
    claims: tuple[Claim, ...]
    mechanisms: tuple[Mapping[str, Any], ...]


def release_of(name: str, dataset: str, method: str, plan: Plan) -> Release:
    """The entry of a release made by `plan` now."""
    mechanisms = tuple(
        {"event": event_of(m.event), "population": m.population} for m in plan.mechanisms
    )
    return Release(
        name=name, dataset=dataset, method=method, claims=plan.claims, mechanisms=mechanisms,
        when=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    )  # fmt: skip


class GraphLedger:
    """The ledger of one graph.

    Args:
        root: where releases are kept.
        structure_sha256: the graph's `structure_hash`.
    """

    def __init__(self, root: Path, structure_sha256: str) -> None:
        self.root = root
        self._structure = structure_sha256

    @cached_property
    def key(self) -> bytes:
        """The secret key, made at first use.

        Raises:
            DamagedFileError: there are entries but no key, or the key is damaged.
        """
        path = self.root / KEY
        if not path.exists():
            if [*entries(self.root), *(self.root / BUDGETS).glob("*.json")]:
                raise DamagedFileError(
                    f"{path} must be there, got none; put back the one that the entries and budgets in "
                    f"{self.root} were made with"
                )
            private_folder(self.root, self.root)
            _make_once(path)
        key = path.read_bytes()
        if len(key) != 32:
            raise DamagedFileError(f"{path} must hold 32 bytes, got {len(key)}; put it back")
        return key

    @cached_property
    def graph(self) -> str:
        """The graph's checksum under the key."""
        return hmac.new(self.key, self._structure.encode(), hashlib.sha256).hexdigest()

    def write(self, folder: Path, release: Release) -> None:
        """Write the entry of a release into its folder."""
        self.sign(
            folder / ENTRY,
            {
                "graph": self.graph,
                **asdict(release),
                "claims": [claim.to_dict() for claim in release.claims],
            },
        )

    def releases(self) -> list[Release]:
        """All releases of the graph, the oldest first.

        Raises:
            DamagedFileError: an entry of any graph was changed.
        """
        known = [(self.signed(path)["graph"], path.parent) for path in entries(self.root)]
        found = [self.read(folder) for graph, folder in known if graph == self.graph]
        return sorted(found, key=lambda release: (release.when, release.name))

    def read(self, folder: Path) -> Release:
        """The entry of the release in a folder.

        Raises:
            DamagedFileError: it is missing or was changed.
        """
        values = self.signed(folder / ENTRY)
        del values["graph"]
        claims = tuple(from_dict(claim) for claim in values.pop("claims"))
        return Release(**values | {"claims": claims, "mechanisms": tuple(values["mechanisms"])})

    def sign(self, path: Path, values: Any) -> None:
        """Write signed values, readable by the owner only; `signed` reads them."""
        text = json_text({"values": values, "mac": self._mac(values)})
        write_text(path, text, owner_only=True)

    def signed(self, path: Path) -> Any:
        """The values that `sign` wrote.

        Raises:
            DamagedFileError: they were changed.
        """
        found = read_json(path)
        whole = isinstance(found, dict) and set(found) == {"values", "mac"}
        if not whole or not hmac.compare_digest(self._mac(found["values"]), str(found["mac"])):
            raise DamagedFileError(
                f"{path} must be as it was written, got other bytes; put it back from a copy"
            )
        return found["values"]

    def _mac(self, values: Any) -> str:
        return hmac.new(self.key, canonical_json(values).encode(), hashlib.sha256).hexdigest()


def private_folder(folder: Path, root: Path) -> None:
    """`make_private`, where `root` is one of releases.

    Raises:
        ValueError: others can read `root`, and it holds something but no releases: it is not ours to close.
    """
    if root.is_dir() and root.stat().st_mode & 0o077 and not (root / KEY).exists():
        others = sorted(path.name for path in root.iterdir())
        remedy = "name a new folder: it becomes readable by its owner alone"
        require(not others, f"folder of releases {root}", "be new or empty", others[:3], remedy)
    make_private(folder, root)


def without_entry(root: Path) -> list[Path]:
    """Releases that no ledger counts, made by versions without ledgers."""
    records = (path.parent for path in _files(root, "record.json"))
    found = sorted(folder for folder in records if not (folder / ENTRY).exists())
    return [folder for folder in found if read_json(folder / "record.json").get("claims")]


def entries(root: Path) -> list[Path]:
    """The files of all entries, each once, sorted; also behind links to other places.

    Args:
        root: where releases are kept.

    Raises:
        OSError: a folder cannot be read, so what it holds would not be counted.
    """
    return _files(root, ENTRY)


def _files(root: Path, name: str) -> list[Path]:
    found: dict[Path, Path] = {}
    seen: set[Path] = set()
    for folder, inner, files in os.walk(root, followlinks=True, onerror=_fail):
        place = Path(folder)
        if place.resolve() in seen:  # links in a circle, or two to one place
            inner.clear()
            continue
        seen.add(place.resolve())
        inner[:] = sorted(other for other in inner if other != STAGED)
        if name in files:
            found.setdefault((place / name).resolve(), place / name)
    return sorted(found.values())


def _fail(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):  # nothing was released yet, or a run just moved
        raise error


def _make_once(path: Path) -> None:
    """Write a new key; if another process was faster, its key is kept."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(secrets.token_bytes(32))
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(new, path)
    except FileExistsError:
        pass
    finally:
        new.unlink()
    require(path.exists(), str(path), "be there", None)

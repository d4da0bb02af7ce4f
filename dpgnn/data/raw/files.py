"""Raw files of a data set: from data/raw, a mirror folder or the network, checksummed before use."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.storage import sha256_file
from dpgnn.data.raw.download import ChecksumError, download
from dpgnn.data.raw.sources import RawFile, Source

MIRROR_VARIABLE = "DPGNN_MIRROR"


def mirror_folders(more: Sequence[Path] = ()) -> tuple[Path, ...]:
    """Folders of the environment variable DPGNN_MIRROR (separated by os.pathsep), then `more`."""
    named = os.environ.get(MIRROR_VARIABLE, "")
    return tuple(Path(part).expanduser() for part in named.split(os.pathsep) if part) + tuple(more)


@dataclass(frozen=True, kw_only=True)
class RawFiles:
    """Finds, or fetches, the raw files of one data set.

    Attributes:
        source: the data set's rows of data/sources.csv.
        folder: where fetched files are kept, usually data/raw; never edited.
        mirrors: folders in the same layout that are looked at before the network; only read.
        partial_folder: where unfinished downloads wait to be resumed.
    """

    source: Source
    folder: Path
    mirrors: tuple[Path, ...] = field(default_factory=mirror_folders)
    partial_folder: Path = Path("work/downloads")

    def find(self, raw: RawFile) -> Path | None:
        """Where the file lies here, unverified; None when it would have to be fetched."""
        for folder in (self.folder, *self.mirrors):
            candidate = folder / raw.mirror_path
            if candidate.is_file():
                return candidate
        return None

    def missing(self) -> list[RawFile]:
        """Files that are not here; an archive counts as here when its unpacked raw/ lies beside it."""
        found = []
        for raw in self.source.files:
            places = [folder / raw.mirror_path for folder in (self.folder, *self.mirrors)]
            unpacked = any(
                place.suffix == ".zip" and (place.parent / "raw").is_dir() for place in places
            )
            if not unpacked and self.find(raw) is None:
                found.append(raw)
        return found

    def path(self, file: str) -> Path:
        """The path of a verified file, fetched first when it is not here.

        Args:
            file: its name in the column `file` of sources.csv.

        Raises:
            ChecksumError: the file here, or the one fetched, is not the published one.
            OSError: it is not here and could not be fetched; names the folders that were searched.
        """
        by_name = {raw.file: raw for raw in self.source.files}
        require(file in by_name, f"file of {self.source.name}", f"be one of {list(by_name)}", file)
        raw = by_name[file]
        found = self.find(raw)
        if found is None:
            return self._fetch(raw)
        _verify(raw, found)
        return found

    def only_path(self) -> Path:
        """`path` of a data set that is one file."""
        (raw,) = self.source.files
        return self.path(raw.file)

    def _fetch(self, raw: RawFile) -> Path:
        target = self.folder / raw.mirror_path
        if not raw.url:
            searched = ", ".join(str(folder) for folder in (self.folder, *self.mirrors))
            raise FileNotFoundError(
                f"{raw.mirror_path} of {self.source.name} must be placed by hand in one of "
                f"{searched}; it has no address it can be fetched from, see data/README.md"
            )
        return download(
            raw.url,
            target,
            sha256=raw.sha256,
            num_bytes=raw.num_bytes,
            partial_folder=self.partial_folder,
        )


def _verify(raw: RawFile, path: Path) -> None:
    """Compare size, then sha256, with what is published; unknown values are not compared."""
    size = path.stat().st_size
    if raw.num_bytes is not None and size != raw.num_bytes:
        raise ChecksumError(
            f"{path} must have {raw.num_bytes} bytes, got {size}; delete it and fetch it again"
        )
    if raw.sha256:
        found = sha256_file(path)
        if found != raw.sha256:
            raise ChecksumError(
                f"{path} must have sha256 {raw.sha256}, got {found}; delete it and fetch it again"
            )

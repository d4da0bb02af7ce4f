"""Raw files of a data set: from data/raw, a mirror folder or the network, checksummed before use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.core.storage import sha256_file
from dpgnn.data.raw.download import ChecksumError, download, move
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
        folder: of fetched files, usually data/raw; never edited.
        mirrors: folders in the same layout that are searched before the network; only read.
        partial_folder: folder of unfinished downloads, and of files of unknown checksum until they are read.
    """

    source: Source
    folder: Path
    mirrors: tuple[Path, ...] = field(default_factory=mirror_folders)
    partial_folder: Path = Path("work/downloads")

    def find(self, raw: RawFile) -> Path | None:
        """Path of the local file, not yet verified; None if it must be fetched."""
        places = [folder / raw.mirror_path for folder in (self.folder, *self.mirrors)]
        found = (place for place in (*places, self._unread(raw)) if place.is_file())
        return next(found, None)

    @contextmanager
    def accepted(self) -> Iterator[None]:
        """A context that moves files without a known checksum to `folder` once the body has read them.

        Raises:
            ValueError: raised by the body; the files are then deleted, so that they are fetched again.
        """
        try:
            yield
        except ValueError as error:
            unread = [place for place in map(self._unread, self.source.files) if place.is_file()]
            for place in unread:
                place.unlink()
            if not unread:
                raise
            names = ", ".join(place.name for place in unread)
            raise ValueError(f"{error}; {names} had just been fetched and was deleted") from error
        for raw in self.source.files:
            if self._unread(raw).is_file():
                target = self.folder / raw.mirror_path
                target.parent.mkdir(parents=True, exist_ok=True)
                move(self._unread(raw), target)

    def _unread(self, raw: RawFile) -> Path:
        return self.partial_folder / "unread" / raw.mirror_path

    def missing(self) -> list[RawFile]:
        """Missing files; an archive is not missing if its unpacked raw/ is beside it."""
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
        """The path of a verified file, which is fetched if missing; see `accepted`.

        Args:
            file: its name in the column `file` of sources.csv.

        Raises:
            ChecksumError: the local or fetched file is not the published one.
            OSError: it is missing and could not be fetched; names the searched folders.
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
        """`path` of a data set with one file."""
        (raw,) = self.source.files
        return self.path(raw.file)

    def _fetch(self, raw: RawFile) -> Path:
        place = self.folder / raw.mirror_path
        if not raw.url:
            searched = ", ".join(str(folder) for folder in (self.folder, *self.mirrors))
            raise FileNotFoundError(
                f"{raw.mirror_path} of {self.source.name} must be placed by hand in one of "
                f"{searched}; it has no address it can be fetched from, see data/README.md"
            )
        return download(
            raw.url,
            place if raw.sha256 else self._unread(raw),
            by_hand=place,
            sha256=raw.sha256,
            num_bytes=raw.num_bytes,
            partial_folder=self.partial_folder,
        )


def _verify(raw: RawFile, path: Path) -> None:
    """Compare size and sha256 with the published ones; unknown values are not compared."""
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

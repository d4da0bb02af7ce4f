"""The layout of `results/` and of the folder of releases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgnn.core.checks import fail, require

# private runs of releases, by study and run, and the ledgers of graphs; never removed
RELEASES = Path(os.environ.get("DPGNN_RELEASES", "releases"))
# below work/: finished runs of processes that make several, by study and run
FINISHED = "finished"


@dataclass(frozen=True, kw_only=True)
class Paths:
    """Paths of the workflow's artefacts.

    Attributes:
        results: the root of everything rules make.
    """

    results: Path = Path("results")

    def graph(self, dataset: str) -> Path:
        """Folder of nodes.parquet, edges.parquet and graph.json."""
        return self.results / "graphs" / dataset

    def split(self, dataset: str, setting: str, repeat: int) -> Path:
        """The split's Parquet file."""
        return self.results / "splits" / f"{dataset}.{setting}.{repeat}.parquet"

    def prepared(self, dataset: str, setting: str, repeat: int, label: str) -> Path:
        """The prepared sample's Parquet file; its facts are in the .json beside it."""
        return self.results / "prepared" / f"{dataset}.{setting}.{repeat}" / f"{label}.parquet"

    def study(self, study: str) -> Path:
        """Folder of a study."""
        return self.results / "studies" / study

    def run(self, study: str, folder: str) -> Path:
        """Folder of one run; `folder` is DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT."""
        return self.study(study) / "runs" / folder


def check_writable(folder: Path) -> None:
    """Refuse a folder that this process may not write to or create.

    Raises:
        ValueError: names the folder in question.
    """
    place = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    remedy = "make it writable, work in another folder, or make it a link to one"
    if not place.is_dir():
        fail(f"folder {place}", "be writable", "a file", "choose a path without this file")
    require(
        os.access(place, os.W_OK | os.X_OK), f"folder {place}", "be writable", "read-only", remedy
    )


def regular(path: Path, what: str = "") -> Path:
    """The path, if it is a regular file; reading a named pipe or a device might never end.

    Args:
        path: of the file.
        what: its name in messages; empty takes the path.

    Raises:
        ValueError: it exists and is not a regular file.
    """
    if path.exists() and not path.is_file():
        fail(what or str(path), "be a regular file", _kind(path), "put a copy of the file there")
    return path


def _kind(path: Path) -> str:
    if path.is_dir():
        return "a folder"
    return "a named pipe" if path.is_fifo() else "a device or a socket"


def in_project(path: str | Path, root: Path = Path()) -> Path:
    """A file's path relative to the project's folder `root` if it lies inside, else as given.

    So a file has one path, however it was named, and the jobs that read it do not rerun.
    """
    place = Path(root, path)
    whole = place.parent.resolve() / place.name
    home = root.resolve()
    return whole.relative_to(home) if whole.is_relative_to(home) else Path(path)


def run_folder(key: Mapping[str, Any]) -> str:
    """DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT of a run's key."""
    return "{dataset}.{setting}/{entry}/eps={epsilon}/{repeat}".format_map(key)


def parse_run(folder: str, *, name: str = "run") -> dict[str, str | int]:
    """dataset, setting, entry, epsilon and repeat of DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT.

    Args:
        folder: the text.
        name: of the text in messages, for example a flag.

    Raises:
        ValueError: the text has another form.
    """
    rule = "have the form DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT"
    parts = folder.strip("/").split("/")
    if len(parts) != 4 or "." not in parts[0] or not parts[2].startswith("eps="):
        fail(name, rule, folder)
    if not (parts[3].isascii() and parts[3].isdigit()):  # isdigit alone accepts superscripts
        fail(name, rule, folder)
    dataset, setting = parts[0].split(".", 1)
    return {
        "dataset": dataset,
        "setting": setting,
        "entry": parts[1],
        "epsilon": parts[2].removeprefix("eps="),
        "repeat": int(parts[3]),
    }

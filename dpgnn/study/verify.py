"""Checks that a study's files are unchanged: each is compared with the checksums that its job wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dpgnn.core.checksums import OF_FOLDER, read_checksums
from dpgnn.core.paths import Paths
from dpgnn.core.storage import DamagedFileError, sha256_file
from dpgnn.records.archive import RUNS, read_archive
from dpgnn.run.record import RUN_FILES
from dpgnn.study.data_here import DataHere, record_in
from dpgnn.study.study import RunKey, Study

if TYPE_CHECKING:
    from dpgnn.study.workflow import Workflow

State = Literal["ok", "changed", "missing", "no checksum", "other data"]
# larger files are hashed only by a full check; jobs that read them check each page
MAX_HASHED_BYTES = 256 << 20


@dataclass(frozen=True, kw_only=True)
class Group:
    """The files of one job.

    Attributes:
        listed: the job's list of checksums.
        files: files that it always makes.
        is_data: whether it is a graph, split or sample, from which runs are made; other files are made from
            runs.
        folders: that the job fills; files in them that its list does not name have no checksum.
    """

    listed: Path
    files: tuple[Path, ...]
    is_data: bool = False
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The state of one file.

    Attributes:
        path: the file.
        state: "no checksum" is a file that no list names, such as files of earlier versions and archives;
            "other data" a record of another graph, split or sample than lies here.
        group: the job that made it.
    """

    path: Path
    state: State
    group: Group

    @property
    def is_bad(self) -> bool:
        """Whether it must be remade."""
        return self.state in ("changed", "missing")


def run_group(study: str, key: RunKey, root: Path) -> Group:
    """The files of one run."""
    folder = root / Paths().run(study, key.folder)
    files = tuple(folder / name for name in RUN_FILES if name != OF_FOLDER)
    return Group(listed=folder / OF_FOLDER, files=files)


def groups(workflow: Workflow, root: Path) -> Iterator[Group]:
    """All jobs of a study whose files should be present, in the order in which they are made."""
    for name in workflow.datasets:
        files = tuple(root / path for path in workflow.graph_files(name))
        yield Group(listed=files[0].parent / OF_FOLDER, files=files, is_data=True)
    for path in workflow.splits:
        yield _named(root / path, root / path, is_data=True)
    tables = [path for path in workflow.prepared if path.endswith(".parquet")]
    for table in (root / path for path in tables):
        yield _named(table, table, table.with_suffix(".json"), is_data=True)
    study = workflow.study
    if not _packed(study, root):
        yield from (run_group(study.name, key, root) for key in study.keys)
    for path in (*workflow.audits, *workflow.attacks):
        yield _named(root / path, root / path)
    folder = root / Paths().study(study.name)
    files = (folder / "report.html", folder / "metrics.json")
    filled = (folder / "tables", folder / "figures")
    yield Group(listed=folder / OF_FOLDER, files=files, folders=filled)
    joined = root / Paths().results / "report.html"
    yield _named(joined, joined)


def states(group: Group, *, whole: bool = True) -> Iterator[Finding]:
    """The state of each file of a group.

    Args:
        group: which.
        whole: hash files of any size.
    """
    sums: dict[Path, str] = {}
    if group.listed.exists():
        try:
            sums = read_checksums(group.listed)
        except DamagedFileError:
            yield Finding(path=group.listed, state="changed", group=group)
        else:
            if not _is_as_written(group, sums):
                yield Finding(path=group.listed, state="changed", group=group)
    filled = {path for folder in group.folders for path in folder.rglob("[!.]*") if path.is_file()}
    for path in sorted({*group.files, *sums, *filled}):
        yield Finding(path=path, state=_state(path, sums.get(path), whole), group=group)


def is_whole(group: Group) -> bool:
    """Whether all files of a group exist unchanged."""
    return not any(item.is_bad for item in states(group))


def verify(workflow: Workflow, *, root: Path) -> Iterator[Finding]:
    """The state of every file of a study.

    Args:
        workflow: the study.
        root: the folder of the workflow.
    """
    for group in groups(workflow, root):
        yield from states(group)
    yield from _of_other_data(workflow.study, root)
    if _packed(workflow.study, root):
        yield _state_of_archive(root / Paths().study(workflow.study.name) / RUNS)


def _of_other_data(study: Study, root: Path) -> Iterator[Finding]:
    """Records of another graph, split or sample than lies here."""
    data = DataHere(study, root)
    for key in study.keys:
        group = run_group(study.name, key, root)
        record = record_in(group.listed.parent)
        if record and not data.fits(record, key):  # what is missing or damaged is named above
            path = group.listed.parent / "record.json"
            yield Finding(path=path, state="other data", group=group)


def damaged(workflow: Workflow, *, root: Path) -> list[Finding]:
    """Changed or missing files that a run would read; only files with a checksum, up to 256 MiB."""
    found = (group for group in groups(workflow, root) if group.listed.exists())
    return [item for group in found for item in states(group, whole=False) if item.is_bad]


def lines(findings: Iterable[Finding], root: Path) -> Iterator[str]:
    """A line for each file."""
    for found in findings:
        yield f"{found.state:<11}  {found.path.relative_to(root)}"


def _is_as_written(group: Group, sums: Mapping[Path, str]) -> bool:
    """Whether a list is unchanged and names all files of its job."""
    folder = group.listed.parent
    lines = sorted((str(path.relative_to(folder)), sha256) for path, sha256 in sums.items())
    text = "".join(f"{sha256}  {name}\n" for name, sha256 in lines)
    return set(group.files) <= set(sums) and group.listed.read_bytes() == text.encode()


def _named(path: Path, *files: Path, is_data: bool = False) -> Group:
    return Group(listed=path.with_suffix(".sha256"), files=files, is_data=is_data)


def _state(path: Path, wanted: str | None, whole: bool) -> State:
    if not path.exists():
        return "missing"
    if wanted is None:
        return "no checksum"
    if not whole and path.stat().st_size > MAX_HASHED_BYTES:
        return "ok"
    return "ok" if sha256_file(path) == wanted else "changed"


def _packed(study: Study, root: Path) -> bool:
    """Whether a study's records came as an archive."""
    folder = root / Paths().study(study.name)
    return (folder / RUNS).exists() and not (folder / "runs").exists()


def _state_of_archive(path: Path) -> Finding:
    """The state of an archive, which has only the checksums of its pages."""
    group = Group(listed=path, files=(path,))
    try:
        read_archive(path)
    except DamagedFileError:
        return Finding(path=path, state="changed", group=group)
    return Finding(path=path, state="no checksum", group=group)

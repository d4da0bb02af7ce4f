"""Shares a finished study by git and DVC: what may leave this machine, and the command that sends it.

`.dvcignore` is made from data/sources.csv. It hides from DVC each graph, split and prepared sample of a data
set whose terms do not allow redistribution, and those of users' own graphs, so no DVC command can push them.
Records, models, tables and figures are results and are shared.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dpgnn import methods
from dpgnn.core import locks
from dpgnn.core.checks import fail, require
from dpgnn.core.paths import Paths
from dpgnn.core.storage import write_text
from dpgnn.data.raw.sources import read_sources
from dpgnn.study import progress
from dpgnn.study.choices import choices_path
from dpgnn.study.study import Study
from dpgnn.study.verify import damaged
from dpgnn.study.workflow import Workflow, attack_files, audit_files

SHARED = Path("workflow") / "shared.yaml"
IGNORED = Path(".dvcignore")
CONFIG = Path(".dvc") / "config"  # names the remote, so that a clone can pull
SECRET = re.compile(
    r"^\s*(password|\w*secret\w*|\w*token|account_key|access_key_id|connection_string)\s*=",
    re.MULTILINE,
)
# folders that hold the data itself, or enough to rebuild it
DATA = ("graphs", "splits", "prepared")
HEAD = """\
# Made by `dpgnn share` from data/sources.csv (dpgnn/study/sharing.py): DVC sees no graph, split or
# prepared sample but of the data sets below, which may be redistributed.
__pycache__
*.pyc
.snakemake/log
.snakemake/iocache
"""
SHARED_HEAD = """\
# The studies that `dpgnn share` has shared; dvc.yaml makes two stages for each.
"""


def may_leave(dataset: str) -> bool:
    """Whether a data set's terms allow redistribution of files made from it; never for a user's own graph."""
    source = read_sources().get(dataset)
    return source is not None and source.redistribute == "yes"


def ignore_text() -> str:
    """The content of .dvcignore."""
    names = [name for name in sorted(read_sources()) if may_leave(name)]
    lines = []
    for kind in DATA:
        ending = "" if kind == "graphs" else ".*"
        lines += [f"/results/{kind}/*", *(f"!/results/{kind}/{name}{ending}" for name in names)]
    return HEAD + "\n".join(lines) + "\n"


def own_remembered(root: Path) -> set[str]:
    """Names of a user's own data sets with checksums in Snakemake's metadata.

    With two candidates of a private graph, a checksum would reveal which one was used.
    """
    memory, found = root / ".snakemake" / "metadata", set()
    for path in memory.rglob("*") if memory.is_dir() else ():
        if path.is_dir():
            continue
        # Snakemake names a file by its output's path in base64, cut into folders "@..." if long
        text = "".join(part.removeprefix("@") for part in path.relative_to(memory).parts)
        try:
            parts = Path(base64.urlsafe_b64decode(text).decode()).parts
        except ValueError:
            continue
        if len(parts) > 2 and parts[:2] == ("results", "graphs"):
            found.add(parts[2])
    return found - set(read_sources())


def share(
    study: Study,
    path: Path,
    *,
    root: Path,
    push: bool = True,
    git: bool = False,
    message: str = "",
) -> str:
    """Version a finished study's files in DVC, commit the versions in git, and push the files.

    Args:
        study: of the tier that was run.
        path: its YAML file, relative to `root`.
        root: a git repository with DVC set up.
        push: send the files to DVC's default remote.
        git: push the branch's commits after the files, so that no commit lacks its files.
        message: of the commit.

    Returns:
        what was done, in one line.

    Guarantee: files made from a data set that may not leave are neither versioned nor sent, nor is
    Snakemake's metadata if it holds checksums of a user's graph; records, models, audits, attacks and pages
    are. Records and models are covered by their claims; no claim covers the others.

    Raises:
        ValueError: the study is not finished, or stale or damaged, or git or DVC is not set up.
        RuntimeError: DVC holds a data set that may not leave; nothing was committed or pushed.
        BusyError: a workflow is active in the folder.
    """
    with locks.exclusive(progress.workflow_lock(root)):
        _check(study, path, root)
        write_text(root / IGNORED, ignore_text())
        _note(study, path, root)
        reasons = _not_for_others(study, root)
        targets = _version(study, root, memory=not reasons)
        committed = _commit(root, path, message or f"Results of {study.name}, tier {study.tier}")
        _send(root, targets if push else [], git=git)
    return ", ".join(_done(study, reasons, committed=committed, push=push, git=git))


def _send(root: Path, targets: list[str], *, git: bool) -> None:
    """Push the stages' files, then the commits."""
    if targets:
        _dvc(root, "push", "-q", *targets)
    if git:
        _run(root, "git", "push", "-q")


def _done(study: Study, reasons: list[str], *, committed: bool, push: bool, git: bool) -> list[str]:
    """What was done and what was not sent, in words."""
    done = [f"study {study.name}, tier {study.tier}: {len(study.keys)} records"]
    done += ["versions committed" if committed else "nothing new to commit"]
    done.append("files pushed" if push else "files not pushed")
    done += ["commits pushed"] if git else []
    return [*done, *_stays_here(study, reasons)]


def _stays_here(study: Study, reasons: list[str]) -> Iterator[str]:
    """What was not sent."""
    kept_back = sorted({key.dataset for key in study.keys if not may_leave(key.dataset)})
    if kept_back:
        yield f"graphs, splits and samples of {', '.join(kept_back)} stay here"
    if reasons:
        yield f"Snakemake's memory and the joined page stay here: they hold {', '.join(reasons)}"


def _version(study: Study, root: Path, *, memory: bool) -> list[str]:
    """Give DVC the study's files; returns the stages that hold them.

    Args:
        memory: whether Snakemake's memory may leave too.

    Raises:
        RuntimeError: DVC holds a data set that may not leave.
    """
    for checks in ("audits", "attacks"):
        # outputs of the stage of runs, also in studies without audits or attacks
        (root / "results" / "studies" / study.name / checks).mkdir(exist_ok=True)
    targets = ["graphs", "splits", "prepared", f"runs@{study.name}", f"report@{study.name}"]
    targets += ["memory"] if memory else []
    _dvc(root, "commit", "-f", "-q", *targets)
    wrong = sorted({name for name in _versioned(root) if not may_leave(name)})
    if wrong:
        raise RuntimeError(
            f"DVC must hold only data sets that may be redistributed, got {', '.join(wrong)}; "
            "nothing was committed or pushed; remove them from dvc.lock"
        )
    return targets


def _not_for_others(study: Study, root: Path) -> list[str]:
    """What the joined page and Snakemake's metadata hold besides shared studies."""
    import yaml

    text = (root / SHARED).read_text(encoding="utf-8")
    shared = set(yaml.safe_load(text)["studies"]) | {study.name}
    folder = root / "results" / "studies"
    others = sorted({path.name for path in folder.iterdir() if path.is_dir()} - shared)
    own = sorted(own_remembered(root))
    found = [f"study {name}, which is not shared" for name in others]
    return found + ([f"checksums of {', '.join(own)}"] if own else [])


def _check(study: Study, path: Path, root: Path) -> None:
    """Refuse what a clone would not have as it is here."""
    _check_ready(study, path, root)
    _check_code(study, root)
    _check_nothing_left(study, path, root)


def _check_ready(study: Study, path: Path, root: Path) -> None:
    """Refuse a release, a study that is not finished, and one that is stale or damaged."""
    _check_study(study)
    for folder, command in ((".git", "git init"), (".dvc", "dvc init")):
        require((root / folder).exists(), str(root), f"hold {folder}", "none", f"run `{command}`")
    config = root / CONFIG
    secret = SECRET.search(config.read_text(encoding="utf-8")) if config.exists() else None
    if secret is not None:
        remedy = "move it to .dvc/config.local with `dvc remote modify --local`"
        fail(str(CONFIG), "hold no secret, because it is committed", secret[1], remedy)
    name, paths = f"study {study.name}", Paths(results=root / "results")
    own = path != Path("config.yaml") and path.parent != Path("workflow") / "studies"
    command = f"`dpgnn run {path if own else study.name} --tier {study.tier}`"
    missing = [
        key.folder
        for key in study.keys
        if not (paths.run(study.name, key.folder) / "record.json").exists()
    ]
    if missing:
        count = f"{len(missing)} of {len(study.keys)} records missing, {missing[0]} first"
        fail(name, "be finished before it is shared", count, f"finish it with {command}")
    made = (*audit_files(study, paths), *attack_files(study, paths))
    for file in (*made, paths.study(study.name) / "report.html"):
        rule = f"have {file.relative_to(root)} before it is shared"
        require(file.exists(), name, rule, "none", f"finish it with {command}")
    stranger = next(_strangers(study, root), None)
    if stranger is not None:
        rule = "hold results of its own runs alone before it is shared"
        fail(name, rule, stranger, "delete them, or name the --tier that has them")
    offender = next(_stale(study, path, root), None)
    if offender is not None:
        remedy = f"make it again with {command}"
        fail(name, "be up to date and whole before it is shared", offender, remedy)


def _strangers(study: Study, root: Path) -> Iterator[Path]:
    """Runs, audits and attacks of entries or data that the study no longer names; DVC takes whole folders.

    An entry may have been taken out because its model must not leave.
    """
    home = Paths(results=root / "results").study(study.name)
    known = {key.folder for key in study.keys}
    for record in sorted((home / "runs").glob("*/*/*/*/record.json")):
        if str(record.parent.relative_to(home / "runs")) not in known:
            yield record.parent.relative_to(root)
    cells = {f"{key.stem}." for key in study.keys}
    for kind in ("audits", "attacks"):
        for file in sorted((home / kind).glob("*.json")):
            if not any(file.name.startswith(cell) for cell in cells):
                yield file.relative_to(root)


def _check_code(study: Study, root: Path) -> None:
    """Refuse code that git does not hold as it is: a clone could not make the records again."""
    used = {key.entry: study.entries[key.entry].for_dataset(key.dataset) for key in study.keys}
    own = any(methods.get(entry.method).with_outside("", entry) for entry in used.values())
    places = ["dpgnn/*.py", *(["*.py"] if own else [])]
    said = _run(root, "git", "status", "--porcelain", "--untracked-files=all", "--", *places)
    changed = [line[3:] for line in said.splitlines()]
    if changed:
        rule = "be committed before its results are shared"
        fail(f"code of study {study.name}", rule, ", ".join(changed[:3]), "commit it with git")


def _check_nothing_left(study: Study, path: Path, root: Path) -> None:
    """Refuse a study of which Snakemake would make anything again, such as a page under another title."""
    chosen = ("--config", f"study={path}", f"tier={study.tier}", "-n")
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", *chosen],
        cwd=root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if "Nothing to be done" not in said:
        planned = re.findall(r"^rule (\w+):|^localrule (\w+):", said, re.MULTILINE)
        rules = (
            sorted({"".join(names) for names in planned} - {"all"})
            or said.strip().splitlines()[-1:]
        )
        rule = "be up to date before it is shared"
        remedy = f"make it again with `dpgnn run {path} --tier {study.tier}`"
        fail(f"study {study.name}", rule, f"left to do: {', '.join(rules)}", remedy)


def _check_study(study: Study) -> None:
    """Refuse a release."""
    require(
        study.config.randomness == "study", f"study {study.name}", "be no release to be shared",
        study.config.randomness,
        "publish record.json and model.safetensors of its run; times, memory and checksums are not covered",
    )  # fmt: skip


def _stale(study: Study, path: Path, root: Path) -> Iterator[str]:
    """Runs of another configuration or code than the study's, and files that are not those that were made."""
    words = {
        "other": "of another configuration or code", "data": "of other data than lie here",
    }  # fmt: skip
    for key, state in progress.run_states(study, root=root).items():
        if state != "done":
            yield f"run {key.folder} {words.get(state, state)}"
    workflow = Workflow(study_file=str(root / path), tier=study.tier)
    for found in damaged(workflow, root=root):
        yield f"{found.path.relative_to(root)} {found.state}"


def _note(study: Study, path: Path, root: Path) -> None:
    """Add the study to the list that dvc.yaml reads."""
    import yaml

    place = root / SHARED
    held = yaml.safe_load(place.read_text(encoding="utf-8")) if place.exists() else None
    studies: dict[str, Any] = dict((held or {}).get("studies") or {})
    studies[study.name] = {"file": path.as_posix(), "tier": study.tier}
    text = yaml.safe_dump({"studies": dict(sorted(studies.items()))})
    write_text(place, SHARED_HEAD + text)


def _versioned(root: Path) -> Iterator[str]:
    """Names of the data sets with files in DVC."""
    import yaml

    lock = yaml.safe_load((root / "dvc.lock").read_text(encoding="utf-8"))
    cache = Path(_dvc(root, "cache", "dir").strip())
    for stage in lock["stages"].values():
        for out in stage.get("outs", ()):
            parts = Path(out["path"]).parts
            if parts[:1] != ("results",) or parts[1:2] == () or parts[1] not in DATA:
                continue
            if len(parts) > 2:
                yield parts[2].split(".")[0]
                continue
            digest = out["md5"]
            files = json.loads((cache / "files" / "md5" / digest[:2] / digest[2:]).read_text())
            yield from {Path(file["relpath"]).parts[0].split(".")[0] for file in files}


def _commit(root: Path, path: Path, message: str) -> bool:
    """Commit the files that name the versions, the study's with its tuned choices, and the remote's address.

    Passwords of a remote belong in .dvc/config.local, which git ignores. False if nothing changed.
    """
    files = (IGNORED, SHARED, CONFIG, Path("dvc.lock"), Path("dvc.yaml"), path)
    all_files = (*files, choices_path(path))
    names = [file.as_posix() for file in all_files if (root / file).exists()]
    _run(root, "git", "add", "--", *names)
    if not _run(root, "git", "diff", "--cached", "--name-only", "--", *names).strip():
        return False
    _run(root, "git", "commit", "-q", "-m", message, "--", *names)
    return True


def _dvc(root: Path, *arguments: str) -> str:
    return _run(root, sys.executable, "-m", "dvc", *arguments)


def _run(root: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        shown = " ".join(command).replace(f"{sys.executable} -m ", "")
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()
        errors = [line for line in said if line.startswith(("ERROR", "error", "fatal"))] or said
        raise RuntimeError(
            f"`{shown}` must end well, got {errors[-1] if said else done.returncode}"
        )
    return done.stdout

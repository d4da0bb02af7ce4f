"""Driving Snakemake: which study file, how much work, how far, and a lock that dies with its holder."""

from __future__ import annotations

import fcntl
import json
import os
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from dpgnn.checks import fail
from dpgnn.paths import Paths
from dpgnn.study import RunKey, Study

# a log that was written this recently belongs to a run that is going on
RUNNING_SECONDS = 120.0


class BusyError(RuntimeError):
    """Another workflow is at work in this folder."""


def study_file(name: str, *, root: Path) -> Path:
    """The YAML file of a study's name; `quick` is config.yaml.

    Raises:
        ValueError: neither a known study nor a file; lists what exists.
    """
    if name == "quick":
        return Path("config.yaml")
    path = Path("workflow") / "studies" / f"{name}.yaml"
    if (root / path).exists():
        return path
    if (root / name).is_file():
        return Path(name)
    known = sorted(p.stem for p in (root / "workflow" / "studies").glob("*.yaml"))
    fail("study", f"be a YAML file or one of {', '.join(['quick', *known])}", name)


def run_snakemake(
    path: Path,
    *,
    tier: str,
    device: str,
    targets: Sequence[str],
    extra: Sequence[str],
    root: Path,
) -> int:
    """Run Snakemake on a study; resumes after a kill without asking to unlock by hand.

    The folder is locked by the kernel for this process and its children, so a lock of Snakemake's own that
    is found while we hold ours was left by a killed run, and is removed.

    Raises:
        BusyError: another run holds the folder.
    """
    command = [sys.executable, "-m", "snakemake", *extra]
    command += ["--config", f"study={path}", f"tier={tier}", f"device={device}", "--", *targets]
    with exclusive(root / "work" / "run.lock") as lock:
        if any((root / ".snakemake" / "locks").glob("*")):
            print("removing the lock that a killed run left", file=sys.stderr)
            unlock = [sys.executable, "-m", "snakemake", "--unlock", "--quiet", "all"]
            subprocess.run([*unlock, "--config", f"study={path}"], cwd=root, check=True)
        return subprocess.run(command, cwd=root, pass_fds=(lock,), check=False).returncode


@contextmanager
def exclusive(path: Path) -> Iterator[int]:
    """Hold a kernel lock on `path`; it ends with the last process that inherited it, however that dies.

    Yields:
        the file descriptor, to be passed to children.

    Raises:
        BusyError: another process holds it; names the process.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 100, 0).decode() or "unknown"
            raise BusyError(
                f"another run works in this folder (process {holder}); wait for it or stop it"
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, str(os.getpid()).encode(), 0)
        yield descriptor
    finally:
        os.close(descriptor)


def estimate(study: Study, *, root: Path) -> str:
    """Runs by entry and the hours they take, from runs of the same entry that were measured here.

    Returns:
        lines of text; an entry that never ran here counts with the median of all and is marked.
    """
    measured = _seconds_by_entry(study, root)
    all_seconds = [value for values in measured.values() for value in values]
    counts = Counter(key.entry for key in study.keys)
    lines = [f"study {study.name}, tier {study.tier}: {len(study.keys)} runs"]
    total, guessed = 0.0, False
    for entry, count in counts.items():
        known = measured.get(entry, [])
        if known or all_seconds:
            seconds = statistics.median(known or all_seconds)
            total += seconds * count
            guessed |= not known
            mark = "" if known else " (guessed: this entry never ran here)"
            lines.append(f"  {entry}: {count} runs x {seconds:.1f} s{mark}")
        else:
            guessed = True
            lines.append(f"  {entry}: {count} runs, no time measured yet")
    cores = os.cpu_count() or 1
    hours = total / 3600
    if total:
        about = "about " if guessed else ""
        lines.append(f"{about}{hours:.2f} hours on one core, {hours / cores:.2f} on {cores} cores")
    return "\n".join(lines)


def status(study: Study, *, root: Path) -> str:
    """How far a study is: runs done, running, failed and left, and the hours left."""
    states = {key: run_state(study, key, root=root) for key in study.keys}
    counts = Counter(states.values())
    measured = [value for values in _seconds_by_entry(study, root).values() for value in values]
    left = counts["left"] + counts["running"] + counts["failed"]
    lines = [
        f"study {study.name}, tier {study.tier}: {len(study.keys)} runs, {counts['done']} done, "
        f"{counts['running']} running, {counts['failed']} failed, {counts['left']} left"
    ]
    if measured and left:
        hours = left * statistics.median(measured) / 3600 / (os.cpu_count() or 1)
        lines.append(f"about {hours:.2f} hours left on {os.cpu_count()} cores")
    for key, state in states.items():
        if state == "failed":
            log = _log(study, key, root)
            lines.append(f"failed: {key.folder} ({log}): {_last_line(log)}")
    return "\n".join(lines)


def run_state(study: Study, key: RunKey, *, root: Path) -> str:
    """ "done", "running", "failed" or "left": from the record and the log of a run."""
    record = root / Paths().run(study.name, key.folder) / "record.json"
    if record.exists():
        return "done"
    log = _log(study, key, root)
    if not log.exists():
        return "left"
    if "error" in _last_line(log).lower():
        return "failed"
    return "running" if time.time() - log.stat().st_mtime < RUNNING_SECONDS else "left"


def _log(study: Study, key: RunKey, root: Path) -> Path:
    return root / "logs" / "train" / study.name / f"{key.folder}.log"


def _last_line(path: Path) -> str:
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
    return next((line for line in reversed(lines) if line.strip()), "")


def _seconds_by_entry(study: Study, root: Path) -> Mapping[str, list[float]]:
    found: dict[str, list[float]] = {}
    runs = root / Paths().study(study.name) / "runs"
    for path in runs.glob("*/*/*/*/resources.json"):
        try:
            seconds = float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
        except (ValueError, KeyError):
            continue
        found.setdefault(path.parts[-4], []).append(seconds)
    return found

"""Runs Snakemake: finds the study file, allows one workflow in a folder at a time, and ends cleanly."""

from __future__ import annotations

import difflib
import itertools
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core import locks
from dpgnn.core.checks import fail, require
from dpgnn.core.paths import check_writable, in_project, regular
from dpgnn.core.storage import UNFINISHED
from dpgnn.study import progress
from dpgnn.study.copies import keep_finished
from dpgnn.study.repair import repair
from dpgnn.study.screen import follow
from dpgnn.study.verify import damaged, lines

if TYPE_CHECKING:
    from dpgnn.study.study import Study
    from dpgnn.study.workflow import Workflow

# Snakemake's flags that make nothing, that show more, and that force up-to-date targets
DRY = frozenset(("-n", "--dry-run", "--dryrun"))
SHOWS = DRY | {
    "--verbose",
    "--summary",
    "-S",
    "--dag",
    "--rulegraph",
    "--list",
    "-l",
    "--help",
    "-h",
}
FORCES = frozenset(("-f", "--force", "-F", "--forceall"))
LOCAL = (
    "local",
    "dryrun",
    "touch",
)  # Snakemake's executors that start jobs on this machine, or none
STOPPED = 130  # the exit status after Ctrl-C, as in shells, and after SIGTERM
FIRST = "without -n these files are made again first; the plan below does not count what follows from that"
_claimed = ExitStack()


def study_file(name: str, *, root: Path) -> Path:
    """The YAML file of a study's name.

    Args:
        name: `quick` (config.yaml), a study of workflow/studies, or a file of the user's.
        root: of the repository.

    Returns:
        relative to `root`.

    Raises:
        ValueError: neither a known study nor a file; lists what exists.
    """
    if name == "quick":
        return Path("config.yaml")
    path = Path("workflow") / "studies" / f"{name}.yaml"
    if (root / path).exists():
        return path
    if (root / name).exists():
        found = regular(in_project(name, root), "study file " + name)
        # Snakemake reads braces as wildcards, and a name such as 123 as a number
        plain = not set("{}") & set(str(found)) and found.suffix in (".yaml", ".yml")
        require(
            plain, "study file", "have a name without braces that ends in .yaml", name, "rename it"
        )
        return found
    known = ["quick", *sorted(p.stem for p in (root / "workflow" / "studies").glob("*.yaml"))]
    near = difflib.get_close_matches(Path(name).stem, known, n=1)
    remedy = f"did you mean {near[0]}?" if near else ""
    if Path(name).suffix in (".yaml", ".yml"):
        beside = {p.name: p for p in (root / name).parent.glob("*.yaml")}
        close = difflib.get_close_matches(Path(name).name, beside, n=1)
        remedy = f"did you mean {Path(name).parent / close[0]}?" if close and not near else remedy
        known_too = f"studies by name: {', '.join(known)}"
        fail("study file", "exist", name, remedy or known_too)
    fail("study", f"be a YAML file or one of {', '.join(known)}", name, remedy)


def run_snakemake(
    path: Path,
    *,
    tier: str,
    device: str,
    targets: Sequence[str],
    extra: Sequence[str],
    root: Path,
    workflow: Workflow | None = None,
) -> int:
    """Run Snakemake on a study; resumes after a kill without asking to unlock by hand.

    Changed files of `workflow` are first made again; a dry run names them. This process and Snakemake hold a
    kernel lock on the folder; a Snakemake started by hand takes the same lock (`claim`). One line per stage
    is shown in place of Snakemake's output, which is in .snakemake/log. Causes of failed jobs are printed
    last. Returns the exit status (130: Ctrl-C or SIGTERM).

    Raises:
        BusyError: another run holds the folder.
    """
    snakemake = [sys.executable, "-m", "snakemake"]
    asked = [f"asked={workflow.asked}"] if workflow is not None and workflow.asked else []
    config = ["--config", f"study={path}", f"tier={tier}", f"device={device}", *asked, "--"]
    with locks.exclusive(progress.workflow_lock(root)) as lock:
        _remove_lock(snakemake, path, root)
        started = os.fstat(lock).st_mtime  # by the file system's clock, like the times of logs
        with _signals_for_child() as child:
            screen = _Screen(child, workflow, started)

            def make(wanted: Sequence[str], flags: Sequence[str] = extra) -> int:
                plain = not SHOWS & set(flags)
                return screen.run([*snakemake, *flags, *config, *wanted], root, lock, plain=plain)

            if workflow is not None:
                _mend(workflow, extra, root, make)
            code = make(targets)
        why = _why(child, screen, root, started) if code else ()
        sys.stderr.writelines(f"{line}\n" for line in why)
        return STOPPED if code and child.interrupted else code


def check_profile(flags: Sequence[str], root: Path) -> None:
    """Refuse a --workflow-profile that is not there; Snakemake would ignore it and ask for --cores.

    Args:
        flags: of Snakemake.
        root: the folder of the workflow.

    Raises:
        ValueError: the folder has no configuration; names those that there are.
    """
    for flag, profile in _pairs(flags):
        if flag == "--workflow-profile" and profile != "none":
            there = any((root / profile).glob("config*.y*ml"))
            known = ", ".join(
                sorted(f"profiles/{path.name}" for path in (root / "profiles").glob("*"))
            )
            require(there, flag, "be a folder with config.yaml", profile, f"there are {known}")


def runs_elsewhere(flags: Sequence[str], root: Path) -> bool:
    """Whether other machines run the jobs: an executor is asked for, or a profile that has one.

    Args:
        flags: of Snakemake.
        root: the folder of the workflow.

    Returns:
        True also for a profile that is not in `root`, which is not read.
    """
    import yaml

    stated = dict(_pairs(flags))
    executor = stated.get("--executor", stated.get("-e"))
    for flag in ("--workflow-profile", "--profile"):
        if executor is None and stated.get(flag, "none") != "none":
            files = sorted((root / stated[flag]).glob("config*.y*ml"))
            if not files:
                return True
            profile = yaml.safe_load(files[-1].read_text(encoding="utf-8")) or {}
            executor = profile.get("executor")
    return executor is not None and executor not in LOCAL


def _pairs(flags: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each word of Snakemake's flags with the next one; --flag=value is two words."""
    return itertools.pairwise([part for flag in flags for part in flag.split("=", 1)])


def _why(child: _Child, screen: _Screen, root: Path, started: float) -> Sequence[str]:
    """Why Snakemake stopped: a signal, causes in its logs, or its last lines."""
    causes = list(progress.last_screen(root, since=started))
    return ([screen.stopped(root)] if child.interrupted else causes) or screen.last


def _mend(workflow: Workflow, extra: Sequence[str], root: Path, make: Callable[..., int]) -> None:
    """Remake changed files; a dry run names them."""
    found = damaged(workflow, root=root)
    if DRY & set(extra):
        said = [*lines(found, root), *([FIRST] if found else [])]
        print(*said, sep="\n", end="\n" * bool(found), file=sys.stderr)
    elif found:
        plain = [flag for flag in extra if flag not in FORCES]
        repair(found, root=root, make=lambda wanted: make(wanted, plain))


def _remove_lock(snakemake: list[str], path: Path, root: Path) -> None:
    """Remove Snakemake's own lock, left by a killed run: we hold ours, so no run is active."""
    if any((root / ".snakemake" / "locks").glob("*")):
        print("removing the lock that a killed run left", file=sys.stderr)
        unlock = [*snakemake, "--unlock", "--quiet", "all", "--config", f"study={path}"]
        subprocess.run(unlock, cwd=root, check=True, env=environment(root))


def environment(root: Path) -> dict[str, str]:
    """The environment of Snakemake and its jobs; where the home folder cannot hold caches, work/ does."""
    found = dict(os.environ)
    try:
        check_writable(Path(found.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")))
    except (ValueError, OSError):
        folder = (root / "work" / "cache").absolute()
        (folder / "matplotlib").mkdir(parents=True, exist_ok=True)
        found["XDG_CACHE_HOME"] = str(folder)
        found.setdefault("MPLCONFIGDIR", str(folder / "matplotlib"))
    return found


class _Screen:
    """Runs Snakemake and shows the stages of its work.

    Attributes:
        last: the last lines of Snakemake that were not shown.
    """

    def __init__(self, child: _Child, workflow: Workflow | None, started: float) -> None:
        self.last: list[str] = []
        self._child, self._workflow, self._started = child, workflow, started
        self._done = self._planned = 0

    def run(self, command: Sequence[str], root: Path, lock: int, *, plain: bool) -> int:
        """Its exit status.

        Args:
            command: Snakemake's.
            root: its folder.
            lock: the descriptor that it inherits.
            plain: show stages; otherwise Snakemake's own output is shown.
        """
        if self._child.interrupted:  # before Snakemake started
            return STOPPED
        if not plain:
            self._child.process = subprocess.Popen(
                command, cwd=root, pass_fds=(lock,), env=environment(root)
            )
            return self._child.process.wait()
        process = subprocess.Popen(
            command, cwd=root, pass_fds=(lock,), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, env=environment(root),
        )  # fmt: skip
        self._child.process = process
        assert process.stdout is not None
        flow = self._workflow
        kept = None
        if flow is not None and flow.chunks:
            kept = partial(progress.num_kept, flow.study, root=root, since=self._started)
        runs = {} if flow is None else flow.runs_of_rules
        stages, self.last = follow(process.stdout, runs, kept=kept)
        self._done, self._planned = stages.of_runs()
        return process.wait()

    def stopped(self, root: Path) -> str:
        """The message when the user stopped it, with the number of runs done."""
        done, planned, workflow = self._done, self._planned, self._workflow
        if planned and workflow is not None and workflow.chunks:
            # finished runs of a stopped process are kept
            done, planned = progress.num_made(workflow.study, root=root), len(workflow.study.keys)
        count = f"{done} of {planned} runs done; " if planned else ""
        return f"Stopped by you; {count}the same command goes on"


def claim(root: Path, study: Study | None = None) -> None:
    """Called by Snakemake before its first job: hold the folder's lock until this process ends.

    If `run_snakemake` started us, it holds the lock for us. Removes unfinished files of killed jobs in
    results/, and keeps copies of the study's finished runs, because Snakemake removes all results of a
    process of several runs before it starts it.

    Raises:
        BusyError: another run holds the folder.
    """
    lock = progress.workflow_lock(root)
    if locks.holder(lock) != os.getppid():
        _claimed.enter_context(locks.exclusive(lock))
    remove_unfinished(root / "results")
    if study is not None:
        keep_finished(study, root)


def remove_unfinished(folder: Path) -> list[Path]:
    """Remove the temporary files and folders of writes that were killed; returns what was removed."""
    found = [path for path in folder.rglob(".*") if UNFINISHED.fullmatch(path.name)]
    for path in found:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    return found


class _Child:
    """The running Snakemake, and whether the user stopped it."""

    process: subprocess.Popen[Any] | None = None
    interrupted = False

    def interrupt(self) -> None:
        """Send Snakemake and its jobs what Ctrl-C sends them in a terminal; Snakemake comes first, so that
        it starts no other job.
        """
        import psutil

        with suppress(psutil.NoSuchProcess):
            if self.process is not None and self.process.poll() is None:
                snakemake = psutil.Process(self.process.pid)
                for each in (snakemake, *snakemake.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        each.send_signal(signal.SIGINT)


@contextmanager
def _signals_for_child() -> Iterator[_Child]:
    """On Ctrl-C, which Snakemake gets too, wait until it has cancelled its jobs. SIGTERM does the same.

    By itself Snakemake answers SIGTERM by waiting for the end of its jobs, which may take hours.
    """
    child = _Child()

    def hand_on(number: int, frame: object) -> None:
        child.interrupted = True
        child.interrupt()

    def note(number: int, frame: object) -> None:
        child.interrupted = True

    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, note),
        signal.SIGTERM: signal.signal(signal.SIGTERM, hand_on),
    }
    try:
        yield child
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

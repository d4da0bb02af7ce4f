"""Cost and progress of a study, and causes of failed jobs, read from records, locks and logs."""

from __future__ import annotations

import os
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dpgnn.core.grouping import grouped
from dpgnn.core.locks import is_held
from dpgnn.core.paths import FINISHED, RELEASES, Paths
from dpgnn.core.wording import count
from dpgnn.study.chunks import run_logs
from dpgnn.study.data_here import DataHere, record_in
from dpgnn.study.study import RunKey, Study
from dpgnn.study.timings import Timings
from dpgnn.study.verify import is_whole, run_group
from dpgnn.study.verify import states as states_of
from dpgnn.study.wanted import Wanted
from dpgnn.study.workflow import attack_files, audit_files

# if locks do not work between nodes, a log written this recently shows that a run is active
RUNNING_SECONDS = 120.0
OWN_ERROR = re.compile(r"dpgnn( \w+)?: error: ")
MAX_CAUSES = 20
SHOWN_CAUSES = 3


def run_lock(work: Path, study: str, folder: str) -> Path:
    """The file that is locked while a run is made."""
    return work / "locks" / study / f"{folder}.lock"


def workflow_lock(root: Path) -> Path:
    """The file that is locked while a workflow is active in `root`."""
    return root / "work" / "run.lock"


def estimate(study: Study, keys: Sequence[RunKey] | None = None, *, root: Path) -> str:
    """Runs by data set with their hours, estimated from runs in this folder or from the committed records.

    Args:
        study: the study.
        keys: of its runs; all when None.
        root: the folder of the workflow.

    Returns:
        lines of text; an unmeasured entry counts as the median run of its data set, an unmeasured data set as
        the one nearest in size, scaled.
    """
    times, cores, total = Timings(study, root), os.cpu_count() or 1, 0.0
    wanted = study.keys if keys is None else keys
    lines = [f"study {study.name}, tier {study.tier}: {count(len(wanted), 'run')}"]
    for dataset in dict.fromkeys(key.dataset for key in wanted):
        here = [key for key in wanted if key.dataset == dataset]
        seconds = times.total(here)
        total += seconds
        spent = _long(seconds) if seconds else "no time measured yet"
        said = _not_timed(Counter(times.source(key) for key in here))
        mark = f" ({said})" if seconds and said else ""
        lines.append(f"  {dataset}: {count(len(here), 'run')}, {spent}{mark}")
    if total:
        about = "" if all(times.measured(key) for key in wanted) else "about "
        lines.append(f"{about}{_long(total)} on one core, {_long(total / cores)} on {cores} cores")
    audits, attacks = audit_files(study, Paths()), attack_files(study, Paths())
    if keys is None and (audits or attacks):
        lines.append(
            f"besides {len(audits)} audits, about a minute each, and {len(attacks)} attacks, seconds to "
            "minutes each"
        )
    return "\n".join(lines)


def _not_timed(ways: Counter[str]) -> str:
    """How many runs have estimated times, and how these were estimated."""
    words = {
        "guessed": "guessed from other entries",
        "scaled": "scaled by nodes, edges, features and steps from graphs that were timed",
    }
    return ", ".join(
        f"{count(ways[way], 'run')} {said}" for way, said in words.items() if ways[way]
    )


def _long(seconds: float) -> str:
    """A duration in words."""
    if seconds >= 360:
        return f"{seconds / 3600:.2f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{max(1.0, seconds):.0f} s"


def status(study: Study, *, root: Path) -> str:
    """Progress of a study: runs done, running, failed and left, the hours left, and causes of failures.

    A run whose record has another configuration or code than the study has now, or other data than lie here,
    is not done; such runs are counted separately.
    """
    states = run_states(study, root=root)
    counts = Counter(states.values())
    done = [key for key, state in states.items() if state == "done"]
    empty = without_result(done, study, root=root)
    note = f" ({len(empty)} without a result; the report says why)" if empty else ""
    other = f"{counts['damaged']} damaged, " if counts["damaged"] else ""
    other += f"{counts['other']} of another configuration or code, " if counts["other"] else ""
    other += f"{counts['data']} of other data than lie here, " if counts["data"] else ""
    other += f"{counts['released']} to be refused, " if counts["released"] else ""
    planned = count(len(study.keys), "run")
    lines = [
        f"study {study.name}, tier {study.tier}: {planned}, {counts['done']} done{note}, {other}"
        f"{counts['running']} running, {counts['failed']} failed, {counts['left']} left"
    ]
    unmade = [key for key, state in states.items() if state not in ("done", "released")]
    total = Timings(study, root).total(unmade)
    cores = os.cpu_count() or 1
    if total:
        lines.append(f"about {_long(total / cores)} left on {cores} cores")
    if unmade and is_held(workflow_lock(root)):
        lines.append("a run is going on in this folder")
    elif unmade:
        lines.append("no run is going on in this folder; the same command without --status goes on")
    logs = run_logs(study)
    for key, state in states.items():
        lines += _told_of(study, key, state, root / logs[key], root)
    lines += [f"no result: {line}" for line in _by_cause(empty)]
    return "\n".join([*lines, *_missing_data(study, root), *_checks(study, root)])


def run_states(study: Study, *, root: Path) -> dict[RunKey, str]:
    """Each run of the study with its state; see `run_state`."""
    logs, wanted, data = run_logs(study), Wanted(study), DataHere(study, root)
    found = {}
    for key in study.keys:
        log = root / logs[key]
        found[key] = run_state(study, key, log, root=root, wanted=wanted, data=data)
    return found


def num_made(study: Study, *, root: Path) -> int:
    """Number of runs that need not be repeated, by their records or by copies that their process kept."""
    wanted, made = Wanted(study), 0
    for key in study.keys:
        kept = Path("work") / FINISHED / study.name / key.folder
        records = (record_in(root / path) for path in (Paths().run(study.name, key.folder), kept))
        made += any(record is not None and wanted.made(record, key) for record in records)
    return made


def num_kept(study: Study, *, root: Path, since: float) -> int:
    """Number of runs that processes have kept since a time, in seconds of the epoch."""
    folder, found = root / "work" / FINISHED / study.name, 0
    for path in folder.rglob("record.json"):
        with suppress(FileNotFoundError):
            found += path.stat().st_mtime >= since
    return found


def _told_of(study: Study, key: RunKey, state: str, log: Path, root: Path) -> list[str]:
    """Lines about a run, besides its count."""
    if state == "damaged":
        bad = [item for item in states_of(run_group(study.name, key, root)) if item.is_bad]
        return [f"damaged: {key.folder}: {item.path.name} {item.state}" for item in bad]
    if state == "released":
        return [
            f"refused: {key.folder}: released before, of another configuration or code, kept in "
            f"{root / RELEASES / study.name / key.folder}; another release adds its epsilon to that one's"
        ]
    return [f"failed: {key.folder} ({log}): {_cause(log, key)}"] if state == "failed" else []


def _missing_data(study: Study, root: Path) -> Iterator[str]:
    """Why graphs, splits and samples that runs wait for are missing."""
    paths, logs = Paths(), root / "logs"
    made = {logs / "graph" / f"{key.dataset}.log": paths.graph(key.dataset) for key in study.keys}
    for place in dict.fromkeys((key.dataset, key.setting, key.repeat) for key in study.keys):
        stem = "{}.{}.{}".format(*place)
        made[logs / "split" / f"{stem}.log"] = paths.split(*place)
        for log in sorted((logs / "prepare" / stem).glob("*.log")):
            made[log] = paths.prepared(*place, log.stem)
    for log, path in made.items():
        file = path if path.suffix == ".parquet" else path / "graph.json"
        if not (root / file).exists() and _is_error(_last_line(log)):
            yield f"failed: {path} ({log}): {_last_line(log)}"


def _checks(study: Study, root: Path) -> Iterator[str]:
    """Number of a study's audits and attacks that are done, and why others failed."""
    for name, files in (
        ("audit", audit_files(study, Paths())),
        ("attack", attack_files(study, Paths())),
    ):
        if not files:
            continue
        missing = [path for path in files if not (root / path).exists()]
        yield f"{name}s: {len(files) - len(missing)} of {len(files)} done"
        for path in missing:
            log = root / "logs" / name / study.name / path.with_suffix(".log").name
            if _is_error(_last_line(log)):
                yield f"failed: {path.name} ({log}): {_last_line(log)}"


def run_state(
    study: Study, key: RunKey, log: Path, *, root: Path, wanted: Wanted, data: DataHere
) -> str:
    """A run's state by its files, its lock and its log.

    It is "done", "damaged", "running", "released", "failed", "other", "data" or "left". A "damaged" run lacks
    a file or has a changed one. "other" has a record of another configuration or code, "data" of another
    graph, split or sample than lies here; copies of such runs are ignored. In a study of releases such a copy
    makes the run "released": running it again would be refused.
    """
    private = study.entries[key.entry].mode != "nonprivate"
    release = study.config.randomness == "release" and private
    record = record_in(root / Paths().run(study.name, key.folder))
    kept = record_in(
        root / (RELEASES if release else Path("work") / FINISHED) / study.name / key.folder
    )
    alone = study.config.runs_per_job == 1
    usable = (record,) if alone and not release else (record, kept)
    made = [found for found in usable if found is not None and wanted.made(found, key)]
    if any(data.fits(found, key) for found in made):
        return "done" if record is None or is_whole(run_group(study.name, key, root)) else "damaged"
    if release and (kept or {}).get("status") == "ok":
        return "released"
    if is_held(run_lock(root / "work", study.name, key.folder)):
        return "running"
    if _cause(log, key):
        return "failed"
    fresh = log.exists() and time.time() - log.stat().st_mtime < RUNNING_SECONDS
    if alone and fresh and is_held(workflow_lock(root)) and record is None:
        return "running"
    return "left" if record is None else "data" if made else "other"


def causes(root: Path, *, since: float) -> list[str]:
    """The log of each failed job, with its last line if that is an error, else with Snakemake's message.

    Args:
        root: the folder of the workflow.
        since: older logs are left out; seconds of the epoch.
    """
    found: dict[str, str] = {}
    for path in _written(root / ".snakemake" / "log", since):
        for log, words in _failed_jobs(path, root):
            found[log] = words or found.get(log, "ended without an error message; was it killed?")
    for path in _written(root / "logs", since):
        if path.relative_to(root).parts[1] != "slurm" and _is_error(_last_line(path)):
            found[str(path.relative_to(root))] = _last_line(path)
    return [f"{log}: {cause}" for log, cause in found.items()]


def last_screen(root: Path, *, since: float) -> Iterator[str]:
    """The last lines after failed jobs: each cause, and what to do."""
    found = causes(root, since=since)
    for line in found[:MAX_CAUSES]:
        yield f"failed: {line}"
    if len(found) > MAX_CAUSES:
        yield f"and {len(found) - MAX_CAUSES} more; --status lists all runs that failed"
    if found:
        yield "after the cause is gone, the same command goes on; what is done stays done"


def without_result(keys: Iterable[RunKey], study: Study, *, root: Path) -> dict[RunKey, str]:
    """Finished runs without a result, for example because no plan meets the budget, with the reason."""
    found = {}
    for key in keys:
        record = record_in(root / Paths().run(study.name, key.folder)) or {}
        if record.get("status", "ok") != "ok":
            found[key] = str(record.get("reason") or "no reason was recorded")
    return found


def empty_runs(keys: Iterable[RunKey], study: Study, *, root: Path) -> Iterator[str]:
    """Lines for the end of a workflow: the number of runs without a result, and the first causes."""
    found = without_result(keys, study, root=root)
    if found:
        yield f"{count(len(found), 'run')} without a result; the report and --status say why"
        yield from (f"no result: {line}" for line in _by_cause(found)[:SHOWN_CAUSES])


def _by_cause(empty: Mapping[RunKey, str]) -> list[str]:
    """A line for each cause: the first run that has it, and how many more do."""
    return [
        f"{keys[0].folder}{f' and {len(keys) - 1} more' if len(keys) > 1 else ''}: {cause}"
        for cause, keys in grouped(empty, lambda key: empty[key]).items()
    ]


def _cause(log: Path, key: RunKey) -> str:
    """Why a run failed; "" if the log has no failure of it."""
    lines = _lines(log)
    own = [line for line in lines if line.startswith(f"{key.folder}: error: ")]
    if own:
        return own[-1].removeprefix(f"{key.folder}: ")
    last = _last_line(log)
    # a process of many runs names each failed run, and last their number
    return last if _is_error(last) and " runs failed" not in last else ""


def _written(folder: Path, since: float) -> list[Path]:
    """Logs below `folder` that were written since a time, oldest first."""
    times = {path: path.stat().st_mtime for path in folder.rglob("*.log")}
    return sorted((path for path, time in times.items() if time >= since), key=times.__getitem__)


def _failed_jobs(path: Path, root: Path) -> Iterator[tuple[str, str]]:
    """Log and message of each job that failed, by Snakemake's log, and did not finish later."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for block in re.findall(r"^Error in rule .*\n((?: {4}.*\n)+)", text, re.MULTILINE):
        fields = dict(re.findall(r"^ {4}(\w+): (.*)$", block, re.MULTILINE))
        outputs = [root / name.split(" ")[0] for name in fields.get("output", "").split(", ")]
        if "log" in fields and not all(output.exists() for output in outputs):
            message = fields.get("message", "None").partition("For further error")[0].split(". ")[0]
            if message.startswith("Job submission failed"):
                message += (
                    "; are slurm_account and slurm_partition those of the site (docs/cluster.md)?"
                )
            yield fields["log"].split(" ")[0].rstrip(","), "" if message == "None" else message


def _is_error(line: str) -> bool:
    return "error" in line.lower()


def _last_line(path: Path) -> str:
    """The last line of a log; an error that goes on over several lines, in one."""
    lines = [line.strip() for line in _lines(path) if line.strip()]
    if lines and not _is_error(lines[-1]):
        starts = [place for place, line in enumerate(lines) if OWN_ERROR.match(line)]
        if starts:
            return " ".join(lines[starts[-1] :])
    return lines[-1] if lines else ""


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []

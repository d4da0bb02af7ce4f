"""`dpgnn run STUDY`: run a study with Snakemake; show its cost and its progress."""

from __future__ import annotations

import argparse
import difflib
import glob
import shutil
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.attack import COPIES
from dpgnn.cli.flags import add_tier, check_tier
from dpgnn.core.paths import FINISHED, RELEASES, Paths, check_writable
from dpgnn.core.wording import count

if TYPE_CHECKING:
    from dpgnn.accountants.implications import Notion
    from dpgnn.study.study import RunKey, Study
    from dpgnn.study.workflow import Workflow

TARGETS = ("graphs", "splits", "prepared", "runs", "checks")  # rules of the Snakefile


def add_parser(subparsers: Any) -> None:
    """Add `run` to the command line."""
    parser = subparsers.add_parser(
        "run",
        help="run a study from raw graphs to the report",
        epilog="Arguments after -- go to Snakemake, e.g. -- --cores 1 --workflow-profile profiles/slurm",
    )
    parser.add_argument(
        "study",
        help="quick, baselines, dpgnn, drw, dpar, caribou, progap, headtohead, ladder, scale, attacks, "
        "or a YAML file",
    )
    add_tier(parser)
    parser.add_argument("--estimate", action="store_true", help="runs and hours, without running")
    parser.add_argument("--status", action="store_true", help="done, running, failed, left, hours")
    parser.add_argument("--file", action="store_true", help="the path of the study's YAML file")
    parser.add_argument(
        "--target", action="append", default=[], type=_target,
        help="a stage, or a file of results/; all of them if none is given",
    )  # fmt: skip
    parser.add_argument(
        "--cell",
        action="append",
        default=[],
        help="run these again: DATASET.SETTING/ENTRY/eps=EPSILON, or with /REPEAT; * stands for anything",
    )
    parser.add_argument(
        "--table", help="rerun the cells of a table of the study's paper, such as T1"
    )
    parser.add_argument("--dataset", default="", help="with --table: only this data set")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where runs train")
    parser.set_defaults(func=main, snakemake=[])


def _target(name: str) -> str:
    """A target of the Snakefile: a stage or a file."""
    if name not in TARGETS and "/" not in name:
        rule = f"must be one of {', '.join(TARGETS)}, or a file of results/"
        raise argparse.ArgumentTypeError(f"{rule}, got {name!r}")
    return name


def main(args: argparse.Namespace) -> int:
    """Show an estimate or the status, or run Snakemake and return its exit status."""
    from dpgnn.study import driver, progress
    from dpgnn.study.workflow import Workflow

    path = driver.study_file(args.study, root=Path())
    if args.file:
        print(path)
        return 0
    workflow = Workflow(study_file=str(path), tier=args.tier, device=args.device)
    study = check_tier(workflow.study, args.tier)
    if args.status:
        print(progress.status(study, root=Path()))
        return 0
    wanted = [*args.cell, *_of_table(study, path, args.table, args.dataset)]
    keys = [key for cell in wanted for key in runs_of(study, cell)] or study.keys
    if args.estimate:
        print(progress.estimate(study, keys if wanted else None, root=Path()))
        return 0
    _check_flags(args.device, args.snakemake)
    _check_places(study, keys)
    check_name(study, path)
    cells = [record_of(study, key) for key in keys] if wanted else []
    if cells:
        workflow = _of_these(workflow, keys)
    forget_copies(study, keys if cells or driver.FORCES & set(args.snakemake) else [], Path())
    first = f"study {study.name}, tier {study.tier}: {count(len(keys), 'run')}"
    print(first, *released_budgets(study, keys), sep="\n", file=sys.stderr)
    code = driver.run_snakemake(
        path, tier=study.tier, device=args.device, targets=[*args.target, *cells],
        extra=[*(["--force"] if cells else []), *args.snakemake], root=Path(), workflow=workflow,
    )  # fmt: skip
    for line in progress.empty_runs(keys, study, root=Path()):
        print(line, file=sys.stderr)
    if study.config.randomness == "release" and not code:
        for name in dict.fromkeys(key.dataset for key in keys):
            print(*ledger_of(name), sep="\n", file=sys.stderr)
    if code == 0 and not (args.target or driver.SHOWS & set(args.snakemake)):
        print(*(_beside(study, path, keys) if cells else closing(study, path)), sep="\n")
    return code


def _check_flags(device: str, flags: Sequence[str]) -> None:
    """Refuse a missing profile, and a device that is not here before Snakemake removes what its jobs make.

    A dry run makes nothing, and jobs that another machine runs find their own device.
    """
    from dpgnn.cli.train import check_device
    from dpgnn.study import driver

    driver.check_profile(flags, Path())
    if not (driver.SHOWS & set(flags) or driver.runs_elsewhere(flags, Path())):
        check_device(device)


def _check_places(study: Study, keys: Sequence[RunKey]) -> None:
    """Refuse folders that cannot be written, and releases in results that no ledger counts.

    Snakemake would remove such releases before their jobs can ask.

    Raises:
        ValueError, OSError: names the folder.
    """
    from dpgnn.run.finished import check_counted

    for key in keys if study.config.randomness == "release" else ():
        check_counted(Paths().run(study.name, key.folder), RELEASES)
    for folder in (Path("work"), Path("logs"), *_written(study)):
        check_writable(folder)


def _of_these(workflow: Workflow, keys: Sequence[RunKey]) -> Workflow:
    """The workflow that makes only these runs.

    A file below work/ names the runs for Snakemake, because they may not fit on a command line.
    """
    from dpgnn.core.storage import sha256_json, write_text

    if workflow.study.config.runs_per_job == 1:
        return workflow
    runs = sorted({key.folder for key in keys})
    path = Path("work") / "asked" / f"{sha256_json(runs)[:16]}.txt"
    write_text(path, "".join(f"{run}\n" for run in runs))
    return type(workflow)(
        study_file=workflow.study_file, tier=workflow.study.tier, device=workflow.device,
        asked=str(path),
    )  # fmt: skip


def ledger_of(dataset: str) -> list[str]:
    """The ledger of all releases of a data set's graph, by this study and others."""
    from dpgnn.cli.ledger import lines, open_ledger

    return lines(open_ledger(dataset), dataset)


def _written(study: Study) -> list[Path]:
    """Folders below results/ that a study writes to."""
    made = Paths()
    shared = [made.results / name for name in ("graphs", "splits", "prepared")]
    runs = {made.run(study.name, key.folder.split("/")[0]) for key in study.keys}
    return [*shared, made.study(study.name), *sorted(runs)]


def _of_table(study: Study, path: Path, table: str | None, dataset: str) -> list[str]:
    """The cells of a paper's table, as patterns; none without a table."""
    from dpgnn.cli.report import describe
    from dpgnn.core.checks import require
    from dpgnn.report.pages.closing import cells_of_table

    if table is None:
        require(not dataset, "--dataset", "come with --table", dataset)
        return []
    return cells_of_table(describe(study, path), table, dataset)


def _beside(study: Study, path: Path, keys: Sequence[RunKey]) -> list[str]:
    """A line for each cell that was run: our value, the paper's, the committed one."""
    from dpgnn.cli.report import describe
    from dpgnn.core.paths import Paths
    from dpgnn.records.archive import REFERENCE
    from dpgnn.report.pages.closing import cell_lines

    if study.config.randomness == "release":
        return []  # without scores
    runs = [key.folder for key in keys]
    return cell_lines(describe(study, path), runs, Paths().study(study.name), REFERENCE)


def check_name(study: Study, path: Path) -> None:
    """Refuse a study whose folder of results belongs to another file that has its name.

    Raises:
        ValueError: it would replace the other study's results.
    """
    import yaml

    from dpgnn.core.checks import require
    from dpgnn.core.paths import Paths
    from dpgnn.core.storage import DamagedFileError
    from dpgnn.records.info import read_info

    told = Paths().study(study.name) / "tables" / "study.json"
    try:
        other = Path(read_info(told).config_path)
        if other.resolve() == path.resolve() or not other.is_file():
            return
        stated = yaml.safe_load(other.read_text(encoding="utf-8"))
    except (
        DamagedFileError,
        yaml.YAMLError,
    ):  # no page yet, one to be made again, or no study's file
        return
    rule = f"be another than that of {other}, whose results lie in {told.parents[1]}"
    remedy = "give this study a name of its own, or delete that folder"
    taken = isinstance(stated, dict) and stated.get("name") == study.name
    require(not taken, f"name of {path}", rule, study.name, remedy)


def closing(study: Study, path: Path) -> list[str]:
    """The results of a small study, and where its report is."""
    from dpgnn.cli.report import describe
    from dpgnn.core.paths import Paths
    from dpgnn.records.cells import build_cells
    from dpgnn.records.frame import load_runs
    from dpgnn.report.pages.closing import MOST_RUNS, closing_lines, paper_command
    from dpgnn.study.study import load_study

    folder = Paths().study(study.name)
    info, found, told = describe(study, path), [], ""
    small = len(study.keys) <= MOST_RUNS
    if small and info.accuracy and study.config.randomness == "study":
        found = closing_lines(build_cells(load_runs(folder / "runs", info.planned), info))
    if info.paper and info.tier == "S":
        told = paper_command(info, (describe(load_study(path, tier), path) for tier in "ML"))
    return [*found, *(["", told] if told else []), "", f"report: {folder / 'report.html'}"]


def forget_copies(study: Study, keys: Sequence[RunKey], root: Path) -> None:
    """Remove kept copies of runs and of their attacks, so that they are repeated; copies of releases stay.

    An empty folder stays, so that Snakemake's start keeps no copy of the finished run (`keep_finished`).
    """
    for key in keys:
        folder = root / "work" / FINISHED / study.name / key.folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)
        run = f"{key.stem}.{key.repeat}"
        for path in (root / "work" / COPIES / study.name).glob(f"{glob.escape(run)}.*"):
            path.unlink()


def released_budgets(study: Study, keys: Sequence[RunKey]) -> list[str]:
    """What the planned private runs of a release may cost together, by data set; empty in a study.

    Budgets add up for a unit where each run's unit implies it, as in the ledger; a published claim proves
    nothing, and a run that fails releases nothing.
    """
    if study.config.randomness != "release":
        return []
    planned: dict[str, list[tuple[Notion | None, float]]] = {}
    for key in keys:
        if key.epsilon != "inf":
            asked = _notion_of(study, key), float(key.epsilon)
            planned.setdefault(key.dataset, []).append(asked)
    return [
        line
        for dataset, runs in planned.items()
        if len(runs) > 1
        for line in (f"release: {len(runs)} private runs on {dataset} are planned", *_joint(runs))
    ]


def _notion_of(study: Study, key: RunKey) -> Notion | None:
    """What a run's proved claim will protect; None for a published one."""
    from dpgnn import methods
    from dpgnn.accountants.implications import Notion

    entry = study.entries[key.entry].for_dataset(key.dataset)
    if entry.mode != "sound":
        return None
    unit: Any = entry.privacy_unit
    relation: Any = entry.relation
    degrees = methods.get(entry.method).degrees(entry)
    bounded = entry.privacy_unit == "node-bounded"
    bound = (degrees.declared or degrees.slots) if bounded else None
    return Notion(privacy_unit=unit, relation=relation, degree_bound=bound)


def _joint(runs: Sequence[tuple[Notion | None, float]]) -> list[str]:
    """A line for each unit that is asked for: the sum of the budgets that hold for it, and what does not."""
    from dpgnn.accountants.implications import notion_implies

    lines = []
    for asked in dict.fromkeys(notion for notion, _ in runs if notion is not None):
        spent = [budget for notion, budget in runs if notion and notion_implies(notion, asked)]
        rest = len(runs) - len(spent)
        said = f"  {asked}: at most epsilon {sum(spent):g} by {count(len(spent), 'run')}"
        lines.append(f"{said}; nothing is proved together with the other {rest}" if rest else said)
    return lines or ["  nothing is proved: all claims are as published"]


def runs_of(study: Study, cell: str) -> list[RunKey]:
    """One run, all repeats of a cell, or all runs that a pattern with * and ? matches.

    Raises:
        ValueError: the study plans no such run.
    """
    from dpgnn.core.checks import require

    chosen = [
        key
        for key in study.keys
        if any(fnmatchcase(name, cell) for name in (key.folder, key.folder.rsplit("/", 1)[0]))
    ]
    rule = f"be planned by study {study.name}, tier {study.tier}"
    cells = {key.folder.rsplit("/", 1)[0] for key in study.keys}
    near = difflib.get_close_matches(cell, cells, n=1, cutoff=0.8)
    remedy = f"did you mean {near[0]}?" if near else "its form is DATASET.SETTING/ENTRY/eps=EPSILON"
    require(bool(chosen), "--cell", rule, cell, remedy)
    return chosen


def record_of(study: Study, key: RunKey) -> str:
    """The record file of a run."""
    from dpgnn.core.paths import Paths

    return str(Paths().run(study.name, key.folder) / "record.json")

"""`dpgnn train`: train and evaluate one run, or a list of runs, of a study."""

from __future__ import annotations

import argparse
import gc
import shutil
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import add_study_file
from dpgnn.core.paths import FINISHED, RELEASES

if TYPE_CHECKING:
    from dpgnn.core.paths import Paths
    from dpgnn.records.schema import Record
    from dpgnn.study.bounds import Bound
    from dpgnn.study.study import RunKey, Study


def add_parser(subparsers: Any) -> None:
    """Add `train` to the command line."""
    parser = subparsers.add_parser("train", help="train, evaluate and record runs of a study")
    add_study_file(parser)
    parser.add_argument(
        "--run",
        action="append",
        required=True,
        help="DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT; may be given many times",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument("--work", type=Path, default=Path("work"), help="folder of checkpoints")
    parser.add_argument(
        "--releases", type=Path, default=RELEASES,
        help="folder of private runs of a release, so that none is made twice",
    )  # fmt: skip
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.add_argument(
        "--memory", metavar="SIZE",
        help="such as 4GB: features and arcs stay on disk if the whole graph takes more",
    )  # fmt: skip
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Make the runs one after another; each writes its own record, and a failure affects one run only.

    Raises:
        ValueError, OSError, RuntimeError: the error of the only run; for many runs, how many failed.
    """
    from dpgnn.core.memory import keep_freed_memory

    keep_freed_memory()
    # imported objects stay alive, so the garbage collector starts after them, in `run_one`
    gc.disable()
    try:
        return _make(args)
    finally:
        gc.enable()


def _make(args: argparse.Namespace) -> int:
    """Make the runs of a command line."""
    from dpgnn.core.locks import exclusive
    from dpgnn.core.paths import Paths
    from dpgnn.study import progress
    from dpgnn.study.study import load_study

    study, paths = load_study(args.study), Paths(results=args.results)
    keys = _keys(study, args.run)
    check_device(args.device)
    bound = _bound(args)
    number = _rank(args, study)
    if number:
        return _serve(study, keys[0], paths, number, bound)
    # Snakemake removes all results of a process of many runs before it restarts it
    finished = args.work / FINISHED / study.name
    if len(keys) == 1:  # a single run is always made
        shutil.rmtree(finished / keys[0].folder, ignore_errors=True)
    failed: list[str] = []
    for key in keys:
        lock = progress.run_lock(args.work, study.name, key.folder)
        try:
            with exclusive(lock, f"{key.folder} is already being made"):
                record = train(
                    study, key, paths, work=args.work, device=args.device,
                    finished=finished / key.folder, releases=args.releases, bound=bound,
                )  # fmt: skip
        except Exception as error:  # after any error, the process goes on with its other runs
            if len(keys) == 1:
                raise
            known = isinstance(error, ValueError | OSError | RuntimeError)
            failed.append(f"{key.folder}: error: {error if known else repr(error)}")
            if not known:
                traceback.print_exc()
            print(failed[-1], file=sys.stderr)
            continue
        print(_line(key, record), file=sys.stderr)
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(keys)} runs failed, the first: {failed[0]}")
    return 0


def _bound(args: argparse.Namespace) -> Bound | None:
    """The bound of --memory; None without one."""
    from dpgnn.study.bounds import Bound, parse_memory

    if args.memory is None:
        return None
    return Bound(memory=parse_memory(args.memory), work=args.work)


def _rank(args: argparse.Namespace, study: Study) -> int | None:
    """This process's rank under torchrun, which makes one run of a study."""
    import os

    from dpgnn.core.checks import require

    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    remedy = "start torchrun once for each run"
    require(len(args.run) == 1, "--run under torchrun", "be given once", len(args.run), remedy)
    randomness = study.config.randomness
    rule, remedy = "be study: a release is made by one machine", "start it without torchrun"
    require(randomness == "study", "randomness under torchrun", rule, randomness, remedy)
    return int(os.environ["RANK"])


def _serve(study: Study, key: RunKey, paths: Paths, number: int, bound: Bound | None) -> int:
    """Ranks 1, 2, ... of torchrun: read the run's inputs, answer rank 0, write nothing.

    Raises:
        ValueError: the run's method uses one process, or it is a release.
        RuntimeError: rank 0 has ended.
    """
    import tempfile

    from dpgnn.core.checks import fail
    from dpgnn.run.execute import run_one
    from dpgnn.study.inputs import inputs_of
    from dpgnn.training.ranks import Served

    inputs = inputs_of(study, key, paths, bound=bound)
    with tempfile.TemporaryDirectory(prefix="dpgnn-rank-") as folder:
        try:
            run_one(inputs, Path(folder), work=None)
        except Served:
            print(f"{key.folder}: rank {number} has served", file=sys.stderr)
            return 0
    fail("method under torchrun", "share its sums", inputs.entry.method, "run it without torchrun")


def _keys(study: Study, runs: list[str]) -> list[RunKey]:
    """The runs that --run names, each checked against the study."""
    from dpgnn.core.paths import parse_run
    from dpgnn.study.study import RunKey

    keys = [RunKey(**parse_run(run, name="--run")) for run in runs]  # type: ignore[arg-type]
    for key in keys:
        try:
            study.check_key(key)
        except ValueError as error:
            raise ValueError(f"--run {key.folder}: {error}") from None
    return keys


def _line(key: RunKey, record: Record) -> str:
    """The log line of a finished run."""
    test = record.metrics.get("test", {}).get("accuracy")
    score = "" if test is None else f", test accuracy {test:.4f}"
    return f"{key.folder}: {record.status}{score} {record.reason}".rstrip()


def check_device(device: str) -> None:
    """Refuse a missing device before anything is read.

    Raises:
        ValueError: cuda is asked for, and torch was built without it or sees no GPU.
    """
    from dpgnn.core.checks import require

    if device == "cpu":
        return
    import torch

    remedy = (
        "use --device cpu, or install a build of torch for CUDA: `make setup TORCH_INDEX=ADDRESS`"
    )
    if torch.version.cuda is not None:
        remedy = "use --device cpu, or make a GPU visible (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    require(torch.cuda.is_available(), "--device", "be one that torch sees", device, remedy)


def train(
    study: Study,
    key: RunKey,
    paths: Paths,
    *,
    work: Path,
    device: str = "cpu",
    finished: Path | None = None,
    releases: Path | None = None,
    bound: Bound | None = None,
) -> Record:
    """Load the inputs of one run, make it, and return its record."""
    from dpgnn.run.execute import run_one
    from dpgnn.study.inputs import inputs_of

    inputs = inputs_of(study, key, paths, device=device, bound=bound)
    out = paths.run(study.name, key.folder)
    return run_one(
        inputs,
        out,
        work=work / study.name / key.folder,
        finished=finished,
        releases=releases,
    )

"""`dpgnn train`: one run, or a list of runs, of a study; evaluation is its end."""

from __future__ import annotations

import argparse
import functools
import gc
import shutil
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.core.paths import RELEASES

if TYPE_CHECKING:
    from dpgnn.core.paths import Paths
    from dpgnn.data.graph import Graph
    from dpgnn.data.splits import Split
    from dpgnn.methods.base import Entry, Prepared
    from dpgnn.run.specification import RunInputs
    from dpgnn.study.study import RunKey, Study


def add_parser(subparsers: Any) -> None:
    """Add `train` to the command line."""
    parser = subparsers.add_parser("train", help="train, evaluate and record runs of a study")
    parser.add_argument("--study", type=Path, required=True, help="the study's YAML file")
    parser.add_argument(
        "--run",
        action="append",
        required=True,
        help="DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT; may be given many times",
    )
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument("--work", type=Path, default=Path("work"), help="where checkpoints lie")
    parser.add_argument(
        "--releases", type=Path, default=RELEASES,
        help="where private runs of a release are kept, so that none is made twice",
    )  # fmt: skip
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where to train")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Make the runs one after the other; each writes its own record, and a failure loses one run only.

    Raises:
        ValueError, OSError, RuntimeError: what went wrong in the only run; of many, how many failed.
    """
    from dpgnn.core.memory import keep_freed_memory

    keep_freed_memory()
    # what imports make stays, so looking for garbage among it is in vain; `run_one` begins to look
    gc.disable()
    try:
        return _make(args)
    finally:
        gc.enable()


def _make(args: argparse.Namespace) -> int:
    """Make the runs of a command line."""
    from dpgnn.core.locks import exclusive
    from dpgnn.core.paths import Paths, parse_run
    from dpgnn.study import progress
    from dpgnn.study.study import RunKey, load_study

    study, paths = load_study(args.study), Paths(results=args.results)
    keys = [RunKey(**parse_run(run, name="--run")) for run in args.run]  # type: ignore[arg-type]
    for key in keys:
        try:
            study.check_key(key)
        except ValueError as error:
            raise ValueError(f"--run {key.folder}: {error}") from None
    check_device(args.device)
    # of many runs in one process, finished ones are kept until all are; of a release, for good
    finished = args.work / "finished" / study.name if len(keys) > 1 else None
    released = study.config.randomness == "release"
    if released:
        finished = args.releases / study.name
    failed: list[str] = []
    for key in keys:
        kept = None if finished is None else finished / key.folder
        lock = progress.run_lock(args.work, study.name, key.folder)
        try:
            with exclusive(lock, f"{key.folder} is being made already"):
                record = train(study, key, paths, work=args.work, device=args.device, finished=kept)
        except Exception as error:  # whatever it is, the other runs of the process are made
            if len(keys) == 1:
                raise
            known = isinstance(error, ValueError | OSError | RuntimeError)
            failed.append(f"{key.folder}: error: {error if known else repr(error)}")
            if not known:
                traceback.print_exc()
            print(failed[-1], file=sys.stderr)
            continue
        test = record.metrics.get("test", {}).get("accuracy")
        score = "" if test is None else f", test accuracy {test:.4f}"
        print(f"{key.folder}: {record.status}{score} {record.reason}".rstrip(), file=sys.stderr)
    if failed:
        raise RuntimeError(f"{len(failed)} of {len(keys)} runs failed, the first: {failed[0]}")
    if finished is not None and not released:
        for key in keys:
            shutil.rmtree(finished / key.folder, ignore_errors=True)
    return 0


def check_device(device: str) -> None:
    """Refuse a device that is not here, before anything is read.

    Raises:
        ValueError: cuda, and torch was built without it or sees no GPU.
    """
    from dpgnn.core.checks import require

    if device == "cpu":
        return
    import torch

    remedy = (
        "say --device cpu, or install a build of torch for CUDA: `make setup TORCH_INDEX=ADDRESS`"
    )
    if torch.version.cuda is not None:
        remedy = "say --device cpu, or run where a GPU is seen (nvidia-smi, CUDA_VISIBLE_DEVICES)"
    require(torch.cuda.is_available(), "--device", "be one that torch sees", device, remedy)


def train(
    study: Study,
    key: RunKey,
    paths: Paths,
    *,
    work: Path,
    device: str = "cpu",
    finished: Path | None = None,
) -> Any:
    """Load what one run reads, make it, and return its record."""
    from dpgnn.run.execute import run_one

    inputs = inputs_of(study, key, paths, device=device)
    out = paths.run(study.name, key.folder)
    return run_one(inputs, out, work=work / study.name / key.folder, finished=finished)


def inputs_of(
    study: Study,
    key: RunKey,
    paths: Paths,
    *,
    device: str = "cpu",
    draw: Callable[[Entry, Graph, Split], Prepared | None] | None = None,
) -> RunInputs:
    """What one run reads, with the hashes that its record will state.

    Args:
        study, key, paths: which run, and where its files lie.
        device: that it would be made on.
        draw: makes the sample where its file is missing; None takes that for an error.

    Raises:
        ValueError, DamagedFileError: a file is missing or damaged.
    """
    import dataclasses

    from dpgnn.core.storage import sha256_file
    from dpgnn.data.files.graph_files import read_meta
    from dpgnn.data.splits import edges_in_setting, read_split
    from dpgnn.study.wanted import Wanted

    stated = Wanted(study).inputs(key, device)
    folder = paths.graph(key.dataset)
    meta = read_meta(folder)
    graph = _graph(folder, meta["content_sha256"])
    split_path = paths.split(key.dataset, key.setting, key.repeat)
    split = read_split(split_path, num_nodes=graph.num_nodes)
    _check_split(study, key, split_path, meta["content_sha256"])
    graph = dataclasses.replace(graph, edge_index=edges_in_setting(graph, split))
    prepared, prepared_sha256 = read_prepared(
        stated.entry,
        key,
        paths,
        draw=None if draw is None else lambda: draw(stated.entry, graph, split),
    )
    return dataclasses.replace(
        stated,
        graph=graph,
        split=split,
        prepared=prepared,
        hashes={
            "graph_sha256": meta["content_sha256"],
            "split_sha256": sha256_file(split_path),
            "prepared_sha256": prepared_sha256,
        },
        caveats=(
            *meta["provenance"].get("caveats", ()),
            *study.config.settings[key.setting].caveats,
        ),
        edge_caveats=tuple(meta["provenance"].get("edge_caveats", ())),
    )


def _check_split(study: Study, key: RunKey, path: Path, graph_sha256: str) -> None:
    """Refuse a split that another study, recipe or graph left in its place.

    Runs on it would look paired with the study's others, and would not be.
    """
    from dpgnn.core.checks import fail
    from dpgnn.core.storage import parquet_metadata

    stated, setting = parquet_metadata(path), study.config.settings[key.setting]
    remedy = f"`dpgnn run {study.name} --target splits` makes it again"
    # no checksum of a graph stands in a log: it tells which of two candidates was used
    if stated.get("graph_sha256", graph_sha256) != graph_sha256:
        fail(str(path), f"be a split of the graph {key.dataset}", "one of another graph", remedy)
    wanted: dict[str, Any] = {"config": setting.stated}
    if setting.kind != "public":
        wanted["root_seed"] = study.config.root_seed
    for name, value in wanted.items():
        if stated.get(name, value) != value:
            fail(f"{name} of {path}", f"be {value}, as in study {study.name}", stated[name], remedy)


@functools.lru_cache(maxsize=1)
def _graph(folder: Path, content_sha256: str) -> Graph:
    """A graph, read once for all runs of a process."""
    from dpgnn.data.files.graph_files import read_graph

    return read_graph(folder)


def read_prepared(
    entry: Entry,
    key: RunKey,
    paths: Paths,
    *,
    draw: Callable[[], Prepared | None] | None = None,
) -> tuple[Prepared | None, str | None]:
    """The prepared sample an entry needs and its file's sha256; (None, None) without one.

    Where the file is missing, `draw` makes the sample, if it is given; that has no sha256.
    """
    from dpgnn import methods
    from dpgnn.core.storage import read_json, read_parquet, sha256_file
    from dpgnn.methods.base import Prepared

    spec = methods.get(entry.method).sampler(entry)
    if spec is None:
        return None, None
    path = paths.prepared(key.dataset, key.setting, key.repeat, spec.label)
    if draw is not None and not path.exists():
        return draw(), None
    stated = read_json(path.with_suffix(".json"))
    prepared = Prepared(kind=stated["kind"], table=read_parquet(path), facts=stated["facts"])
    return prepared, sha256_file(path)

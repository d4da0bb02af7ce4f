"""`dpgnn data`: prepare a graph, cut it into partitions, list what is available, validate a graph."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dpgnn.core.wording import count


def add_parser(subparsers: Any) -> None:
    """Add `data` and its actions to the command line."""
    parser = subparsers.add_parser("data", help="raw files -> graph; list and validate data sets")
    actions = parser.add_subparsers(dest="action", required=True)

    prepare = actions.add_parser("prepare", help="load a data set and write it as Parquet")
    prepare.add_argument("name", help="a data set's name; `dpgnn data list` shows them")
    prepare.add_argument("--out", type=Path, help="a folder; results/graphs/NAME if none")
    prepare.add_argument(
        "--raw", type=Path, default=Path("data/raw"), help="where raw files are kept"
    )
    prepare.add_argument("--root-seed", type=int, default=0, help="for synthetic data sets only")
    bounded = "such as 4GB; an error if reading the data set takes more"
    prepare.add_argument("--memory", metavar="SIZE", help=bounded)
    prepare.set_defaults(func=main)

    listing = actions.add_parser(
        "list", help="data sets that are present or can be fetched, with licences"
    )
    listing.add_argument(
        "--raw", type=Path, default=Path("data/raw"), help="where raw files are kept"
    )
    listing.set_defaults(func=main)

    statistics = actions.add_parser(
        "statistics", help="the papers' tables of data sets beside ours"
    )
    statistics.add_argument("--raw", type=Path, default=Path("data/raw"), help="as above")
    statistics.add_argument("--out", type=Path, help="a .md or .csv file; without it, printed")
    statistics.set_defaults(func=main)

    _add_study(actions)
    _add_partition(actions)
    _add_estimate(actions)
    validate = actions.add_parser("validate", help="list all problems of a graph")
    validate.add_argument("path", type=Path, help="a folder made by `prepare`, or your own graph")
    validate.set_defaults(func=main)


def _add_study(actions: Any) -> None:
    study = actions.add_parser("study", help="write a small study of one data set, to start from")
    study.add_argument("name", help="a data set's name, or a folder below data/own")
    study.add_argument("--out", type=Path, required=True, help="the YAML file to write")
    study.add_argument(
        "--release", action="store_true", help="a study of one private model for release"
    )
    study.set_defaults(func=main)


def _add_partition(actions: Any) -> None:
    partition = actions.add_parser("partition", help="cut a graph's arcs, for `prepare --dask`")
    partition.add_argument("graph", type=Path, help="a graph's folder: results/graphs/NAME")
    partition.add_argument("--partitions", type=int, required=True, help="how many")
    partition.add_argument("--out", type=Path, required=True, help="the folder to write")
    partition.add_argument("--dask", default="threads", metavar="WHERE", help="as for `prepare`")
    partition.add_argument("--threads", type=int, default=1, help="with --dask threads")
    partition.set_defaults(func=main)


def _add_estimate(actions: Any) -> None:
    text = "steps, noise, hours and gigabytes of DP-GNN on a large graph, from measured rates"
    parser = actions.add_parser("estimate", help=text)
    parser.add_argument("name", help="a graph of data/scale.yaml, such as ogbn-papers100M")
    for flag, kind, words in (
        ("epsilon", float, "budget (default 8)"),
        ("delta", float, "default 1 / (10 x training nodes)"),
        ("epochs", int, "passes over the training nodes (default 20)"),
        ("batch-size", int, "expected roots of a step (default 10000)"),
        ("max-degree", int, "K of the own-list sampler (default 7)"),
        ("num-hops", int, "r of the own-list sampler (default 1)"),
        ("cores", int, "of a machine (default 32)"),
        ("network-gbit", float, "between machines, assumed (default 10)"),
    ):
        parser.add_argument(f"--{flag}", type=kind, help=words)
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Run one action of `dpgnn data`."""
    actions = {
        "prepare": _prepare,
        "list": _list,
        "validate": _validate,
        "statistics": _statistics,
        "study": _study,
        "partition": _partition,
        "estimate": _estimate,
    }
    return actions[args.action](args)


def _prepare(args: argparse.Namespace) -> int:
    from dpgnn.core.paths import Paths
    from dpgnn.data import datasets

    out = args.out or Paths().graph(args.name)
    meta = datasets.prepare(
        args.name, out, folder=args.raw, root_seed=args.root_seed, memory_bytes=_sorting(args)
    )
    print(
        f"{out}: {meta['num_nodes']} nodes, {meta['num_edges']} directed edges, "
        f"{meta['num_features']} features, {meta['num_classes']} classes"
    )
    return 0


def _sorting(args: argparse.Namespace) -> int:
    """Bytes for sorting edges: the default, or what --memory allows.

    Raises:
        ValueError: the data set is read at once and needs more.
    """
    from dpgnn.core.checks import require
    from dpgnn.data.files.streaming import DEFAULT_MEMORY_BYTES
    from dpgnn.study.bounds import REMEDY, Bound, parse_memory, sorting_bytes
    from dpgnn.study.memory import read_at_once

    if args.memory is None:
        return DEFAULT_MEMORY_BYTES
    bound = Bound(memory=parse_memory(args.memory))
    wanted = read_at_once(args.name)
    rule = f"be >= {wanted / 1e9:.2f} GB to read {args.name} at once"
    require(wanted <= bound.memory, "--memory", rule, bound.shown, REMEDY)
    return sorting_bytes(bound)


def _list(args: argparse.Namespace) -> int:
    from dpgnn.data.datasets.listing import list_datasets

    for line in list_datasets(args.raw):
        print(line)
    return 0


def _statistics(args: argparse.Namespace) -> int:
    from dpgnn.report.tables.data_statistics import as_markdown, statistics_rows, write_rows

    rows = statistics_rows(args.raw)
    if args.out:
        write_rows(rows, args.out)
        verdicts = [row.verdict for row in rows]
        counts = [f"{verdicts.count(v)} {v}" for v in ("equal", "differs", "not-available")]
        print(f"{args.out}: {', '.join(counts)}")
    else:
        print(as_markdown(rows), end="")
    return 0


def _study(args: argparse.Namespace) -> int:
    from dpgnn.core.checks import require
    from dpgnn.core.storage import write_text
    from dpgnn.data.datasets import OWN_FOLDER
    from dpgnn.data.datasets.template import release_text, study_text

    remedy = "name another file, or delete it first"
    require(not args.out.exists(), "--out", "be a new file", str(args.out), remedy)
    folder = Path(args.name)
    name = folder.name if folder.resolve().parent == OWN_FOLDER.resolve() else args.name
    write_text(args.out, (release_text if args.release else study_text)(name))
    print(f"{args.out}: edit it, then `dpgnn run {args.out}`")
    return 0


def _estimate(args: argparse.Namespace) -> int:
    from dataclasses import fields

    from dpgnn.study.scale import Asked, estimate

    given = {field.name: getattr(args, field.name, None) for field in fields(Asked)}
    stated = {name: value for name, value in given.items() if value is not None}
    print(estimate(Asked(**stated | {"graph": args.name})))
    return 0


def _partition(args: argparse.Namespace) -> int:
    from dpgnn.samplers.partitioned.arcs import write_partitions
    from dpgnn.samplers.partitioned.scheduler import connected

    args.out.mkdir(parents=True, exist_ok=True)
    with connected(args.dask, args.out, num_workers=args.threads) as scheduler:
        made = write_partitions(args.graph, args.out, args.partitions, scheduler=scheduler)
    rows = sum(part.rows for part in made.parts)
    print(f"{args.out}: {len(made.parts)} partitions of {made.graph['name']}, {rows} arcs")
    return 0


def _validate(args: argparse.Namespace) -> int:
    from dpgnn.data.custom.read import problems_of, warnings_of
    from dpgnn.data.custom.summary import summary_of
    from dpgnn.data.datasets import OWN_FOLDER, entry_of
    from dpgnn.data.datasets.template import check_name

    problems = problems_of(args.path)
    if args.path.is_dir() and args.path.resolve().parent == OWN_FOLDER.resolve():
        try:
            entry_of(args.path.resolve().name)
            check_name(args.path.resolve().name)
        except ValueError as error:
            problems = [*problems, str(error)]
    for warning in [] if problems else warnings_of(args.path):
        print(f"warning: {warning}", file=sys.stderr)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(
        f"{args.path}: {count(len(problems), 'problem')}"
        if problems
        else f"{args.path}: no problems found; {summary_of(args.path)}"
    )
    return 1 if problems else 0

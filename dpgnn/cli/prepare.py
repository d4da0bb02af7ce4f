"""`dpgnn prepare`: run a sampler once on a graph and a split; the file is as sensitive as the graph."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy as np

    from dpgnn.methods.base import Method, Prepared, SamplerSpec
    from dpgnn.samplers.partitioned.scheduler import Scheduler


def add_parser(subparsers: Any) -> None:
    """Add `prepare` to the command line."""
    parser = subparsers.add_parser("prepare", help="graph and split -> prepared sample")
    parser.add_argument("--graph", type=Path, required=True, help="folder: results/graphs/NAME")
    parser.add_argument("--split", type=Path, required=True, help="the split's Parquet file")
    parser.add_argument("--dataset", required=True, help="its name in the study")
    parser.add_argument("--setting", required=True, help="the setting's name in the study")
    parser.add_argument("--repeat", type=int, required=True, help="what papers call seed, from 0")
    parser.add_argument("--root-seed", type=int, required=True, help="the study's only seed")
    parser.add_argument("--method", required=True, help="a method that uses this sampler")
    parser.add_argument("--sampler", required=True, help="the sampler's name")
    parser.add_argument("--params-json", default="{}", help="the sampler's parameters")
    parser.add_argument("--out", type=Path, required=True, help="the Parquet file to write")
    where = "draw over partitions: sync, threads, or a Dask scheduler's address tcp://HOST:PORT"
    parser.add_argument("--dask", metavar="WHERE", help=where)
    made = "with --dask: a folder that `dpgnn data partition` made; without it, work/partitions/..."
    parser.add_argument("--partitions", type=Path, metavar="FOLDER", help=made)
    kept = "with --dask: also write the sample here, as Parquet files"
    parser.add_argument("--parts", type=Path, metavar="FOLDER", help=kept)
    parser.add_argument("--threads", type=int, default=1, help="with --dask threads")
    bounded = "such as 4GB: draw over partitions, one by one, if the whole graph takes more"
    parser.add_argument("--memory", metavar="SIZE", help=bounded)
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Draw the sample and write the file, its facts and its diagnostics."""
    import json

    from dpgnn import methods
    from dpgnn.core import seeds
    from dpgnn.core.checks import fail
    from dpgnn.core.checksums import write_checksums
    from dpgnn.core.storage import write_json, write_parquet
    from dpgnn.methods.base import SamplerSpec

    method = methods.get(args.method)
    if method.prepare is None:
        fail("method", "have a sampler", args.method)
    try:
        params = json.loads(args.params_json)
    except json.JSONDecodeError as error:
        fail("--params-json", f"be JSON ({error})", args.params_json)
    spec = SamplerSpec(name=args.sampler, params=params)
    rng = seeds.child(
        args.root_seed, "sampler", dataset=args.dataset, setting=args.setting, repeat=args.repeat,
        sampler=spec.label,
    )  # fmt: skip
    apart = bool(args.dask) or _stays_apart(args, spec)
    prepared = (_over_partitions if apart else _on_one_machine)(args, method, spec, rng)
    facts = {"kind": prepared.kind, "sampler": spec, "facts": dict(prepared.facts)}
    files = [args.out.with_suffix(suffix) for suffix in (".diagnostics.json", ".json")]
    write_json(files[0], dict(prepared.diagnostics))
    write_json(files[1], facts)
    write_parquet(args.out, prepared.table, metadata=facts)
    write_checksums(args.out.with_suffix(".sha256"), [*files, args.out])
    print(f"{args.out}: {prepared.kind}, {prepared.table.num_rows} rows")
    return 0


def _stays_apart(args: argparse.Namespace, spec: SamplerSpec) -> bool:
    """Whether --memory requires a sample over partitions."""
    from dpgnn.data.files.graph_files import read_meta
    from dpgnn.data.splits import read_split
    from dpgnn.study.bounds import Bound, over_partitions, parse_memory

    if args.memory is None:
        return False
    bound, meta = Bound(memory=parse_memory(args.memory)), read_meta(args.graph)
    split = read_split(args.split, num_nodes=meta["num_nodes"])
    return over_partitions(meta, split, bound, spec.name)


def _scheduler(args: argparse.Namespace) -> AbstractContextManager[Scheduler]:
    """The scheduler of --dask; without --dask, tasks run one after another and Dask is not needed."""
    from contextlib import nullcontext

    from dpgnn.samplers.partitioned.scheduler import InTurn, connected

    if args.dask:
        return connected(args.dask, args.out.parent, num_workers=args.threads)
    return nullcontext(InTurn())


def _on_one_machine(
    args: argparse.Namespace, method: Method, spec: SamplerSpec, rng: np.random.Generator
) -> Prepared:
    import dataclasses

    from dpgnn.core.checks import require
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.splits import edges_in_setting, read_split

    for name in ("partitions", "parts"):
        given = getattr(args, name)
        rule = "come with --dask, or with a --memory that the whole graph exceeds"
        require(given is None, f"--{name}", rule, str(given), "add --dask threads")
    graph = read_graph(args.graph)
    split = read_split(args.split, num_nodes=graph.num_nodes)
    graph = dataclasses.replace(graph, edge_index=edges_in_setting(graph, split))
    assert method.prepare is not None
    return method.prepare(graph, split, spec, rng)


def _over_partitions(
    args: argparse.Namespace, method: Method, spec: SamplerSpec, rng: np.random.Generator
) -> Prepared:
    """The same over partitions, without ever holding all arcs or features."""
    import shutil

    from dpgnn.core.checks import require
    from dpgnn.data.files.graph_files import read_meta
    from dpgnn.data.splits import read_split
    from dpgnn.methods import partitioned
    from dpgnn.samplers.partitioned import arcs
    from dpgnn.samplers.partitioned.sample import Place, Setting

    meta = read_meta(args.graph)
    sha = meta["content_sha256"]
    split = read_split(args.split, num_nodes=meta["num_nodes"])
    setting = partitioned.setting_of(split, meta["num_nodes"])
    remedy = "name another folder; an older data set must be deleted by hand"
    new = args.parts is None or not args.parts.exists()
    require(new, "--parts", "be a new folder", str(args.parts), remedy)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    out = args.parts or args.out.with_suffix(".parts")
    with _scheduler(args) as scheduler:
        place = Place(
            partitions=(
                arcs.read_partitions(args.partitions, sha)
                if args.partitions
                else arcs.partitions_for(args.graph, meta, args.threads, scheduler=scheduler)
            ),
            out=out,
            scheduler=scheduler,
            setting=None if setting is None else Setting(codes=setting[0], inductive=setting[1]),
        )
        prepared = partitioned.prepare(place, split, spec, rng)
    if args.parts is None:
        shutil.rmtree(out)
    return prepared

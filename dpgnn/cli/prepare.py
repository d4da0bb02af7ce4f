"""`dpgnn prepare`: run a sampler once on a graph and a split; the file is as sensitive as the graph."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


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
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Draw the sample and write the file, its facts and its diagnostics."""
    import dataclasses
    import json

    from dpgnn import methods
    from dpgnn.core import seeds
    from dpgnn.core.checks import fail
    from dpgnn.core.checksums import write_checksums
    from dpgnn.core.storage import write_json, write_parquet
    from dpgnn.data.files.graph_files import read_graph
    from dpgnn.data.splits import edges_in_setting, read_split
    from dpgnn.methods.base import SamplerSpec

    method = methods.get(args.method)
    if method.prepare is None:
        fail("method", "have a sampler", args.method)
    try:
        params = json.loads(args.params_json)
    except json.JSONDecodeError as error:
        fail("--params-json", f"be JSON ({error})", args.params_json)
    spec = SamplerSpec(name=args.sampler, params=params)
    graph = read_graph(args.graph)
    split = read_split(args.split, num_nodes=graph.num_nodes)
    graph = dataclasses.replace(graph, edge_index=edges_in_setting(graph, split))
    rng = seeds.child(
        args.root_seed, "sampler", dataset=args.dataset, setting=args.setting, repeat=args.repeat,
        sampler=spec.label,
    )  # fmt: skip
    prepared = method.prepare(graph, split, spec, rng)
    facts = {"kind": prepared.kind, "sampler": spec, "facts": dict(prepared.facts)}
    files = [args.out.with_suffix(suffix) for suffix in (".diagnostics.json", ".json")]
    write_json(files[0], dict(prepared.diagnostics))
    write_json(files[1], facts)
    write_parquet(args.out, prepared.table, metadata=facts)
    write_checksums(args.out.with_suffix(".sha256"), [*files, args.out])
    print(f"{args.out}: {prepared.kind}, {prepared.table.num_rows} rows")
    return 0

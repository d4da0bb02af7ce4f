"""`dpgnn split`: draw the training, validation and test nodes of one setting and repeat."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

# listed here so that parsing is fast; a test compares them with the fields of SplitConfig
FLAGS: dict[str, type] = {
    "kind": str,
    "inductive": bool,
    "train_fraction": float,
    "val_fraction": float,
    "num_per_class": int,
    "num_val": int,
    "num_test": int,
    "min_class_size": int,
    "drop_isolated": bool,
    "max_degree": int,
}


def add_parser(subparsers: Any) -> None:
    """Add `split` to the command line."""
    parser = subparsers.add_parser("split", help="graph -> training, validation and test nodes")
    parser.add_argument("--graph", type=Path, required=True, help="folder: results/graphs/NAME")
    parser.add_argument("--dataset", required=True, help="its name in the study")
    parser.add_argument("--setting", required=True, help="the setting's name in the study")
    parser.add_argument("--repeat", type=int, required=True, help="what papers call seed, from 0")
    parser.add_argument("--root-seed", type=int, required=True, help="the study's only seed")
    parser.add_argument("--out", type=Path, required=True, help="the Parquet file to write")
    parser.add_argument(
        "--setting-json", default="{}", help="the recipe as JSON; the flags below override it"
    )
    for field, kind in FLAGS.items():
        flag = "--" + field.replace("_", "-")
        if kind is bool:
            parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        else:
            parser.add_argument(flag, type=kind, default=None)
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Read the graph, draw the split, write one file."""
    from dpgnn.core import seeds
    from dpgnn.core.checksums import write_checksums
    from dpgnn.data.files.graph_files import read_graph, read_meta
    from dpgnn.data.splits import make_split, write_split

    config = setting_of(args)
    # features stay on disk, and so do edges if the recipe does not read them
    graph = read_graph(args.graph, features=False, edges=config.reads_edges)
    rng = seeds.child(
        args.root_seed, "split", dataset=args.dataset, setting=args.setting, repeat=args.repeat
    )
    try:
        split = make_split(graph, config, rng=rng)
    except ValueError as error:
        raise ValueError(f"data set {args.dataset}, setting {args.setting}: {error}") from None
    metadata = {
        "dataset": args.dataset,
        "setting": args.setting,
        "repeat": args.repeat,
        "root_seed": args.root_seed,
        "config": config.stated,
        "caveats": config.caveats,
        "graph_sha256": read_meta(args.graph)["content_sha256"],
    }
    write_split(args.out, split, num_nodes=graph.num_nodes, metadata=metadata)
    write_checksums(args.out.with_suffix(".sha256"), [args.out])
    sizes = [len(idx) for idx in (split.train_idx, split.val_idx, split.test_idx)]
    print(f"{args.out}: {sizes[0]} training, {sizes[1]} validation, {sizes[2]} test nodes")
    return 0


def setting_of(args: argparse.Namespace) -> Any:
    """The SplitConfig of --setting-json, overridden by the flags.

    Raises:
        ValueError: not a JSON object, an unknown key, a wrong type or an impossible value.
    """
    import json

    from dpgnn.core import config
    from dpgnn.core.checks import fail
    from dpgnn.data.splits import SplitConfig, check_read

    try:
        values = json.loads(args.setting_json)
    except json.JSONDecodeError as error:
        fail("--setting-json", "be JSON", args.setting_json, str(error))
    if not isinstance(values, dict):
        fail("--setting-json", "be a JSON object", args.setting_json)
    given = {field: getattr(args, field) for field in FLAGS}
    values |= {field: value for field, value in given.items() if value is not None}
    found = config.read(SplitConfig, values, "setting")
    check_read(values, "setting")
    return found

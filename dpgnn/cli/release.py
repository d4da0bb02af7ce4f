"""`dpgnn release STUDY --run KEY --out BUNDLE`: a finished run as a bundle that can be published."""

from __future__ import annotations

import argparse
import difflib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import add_study

if TYPE_CHECKING:
    from dpgnn.release.model import Model
    from dpgnn.study.study import Study


def add_parser(subparsers: Any) -> None:
    """Add `release` to the command line."""
    parser = subparsers.add_parser(
        "release",
        help="write a finished run as a bundle: model, certificate, card",
        epilog="Names given here are published with the model. See docs/releasing.md for all steps.",
    )
    add_study(parser, "quick, another study's name, or a YAML file")
    said = "DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT; the study's only run if it plans one"
    parser.add_argument("--run", help=said)
    parser.add_argument("--out", type=Path, required=True, help="a new or empty folder")
    for kind in ("classes", "features"):
        said = f"public names of the {kind}, separated by commas; those of graph.yaml if not given"
        parser.add_argument(f"--{kind}", default="", help=said)
    said = "publish the ids of the nodes, and so who is in the graph; also if graph.yaml has public_ids"
    parser.add_argument("--public-ids", action="store_true", help=said)
    parser.add_argument("--key", type=Path, help="PEM file of an Ed25519 private key, to sign with")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Write the bundle and print what it claims.

    Raises:
        ValueError: the study plans no such run, the run is not done, or a name or the key is wrong.
    """
    from dpgnn.core.paths import Paths, parse_run
    from dpgnn.release import from_run
    from dpgnn.release.bundle import owners_files
    from dpgnn.release.released import Names
    from dpgnn.study import driver
    from dpgnn.study.study import RunKey, load_study
    from dpgnn.study.wanted import Wanted

    study = load_study(driver.study_file(args.study, root=Path()), args.tier)
    run = _chosen(args.run, study)
    key = RunKey(**parse_run(run, name="--run"))  # type: ignore[arg-type]
    graph = Paths().graph(key.dataset)
    declared = from_run.declared_names(graph)
    names = Names(
        classes=_split(args.classes) or declared.classes,
        features=_split(args.features) or declared.features,
    )
    model = from_run.model_of_run(Paths().run(study.name, run), names)
    if not Wanted(study).states(model.record.config_sha256, key):
        said = "was made with other options than the study states now; the bundle states its own"
        print(f"warning: {run} {said}", file=sys.stderr)
    model = _with_ids(model, graph, public=args.public_ids)
    model.save(args.out, key=args.key)
    print(model.claim)
    print(f"{args.out}: whole; `dpgnn verify {args.out}` checks it", file=sys.stderr)
    if own := owners_files(args.out):
        print(f"private, do not hand on: {', '.join(own)}", file=sys.stderr)
    return 0


def _with_ids(model: Model, graph: Path, *, public: bool) -> Model:
    """The model with whether edges have a direction, and with the ids of its nodes where it needs them.

    Raises:
        ValueError: ids are to be published, and the graph has none.
    """
    from dpgnn.core.checks import require
    from dpgnn.release import from_run

    if model.reads_edges:
        model = replace(model, directed_graph=from_run.is_directed(graph))
    public = public or from_run.ids_are_public(graph)
    if public or model.knows_nodes:
        ids = from_run.own_ids(graph)
        remedy = "only an own graph with a column `id` has some; leave --public-ids out"
        require(
            bool(ids) or not public, "--public-ids", "be of a graph with ids", str(graph), remedy
        )
        model = replace(model, names=replace(model.names, ids=ids, public_ids=public))
    return model


def _chosen(asked: str | None, study: Study) -> str:
    """The requested run, or the only one.

    Raises:
        ValueError: the study does not plan it, or plans several and none is named; lists the planned runs.
    """
    from dpgnn.core.checks import fail

    planned = [key.folder for key in study.keys]
    if asked in planned or (asked is None and len(planned) == 1):
        return asked or planned[0]
    rule = f"be planned by study {study.name}, tier {study.tier}"
    near = difflib.get_close_matches(asked or "", planned, n=3, cutoff=0.0)
    more = f" and {len(planned) - len(near)} more" if len(planned) > len(near) else ""
    fail("--run", rule, asked, f"it plans {', '.join(near)}{more}")


def _split(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",")) if text else ()

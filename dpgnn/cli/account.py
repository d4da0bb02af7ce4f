"""`dpgnn account METHOD`: noise, steps or epsilon of a method, as published and as proved; needs no data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpgnn.accountants.answers import Answer, ComparisonRow
    from dpgnn.accountants.cases import Case

METHODS = {
    "dp_gnn": "subgraphs of bounded degree, noisy gradient descent",
    "dp_mlp": "plain noisy gradient descent on nodes without edges",
    "drw": "disjoint random walks, noisy gradient descent",
    "dpar": "private personalised page-rank, then noisy gradient descent",
    "caribou": "contractive noisy message passing",
    "gap": "noisy aggregation over several hops",
    "dpdgc": "one noisy release of the embedded adjacency",
    "gaussian": "Gaussian releases of one sensitivity",
}
UNITS = ("node-features", "node-record", "node-bounded", "node", "edge")
RELATIONS = ("add-remove", "replace-one", "null-one")
_ROOT_METHODS = ("dp_gnn", "dp_mlp", "drw", "dpar")


def add_parser(subparsers: Any) -> None:
    """Add `account` to the command line."""
    parser = subparsers.add_parser(
        "account", help="noise, steps or epsilon of a method; needs no data"
    )
    methods = parser.add_subparsers(dest="method", required=True, metavar="METHOD")
    for method, help_text in METHODS.items():
        _add_method(methods.add_parser(method, help=help_text), method)
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Answer the question and print it; 0 on success.

    Raises:
        ValueError: too little or too much is given, or the target cannot be met.
    """
    from dpgnn.accountants.answers import Question, answer, compare
    from dpgnn.core import storage

    if args.out is not None and not args.compare:
        raise ValueError("--out must come with --compare, got --out alone")
    case = case_of(args)
    question = Question(
        mode=args.mode,
        delta=args.delta,
        noise_multiplier=args.noise_multiplier,
        num_steps=args.num_steps,
        target_epsilon=args.target_epsilon,
    )
    found = answer(case, question)
    rows: Sequence[ComparisonRow] = ()
    if args.compare:
        rows = compare(case, found.noise_stddev, step_counts(found.num_steps), args.delta)
        if args.out is not None:
            draw(case, rows, args.out)
    if args.json:
        print(storage.canonical_json(as_dict(case, args, found, rows)))
    else:
        print(as_text(case, args, found, rows))
    return 0


def case_of(args: argparse.Namespace) -> Case:
    """The case that the flags describe."""
    from dpgnn.accountants import cases, cases_dpar

    method = args.method
    if method == "dp_gnn":
        return cases.dp_gnn(
            num_train_nodes=args.num_train_nodes,
            batch_size=args.batch_size,
            max_degree=args.max_degree,
            num_hops=args.num_hops,
            unit=args.privacy_unit,
            relation=args.relation,
            degree_bound=args.degree_bound,
            conversion=args.conversion,
            wide_orders=args.wide_orders,
        )
    if method == "dp_mlp":
        return cases.dp_mlp(
            num_train_nodes=args.num_train_nodes,
            batch_size=args.batch_size,
            relation=args.relation,
        )
    if method == "drw":
        return cases.drw(
            num_train_nodes=args.num_train_nodes,
            batch_size=args.batch_size,
            walk_length=args.walk_length,
            restarts=args.restarts,
            num_walks=args.num_walks,
            variant=args.variant,
        )
    if method == "dpar":
        return cases_dpar.dpar(
            num_train_nodes=args.num_train_nodes,
            batch_size=args.batch_size,
            subsample_rate=args.subsample_rate,
            num_vectors=args.num_vectors,
            num_selected=args.num_selected,
            delta=args.delta,
            selection=args.selection,
            ranking_share=args.ranking_share,
            column_cap=args.column_cap,
        )
    if method == "gaussian":
        return cases.gaussian(
            sensitivity=args.sensitivity, unit=args.privacy_unit, relation=args.relation
        )
    from dpgnn.cli.account_perturb import perturb_case

    return perturb_case(args)


def step_counts(num_steps: int, points: int = 12) -> list[int]:
    """Up to `points` counts from 1 to num_steps, evenly spaced, the last included."""
    return sorted({max(1, round(num_steps * i / points)) for i in range(1, points + 1)})


def units_words(case: Case) -> str:
    """Which units delta is compared with; more of them would allow less."""
    if case.method == "dpar":
        return f"{case.num_units} (nodes before the subsample)"
    if case.method in _ROOT_METHODS:
        return (
            f"{case.num_units} (only training nodes were counted; a graph with more asks for less)"
        )
    return "not counted (no number of nodes was asked); delta should be below 1/(10 units)"


def as_dict(
    case: Case, args: argparse.Namespace, found: Answer, rows: Sequence[ComparisonRow]
) -> dict[str, Any]:
    """The answer as JSON-ready values."""
    from dataclasses import asdict

    from dpgnn.accountants.claims import in_words

    values: dict[str, Any] = {
        "method": case.method,
        "mode": args.mode,
        "noise_multiplier": found.noise_multiplier,
        "noise_stddev": found.noise_stddev,
        "clipping_norm": 1.0 if case.method in _ROOT_METHODS else None,
        "reference_sensitivity": case.reference_sensitivity,
        "num_steps": found.num_steps,
        "epsilon": found.epsilon,
        "delta": args.delta,
        "target_epsilon": args.target_epsilon,
        "delta_units": units_words(case),
        "details": dict(case.details),
        "claims": [claim.to_dict() for claim in found.claims],
        "in_words": [in_words(claim) for claim in found.claims],
    }
    if found.steps_within_target is not None:
        values["steps_within_target"] = found.steps_within_target
    if rows:
        values["compare"] = [asdict(row) for row in rows]
    return values


def as_text(
    case: Case, args: argparse.Namespace, found: Answer, rows: Sequence[ComparisonRow]
) -> str:
    """The answer as a table for a reader."""
    from dpgnn.accountants.claims import in_words

    unit = " (in clipping norms)" if case.method in _ROOT_METHODS else ""
    table = [
        ("method", f"{case.method}, {args.mode}"),
        ("noise multiplier", f"{found.noise_multiplier:.6g}"),
        ("noise stddev", f"{found.noise_stddev:.6g}{unit}"),
        (case.counted, str(found.num_steps)),
        ("epsilon", f"{found.epsilon:.6g}"),
        ("delta", f"{args.delta:.6g}"),
        ("delta's units", units_words(case)),
        *((name.replace("_", " "), f"{value}") for name, value in case.details.items()),
    ]
    if found.steps_within_target is not None:
        name = f"{case.counted} within epsilon {args.target_epsilon:g}"
        table.append((name, str(found.steps_within_target)))
    width = max(len(name) for name, _ in table)
    lines = [f"{name:<{width}}  {value}" for name, value in table]
    for claim in found.claims:
        lines += ["", in_words(claim)]
    if rows:
        lines += ["", f"{case.counted:>9} {'paper':>10} {'RDP':>10} {'PLD':>10}   (epsilon)"]
        lines += [
            f"{row.num_steps:>9} {row.paper:>10.4f} {row.rdp:>10.4f} {row.pld:>10.4f}"
            for row in rows
        ]
    if rows and args.out is None:
        lines.append("(--out FILE.png or FILE.svg draws these curves)")
    elif rows:
        lines.append(f"drawn in {args.out}")
    return "\n".join(lines)


def draw(case: Case, rows: Sequence[ComparisonRow], path: Path) -> None:
    """Draw epsilon against steps, one line per accountant, as PNG or SVG; written atomically.

    Raises:
        ValueError: the file's ending is neither.
    """
    from dpgnn.core import checks, storage

    kind = path.suffix.lower().lstrip(".")
    checks.require(kind in ("png", "svg"), "out", "end in .png or .svg", str(path))
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "dpgnn"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.0, 4.0), layout="constrained")
    steps = [row.num_steps for row in rows]
    series = (
        ("paper", [row.paper for row in rows], "o-"),
        ("RDP, sound pair", [row.rdp for row in rows], "s--"),
        ("PLD, sound pair", [row.pld for row in rows], "^-"),
    )
    for name, values, style in series:
        axes.plot(steps, values, style, label=name, markersize=4)
    axes.set_xlabel(case.counted)
    axes.set_ylabel("epsilon")
    axes.set_title(case.method)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    # no date in the file: the same question draws the same bytes
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with storage.atomic_write(path) as file:
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    pyplot.close(figure)


def _add_method(parser: argparse.ArgumentParser, method: str) -> None:
    """The flags of one method."""
    add = parser.add_argument
    add("--mode", choices=("published", "sound"), default="published")
    add("--delta", type=float, required=True, help="failure probability of the guarantee")
    add("--noise-multiplier", type=float, help="noise over the reference sensitivity")
    steps = "hops or releases" if method not in _ROOT_METHODS else "optimiser steps"
    add("--num-steps", type=int, help=f"number of {steps}; two of noise, steps, target are given")
    add("--target-epsilon", type=float, help="budget")
    add("--compare", action="store_true", help="paper, RDP and PLD side by side")
    add("--out", type=Path, help="with --compare: draw epsilon against steps here (.png or .svg)")
    add("--json", action="store_true", help="JSON in place of the table")
    if method in _ROOT_METHODS:
        add("--num-train-nodes", type=int, required=True, help="roots; public")
        add("--batch-size", type=int, required=True, help="roots per step (mean, in sound mode)")
    if method == "dp_gnn":
        add("--max-degree", type=int, required=True, help="K, degree bound of the sampler")
        add("--num-hops", type=int, required=True, help="r, depth of a subgraph")
        add("--conversion", choices=("improved", "mironov"), default="improved")
        add("--wide-orders", action="store_true", help="orders 1.01..512 in place of 1.1..9.9")
        _add_notion(parser, ("node-features", "node-record", "node-bounded"), "node-record")
    elif method == "dp_mlp":
        add("--relation", choices=RELATIONS, default="add-remove")
    elif method == "drw":
        add("--walk-length", type=int, required=True, help="L, edges of a walk")
        add("--restarts", type=int, default=1, help="R, walks per subgraph")
        add("--num-walks", type=int, help="M of the drawn partition (default: M_min)")
        add("--variant", choices=("basic", "forward-difference"), default="basic")
    elif method == "dpar":
        add("--subsample-rate", type=float, default=1.0, help="q' of the outer subsample")
        add("--num-vectors", type=int, default=70, help="M, personalised vectors")
        add("--num-selected", type=int, default=2, help="K, entries kept per vector")
        add("--selection", choices=("em", "gm"), default="em", help="Gumbel or Gaussian noise")
        add("--ranking-share", type=float, default=0.5, help="share of the budget for the vectors")
        add("--column-cap", type=int, default=2, help="s, entries kept per column (sound)")
    else:
        default = 1.0 if method == "gaussian" else None
        told = "" if method == "gaussian" else "; 1 in published mode, to be given in sound mode"
        add("--sensitivity", type=float, default=default, help=f"L2 change of one release{told}")
        unit, relation = ("node", "replace-one") if method == "gaussian" else ("edge", "add-remove")
        _add_notion(parser, UNITS, unit, relation)
        if method != "gaussian":
            what = "the embedding" if method == "dpdgc" else "encoder and head"
            _add_training(parser, "training", what)
    if method == "dpdgc":
        _add_training(parser, "head", "the head, at node level")
    if method == "caribou":
        add("--contraction", type=float, required=True, help="c in [0, 1]")


def _add_training(parser: argparse.ArgumentParser, name: str, what: str) -> None:
    """The flags of one private training that is composed with the releases."""
    noise = f"noise of {what} over its sensitivity C (d+ + d-), as a plan's noise_multiplier"
    parser.add_argument(f"--{name}-noise", type=float, help=noise)
    parser.add_argument(f"--{name}-steps", type=int, help="its steps")
    parser.add_argument(f"--{name}-rate", type=float, help="its Poisson rate")


def _add_notion(
    parser: argparse.ArgumentParser,
    units: Sequence[str],
    unit: str,
    relation: str = "add-remove",
) -> None:
    """Unit, relation and degree bound of the guarantee."""
    parser.add_argument("--privacy-unit", choices=units, default=unit)
    parser.add_argument("--relation", choices=RELATIONS, default=relation)
    parser.add_argument("--degree-bound", type=int, help="D, for node-bounded")

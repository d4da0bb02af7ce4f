"""`dpgnn account METHOD`: noise, steps or epsilon from a method's own plan, without data."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import OneLineParser
from dpgnn.cli.numbers import integer, number

if TYPE_CHECKING:
    from dpgnn.methods.base import Method
    from dpgnn.run.account import Answer, ComparisonRow, Question

GAUSSIAN = "gaussian"


def add_parser(subparsers: Any) -> None:
    """Add `account` to the command line; flags of a single method are parsed once the method is known."""
    parser = subparsers.add_parser(
        "account", help="noise, steps or epsilon of a method; needs no data",
        description="METHOD is one of `dpgnn methods`, or gaussian; another name lists them all. "
        "`dpgnn account METHOD --help` lists its flags.",
    )  # fmt: skip
    parser.add_argument("method", metavar="METHOD")
    parser.add_argument("words", nargs=argparse.REMAINDER, metavar="...")
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Answer the question and print it; 0 on success.

    Raises:
        ValueError: too few or too many flags are given, or the target cannot be met.
    """
    from dpgnn import methods

    if args.method == GAUSSIAN:
        return _gaussian(args.words)
    method = methods.get(args.method)
    if not method.supports:
        print(
            f"{method.title} has no private mode: it adds no noise, spends no epsilon and makes no claim"
        )
        return 0
    return _answer(method, _parser(method).parse_args(args.words))


def _parser(method: Method) -> argparse.ArgumentParser:
    """The flags of one method: those of every plan, and those for its own options."""
    units = {pair.privacy_unit: None for pair in method.supports}
    relations = {pair.relation: None for pair in method.supports}
    parser = OneLineParser(prog=f"dpgnn account {method.name}", description=method.title)
    add = parser.add_argument
    add("--mode", choices=[m for m in method.modes if m != "nonprivate"], default="sound")
    add("--privacy-unit", choices=list(units), help=f"default {method.supports[0].privacy_unit}")
    add("--relation", choices=list(relations), help=f"default {method.supports[0].relation}")
    _add_numbers(parser)
    if method.asked.steps:
        add("--num-steps", type=integer, help=f"number of {method.asked.counted}")
    add("--num-train-nodes", type=integer, help="training nodes; public")
    add("--num-nodes", type=integer, help="nodes; public (default: the training nodes)")
    add("--public-population", action="store_true",
        help="these numbers are declared, as public_population of a study, and not counted")  # fmt: skip
    for flag, option in method.asked.flags.items():
        add(f"--{flag}", metavar="VALUE", help=f"the option {option}")
    add("--set", action="append", default=[], metavar="OPTION=VALUE", help="any other option")
    add("--compare", action="store_true", help="paper, RDP and PLD side by side")
    add("--out", type=Path, help="with --compare: draw epsilon against steps here (.png or .svg)")
    return parser


def _add_numbers(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--delta", type=number, required=True, help="failure probability of the guarantee")
    add("--noise-multiplier", type=number, help="noise over the sensitivity, of every stage")
    add("--target-epsilon", "--epsilon", type=number, help="budget")
    add("--json", action="store_true", help="JSON in place of the table")


def _answer(method: Method, args: argparse.Namespace) -> int:
    from dpgnn.core.storage import canonical_json
    from dpgnn.run.account import answer, compare

    if args.out is not None and not args.compare:
        raise ValueError("--out must come with --compare, got --out alone")
    question = question_of(method, args)
    found = answer(question)
    rows: Sequence[ComparisonRow] = ()
    if args.compare:
        rows = compare(question, found, step_counts(found.num_steps))
        if args.out is not None:
            draw(method.title, method.asked.counted, rows, args.out)
    values = as_dict(question, found, rows)
    if args.json:
        print(canonical_json(values))
    else:
        print(as_text(question, values, rows, args.out))
    return 0


def _options(method: Method, args: argparse.Namespace) -> dict[str, Any]:
    """Options from the method's own flags, then from --set."""
    from dpgnn.core.checks import require
    from dpgnn.core.yaml_text import parse_yaml

    options: dict[str, Any] = {}
    for flag, option in method.asked.flags.items():
        value = getattr(args, flag.replace("-", "_"))
        if value is not None:
            options[option] = parse_yaml(value, f"--{flag}")
    for text in args.set:
        option, equals, value = text.partition("=")
        require(bool(equals), "--set", "have the form OPTION=VALUE", text)
        options[option] = parse_yaml(value, f"--set {option}")
    return options


def question_of(method: Method, args: argparse.Namespace) -> Question:
    """The question from the flags.

    Raises:
        ValueError: no number of nodes, a number out of range, or an option without a value.
    """
    from dpgnn.core.checks import at_least, require
    from dpgnn.methods.base import Facts
    from dpgnn.run.account import Question

    sizes = (args.num_train_nodes, args.num_nodes)
    stated = sizes != (None, None)
    require(stated, "--num-train-nodes or --num-nodes", "be given", "neither", "they are public")
    num_train = args.num_train_nodes if args.num_train_nodes is not None else args.num_nodes
    num_nodes = args.num_nodes if args.num_nodes is not None else num_train
    at_least("--num-train-nodes", num_train, 1)
    at_least("--num-nodes", num_nodes, num_train)
    return Question(
        method=method.name,
        mode=args.mode,
        privacy_unit=args.privacy_unit,
        relation=args.relation,
        options=_options(method, args),
        facts=Facts(
            num_nodes=num_nodes, num_train=num_train, num_features=1, num_classes=2,
            task="multiclass", declared=args.public_population,
        ),
        delta=args.delta,
        noise_multiplier=args.noise_multiplier,
        num_steps=getattr(args, "num_steps", None),
        target_epsilon=args.target_epsilon,
    )  # fmt: skip


def step_counts(num_steps: int, points: int = 12) -> list[int]:
    """Up to `points` counts from 1 to num_steps, evenly spaced, the last included."""
    return sorted({max(1, round(num_steps * i / points)) for i in range(1, points + 1)})


def as_dict(question: Question, found: Answer, rows: Sequence[ComparisonRow]) -> dict[str, Any]:
    """The answer as JSON-ready values."""
    from dataclasses import asdict

    from dpgnn.accountants.claims import in_words

    shown = found.shown
    values: dict[str, Any] = {
        "method": question.method,
        "mode": question.mode,
        "noise_multiplier": shown.details.get("noise_multiplier"),
        "noise_stddev": shown.noise_stddev,
        "clipping_norm": shown.clipping_norm,
        "num_steps": found.num_steps,
        "epsilon": found.claims[0].epsilon,
        "delta": question.delta,
        "target_epsilon": question.target_epsilon,
        "delta_units": f"{question.facts.num_nodes} nodes",
        "mechanisms": [
            {
                "name": mechanism.name,
                "noise_stddev": mechanism.noise_stddev,
                "sensitivity": mechanism.sensitivity,
                "num_steps": mechanism.num_steps,
                "details": dict(mechanism.details),
            }
            for mechanism in found.plan.mechanisms
        ],
        "claims": [claim.to_dict() for claim in found.claims],
        "in_words": [in_words(claim) for claim in found.claims],
    }
    if found.steps_within_target is not None:
        values["steps_within_target"] = found.steps_within_target
    if rows:
        values["compare"] = [asdict(row) for row in rows]
    return values


def as_text(
    question: Question, values: dict[str, Any], rows: Sequence[ComparisonRow], out: Path | None
) -> str:
    """The answer as a table for a reader; its first line names the mode."""
    from dpgnn import methods

    counted = methods.get(question.method).asked.counted
    table = [("method", f"{question.method}, {question.mode}")]
    for mechanism in values["mechanisms"]:
        words = f"noise stddev {mechanism['noise_stddev']:.6g}"
        if "base_epsilon" in mechanism["details"]:
            words = _choice(mechanism)
        multiplier = mechanism["details"].get("noise_multiplier")
        if multiplier is not None:
            words += f", {multiplier:.6g} times the sensitivity"
        steps = mechanism["num_steps"]
        table.append((mechanism["name"], words + (f", {steps} steps" if steps > 1 else "")))
    found = " (as many as the paper's accounting allows)" * ("steps_within_target" in values)
    table += [
        (counted, f"{values['num_steps']}{found}"),
        ("epsilon", f"{values['epsilon']:.6g}"),
        ("delta", f"{question.delta:.6g} (compared with {values['delta_units']})"),
    ]
    if "steps_within_target" in values:
        name = f"sound {counted} within epsilon {question.target_epsilon:g}"
        table.append((name, str(values["steps_within_target"])))
    width = max(len(name) for name, _ in table)
    lines = [f"{name:<{width}}  {value}" for name, value in table]
    for words in values["in_words"]:
        lines += ["", words]
    if rows:
        lines += ["", f"{counted:>9} {'paper':>10} {'RDP':>10} {'PLD':>10}   (epsilon)"]
        lines += [
            f"{row.num_steps:>9} {row.paper:>10.4f} {row.rdp:>10.4f} {row.pld:>10.4f}"
            for row in rows
        ]
        drawn = f"drawn in {out}"
        lines.append("(--out FILE.png or FILE.svg draws these curves)" if out is None else drawn)
    return "\n".join(lines)


def _choice(mechanism: dict[str, Any]) -> str:
    """An accounted choice in words."""
    details, noise = mechanism["details"], mechanism["noise_stddev"]
    score = f", noise stddev {noise:.6g} on the score" if noise else ""
    runs = f"the best of {details['mean_runs']:.3g} runs in the mean"
    return f"{runs}, each planned for epsilon {details['base_epsilon']:.6g}{score}"


def draw(title: str, counted: str, rows: Sequence[ComparisonRow], path: Path) -> None:
    """Draw epsilon against steps, one line per accountant, as PNG or SVG; written atomically.

    Raises:
        ValueError: the file name ends in neither.
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
    axes.set_xlabel(counted)
    axes.set_ylabel("epsilon")
    axes.set_title(title)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    # no date in the file: the same question draws the same bytes
    metadata: dict[str, Any] = {"Date": None} if kind == "svg" else {"Software": None}
    with storage.atomic_write(path) as file:
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    pyplot.close(figure)


def _gaussian(words: Sequence[str]) -> int:
    """Account for Gaussian releases of one sensitivity, exactly and in closed form."""
    import math

    from dpgnn.accountants import gdp
    from dpgnn.core.checks import at_least, positive, require
    from dpgnn.core.storage import canonical_json

    parser = OneLineParser(prog=f"dpgnn account {GAUSSIAN}")
    _add_numbers(parser)
    parser.add_argument("--num-steps", type=integer, default=1, help="releases")
    parser.add_argument("--sensitivity", type=number, default=1.0, help="L2 change of one release")
    args = parser.parse_args(words)
    at_least("--num-steps", args.num_steps, 1)
    positive("--sensitivity", args.sensitivity)
    noise, target = args.noise_multiplier, args.target_epsilon
    one = (noise is None) != (target is None)
    require(
        one, "--noise-multiplier, --target-epsilon", "be given, one of the two", (noise, target)
    )
    if noise is None:
        positive("--target-epsilon", target)
        noise = math.sqrt(args.num_steps) / gdp.mu(target, args.delta)
    positive("--noise-multiplier", noise)
    values = {
        "method": GAUSSIAN,
        "noise_multiplier": noise,
        "noise_stddev": noise * args.sensitivity,
        "num_steps": args.num_steps,
        "epsilon": gdp.epsilon(math.sqrt(args.num_steps) / noise, args.delta),
        "delta": args.delta,
    }
    if args.json:
        print(canonical_json(values))
    else:
        print("\n".join(f"{name.replace('_', ' '):<17} {value}" for name, value in values.items()))
    return 0

"""`dpgnn attack`: LinkTeller, G-MIA and the attacks made for one leak, on runs of a study."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import add_study_file, add_tier

if TYPE_CHECKING:
    from dpgnn.attacks.request import AttackRequest, Sizes
    from dpgnn.cli.attack_inputs import Loaded
    from dpgnn.core.paths import Paths
    from dpgnn.report.tables.table import Table
    from dpgnn.study.study import RunKey, Study

COPIES = "attacks"  # below work/: attacks as they were made, by study
MOST_PRINTED = 300  # a longer table is written as CSV only


def add_parser(subparsers: Any) -> None:
    """Add `attack` to the command line."""
    parser = subparsers.add_parser("attack", help="attack runs of a study: edges and membership")
    add_study_file(parser)
    add_tier(parser)
    parser.add_argument(
        "--run", action="append", default=[],
        help="DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT, many times; all of the tier if not given",
    )  # fmt: skip
    parser.add_argument("--dataset", action="append", default=[], help="only runs on this data set")
    parser.add_argument("--entry", action="append", default=[], help="only runs of this entry")
    parser.add_argument(
        "--attacks", default="linkteller,gmia,leak", help="names of attacks, separated by commas"
    )
    parser.add_argument("--sets", default="", help="LinkTeller's pair sets, separated by commas")
    parser.add_argument("--nodes", type=int, help="nodes of LinkTeller's node sets")
    parser.add_argument(
        "--pairs", type=int, help="edges of LinkTeller's balanced and held-out sets"
    )
    parser.add_argument(
        "--fresh-pairs", type=int, help="edges attacked with fresh noise; 0 for none"
    )
    parser.add_argument(
        "--runs", type=int, help="runs of each world, for attacks made for one leak"
    )
    parser.add_argument(
        "--steps", type=int, help="largest number of training steps that such a run observes"
    )
    parser.add_argument(
        "--hubs", type=_numbers, help="numbers of nodes that the hub reads, separated by commas"
    )
    parser.add_argument("--level", type=float, help="false-alarm rate of the tests of a claim")
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument(
        "--out", type=Path, help="folder; results/studies/STUDY/attacks if not given"
    )
    parser.add_argument(
        "--work", type=Path, help="folder for copies of attacks, used in place of attacking again"
    )
    parser.add_argument(
        "--table", type=Path, help="attack nothing; write attacks.csv (if short .md, .tex) of --out"
    )
    parser.add_argument(
        "--page",
        type=Path,
        help="attack nothing; write the tables of --out into this Markdown page",
    )
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Attack every run and write one JSON file for each run and attack; finished files are kept."""
    from dpgnn.attacks.request import ATTACKS, ON_REQUEST
    from dpgnn.cli.made import require_made
    from dpgnn.core.checks import one_of, require
    from dpgnn.core.paths import Paths
    from dpgnn.records.attacks import read_attacks
    from dpgnn.report.tables.attack_pages import fill_page
    from dpgnn.report.tables.attacks import attacks_table
    from dpgnn.study.study import load_study

    study, paths = load_study(args.study, args.tier), Paths(results=args.results)
    folder = args.out or paths.study(study.name) / "attacks"
    if args.table is not None:
        _write_table(args.table, attacks_table(read_attacks(folder)))
    if args.page is not None:
        fill_page(args.page, read_attacks(folder))
    if args.table is not None or args.page is not None:
        return 0
    remedy = "attack a study with `randomness: study`: an attack's score reads private records"
    kind = study.config.randomness
    require(
        kind == "study", f"randomness of study {study.name}", "be study to attack it", kind, remedy
    )
    names = [one_of("attack", name, (*ATTACKS, *ON_REQUEST)) for name in args.attacks.split(",")]
    keys = keys_of(study, args)
    for key in keys:
        require_made(study, key, paths, "attack")
    copies = None if args.work is None else args.work / COPIES / study.name
    _attack_all(study, keys, names, folder, paths, sizes_of(args), copies)
    return 0


def _write_table(folder: Path, table: Table[Any]) -> None:
    """Write the table; a long one as CSV only."""
    from dpgnn.core.storage import write_text
    from dpgnn.report.tables.table import to_csv, write_table

    if len(table.rows) <= MOST_PRINTED:
        write_table(folder, table)
        return
    for suffix in (".md", ".tex"):
        (folder / f"{table.name}{suffix}").unlink(missing_ok=True)
    write_text(folder / f"{table.name}.csv", to_csv(table))


def _attack_all(
    study: Study,
    keys: Sequence[RunKey],
    names: Sequence[str],
    folder: Path,
    paths: Paths,
    sizes: Sizes,
    copies: Path | None = None,
) -> None:
    """Attack the runs one after the other; a line on standard error after each."""
    import torch

    from dpgnn.cli.attack_inputs import load, request_of

    torch.set_num_threads(study.config.num_threads)
    started = time.monotonic()
    for number, key in enumerate(keys, start=1):
        # shared by the attacks of one run, above all its fit
        loaded = load(study, key, paths)
        request = cache(partial(request_of, key, loaded, sizes))
        for name in names:
            attack_one(study, key, name, folder, loaded, sizes, request, copies)
        elapsed = time.monotonic() - started
        print(
            f"attacked {number} of {len(keys)} runs, {elapsed:.0f} s", file=sys.stderr, flush=True
        )


def _numbers(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas.

    Raises:
        argparse.ArgumentTypeError: one of them is none.
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        rule = f"{text!r} must be whole numbers separated by commas, such as 200,1000"
        raise argparse.ArgumentTypeError(rule) from None


def sizes_of(args: argparse.Namespace) -> Sizes:
    """The sizes of attacks, from the flags that were given."""
    from dpgnn.attacks.request import Sizes

    given: dict[str, Any] = {
        "num_nodes": args.nodes,
        "num_pairs": args.pairs,
        "num_fresh_pairs": args.fresh_pairs,
        "num_runs": args.runs,
        "num_steps": args.steps,
        "hubs": args.hubs,
        "level": args.level,
        "sets": tuple(args.sets.split(",")) if args.sets else None,
    }
    return Sizes(**{name: value for name, value in given.items() if value is not None})


def keys_of(study: Study, args: argparse.Namespace) -> list[RunKey]:
    """The runs selected by the flags.

    Raises:
        ValueError: the study has no such name, or no run is selected.
    """
    from dpgnn.core.checks import one_of, require
    from dpgnn.core.paths import parse_run
    from dpgnn.study.study import RunKey

    for name in args.dataset:
        one_of("data set", name, study.config.datasets)
    for name in args.entry:
        one_of("entry", name, study.entries)
    keys = [RunKey(**parse_run(run)) for run in args.run] or list(study.keys)  # type: ignore[arg-type]
    for key in keys:
        study.check_key(key)
    chosen = [
        key
        for key in keys
        if (not args.dataset or key.dataset in args.dataset)
        and (not args.entry or key.entry in args.entry)
    ]
    asked = {"--run": args.run, "--dataset": args.dataset, "--entry": args.entry}
    require(
        bool(chosen), "runs to attack", f"be at least one of tier {study.tier}",
        {flag: names for flag, names in asked.items() if names},
        "name another --tier, or fewer restrictions",
    )  # fmt: skip
    return chosen


def attack_one(
    study: Study,
    key: RunKey,
    name: str,
    folder: Path,
    loaded: Loaded,
    sizes: Sizes,
    request_of_run: Callable[[], AttackRequest],
    copies: Path | None = None,
) -> dict[str, Any]:
    """Make one attack on one run, write and return it; a finished one is read, or taken from `copies`."""
    run = f"{key.stem}.{key.repeat}"
    path = folder / f"{run}.{name}.json"
    content = _stated(study, key, _fingerprint(study, key, name, loaded, sizes))
    kept = _standing(path, content["fingerprint"])
    if kept is not None:
        print(f"{path.name}: kept", file=sys.stderr, flush=True)
        return kept
    kept = None if copies is None else _copy_of(copies / path.name, content)
    if kept is not None:
        _write(path, kept)
        print(f"{path.name}: copied from {copies}", file=sys.stderr, flush=True)
        return kept
    claim, results = _made(name, request_of_run())
    # the same seeds give the same file, so times are only printed
    content |= {"claim": claim, "results": [_without_times(result) for result in results]}
    _write(path, content)
    if copies is not None:
        _write(copies / path.name, {"code": _own_code(), "content": content})
    for result in results:
        print(f"{path.name}: {words(result)}", file=sys.stderr, flush=True)
    return content


def _stated(study: Study, key: RunKey, fingerprint: str) -> dict[str, Any]:
    """What an attack's file says of its run."""
    from dpgnn import methods
    from dpgnn.study.wanted import Wanted

    entry = study.entries[key.entry]
    return {
        "key": key.axes,
        "config_sha256": Wanted(study).config_sha256(key),
        "fingerprint": fingerprint,
        "title": entry.title or methods.get(entry.method).title,
        "method": entry.method,
        "mode": entry.mode,
    }


def _standing(path: Path, fingerprint: str) -> dict[str, Any] | None:
    """The finished attack with this fingerprint; None if there is none."""
    from dpgnn.core.checksums import check
    from dpgnn.core.storage import read_json

    if not path.exists():
        return None
    check(path)
    held: dict[str, Any] = read_json(path)
    return held if held.get("fingerprint") == fingerprint else None


def _write(path: Path, content: dict[str, Any]) -> None:
    """Write a file and its checksum."""
    from dpgnn.core.checksums import write_checksums
    from dpgnn.core.storage import write_json

    write_json(path, content)
    write_checksums(path.with_suffix(".sha256"), [path])


def _copy_of(path: Path, stated: dict[str, Any]) -> dict[str, Any] | None:
    """The copy of an attack, if it states the same and was made by the same code; None otherwise.

    Snakemake removes an attack before its job starts, also where only another run of a process was repeated.
    """
    from dpgnn.core.checksums import check
    from dpgnn.core.storage import DamagedFileError, read_json

    if not path.exists():
        return None
    try:
        check(path)
        held = read_json(path)
    except DamagedFileError:
        return None
    content: dict[str, Any] = held["content"]
    same = {name: content.get(name) for name in stated} == stated
    return content if same and held["code"] == _own_code() else None


def _own_code() -> str:
    """Hash of the code that writes an attack's file."""
    from dpgnn.core.code_hash import code_sha256

    return code_sha256("dpgnn.cli.attack")


def _fingerprint(study: Study, key: RunKey, name: str, loaded: Loaded, sizes: Sizes) -> str:
    """Hash of everything that decides an attack's file."""
    import dataclasses

    from dpgnn import methods
    from dpgnn.core.code_hash import code_sha256
    from dpgnn.core.storage import sha256_json

    method = study.entries[key.entry].method
    return sha256_json({
        "run": study.run_params(key), "axes": key.axes, "attack": name,
        "sizes": dataclasses.asdict(sizes), **loaded.recorded,
        "code": methods.get(method).with_outside(
            code_sha256(methods.TABLE[method], "dpgnn.attacks.request"),
            study.entries[key.entry].for_dataset(key.dataset),
        ),
    })  # fmt: skip


def _made(name: str, request: AttackRequest) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The run's claim and the attack's results, or why there are none."""
    from dpgnn.attacks.request import ATTACKS, ON_REQUEST, claim_of

    try:
        return claim_of(request), {**ATTACKS, **ON_REQUEST}[name](request)
    except ValueError as error:
        return {}, [{"attack": name, "status": "not-available", "reason": str(error)}]


def _without_times(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "seconds"}


def words(result: dict[str, Any]) -> str:
    """A result in one line."""
    if result["status"] != "ok":
        return f"{result['attack']} {result['status']}: {result['reason']}"
    if "variants" in result:
        numbers = ", ".join(_of_variant(name, found) for name, found in result["variants"].items())
        return f"{result['attack']} {numbers}, {result['seconds']:.0f} s"
    parts = [str(result[name]) for name in ("pair_set", "direction", "noise") if name in result]
    text = " ".join([result["attack"], *parts, f"AUC {result['auc']:.3f}"])
    if "line" in result and "one_run" not in result:
        text += f", epsilon >= {result['line']['epsilon_lower_bound']:.2f}"
    if result.get("exceeds_claim"):
        text += ", EXCEEDS THE CLAIM"
    return f"{text}, {result['seconds']:.1f} s"


def _of_variant(name: str, found: dict[str, Any]) -> str:
    """G-MIA's variant in words."""
    if "auc" not in found:
        return f"{name} {found['status']}: {found['reason']}"
    if found["scorer"] == "constant":
        return f"{name} no scorer"
    return (
        f"{name} AUC {found['auc']:.3f} (script's {found['script_auroc']:.3f},"
        f" the class alone {found['label_auc']:.3f})"
    )

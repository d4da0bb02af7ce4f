"""`dpgnn records`: pack a study's records into one file, show one, or unpack all."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from dpgnn.cli.flags import add_study


def add_parser(subparsers: Any) -> None:
    """Add `records` to the command line."""
    parser = subparsers.add_parser(
        "records", help="pack records into one file, show or unpack them"
    )
    what = parser.add_subparsers(dest="what", required=True)
    pack = what.add_parser("pack", help="put a study's records into FOLDER/STUDY/runs.parquet")
    add_study(pack)
    pack.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    pack.add_argument("--out", type=Path, default=None, help="folder of archives (docs/reference)")
    pack.set_defaults(func=pack_main)
    choose = what.add_parser("choose", help="fix the points of tuned entries, see `tuned_on`")
    add_study(choose, "a paper's study, or a YAML file")
    choose.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    choose.set_defaults(func=choose_main)
    show = what.add_parser("show", help="print the record of one run, or the names of all runs")
    show.add_argument("archive", type=Path, help="a runs.parquet")
    show.add_argument("run", nargs="?", help="DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT")
    show.set_defaults(func=show_main)
    unpack = what.add_parser("unpack", help="write the runs as files")
    unpack.add_argument("archive", type=Path, help="a runs.parquet")
    unpack.add_argument("folder", type=Path, help="results/studies/STUDY/runs, for example")
    unpack.set_defaults(func=unpack_main)

    for kind in ("attacks", "audits"):
        texts = what.add_parser(f"pack-{kind}", help=f"put a folder's {kind} into {kind}.parquet")
        texts.add_argument("folder", type=Path, help=f"folder with files of `dpgnn {kind[:-1]}`")
        texts.set_defaults(func=pack_texts_main, kind=kind)
        said = f"write the {kind} of {kind}.parquet as files"
        files = what.add_parser(f"unpack-{kind}", help=said)
        files.add_argument("folder", type=Path, help=f"folder with {kind}.parquet")
        files.add_argument("out", type=Path, help="folder to write the files to")
        files.set_defaults(func=unpack_texts_main, kind=kind)

    sums = what.add_parser("sums", help="write SHA256SUMS of committed records")
    sums.add_argument("folder", type=Path, nargs="?", help="docs/reference if none is given")
    sums.set_defaults(func=sums_main)
    check = what.add_parser("check", help="compare committed records with their SHA256SUMS")
    check.add_argument("folder", type=Path, nargs="?", help="docs/reference if none is given")
    check.set_defaults(func=check_main)


def sums_main(args: argparse.Namespace) -> int:
    """Write the checksums of a folder's records."""
    from dpgnn.core.checks import require
    from dpgnn.records.archive import REFERENCE
    from dpgnn.records.sums import SUMS, recorded, write_sums

    folder = args.folder or REFERENCE
    require(bool(recorded(folder)), "folder", "hold records", str(folder), "such as docs/reference")
    print(f"{folder / SUMS}: {write_sums(folder)} files", file=sys.stderr)
    return 0


def check_main(args: argparse.Namespace) -> int:
    """Print the records that differ from the list; 1 if any does."""
    from dpgnn.records.archive import REFERENCE
    from dpgnn.records.sums import SUMS, differences, recorded

    folder = args.folder or REFERENCE
    wrong = list(differences(folder))
    print(*wrong, sep="\n", end="\n" * bool(wrong))
    if not wrong:
        print(f"{len(recorded(folder))} files are as {folder / SUMS} says", file=sys.stderr)
    return 1 if wrong else 0


def pack_texts_main(args: argparse.Namespace) -> int:
    """Pack the attacks or audits of a folder into its archive."""
    from dpgnn.records.archive import pack_texts, text_archive
    from dpgnn.records.sums import SUMS, write_sums

    total, new = pack_texts(args.folder, args.kind)
    for reference in args.folder.parents:
        if (reference / SUMS).exists():
            write_sums(reference, args.folder)
    archive = text_archive(args.folder, args.kind)
    print(f"{archive}: {total} {args.kind}, {new} from files", file=sys.stderr)
    return 0


def unpack_texts_main(args: argparse.Namespace) -> int:
    """Write the attacks or audits of an archive as files."""
    from dpgnn.records.archive import unpack_texts

    number = unpack_texts(args.folder, args.kind, args.out)
    print(f"{args.out}: {number} {args.kind}", file=sys.stderr)
    return 0


def pack_main(args: argparse.Namespace) -> int:
    """Pack the records of a study's planned runs, their graphs' metadata, and the data of figures."""
    from dpgnn.cli.report import describe
    from dpgnn.core.paths import Paths
    from dpgnn.records.archive import REFERENCE, RUNS, keep_graphs, pack
    from dpgnn.records.sums import write_sums
    from dpgnn.report.paper.kept import keep_for_figures
    from dpgnn.study import driver
    from dpgnn.study.study import load_study

    file = driver.study_file(args.study, root=Path())
    study = load_study(file, args.tier)
    folder = (args.out or REFERENCE) / study.name
    path = folder / RUNS
    paths = Paths(results=args.results)
    runs = paths.study(study.name) / "runs"
    total, new = pack(path, runs, [key.folder for key in study.keys])
    keep_graphs(paths, Paths(results=folder), {key.dataset for key in study.keys})
    drawn = keep_for_figures(describe(study, file), paths, folder)
    write_sums(folder.parent, folder)
    print(f"{path}: {total} of {len(study.keys)} runs, {new} from {runs}", file=sys.stderr)
    if drawn:
        print(f"{folder}: histories or class scores of {drawn} runs, for figures", file=sys.stderr)
    return 0


def choose_main(args: argparse.Namespace) -> int:
    """Write which point of each tuned entry runs on all repeats; runs are committed ones and own results."""
    from dpgnn.cli.report import describe
    from dpgnn.core.checks import require
    from dpgnn.core.paths import Paths
    from dpgnn.records.archive import REFERENCE
    from dpgnn.records.cells import build_cells
    from dpgnn.records.frame import load_runs
    from dpgnn.report.tables.tuning import choices
    from dpgnn.study import driver
    from dpgnn.study.choices import write_choices
    from dpgnn.study.study import load_study

    file = driver.study_file(args.study, root=Path())
    study = load_study(file, args.tier)
    info = describe(study, file)
    remedy = "say on how many repeats the points of `tuned` entries run"
    require(study.config.tuned_on > 0, "tuned_on", "be >= 1 in the study", 0, remedy)
    points = [key.folder for key in study.keys if key.entry.partition("~")[0] in info.tuned]
    runs = {
        run.name: run
        for folder in (REFERENCE / study.name, Paths(results=args.results).study(study.name))
        for run in load_runs(folder / "runs", points)
    }
    chosen = choices(build_cells(list(runs.values()), info), info)
    remedy = f"run the study first: `dpgnn run {args.study}`"
    require(bool(chosen), "choices", "have all points of a cell scored", 0, remedy)
    print(f"{write_choices(file, chosen)}: {len(chosen)} cells", file=sys.stderr)
    return 0


def check_archive(path: Path) -> None:
    """Refuse a file that is not an archive, so that it is not reported as damaged.

    Raises:
        ValueError: there is no such file, or it is not a Parquet file.
    """
    from dpgnn.core.checks import require

    first = b""
    if path.is_file():
        with path.open("rb") as file:
            first = file.read(4)
    remedy = "`dpgnn records pack STUDY` makes one"
    require(first == b"PAR1", "archive", "be a runs.parquet", str(path), remedy)


def show_main(args: argparse.Namespace) -> int:
    """Print one record, or the names of all."""
    from dpgnn.core.checks import require
    from dpgnn.records.archive import read_archive

    check_archive(args.archive)
    texts = read_archive(args.archive)
    if args.run is None:
        print("\n".join(texts))
        return 0
    remedy = f"`dpgnn records show {args.archive}` lists them"
    require(args.run in texts, "run", f"be one of {len(texts)} in the archive", args.run, remedy)
    print(texts[args.run][0].rstrip())
    return 0


def unpack_main(args: argparse.Namespace) -> int:
    """Write all runs of an archive as files."""
    from dpgnn.records.archive import unpack

    check_archive(args.archive)
    print(f"{args.folder}: {unpack(args.archive, args.folder)} runs", file=sys.stderr)
    return 0

"""`dpgnn report`: records -> tables, figures and one self-contained page."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgnn.cli.flags import add_study_file, add_tier

if TYPE_CHECKING:
    from dpgnn.records.info import StudyInfo
    from dpgnn.study.study import Study


def add_parser(subparsers: Any) -> None:
    """Add `report` to the command line."""
    parser = subparsers.add_parser("report", help="records -> tables, figures and one page")
    what = parser.add_mutually_exclusive_group(required=True)
    add_study_file(what, required=False)
    what.add_argument("--join", action="store_true", help="join the reports of all studies present")
    what.add_argument(
        "--docs", action="store_true", help="docs/results.md and its tables from docs/reference"
    )
    parser.add_argument("--root", type=Path, default=Path(), help="with --docs: the repository")
    add_tier(parser)
    parser.add_argument("--results", type=Path, default=Path("results"), help="where results lie")
    parser.add_argument(
        "--out",
        type=Path,
        default=None,
        help="folder of tables/, figures/ and report.html (default: RESULTS/studies/STUDY); "
        "with --join the page (default: RESULTS/report.html)",
    )
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Write a study's report, or the page that joins them."""
    from dpgnn.report.pages.report import write_joined, write_study

    if args.docs:
        for page in write_pages(args.root):
            print(page, file=sys.stderr)
        return 0
    if args.join:
        out = args.out or args.results / "report.html"
        names = write_joined(args.results, out)
        print(f"{out}: {', '.join(names)}", file=sys.stderr)
        return 0
    from dpgnn.core.paths import Paths
    from dpgnn.study.study import load_study

    info = describe(load_study(args.study, args.tier), args.study)
    out = args.out or Paths(results=args.results).study(info.name)
    found = write_study(info, args.results, out)
    made = sum(len(cell.runs) for cell in found.cells)
    made += sum(run.is_unscored_release for run in found.runs)
    print(f"{out / 'report.html'}: {made} of {len(info.planned)} runs", file=sys.stderr)
    return 0


def write_pages(root: Path, docs: Path | None = None) -> list[Path]:
    """Write docs/results.md and docs/results/STUDY.md from the committed records.

    Args:
        root: the repository.
        docs: where pages go; None is ROOT/docs.

    Raises:
        ValueError: there is no committed record, or a damaged one.
    """
    from dpgnn.core.checks import require
    from dpgnn.records.archive import REFERENCE
    from dpgnn.report.pages.docs_page import write_docs
    from dpgnn.report.pages.study_results import gather
    from dpgnn.study.study import load_study

    stated = sorted((root / "workflow" / "studies").glob("*.yaml"))
    files = [Path("config.yaml"), *(path.relative_to(root) for path in stated)]
    infos = [describe(load_study(root / path), path, root) for path in files]
    reference = root / REFERENCE
    present = [info for info in infos if any((reference / info.name).glob("runs*"))]
    require(bool(present), str(reference), "hold STUDY/runs or STUDY/runs.parquet of a study", 0)
    folders = ((info, reference / info.name) for info in present)
    found = (gather(info, folder, folder, curves=False) for info, folder in folders)
    gc.disable()  # records live to the end: collecting garbage among them takes a fifth of the time
    try:
        return write_docs(found, infos, docs or root / "docs")
    finally:
        gc.enable()


def describe(study: Study, path: Path, root: Path = Path()) -> StudyInfo:
    """The part of a study that its report needs.

    Args:
        study: of the tier that is reported.
        path: its file, which rerun commands name as given.
        root: the folder that `path` is relative to.
    """
    import dataclasses

    from dpgnn import methods
    from dpgnn.records.info import EntryInfo, StudyInfo

    config = study.config
    used = dict.fromkeys(key.entry for key in study.keys)
    entries = tuple(
        EntryInfo(
            name=name,
            title=entry.title or methods.get(entry.method).title,
            method=entry.method,
            mode=entry.mode,
        )
        for name, entry in study.entries.items()
        if name in used
    )
    return StudyInfo(
        name=study.name, title=config.title, tier=study.tier, config_path=path.as_posix(),
        config_text=(root / path).read_text(encoding="utf-8"), root_seed=config.root_seed,
        baseline=config.baseline if config.baseline in used else "", paper=config.paper,
        comparisons=config.comparisons, tuned=config.tuned, tuned_on=config.tuned_on,
        accuracy=config.accuracy,
        settings={name: dataclasses.asdict(split) for name, split in config.settings.items()},
        entries=entries, planned=tuple(key.folder for key in study.keys),
        other_entries=tuple(name for name in study.entries if name not in used),
    )  # fmt: skip

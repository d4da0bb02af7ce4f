"""`dpgnn cite STUDY`: BibTeX of a study's data sets and methods, of dpgnn and its software."""

from __future__ import annotations

import argparse
from typing import Any

from dpgnn.cli.flags import add_study


def add_parser(subparsers: Any) -> None:
    """Add `cite` to the command line."""
    parser = subparsers.add_parser("cite", help="BibTeX of what a study used")
    add_study(parser)
    parser.set_defaults(func=main)


def main(args: argparse.Namespace) -> int:
    """Print the BibTeX entries that the study's data sets and methods need."""
    from pathlib import Path

    from dpgnn import methods
    from dpgnn.core.version import VERSION
    from dpgnn.data.datasets.citations import bibtex_of
    from dpgnn.data.raw.sources import data_folder
    from dpgnn.study import driver
    from dpgnn.study.study import load_study

    study = load_study(driver.study_file(args.study, root=Path()), args.tier)
    datasets = sorted({key.dataset for key in study.keys})
    names = sorted({study.entries[key.entry].method for key in study.keys})
    print(bibtex_of(datasets, {name: methods.get(name).citation for name in names}))
    software = (data_folder() / "software.bib").read_text(encoding="utf-8")
    print(software.replace("VERSION", VERSION), end="")
    return 0

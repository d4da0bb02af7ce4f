"""`dpgnn STAGE`: parse, call one function, write one file. `python -m dpgnn` is the same."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings

from dpgnn.cli.flags import OneLineParser
from dpgnn.core.address_space import check_limit, explained, is_out_of_memory
from dpgnn.core.paths import check_writable

STAGES = (
    "data", "split", "prepare", "account", "train", "audit", "attack", "report", "run", "verify", "release",
    "predict", "ledger", "methods", "advise", "share", "records", "cite",
)  # fmt: skip


def build_parser() -> argparse.ArgumentParser:
    """The command line: one subcommand per stage."""
    from dpgnn.core.version import VERSION

    parser = OneLineParser(
        prog="dpgnn",
        description="Differentially private graph learning: reproduced, made sound and compared.",
    )
    parser.add_argument("--version", action="version", version=f"dpgnn {VERSION}")
    subparsers = parser.add_subparsers(dest="stage", required=True, metavar="STAGE")
    for stage in STAGES:
        importlib.import_module(f"dpgnn.cli.{stage}").add_parser(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Run one stage.

    Returns:
        0, or 1 after a wrong input whose one-line message was printed; DPGNN_TRACEBACK=1 shows where.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # argparse assigns positionals before it sees "--", so what follows it is cut off here
    cut = words.index("--") if "--" in words and words[0] == "run" else len(words)
    parser = build_parser()
    args, unknown = parser.parse_known_args(words[:cut])
    if unknown:
        parser.prog = f"dpgnn {args.stage}"
        more = "; Snakemake's flags follow --" if args.stage == "run" else ""
        parser.error(f"unrecognized arguments: {' '.join(unknown)}{more}")
    if args.stage == "run":
        args.snakemake = words[cut + 1 :]
    # torch warns once per process that sparse tensors are in beta; not needed in a log
    warnings.filterwarnings("ignore", message="Sparse (CSR tensor|invariant checks)")
    try:
        check_limit()
        if getattr(args, "out", None):
            check_writable(args.out.parent)
        code = int(args.func(args) or 0)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # the reader has closed our output, like `| head`; stdout must stay open for python's flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, RuntimeError, ImportError, MemoryError) as error:
        memory = is_out_of_memory(error)
        if os.environ.get("DPGNN_TRACEBACK") or (isinstance(error, ImportError) and not memory):
            raise
        told = explained(error) if memory else _in_words(error)
        print(f"dpgnn {args.stage}: error: {told}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"dpgnn {args.stage}: interrupted", file=sys.stderr)
        return 130


def _in_words(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error)


if __name__ == "__main__":
    sys.exit(main())

"""Dry runs of Snakemake from one process that has imported it, which takes longer than a plan.

Each request is a line of JSON on standard input: folder, arguments, environment, and files for the two
outputs. A fork runs Snakemake's own main function on it; the answer is a line with its exit status. `dpgnn`
is imported in the fork, from the folder.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, NoReturn

import snakemake.cli


def run(folder: str, arguments: list[str], environment: dict[str, str], out: str, err: str) -> int:
    """What `snakemake ARGUMENTS` returns in the folder."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.path[0] = folder
    sys.argv = ["snakemake", *arguments]
    try:
        snakemake.cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def fork_of(request: dict[str, Any]) -> NoReturn:
    """Run a request and end."""
    code = 1
    try:
        code = run(**request)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def serve() -> None:
    """Answer requests until the input ends."""
    assert "dpgnn" not in sys.modules
    for line in sys.stdin:
        child = os.fork()
        if not child:
            fork_of(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    serve()

"""Machines that are too small, folders that may not be written, and drivers that were killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from faults.row import Row
from helpers import ROOT

from dpgnn.core import locks

# root may write everywhere unless it gives these up
UNPRIVILEGED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]


def limited(folder: Path, *, megabytes: int, code: str, says: str) -> None:
    """A process with so much address space ends with one line that names memory and the remedy."""
    script = folder / "stage.py"
    script.write_text(
        "import sys\n"
        "import dpgnn.cli.methods as stage\n"
        "from dpgnn.__main__ import main\n"
        f"def work(args):\n    {code}\n"
        "stage.add_parser = lambda p: p.add_parser('methods').set_defaults(func=work)\n"
        "sys.exit(main(['methods']))\n"
    )
    limit = f"ulimit -v {megabytes << 10}; exec {sys.executable} {script}"
    done = subprocess.run(
        ["bash", "-c", limit], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert says in done.stderr
    assert "ulimit -v unlimited" in done.stderr


def not_writable(folder: Path, *, place: str, found: str) -> None:
    """`dpgnn run` says so before Snakemake starts, and makes nothing."""
    root = folder / "copy"
    root.mkdir()
    for name in ("config.yaml", "Snakefile", "workflow", "profiles", "data"):
        (root / name).symlink_to(ROOT / name)
    blocked = root / place
    blocked.parent.mkdir(parents=True, exist_ok=True)
    if found == "a file":
        blocked.touch()
    else:
        blocked.mkdir()
        blocked.chmod(0o555)
    command = [sys.executable, "-m", "dpgnn", "run", "quick"]
    if os.geteuid() == 0:
        if shutil.which("setpriv") is None:
            pytest.skip("root may write everywhere, and setpriv is not here")
        command = [*UNPRIVILEGED, *command]
    before = sorted(root.rglob("*"))
    done = subprocess.run(
        command, cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert f"{place} must be writable, got '{found}'" in done.stderr.splitlines()[-1]
    assert sorted(root.rglob("*")) == before


def killed_driver(folder: Path) -> None:
    """The message names its child, which is at work, and not the dead process."""
    lock = folder / "run.lock"
    code = (
        "import subprocess; from pathlib import Path; from dpgnn.core import locks\n"
        f"with locks.exclusive(Path({str(lock)!r})) as held:\n"
        "    child = subprocess.Popen(['sleep', '60'], pass_fds=(held,))\n"
        "    print(child.pid, flush=True)\n"
        "    child.wait()\n"
    )
    driver = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert driver.stdout is not None
    child = int(driver.stdout.readline())
    try:
        with pytest.raises(locks.BusyError, match=rf"\(process {driver.pid} on "):
            locks.exclusive(lock).__enter__()
        driver.kill()
        driver.wait()
        with pytest.raises(
            locks.BusyError, match=rf"\(process {child} on .*, of {driver.pid}, which"
        ):
            locks.exclusive(lock).__enter__()
    finally:
        subprocess.run(["kill", "-9", str(child)], check=True)


def row(what: str, must: str, run: partial[None]) -> Row:
    return Row(what=what, must=must, run=run)


ROWS: list[Row] = [
    row("ulimit -v of 300 MB", "refused before anything is imported that would wait for memory",
        partial(limited, megabytes=300, code="return 0", says="ulimit -v) must be >= 1.1 GB")),
    row("a library does not fit into ulimit -v", "one line that names memory, not the library",
        partial(limited, megabytes=1100, says="ulimit -v) must suffice, got 1.2 GB",
                code="raise OSError('libllvmlite.so: failed to map segment from shared object')")),
    row("an array does not fit into ulimit -v", "one line that names memory",
        partial(limited, megabytes=1100, says="ulimit -v) must suffice, got 1.2 GB",
                code="import numpy; numpy.ones(1 << 28)")),
    row("a folder of results that is read-only", "one line before Snakemake starts",
        partial(not_writable, place="results", found="read-only")),
    row("a study's folder that is read-only", "one line before Snakemake starts",
        partial(not_writable, place="results/studies/quick", found="read-only")),
    row("a file where results should be", "one line before Snakemake starts",
        partial(not_writable, place="results", found="a file")),
    row("a second run beside the child of a killed driver", "the living process is named",
        partial(killed_driver)),
]  # fmt: skip

"""Collect wheels for a machine with a GPU and no network: `python -m benchmarks.gpu_wheels --to FOLDER`.

Only what the engine, releases and the comparison need and such a machine may lack, at the lock's versions,
without what they depend on that is there already (torch, numpy, scipy, numba, pyarrow). There:

    python -m pip install --no-index --no-deps --target SITE FOLDER/*.whl; export PYTHONPATH=SITE
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from dpgnn.core.code_hash import LOCK, pins

# releases and exact coins; a second accountant and what it needs; the comparison. Polars reads tables
# of users and records only, and would take most of the room
NAMES = (
    "randomgen", "mpmath", "dp-accounting", "absl-py", "attrs", "dm-tree", "opacus", "opt-einsum",
    "pyyaml",
)  # fmt: skip
LARGEST_MB = 60.0
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_27_x86_64", "manylinux_2_24_x86_64",
             "manylinux_2_17_x86_64", "manylinux2014_x86_64")  # fmt: skip


def wanted(lock: Path = LOCK) -> list[str]:
    """Pins of the lock that are carried."""
    return [pin for pin in pins(lock) if pin.split("==")[0].lower().replace("_", "-") in NAMES]


def command(folder: Path, python: str) -> list[str]:
    """What downloads them for another Python."""
    words = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder)]
    words += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
    for platform in PLATFORMS:
        words += ["--platform", platform]
    return words + wanted()


def main(argv: list[str] | None = None) -> int:
    """Download and say how large it is; 1 where it is too large to carry."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, default=Path("work/wheels"), help="folder")
    parser.add_argument("--python", default="3.12", help="Python of the machine")
    args = parser.parse_args(argv)
    args.to.mkdir(parents=True, exist_ok=True)
    code = subprocess.run(command(args.to, args.python), check=False).returncode
    if code:
        return code
    return report(args.to)


def report(folder: Path) -> int:
    """Sizes of the wheels; 1 where they are too large together."""
    sizes = {path.name: path.stat().st_size / 1e6 for path in sorted(folder.glob("*.whl"))}
    for name, size in sizes.items():
        print(f"{size:6.1f} MB  {name}")
    total = sum(sizes.values())
    print(f"{total:6.1f} MB  together (at most {LARGEST_MB:g})")
    return 0 if total <= LARGEST_MB else 1


if __name__ == "__main__":
    sys.exit(main())

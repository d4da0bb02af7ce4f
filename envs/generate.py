"""Write the conda and GPU files from the one lock, `cpu.lock`; a test compares them.

The pins are the same everywhere: on a machine with a GPU the same `torch` pin brings its CUDA packages,
whose versions torch itself pins.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parent
NOTE = "# generated from cpu.lock by envs/generate.py; do not edit\n"


def pins(lock: Path = HERE / "cpu.lock") -> list[str]:
    """The pinned requirements of the lock, one `name==version` each."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


def conda_file(name: str) -> str:
    """A conda environment that installs the pins with pip."""
    listed = "".join(f"      - {pin}\n" for pin in pins())
    return (
        f"{NOTE}name: dpgnn-{name}\nchannels:\n  - conda-forge\n  - nodefaults\n"
        f"dependencies:\n  - python=3.11\n  - pip\n  - pip:\n{listed}"
    )


def files() -> dict[str, str]:
    """Every generated file's name and content."""
    gpu_lock = NOTE + "# the same pins; plain torch brings its CUDA packages\n"
    return {
        "cpu.yaml": conda_file("cpu"),
        "gpu.yaml": conda_file("gpu"),
        "gpu.lock": gpu_lock + "".join(f"{pin}\n" for pin in pins()),
    }


if __name__ == "__main__":
    for file, text in files().items():
        (HERE / file).write_text(text, encoding="utf-8")

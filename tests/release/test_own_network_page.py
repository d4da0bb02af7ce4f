"""The example of docs/own_network.md, as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def run(code: str, folder: Path, **more: str) -> list[str]:
    (folder / "page.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "page.py"], cwd=folder, capture_output=True, text=True, check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | more,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def example(repository: Path) -> str:
    text = (repository / "docs" / "own_network.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    score = """
right = model.predict(data, ~data.train_mask).classes == data.y[~data.train_mask].numpy()
print(model.record.details["module"]["way"], right.mean())
"""
    return code + score


def test_the_example_is_private_at_epsilon_4_and_learns(repository: Path, tmp_path: Path) -> None:
    code = example(repository)
    fit = code[code.index("model = dpgnn.fit(") : code.index("print(model.claim)")]
    network = code[code.index("class GATv2") : code.index("graph = ")]
    assert len([line for line in (network + fit).splitlines() if line.strip()]) <= 15
    lines = run(code, tmp_path)
    assert "(4, " in "\n".join(lines)
    way, right = lines[-1].split()
    assert way == "rows"
    assert float(right) > 0.85
    from dpgnn.release.verify import verify

    assert all(check.state != "wrong" for check in verify(tmp_path / "bundle"))


@pytest.mark.data
@pytest.mark.slow
def test_the_example_runs_on_cora(repository: Path, tmp_path: Path, mirror: Path) -> None:
    code = example(repository).replace('load("digits"', 'load("cora"')
    way, right = run(code, tmp_path, DPGNN_MIRROR=str(mirror))[-1].split()
    assert way == "rows"
    assert float(right) > 0.4

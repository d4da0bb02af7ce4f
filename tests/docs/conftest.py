from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from helpers import once


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The built site, without executed notebooks; not to be changed."""
    pytest.importorskip("sphinx", reason="the site's packages (envs/docs.lock) are not installed")

    def build(out: Path) -> None:
        command = [sys.executable, "-m", "docs.site.build", "--no-notebooks", "--out", str(out)]
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-4000:]

    return once(tmp_path_factory, "site", build) / "html"

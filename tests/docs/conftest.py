from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Path:
    """The built site, without executed notebooks."""
    pytest.importorskip("sphinx", reason="the site's packages (envs/docs.lock) are not installed")
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.site.build", "--no-notebooks", "--out", str(out)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return out / "html"

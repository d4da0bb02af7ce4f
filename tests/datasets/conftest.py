import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def mirror(monkeypatch):
    """The mirror folder of raw files; skips when there is none."""
    named = os.environ.get("DPGNN_MIRROR", "").split(os.pathsep)
    for folder in [*filter(None, named), REPOSITORY.parent / "shared" / "data"]:
        if (Path(folder) / "MANIFEST.json").exists():
            monkeypatch.setenv("DPGNN_MIRROR", str(folder))
            return Path(folder)
    pytest.skip("no mirror folder of raw files: set DPGNN_MIRROR")

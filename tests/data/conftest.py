from pathlib import Path

import pytest


@pytest.fixture
def mirror(mirror: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The mirror folder of raw files, named in DPGNN_MIRROR as well."""
    monkeypatch.setenv("DPGNN_MIRROR", str(mirror))
    return mirror

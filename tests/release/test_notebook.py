"""The notebook runs from its first cell to its last, in an empty folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import ROOT

from dpgnn.release.verify import verify

NOTEBOOK = ROOT / "docs" / "notebooks" / "releasing.ipynb"


def test_the_notebook_ends_with_a_bundle_that_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert {check.state for check in verify("bundle")} == {"ok", "not checked"}
    model, again, data = (names[name] for name in ("model", "again", "data"))
    assert again.claim == model.claim
    assert model.claim.is_release
    assert model.claim.epsilon <= 4
    wanted = model.predict(data, ~data.train_mask.numpy())
    right = wanted.classes == data.y.numpy()[~data.train_mask.numpy()]
    assert right.mean() > 0.5  # ten classes
    asked = again.predict(data, [1, 3, 5])
    assert np.array_equal(asked.probabilities, names["found"].probabilities)

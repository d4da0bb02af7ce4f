"""The documented way from a release's two files to answers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from contract import GRAPH, entry_of, inputs_of

from dpgnn import methods
from dpgnn.data.files.graph_files import save_graph
from dpgnn.methods.base import Support
from dpgnn.run.execute import run_one


def test_the_documented_snippet_answers_as_the_run_did(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "configuration.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    inputs = inputs_of(entry, randomness="release")
    run_one(inputs, tmp_path / "run", work=None)
    save_graph(GRAPH, tmp_path / "graph")
    for name, folder in (("releases/quick/", "run"), ("results/graphs/", "graph")):
        snippet, count = re.subn(rf'"{name}[^"]*"', repr(str(tmp_path / folder)), snippet)
        assert count == 1
    found: dict[str, Any] = {}
    exec(snippet, found)
    answer = methods.get("dp_mlp").predict(entry, found["fitted"], GRAPH, np.arange(10))
    assert found["entry"] == entry
    assert found["answer"].answers == "own-record"
    assert np.array_equal(found["answer"].logits.numpy(), answer.logits.numpy())
    assert found["classes"].shape == (10,)

"""The documented way from a run to answers of its bundle."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
from contract import GRAPH, entry_of, inputs_of

from dpgnn import methods
from dpgnn.data.files.graph_files import save_graph
from dpgnn.methods.base import Fitted, Support
from dpgnn.release.bundle import read_tensors
from dpgnn.release.from_run import model_of_run
from dpgnn.release.released import Names
from dpgnn.run.execute import run_one


def test_the_documented_snippet_answers_as_the_run_did(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "configuration.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    entry = entry_of("dp_mlp", "sound", Support(privacy_unit="node", relation="add-remove"))
    inputs = inputs_of(entry, randomness="release")
    run_one(inputs, tmp_path / "run", work=None)
    model = model_of_run(tmp_path / "run", Names())
    model.save(tmp_path / "bundle")
    save_graph(GRAPH, tmp_path / "graph")
    for name, folder in (('"bundle"', "bundle"), ('"results/graphs/digits"', "graph")):
        snippet, count = re.subn(name, repr(str(tmp_path / folder)), snippet)
        assert count == 1
    found: dict[str, Any] = {}
    exec(snippet, found)
    fitted = Fitted(state=read_tensors(tmp_path / "run" / "model.safetensors"))
    answer = methods.get("dp_mlp").predict(entry, fitted, GRAPH, np.arange(10))
    assert found["model"].entry == dataclasses.replace(entry, name=found["model"].entry.name)
    assert found["answer"].answers == "own-record"
    assert np.array_equal(found["answer"].classes, answer.logits.numpy().argmax(1))

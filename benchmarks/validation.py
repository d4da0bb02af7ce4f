"""Validation accuracy of options laid over an entry of the head-to-head study; test scores are not printed.

    python -m benchmarks.validation photo dp_mlp 2 '{"row_norm": "centred"}'

makes two repeats at epsilon 1 of DP-MLP as the study has it and with rows centred. Several options may be
given, each as JSON. So were those of docs/methods/dpgnn.md chosen; full batch, 100 steps, C = 0.3, lr 0.03:

    {"training": {"expected_batch_size": "full", "num_steps": 100, "clipping_norm": 0.3,
                  "optimizer": {"lr": 0.03}}}
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from dpgnn import methods
from dpgnn.__main__ import main as dpgnn
from dpgnn.core import config, seeds
from dpgnn.core.paths import Paths
from dpgnn.run.execute import run_one
from dpgnn.study.inputs import inputs_of
from dpgnn.study.study import RunKey
from dpgnn.study.workflow import Workflow

STUDY, SETTING, EPSILON = "workflow/studies/headtohead.yaml", "whole", "1"


def laid_over(options: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Options with others in their place, level by level."""
    return options | {
        name: laid_over(options.get(name) or {}, value) if isinstance(value, dict) else value
        for name, value in more.items()
    }


def prepare(workflow: Workflow, key: RunKey, paths: Paths) -> None:
    """The graph and the split of a run, where they are not there yet."""
    study, graph = workflow.study, paths.graph(key.dataset)
    if not (graph / "graph.json").exists():
        seed = str(workflow.graph_seed(key.dataset))
        dpgnn(["data", "prepare", key.dataset, "--out", str(graph), "--root-seed", seed])
    split = paths.split(key.dataset, key.setting, key.repeat)
    if not split.exists():
        dpgnn([
            "split", "--graph", str(graph), "--dataset", key.dataset, "--setting", key.setting,
            "--repeat", str(key.repeat), "--root-seed", str(study.split_seed(key.setting)),
            "--setting-json", workflow.setting_json(key.setting), "--out", str(split),
        ])  # fmt: skip


def accuracy(workflow: Workflow, key: RunKey, more: dict[str, Any], paths: Paths) -> float:
    """Of validation nodes, in percent, after one run."""
    entry = workflow.study.entries[key.entry].for_dataset(key.dataset)
    options = laid_over(dataclasses.asdict(entry.options), more)
    entry = dataclasses.replace(entry, options=config.read(type(entry.options), options))

    def draw(_: Any, graph: Any, split: Any) -> Any:
        method = methods.get(entry.method)
        spec = method.sampler(entry)
        if spec is None:
            return None
        rng = seeds.child(
            workflow.study.config.root_seed, "sampler", dataset=key.dataset, setting=key.setting,
            repeat=key.repeat, sampler=spec.label,
        )  # fmt: skip
        return method.prepare(graph, split, spec, rng)

    inputs = dataclasses.replace(inputs_of(workflow.study, key, paths, draw=draw), entry=entry)
    with tempfile.TemporaryDirectory() as folder:
        record = run_one(inputs, Path(folder) / "out", work=Path(folder) / "work")
    return 100 * float(record.metrics["val"]["accuracy"])


def main() -> None:
    dataset, entry, repeats, *given = sys.argv[1:]
    workflow = Workflow(study_file=STUDY, tier="M")
    with tempfile.TemporaryDirectory() as folder:
        paths = Paths(results=Path(folder))
        for text in ("{}", *given):
            found = []
            for repeat in range(int(repeats)):
                key = RunKey(
                    dataset=dataset, setting=SETTING, entry=entry, epsilon=EPSILON, repeat=repeat
                )
                prepare(workflow, key, paths)
                found.append(accuracy(workflow, key, json.loads(text), paths))
            print(f"{dataset} {entry} {text}: {statistics.mean(found):.1f} % (n {len(found)})")


if __name__ == "__main__":
    main()

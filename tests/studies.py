"""A small study to be changed, and what the Snakefile sees of one."""

from __future__ import annotations

import copy
import functools
from pathlib import Path
from typing import Any

import yaml

from dpgnn.core.yaml_text import read_yaml
from dpgnn.study.choices import read_choices
from dpgnn.study.study import Study, resolve
from dpgnn.study.workflow import Workflow

BASE: dict[str, Any] = {
    "name": "toy",
    "repeats": 2,
    "epsilons": ["1", "8"],
    "datasets": {"digits": {"settings": ["random"]}, "chains-s": {"settings": ["public"]}},
    "settings": {"random": {}, "public": {"kind": "public"}},
    "entries": {
        "mlp": {"method": "mlp", "mode": "nonprivate"},
        "dp": {
            "method": "dp_mlp",
            "mode": "sound",
            "privacy_unit": "node",
            "relation": "add-remove",
            "options": {"width": 8, "training": {"num_steps": 10}},
        },
    },
    "tiers": {"S": {}, "M": {"repeats": 5, "datasets": ["digits"]}},
}


@functools.cache
def known(path: Path, tier: str | None = None) -> Study:
    """The study of a file that no test changes, as `load_study` reads it; read once for all tests."""
    return resolve(mapping_of(path), tier, read_choices(path))


@functools.cache
def mapping_of(path: Path) -> Any:
    """What such a file says; not to be changed."""
    return read_yaml(path, "study file")


def changed(**paths: Any) -> dict[str, Any]:
    """BASE with values set by dotted path (dots written as two underscores)."""
    mapping = copy.deepcopy(BASE)
    for path, value in paths.items():
        *folders, last = path.split("__")
        part = mapping
        for folder in folders:
            part = part[folder]
        part[last] = value
    return mapping


def workflow_of(folder: Path, mapping: dict[str, Any], name: str = "study.yaml") -> Workflow:
    """A study seen by the Snakefile, from a file in a folder."""
    (folder / name).write_text(yaml.safe_dump(mapping))
    return Workflow(study_file=str(folder / name))

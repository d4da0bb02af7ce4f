"""A small study of one data set, to start from."""

from __future__ import annotations

import re
from pathlib import Path

from dpgnn.checks import require
from dpgnn.datasets import OWN_FOLDER, entry_of

STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_\-+]*")

TEXT = """\
# A small study of {name}. Every key is explained in docs/configuration.md.
name: {name}-first
title: First look at {name}
root_seed: 2026
repeats: 3
epsilons: ["1", "8"]
baseline: mlp

datasets:
  {name}: {{settings: [random]}}

settings:
  # edges between training and test nodes are dropped, so no training node is read at test time
  random: {{kind: random, inductive: true, train_fraction: 0.6, val_fraction: 0.2}}

entries:
  mlp: {{method: mlp, mode: nonprivate}}
  gcn: {{method: gcn, mode: nonprivate}}
  dp_mlp: {{method: dp_mlp, mode: sound, privacy_unit: node, relation: add-remove}}
"""


def study_text(name: str, *, own_folder: Path = OWN_FOLDER) -> str:
    """The YAML text of a study with MLP, GCN and DP-MLP on one data set.

    Raises:
        ValueError: no data set and no own graph has that name, or it cannot stand in a path.
    """
    entry_of(name, own_folder=own_folder)
    rule = "be letters, digits, _, - and +"
    require(bool(STUDY_NAME.fullmatch(name)), "name of a data set", rule, name, "rename its folder")
    return TEXT.format(name=name)

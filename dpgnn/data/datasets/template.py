"""A small study of one data set, to start from."""

from __future__ import annotations

import re
from pathlib import Path

from dpgnn.core.checks import require
from dpgnn.data.datasets import OWN, OWN_FOLDER, entry_of
from dpgnn.data.raw.sources import source_of
from dpgnn.data.recipes import labelled_nodes

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
  {name}: {{settings: [{setting}]}}

settings:
  # edges between training and test nodes are dropped, so no training node is read at test time
  {recipe}

entries:
  mlp: {{method: mlp, mode: nonprivate}}
  gcn: {{method: gcn, mode: nonprivate}}
  dp_mlp: {{method: dp_mlp, mode: sound, privacy_unit: node, relation: add-remove{options}}}
  # a method that learns from edges: DP-GNN with one neighbour a node, a node's record protected
  dp_gcn: {{method: dp_gnn, mode: sound, privacy_unit: node-record, relation: add-remove,
           options: {{max_degree: 1{batch}}}}}
  # the control beside it: DP-MLP whose answers are averaged over neighbours, which no claim covers
  dp_mlp-mean: {{method: dp_mlp_smooth, mode: sound, privacy_unit: node, relation: add-remove{mean}}}
"""
RELEASE = """\
# One private model of {name} for release: see docs/releasing.md. No score is written.
name: {name}-release
title: A release of {name}
root_seed: 2026
repeats: 1
epsilons: ["4"]
randomness: release

datasets:
  {name}:
    settings: [{setting}]
    # numbers that may be published, rounded as you like; without them the claim says `population-changes`
    # public_population: {{nodes: 1000, training: 600}}

settings:
  {recipe}

entries:
  # every step takes all training nodes; for a large graph state a number that does not follow from theirs
  dp_mlp: {{method: dp_mlp, mode: sound, privacy_unit: node, relation: add-remove,
           options: {{training: {{expected_batch_size: full}}}}}}
"""
TRAIN_FRACTION = 0.6
FRACTIONS = f"train_fraction: {TRAIN_FRACTION}, val_fraction: 0.2"
RECIPES = {
    # each node by its own coin: under add-remove no other node may move with the one that is added
    "coins": f"coins: {{kind: coins, inductive: true, {FRACTIONS}}}",
    "random": f"random: {{kind: random, inductive: true, {FRACTIONS}}}",
    "public": "public: {kind: public, inductive: true}  # the parts that the graph brings",
}
# up to this many training nodes, a step takes all of them
SMALL = 512
FULL_BATCH = ", training: {expected_batch_size: full}"


def study_text(name: str, *, own_folder: Path = OWN_FOLDER) -> str:
    """The YAML text of a study on one data set: MLP, GCN, DP-MLP, DP-GNN, and DP-MLP with averaged answers.

    A user's graph with its own split uses that split; a small graph uses full batches.

    Raises:
        ValueError: no data set or user's graph has that name, or it cannot be part of a path.
    """
    return _filled(TEXT, name, own_folder, "random")


def release_text(name: str, *, own_folder: Path = OWN_FOLDER) -> str:
    """The YAML text of a study with one release of DP-MLP.

    Raises:
        ValueError: as for `study_text`.
    """
    return _filled(RELEASE, name, own_folder, "coins")


def check_name(name: str) -> None:
    """Refuse a name of a data set that no study can have.

    Raises:
        ValueError: it holds other characters than letters, digits, _, - and +.
    """
    rule = "be letters, digits, _, - and +"
    require(bool(STUDY_NAME.fullmatch(name)), "name of a data set", rule, name, "rename its folder")


def _filled(text: str, name: str, own_folder: Path, drawn: str) -> str:
    """The text for a data set; `drawn`: the recipe where the graph brings no parts."""
    own = entry_of(name, own_folder=own_folder) is OWN
    check_name(name)
    brings, num_train = _own_facts(Path(own_folder) / name) if own else (False, _listed(name))
    setting = "public" if brings else drawn
    small = num_train is not None and num_train <= SMALL
    return text.format(
        name=name,
        setting=setting,
        recipe=RECIPES[setting],
        options=f", options: {{{FULL_BATCH[2:]}}}" if small else "",
        mean=f", options: {{mlp: {{{FULL_BATCH[2:]}}}}}" if small else "",
        batch=FULL_BATCH if small else "",
    )


def _own_facts(folder: Path) -> tuple[bool, int | None]:
    """Whether it brings its parts, and its number of training nodes, None if not needed or unknown."""
    from dpgnn.data.custom import read as custom
    from dpgnn.data.custom import stream as custom_stream

    if custom_stream.is_large(folder):
        return False, None
    # problems of a graph are reported by `dpgnn data validate`, and before the first run
    graph, _ = custom.read_folder(folder, folder.name)
    if graph is None:
        return False, None
    if "public" in graph.splits:
        return True, len(graph.splits["public"]["train"])
    return False, round(TRAIN_FRACTION * len(labelled_nodes(graph)))


def _listed(name: str) -> int | None:
    """Training nodes of a data set of the table, if its number of nodes is published."""
    num_nodes = source_of(name).num_nodes
    return None if num_nodes is None else round(TRAIN_FRACTION * num_nodes)

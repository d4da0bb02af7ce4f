"""Units and relations of a method, labels of samples, and what a plan may read of a graph."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from helpers import two_community_graph

from dpgnn.accountants.population import PublicPopulation
from dpgnn.data.splits import SplitConfig, make_split
from dpgnn.methods.base import Prediction
from dpgnn.methods.entry import SamplerSpec, facts_of, pairs


def test_pairs_are_in_the_order_they_are_stated_in() -> None:
    found = pairs("node-record", "replace-one", "add-remove")
    assert [(pair.privacy_unit, pair.relation) for pair in found] == [
        ("node-record", "replace-one"),
        ("node-record", "add-remove"),
    ]


def test_samples_of_equal_parameters_share_a_file_and_others_do_not() -> None:
    one, two = (SamplerSpec(name="own_list", params={"max_degree": k}) for k in (7, 8))
    assert one.label == dataclasses.replace(one).label
    assert one.label != two.label
    assert one.label.startswith("own_list-")


def test_a_declared_population_stands_in_place_of_what_is_counted() -> None:
    graph = two_community_graph()
    split = make_split(graph, SplitConfig(), rng=np.random.default_rng(0))
    counted = facts_of(graph, split, None)
    sizes = (counted.num_nodes, counted.num_train, counted.declared)
    assert sizes == (60, len(split.train_idx), False)
    declared = facts_of(graph, split, None, PublicPopulation(nodes=100, training=50))
    assert (declared.num_nodes, declared.num_train, declared.declared) == (100, 50, True)
    smaller = dataclasses.replace(split, train_idx=split.train_idx[1:])
    assert facts_of(graph, smaller, None, PublicPopulation(nodes=100, training=50)) == declared


def test_who_may_see_answers_is_checked_when_they_are_made() -> None:
    """Not by the report, after all runs."""
    for answers in ("everyone", "own-record", "none"):
        Prediction(logits=torch.zeros(1, 2), answers=answers)
    with pytest.raises(ValueError, match="unknown answers of a prediction 'all'; known: everyone"):
        Prediction(logits=torch.zeros(1, 2), answers="all")  # type: ignore[arg-type]

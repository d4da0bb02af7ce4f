"""A canary's label and list on the board, its list in what it reads: no audit finds more than is claimed."""

from __future__ import annotations

import dataclasses

import pytest
from contract import entry_of

from dpgnn.accountants.plan import Budget
from dpgnn.audits import training_audit
from dpgnn.audits.entry_audit import audit
from dpgnn.audits.request import AuditRequest, case_of, recipe_of
from dpgnn.methods.base import Support
from dpgnn.methods.votes import edge_rounds
from dpgnn.methods.votes.options import VotesConfig


def short(options: VotesConfig) -> VotesConfig:
    """With one epoch of the classifiers that read no edge: every run of an audit fits its own."""
    edge = options.edge
    bases = {
        name: dataclasses.replace(base, training=dataclasses.replace(base.training, num_epochs=1))
        for name, base in (("scaled", edge.scaled), ("raw", edge.raw), ("linear", edge.linear))
    }
    return dataclasses.replace(options, edge=dataclasses.replace(edge, num_folds=2, **bases))


def request(relation: str, unit: str = "node-record") -> AuditRequest:
    entry = entry_of("votes", "sound", Support(privacy_unit=unit, relation=relation))
    if unit == "edge":
        entry = dataclasses.replace(entry, options=short(entry.options))
    budget = Budget(epsilon=1.0, delta=1e-4)
    return AuditRequest(entry=entry, budget=budget, num_runs=100, max_steps=2, root_seed=1)


@pytest.mark.parametrize("relation", ["add-remove", "null-one", "replace-one"])
def test_no_audit_of_votes_finds_more_than_is_claimed(relation: str) -> None:
    train, board = audit(request(relation))
    assert (train.mechanism, board.mechanism) == ("train", "board")
    for finding in (train, board):
        assert finding.verdict is not None
        assert not finding.verdict.rejected
        assert all(check.passed for check in finding.checks)
    assert train.attained_share == pytest.approx(1.0, abs=0.25)


def test_no_audit_finds_more_of_an_edge_than_is_claimed() -> None:
    """The released sums and answers in two worlds, with an edge and without it."""
    (rounds,) = audit(request("add-remove", "edge"))
    assert rounds.mechanism == "aggregate"
    assert rounds.verdict is not None
    assert not rounds.verdict.rejected
    assert all(check.passed for check in rounds.checks)


def test_an_audit_finds_an_edge_that_counts_ten_times(monkeypatch: pytest.MonkeyPatch) -> None:
    real = edge_rounds.second_sums
    monkeypatch.setattr(
        edge_rounds,
        "second_sums",
        lambda adjacency, *rest, **how: real(10 * adjacency, *rest, **how),
    )
    # what an audit watches is kept for its request
    (rounds,) = audit(dataclasses.replace(request("add-remove", "edge"), root_seed=2))
    assert rounds.verdict is not None
    assert rounds.verdict.rejected


def test_the_canarys_neighbours_train_on_what_they_had() -> None:
    """Were the mentions of the canary taken away too, its leaves would read another list."""
    case = case_of(request("add-remove"))
    mechanism = case.plan.mechanism("train")
    assert training_audit.aim_at(case, mechanism).changed() == (1, 0)
    both = dataclasses.replace(recipe_of(case.entry), mentions_stay=False)
    gone = dataclasses.replace(case, recipe=both, kept={})
    assert training_audit.aim_at(gone, mechanism).changed()[0] > 1

"""Audits of whole entries: what passes, what is resumed, what one run with many canaries shows."""

from dataclasses import replace

import numpy as np
import pytest
from audit_requests import FACTS, FULL, request
from helpers import tells

from dpgnn.accountants.events import parts
from dpgnn.accountants.plan import Budget
from dpgnn.audits import entry_audit, release_audit
from dpgnn.audits.entry_audit import audit, chunk_scores
from dpgnn.audits.power import Detectable
from dpgnn.audits.request import case_of
from dpgnn.audits.statistics import judge
from dpgnn.training.gradients import RootGradients


@pytest.fixture
def few_pilots(monkeypatch):
    """Pilot runs choose the direction; where no power is asked for, few of them do."""
    monkeypatch.setattr(release_audit, "NUM_PILOTS", 40)


def test_the_canary_reaches_the_whole_sensitivity_of_dp_mlp():
    (finding,) = audit(request(facts=FACTS))
    assert finding.passed
    assert finding.attained_share == pytest.approx(1.0, abs=1e-3)
    assert finding.num_steps == 2


@pytest.mark.usefixtures("few_pilots")
@pytest.mark.parametrize(
    "method", ["edgerand", "lapgraph", "lpgnet", "pertgraph", "gap", "progap", "caribou", "dpdgc"]
)
@pytest.mark.parametrize("randomness", ["study", "release"])
def test_releases_of_private_edges_are_audited(method, randomness):
    findings = audit(request(method, "edge", facts=FACTS, randomness=randomness))
    assert findings
    assert all(finding.verdict is not None for finding in findings), findings
    assert all(finding.passed for finding in findings)


@pytest.mark.usefixtures("few_pilots")
@pytest.mark.parametrize("rows", ["em0", "em1", "gm"])
def test_noisy_rows_and_clipped_sums_of_a_release_are_audited(rows):
    options = {"width": 4, "batch_size": 8, "num_steps": 3, "num_vectors": 6, "rows": rows}
    found = audit(
        request("dpar", "node", "replace-one", options=options, randomness="release", num_runs=20)
    )
    assert len(found) == 2
    assert all(finding.passed and finding.verdict is not None for finding in found), found


@pytest.mark.usefixtures("few_pilots")
@pytest.mark.parametrize("method", ["edgerand", "lapgraph", "lpgnet", "pertgraph"])
def test_what_a_release_of_unknown_share_shows_is_not_known(method):
    (finding,) = [
        each
        for each in audit(request(method, "edge", facts=FACTS))
        if "noisy release" in each.attack
    ]
    assert finding.verdict is not None
    assert finding.attained_share is None
    assert finding.detectable is None


def test_a_canary_without_influence_shows_nothing(monkeypatch):
    real = RootGradients.__call__
    monkeypatch.setattr(
        RootGradients, "__call__", lambda self, weights, roots: real(self, weights, roots).zero_()
    )
    entry_audit.forget()
    (finding,) = audit(request(options=FULL, num_runs=100, max_steps=4))
    entry_audit.forget()
    assert finding.attained_share == 0.0
    assert finding.detectable == Detectable(noise_factor=None, epsilon=None)


NO_NOISE = {
    "edgerand": (
        "shared.exact_cells.answers",
        lambda ones, zeros, **keys: (np.ones(ones, bool), 0),
    ),
    "lapgraph": (
        "shared.exact_cells.largest_cells",
        lambda edges, gaps, wanted, scale, *, rng: (np.ones(edges, bool), 0),
    ),
    "dp_mlp": ("add_rounded_noise", lambda total, stddev, *, rng: total),
}


@pytest.mark.parametrize("method", NO_NOISE)
def test_a_fault_in_the_draws_of_a_release_is_found_where_those_are_audited(monkeypatch, method):
    place, fault = NO_NOISE[method]
    module = "dpgnn.training.dp_sgd" if method == "dp_mlp" else "dpgnn.methods"
    monkeypatch.setattr(f"{module}.{place}", fault)
    unit = "node" if method == "dp_mlp" else "edge"
    for randomness in ("study", "release"):
        entry_audit.forget()
        asked = request(
            method, unit, num_runs=8 if method == "dp_mlp" else 60, randomness=randomness,
            budget=Budget(epsilon=1.0, delta=1e-4),
        )  # fmt: skip
        (finding,) = audit(asked)
        assert finding.passed == (randomness == "study")
    entry_audit.forget()


def test_a_randomised_response_that_always_tells_the_truth_is_accused(monkeypatch):
    from dpgnn.methods.shared import noisy_graph

    called = []

    def honest(pairs, num_nodes, **keys):
        called.append(1)
        return pairs

    monkeypatch.setattr(noisy_graph.randomized_response, "function", honest)
    entry_audit.forget()
    (finding,) = audit(
        request("edgerand", "edge", num_runs=60, budget=Budget(epsilon=1.0, delta=1e-4))
    )
    entry_audit.forget()
    assert called
    assert finding.verdict.rejected


def test_a_finished_chunk_is_read_and_gives_the_same_scores(tmp_path, monkeypatch):
    wanted = request(work=tmp_path)
    first = chunk_scores(wanted, "train", True, 0)
    monkeypatch.setattr(entry_audit, "_scorer", lambda *arguments: pytest.fail("made again"))
    assert np.array_equal(first, chunk_scores(wanted, "train", True, 0))


def test_what_could_not_be_run_is_neither_passed_nor_failed():
    (finding,) = audit(request("dp_gnn", "node-record", mode="published", facts=FACTS))
    assert finding.outcome == "not-run"
    assert not finding.passed
    assert "fixed-size batches" in finding.reason
    assert finding.verdict is None


def test_a_batch_too_large_for_the_audit_graph_is_made_smaller_at_the_same_rate():
    options = {
        "width": 4,
        "max_degree": 2,
        "training": {"num_steps": 4, "expected_batch_size": 300},
    }
    changes = {"mode": "published", "relation": "replace-one", "facts": FACTS, "options": options}
    wanted = request("dp_gnn", "node-record", **changes)
    case = case_of(wanted)
    (event, _), *_ = parts(case.plan.mechanism("train").event)
    assert event.batch_size / event.population == pytest.approx(300 / FACTS.num_train, rel=0.06)
    (finding,) = audit(wanted)
    assert finding.outcome in ("passed", "failed")


def test_a_release_whose_shape_tells_the_worlds_apart_is_accused():
    options = {"width": 4, "batch_size": 8, "num_steps": 5, "num_vectors": None}
    options["subsample_rate"] = 0.9
    found = {
        f.mechanism: f for f in audit(request("dpar", "node", mode="published", options=options))
    }
    assert found["select"].outcome == "failed"
    assert found["select"].checks[0].found == "1681 numbers in G, 1600 in G'"
    assert found["train"].outcome == "not-run"


def test_an_error_of_the_audited_code_is_an_error_of_the_audit(monkeypatch):
    def broken(*arguments, **named):
        raise ValueError("planted")

    monkeypatch.setattr("dpgnn.audits.mechanics.examine_loop", broken)
    with pytest.raises(ValueError, match="planted"):
        audit(request(facts=FACTS))


def test_an_event_that_no_accountant_counts_is_not_run(monkeypatch):
    def uncounted(event):
        raise TypeError("the PLD accountant counts no Such")

    monkeypatch.setattr(entry_audit, "curve", uncounted)
    (finding,) = audit(request(facts=FACTS))
    assert finding.outcome == "not-run"
    tells(finding.reason, "PLD", "Such")


def test_what_is_accused_is_audited_again_with_new_seeds_and_both_must_accuse(monkeypatch):
    seeds_used = []
    verdicts = iter((True, False))

    def judged(scores, *arguments, **named):
        seeds_used.append(scores[0].tobytes())
        found = judge(scores, *arguments, **named)
        accused = next(verdicts)
        return replace(found, rejected=accused, p_value=1e-9 if accused else 0.4)

    monkeypatch.setattr(entry_audit, "judge", judged)
    (finding,) = audit(request("gap", "edge", facts=FACTS))
    assert len(set(seeds_used)) == 2
    assert (finding.accuses, finding.outcome) == (True, "passed")
    assert finding.p_value == pytest.approx(0.8)


def test_so_is_a_batch_of_a_part_of_the_method():
    """CARIBOU at node level trains an encoder and a head in batches of their own."""
    node = {"encoder": {"batch_size": 256, "num_epochs": 2}, "head": {"batch_size": 8}}
    changes = {"mode": "published", "relation": "replace-one", "facts": FACTS}
    case = case_of(request("caribou", "node-bounded", options={"node": node}, **changes))
    (event, _), *_ = parts(case.plan.mechanism("encoder").event)
    assert event.batch_size / event.population == pytest.approx(256 / FACTS.num_train, rel=0.06)
    assert case.entry.options.node.head.batch_size == 8

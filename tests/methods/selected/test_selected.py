"""An accounted choice: what is refused, what is planned, what is drawn, and what is left of the runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contract import DELTA, EPSILON, GRAPH, SPLIT, inputs_of, options_of
from exhaustive.method_neighbours import examine_method

from dpgnn import methods
from dpgnn.accountants import composition
from dpgnn.accountants.plan import Budget
from dpgnn.accountants.selection import NumberOfRuns
from dpgnn.core import config as strict
from dpgnn.core.randomness import PUBLIC_STREAMS, Streams
from dpgnn.methods.base import Entry, PlannedRun, Support, facts_of
from dpgnn.methods.scores import OWN_RECORD
from dpgnn.methods.selected import fit as selected_fit
from dpgnn.methods.selected.fit import CHOSEN, noisy_score, right_answers
from dpgnn.methods.selected.options import candidates, score_of
from dpgnn.methods.selected.plan import SelectedPlan, plan
from dpgnn.release.recount_best import recount_any
from dpgnn.run.execute import Made, make
from dpgnn.run.record import Clock
from dpgnn.run.specification import specify

SELECTED = methods.get("selected")
LINEAR: dict[str, Any] = {
    "base": "dp_linear",
    "base_options": {"training.num_steps": 10},
    "candidates": [{"training.optimizer.lr": rate} for rate in (0.001, 0.1, 1.0)],
}
FACTS = facts_of(GRAPH, SPLIT, None)
BUDGET = Budget(epsilon=EPSILON, delta=DELTA)


def entry_of(unit: str = "node", relation: str = "add-remove", **options: Any) -> Entry:
    entry = Entry(
        name="chosen", method="selected", mode="sound", privacy_unit=unit, relation=relation,
        options=strict.read(SELECTED.config, LINEAR | options),
    )  # fmt: skip
    SELECTED.check_entry(entry, "entries.chosen")
    return entry


def made(entry: Entry, work: Path | None = None, **changes: Any) -> Made:
    return make(specify(inputs_of(entry, **changes)), work, Clock())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"base": "dp_nothing"}, "unknown method"),
        ({"base": "heterpoisson", "base_options": {}}, "base heterpoisson must state how far"),
        ({"base": "selected", "base_options": {}}, "base selected must state how far"),
        ({"base": "dp_mlp"}, "candidates.0..training.optimizer.lrr is not a known key"),
        ({"candidates": [{"bias": 0.1}]}, "candidates must be 2 to 8, got 1"),
        ({"candidates": [{"bias": i / 10} for i in range(1, 10)]}, "candidates must be 2 to 8, got 9"),
        ({"gamma": 0.001}, "gamma must give at most 32 runs in the mean"),
        ({"gamma": 1.0}, "gamma must be"),
        ({"eta": -1.0}, "eta must be > -1"),
        ({"score_noise": 0.0}, "score_noise must be > 0"),
    ],
)  # fmt: skip
def test_options_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    if options.get("base") == "dp_mlp":
        options = options | {
            "base_options": {},
            "candidates": [{"training.optimizer.lrr": 1.0}] * 2,
        }
    with pytest.raises(ValueError, match=words):
        entry_of(**options)


def test_candidates_with_samples_of_their_own_are_refused() -> None:
    options = {
        "base": "dp_gnn",
        "base_options": {},
        "candidates": [{"max_degree": 2}, {"max_degree": 3}],
    }
    with pytest.raises(ValueError, match="read one prepared sample"):
        entry_of("node-record", **options)


def test_a_unit_that_the_base_method_does_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="method dp_linear"):
        entry_of("edge")


def test_candidates_with_different_degree_bounds_are_refused() -> None:
    """The claim would be of the first one's bound, and a larger degree would stop the others alone."""
    entry = entry_of(
        "node-bounded", "null-one", base="dp_gnn",
        base_options={"max_degree": 2, "training": {"num_steps": 2, "expected_batch_size": 10}},
        candidates=[{"degree_bound": 40}, {"degree_bound": 20}],
    )  # fmt: skip
    with pytest.raises(ValueError, match=r"degree <= 40\); node-bounded, null-one \(degree <= 20"):
        plan(entry, FACTS, BUDGET)


def test_a_score_that_costs_the_budget_by_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="score_noise must leave something of epsilon 4"):
        plan(entry_of(score_noise=0.5), FACTS, BUDGET)


def test_given_noise_and_several_labels_are_refused() -> None:
    with pytest.raises(ValueError, match="noise_multiplier must not be given"):
        plan(entry_of(), FACTS, replace(BUDGET, noise_multiplier=1.0))
    with pytest.raises(ValueError, match="task must be multiclass"):
        plan(entry_of(), replace(FACTS, task="multilabel"), BUDGET)


def test_every_candidate_has_the_noise_of_its_own_steps_for_one_budget() -> None:
    steps = [{"training.num_steps": number} for number in (5, 20)]
    found = plan(entry_of(candidates=steps), FACTS, BUDGET)
    of_one = replace(BUDGET, epsilon=found.details["base_epsilon"])
    base = methods.get("dp_linear")
    for candidate, run in zip(candidates(entry_of(candidates=steps)), found.runs, strict=True):
        alone = base.plan(candidate, FACTS, of_one)
        assert run.mechanism("train").event == alone.mechanism("train").event
        assert run.mechanism("score").noise_stddev == 5.0
    few, many = (run.mechanism("train").noise_stddev for run in found.runs)
    assert many == pytest.approx(2 * few, rel=1e-3)


def test_the_claim_is_of_the_whole_and_counted_again_by_a_library() -> None:
    found = plan(entry_of(), FACTS, BUDGET)
    (claim,) = found.claims
    assert (claim.privacy_unit, claim.relation, claim.status) == ("node", "add-remove", "proved")
    assert (claim.selection, claim.delta, claim.accountant) == ("accounted", DELTA, "pld")
    assert EPSILON * 0.998 < claim.epsilon <= EPSILON
    assert found.details["base_epsilon"] < claim.epsilon
    counts = [recount_any(event, DELTA) for event in found.composed()]
    assert max(counts) == pytest.approx(claim.epsilon, rel=1e-3)
    loose = [
        composition.epsilon(event, delta=DELTA, relation="add-remove", accountant="rdp")
        for event in found.composed()
    ]
    assert max(loose) > claim.epsilon


def test_a_record_enters_the_training_or_the_score_and_never_both() -> None:
    found = plan(entry_of(), FACTS, BUDGET)
    assert [(m.name, m.population) for m in found.mechanisms] == [
        ("choice/train", "train"), ("choice/others", "others"),
    ]  # fmt: skip
    train, others = (m.event.runs for m in found.mechanisms)  # type: ignore[attr-defined]
    assert all(run.parts[0][0].noise_stddev != 5.0 for run in train)
    assert {run.parts for run in others} == {others[0].parts}
    assert others[0].parts[0][0].noise_stddev == 5.0
    # where the plan does not say whose records enter, all are counted together
    options = {
        "base": "dp_gnn",
        "base_options": {"width": 4, "max_degree": 2, "training": {"expected_batch_size": 10}},
        "candidates": [{"training.num_steps": 3}, {"training.num_steps": 4}],
    }
    mixed = plan(entry_of("node-record", **options), FACTS, BUDGET)
    assert [m.name for m in mixed.mechanisms] == ["choice"]


@pytest.mark.parametrize("repeat", range(6))
def test_the_best_of_the_drawn_runs_is_kept(repeat: int, monkeypatch: pytest.MonkeyPatch) -> None:
    entry, places, scores = entry_of(), [], []
    base = methods.get("dp_linear")

    def watched(run: PlannedRun) -> Any:
        places.append(candidates(entry).index(run.entry))
        return base.fit(run)

    def kept(*arguments: Any, **named: Any) -> float:
        scores.append(noisy_score.function(*arguments, **named))
        return scores[-1]

    monkeypatch.setattr(selected_fit, "base_of", lambda entry: replace(base, fit=watched))
    key = inputs_of(entry).key | {"repeat": repeat}
    with noisy_score.answered_by(kept):
        run = made(entry, key=key)
    streams = Streams(root_seed=0, axes={k: v for k, v in key.items() if k != "study"})
    assert len(scores) == entry.options.law.draw(streams.numpy("selection", stage="runs"))
    assert run.fitted is not None
    assert int(run.fitted.state[CHOSEN]) == places[int(np.argmax(scores))]
    assert run.record.details["chosen"] == places[int(np.argmax(scores))]


def test_candidates_are_drawn_uniformly_and_runs_have_noise_of_their_own() -> None:
    streams = Streams(root_seed=0, axes={"repeat": 0})
    drawn = [
        int(streams.numpy("selection", stage="candidate", run=run).integers(3))
        for run in range(900)
    ]
    assert np.all(np.abs(np.bincount(drawn) - 300) < 4 * np.sqrt(200))


@pytest.mark.parametrize("randomness", ["study", "release"])
def test_runs_share_every_public_coin_and_no_secret_one(
    randomness: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Initial weights of its own would tell which run was released, and so something of their number."""
    base, public, secret = methods.get("dp_linear"), set(), []

    def watched(run: PlannedRun) -> Any:
        streams = run.context.streams
        public.add(tuple(streams.seed(name, step=1) for name in PUBLIC_STREAMS))
        secret.append(streams.numpy("noise", step=1).random())
        return base.fit(run)

    monkeypatch.setattr(selected_fit, "base_of", lambda entry: replace(base, fit=watched))
    monkeypatch.setattr(NumberOfRuns, "draw", lambda law, rng: 5)
    make(specify(inputs_of(entry_of(), randomness)), None, Clock())
    assert len(public) == 1
    assert len(set(secret)) == 5


def test_nothing_of_other_runs_is_left(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    entry = entry_of()
    run = made(entry, tmp_path)
    assert run.fitted is not None
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    assert capfd.readouterr().err == ""  # a line of progress a run would tell how many there are
    alone = made(candidates(entry)[0])
    assert alone.fitted is not None
    assert set(run.fitted.state) == {CHOSEN, *alone.fitted.state}
    assert not run.fitted.kept
    assert set(run.record.details) == {"chosen"}
    spent = run.record.claims[0]["epsilon"]
    assert {row["epsilon"] for row in run.fitted.history} == {spent}


def test_answers_are_those_of_the_chosen_candidate() -> None:
    entry = entry_of()
    run = made(entry)
    assert run.fitted is not None
    asked = SPLIT.test_idx
    found = SELECTED.predict(entry, run.fitted, GRAPH, asked)
    candidate = candidates(entry)[int(run.fitted.state[CHOSEN])]
    base = methods.get("dp_linear")
    alone = base.predict(candidate, run.fitted, base.sees(GRAPH), asked)
    assert found.logits.equal(alone.logits)
    assert found.answers == alone.answers == "own-record"


CHANGES = {
    "dp_linear": {},
    "dp_mlp": {"base_options": {"width": 4, "training": {"num_steps": 3, "expected_batch_size": 10}},
               "candidates": [{"width": 4}, {"width": 5}]},
    "dp_mlp_smooth": {"base_options": {"mlp.width": 4, "mlp.training.expected_batch_size": 10,
                                  "mlp.training.num_steps": 3},
                      "candidates": [{"mlp.width": 4}, {"mlp.width": 5}]},
}  # fmt: skip


@pytest.mark.parametrize("base", CHANGES)
def test_a_record_moves_the_right_answers_by_one_at_most_and_a_training_node_by_none(
    base: str,
) -> None:
    entry = entry_of(relation="replace-one", base=base, **CHANGES[base])
    run = made(entry)
    assert run.fitted is not None
    candidate = candidates(entry)[int(run.fitted.state[CHOSEN])]

    def right(graph: Any) -> int:
        return right_answers(entry, candidate, run.fitted, graph, SPLIT)  # type: ignore[arg-type]

    before = right(GRAPH)
    rng = np.random.default_rng(0)
    moved = set()
    for node in range(GRAPH.num_nodes):
        x, y = np.array(GRAPH.x), GRAPH.y.copy()
        x[node], y[node] = 5 * rng.standard_normal(x.shape[1]), 1 - y[node]
        arcs = GRAPH.edge_index[:, (GRAPH.edge_index != node).all(axis=0)]
        after = right(replace(GRAPH, x=x.astype(np.float32), y=y, edge_index=arcs))
        assert abs(after - before) <= (1 if node in SPLIT.val_idx else 0)
        moved.add(abs(after - before))
    assert moved == {0, 1}


def test_a_score_that_reads_other_records_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers averaged over neighbours are counted as if they read the asked node's record alone."""
    entry = entry_of(base="dp_mlp_smooth", **CHANGES["dp_mlp_smooth"])
    assert score_of(entry).without_edges
    reports = examine_method(entry, BUDGET, max_neighbours=40)
    assert not [fault for report in reports for fault in report.faults]
    monkeypatch.setattr(
        selected_fit, "score_of", lambda entry: replace(OWN_RECORD, of_training=("train",))
    )
    (report,) = [r for r in examine_method(entry, BUDGET) if r.mechanism == "choice/others"]
    assert report.faults


def test_every_base_method_says_how_its_answers_are_counted() -> None:
    stated = {name for name in methods.TABLE if methods.get(name).score is not None}
    assert stated >= {"votes", "dp_linear", "dp_mlp", "dpar", "gap", "progap", "dpdgc", "caribou"}
    assert not stated & {"mlp", "gcn", "pyg", "selected", "heterpoisson"}
    options = options_of(methods.get("gap"), Support(privacy_unit="edge", relation="add-remove"))
    edge = entry_of(
        "edge", base="gap", base_options=options, candidates=[{"num_hops": 1}, {"num_hops": 2}]
    )
    assert score_of(edge).sensitivity == 0
    found = plan(edge, FACTS, BUDGET)
    assert isinstance(found, SelectedPlan)
    assert all(mechanism.name != "score" for run in found.runs for mechanism in run.mechanisms)


def test_an_audit_looks_at_the_runs_of_different_plans() -> None:
    from dpgnn.audits.entry_audit import audit
    from dpgnn.audits.request import AuditRequest

    steps = [{"training.num_steps": 2}, {"training.num_steps": 2, "bias": 0.4}]
    steps.append({"training.num_steps": 4})
    entry = entry_of(candidates=steps)
    request = AuditRequest(entry=entry, budget=BUDGET, facts=FACTS, num_runs=8, max_steps=2)
    first, third, *choices = audit(request)
    assert (first.mechanism, third.mechanism) == ("run 0: train", "run 2: train")
    assert all(one.verdict is not None and not one.accuses for one in (first, third))
    assert [choice.mechanism for choice in choices] == ["choice/train", "choice/others"]
    assert {choice.outcome for choice in choices} == {"passed"}

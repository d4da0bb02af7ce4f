"""The best entry of each unit is named with the next, and whether the difference is decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dpgnn.records.cells import build_cells
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.choices import Choice, choices
from dpgnn.report.statistics.power import detectable
from dpgnn.report.statistics.ranking import compare


def found(runs: list[Run], info: StudyInfo) -> dict[tuple[str, str], Choice]:
    chosen = choices(build_cells(runs, info), ["1", "8"])
    return {(choice.notion.privacy_unit, choice.epsilon): choice for choice in chosen}


def with_scores(runs: list[Run], entry: str, dataset: str, by: float) -> list[Run]:
    """The runs with other test scores of one entry on one graph."""

    def moved(run: Run) -> Run:
        if (run.record.key["entry"], run.record.key["dataset"]) != (entry, dataset):
            return run
        test = dict(run.record.metrics["test"])
        test["accuracy"] += by
        return replace(
            run, record=replace(run.record, metrics={**run.record.metrics, "test": test})
        )

    return [moved(run) for run in runs]


def test_each_unit_has_its_best_and_a_stronger_claim_stands_for_a_weaker_unit(
    runs: list[Run], info: StudyInfo
) -> None:
    chosen = found(runs, info)
    assert {key: choice.label for key, choice in chosen.items()} == {
        ("edge", "1"): "GAP", ("edge", "8"): "GAP",
        # DP-MLP protects a node, so it stands for a record as well
        ("node-record", "1"): "DP-MLP", ("node-record", "8"): "DP-GCN",
        ("node", "1"): "DP-MLP", ("node", "8"): "DP-MLP",
    }  # fmt: skip
    best = chosen["node-record", "8"]
    assert {cell.entry for cell in best.next.values()} == {"dp_mlp"}
    assert set(best.best) == {"alpha", "beta"}
    assert chosen["edge", "1"].next == {}
    assert chosen["edge", "1"].decided() == (0, 0, 0)


def test_published_claims_and_answers_to_nobody_are_no_choice(
    runs: list[Run], info: StudyInfo
) -> None:
    entries = {cell.entry for choice in found(runs, info).values() for cell in choice.best.values()}
    assert entries == {"gap", "dp_mlp", "dp_gcn"}
    closed = [
        replace(run, record=replace(run.record, prediction={"answers": "none", "note": ""}))
        if run.record.key["entry"] == "dp_gcn"
        else run
        for run in runs
    ]
    assert ("node-record", "8") not in found(closed, info)


def test_decided_counts_graphs_for_and_against(runs: list[Run], info: StudyInfo) -> None:
    # equal spreads: every difference is decided
    decided = found(runs, info)["node-record", "8"]
    assert decided.decided() == (2, 0, 2)
    assert decided.detectable == (), "power is of what is undecided"
    # DP-MLP is far ahead on one graph: equal mean ranks, and the larger mean leads
    mixed = found(with_scores(runs, "dp_mlp", "beta", 0.1), info)["node-record", "8"]
    assert mixed.label == "DP-MLP"
    assert mixed.decided() == (1, 1, 2)


def test_power_is_of_undecided_pairs_that_are_not_the_same_runs(
    runs: list[Run], info: StudyInfo
) -> None:
    decided = found(runs, info)["node-record", "8"]
    best, following = decided.best["beta"].entry, decided.next["beta"].entry
    scores = {
        (run.record.key["dataset"], run.record.key["repeat"]): run.record.metrics["test"][
            "accuracy"
        ]
        for run in runs
        if run.record.key["entry"] == best and run.record.key["epsilon"] == "8"
    }

    def with_next(change: Callable[[int], float]) -> Choice:
        changed = []
        for run in runs:
            key, test = run.record.key, run.record.metrics["test"]
            if key["entry"] == following and key["dataset"] == "beta" and key["epsilon"] == "8":
                value = scores["beta", key["repeat"]] + change(int(key["repeat"]))
                metrics = run.record.metrics | {"test": test | {"accuracy": value}}
                run = replace(run, record=replace(run.record, metrics=metrics))
            changed.append(run)
        return found(changed, info)["node-record", "8"]

    noisy = with_next(lambda repeat: 0.01 * (-1) ** repeat)
    test = compare(noisy.best["beta"], noisy.next["beta"])
    assert test is not None
    assert noisy.detectable == (detectable(test, 2),)
    assert with_next(lambda repeat: 0.0).detectable == ()


def test_an_accounted_choice_does_not_compete_with_its_method(
    runs: list[Run], info: StudyInfo
) -> None:
    twins = [as_accounted(run) for run in runs if run.record.key["entry"] == "gap"]
    assert len(twins) == 12
    both = [*runs, *twins]
    named = replace(info, planned=tuple(run.name for run in both))
    assert found(both, named)["edge", "8"].next == {}


def as_accounted(run: Run) -> Run:
    """The run as one of a private selection among configurations."""
    record = run.record
    name = f"acc-{record.key['entry']}"
    changed = replace(
        record,
        key={**record.key, "entry": name},
        entry={**record.entry, "name": name, "method": "selected"},
        claims=tuple({**claim, "selection": "accounted"} for claim in record.claims),
    )
    return replace(run, record=changed)

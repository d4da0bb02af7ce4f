"""The papers' claims: the file is read strictly, and outcomes follow from records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from helpers import numbers

from dpgnn.records.attacks import AttackResult
from dpgnn.report.pages import paper_claims
from dpgnn.report.pages.paper_claims import outcome, read_claims
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.pages.ten_findings import questions


def test_every_paper_states_claims_with_their_section() -> None:
    found = read_claims()
    assert set(found) == {"dpgnn", "drw", "dpar", "caribou"}
    assert all(claim["section"] for claims in found.values() for claim in claims)


def test_a_claim_with_two_kinds_of_test_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("drw:\n  - {claim: x, section: '1', not_tested: y, guarantee: [a]}\n")
    monkeypatch.setattr(paper_claims, "FILE", file)
    with pytest.raises(ValueError, match="have one of entry, guarantee, attack, not_tested"):
        read_claims()


def test_outcomes_are_counted_from_records(documented: tuple[StudyResults, Path]) -> None:
    found = documented[0]
    stated = {"claim": "x", "section": "1", "entry": "dp_gcn", "against": "dp_mlp"}
    made = outcome(stated, found, {"toy": ""})
    assert made.outcome == "mixed"
    assert numbers(made.found) == [2, 2, 4, -10.0, 2.0, 2, 3]  # ahead, behind, of, range, graphs, n
    made = outcome({"claim": "x", "section": "1", "guarantee": ["dp_gcn-paper"]}, found, {})
    assert (made.outcome, numbers(made.found)) == ("no", [4, 4])
    assert outcome({**stated, "entry": "nothere"}, found, {}).outcome == "no records"
    assert outcome(stated, None, {}).evidence == "results/papers.md"


ATTACK = {
    "attack": "linkteller", "direction": "scale", "entries": ["e"], "pair_sets": ["all"], "datasets": ["a"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("aucs", "said", "found"),
    [
        ({"frozen": [0.9, 1.0], "fresh": [0.45]}, "no",
         "Repeated noise: below 0, above 2 of 2 (0.90 to 1.00); "
         "fresh noise: below 0, above 0 of 1 (0.45 to 0.45); 1 graph."),
        ({"fresh": [0.2, 0.45]}, "in part", "Fresh noise: below 1, above 0 of 2 (0.20 to 0.45); 1 graph."),
        ({"fresh": [0.0, 0.2]}, "yes", "Fresh noise: below 2, above 0 of 2 (0.00 to 0.20); 1 graph."),
        ({"frozen": [0.9], "fresh": [0.2]}, "mixed",
         "Repeated noise: below 0, above 1 of 1 (0.90 to 0.90); "
         "fresh noise: below 1, above 0 of 1 (0.20 to 0.20); 1 graph."),
        ({"fresh": [0.45]}, "undecided", "Fresh noise: below 0, above 0 of 1 (0.45 to 0.45); 1 graph."),
        ({}, "no records", "not run."),
    ],
)  # fmt: skip
def test_claims_on_attacks_are_counted_from_attacks(
    aucs: dict[str, list[float]], said: str, found: str
) -> None:
    results = [attacked(auc, noise) for noise, values in aucs.items() for auc in values]
    others = [
        replace(attacked(0.0, "fresh"), entry="other"),
        replace(attacked(0.0, "fresh"), direction="mix"),
    ]
    made = outcome({"claim": "x", "section": "1", "attack": ATTACK}, None, {}, [*results, *others])
    assert (made.outcome, made.found) == (said, found)


def attacked(auc: float, noise: str) -> AttackResult:
    return AttackResult(
        dataset="a", setting="s", entry="e", epsilon="1", attack="linkteller", direction="scale",
        pair_set="all", noise=noise, status="ok", auc=auc, num_members=40, num_others=40,
    )  # fmt: skip


def test_the_error_of_an_auc_is_that_of_hanley_and_mcneil() -> None:
    # one half with 40 members and 40 others: sqrt(81 / (12 * 40 * 40)), near their normal form
    p = paper_claims._p_value(0.5 + 1.96 * (81 / (12 * 40 * 40)) ** 0.5, 40, 40)
    assert p == pytest.approx(0.05, abs=0.015)
    assert paper_claims._p_value(0.5, 40, 40) == 1.0
    assert paper_claims._p_value(1.0, 40, 40) == 0.0


def test_findings_are_ten_with_what_would_overturn_them() -> None:
    # guarantees, choices and reproduction stand beside the questions
    assert len(questions()) + 3 == 10
    assert all(question.overturn and question.panels for question in questions())


def test_the_pages_keep_to_their_length(repository: Path) -> None:
    limits = {"README.md": 700, "docs/results.md": 2500, "docs/choose.md": 600}
    for name, limit in limits.items():
        assert len((repository / name).read_text(encoding="utf-8").split()) <= limit, name

"""The papers' claims: the file is read strictly, and outcomes follow from records."""

from __future__ import annotations

from pathlib import Path

import pytest

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
    with pytest.raises(ValueError, match="have one of entry, guarantee, not_tested"):
        read_claims()


def test_outcomes_are_counted_from_records(documented: tuple[StudyResults, Path]) -> None:
    found = documented[0]
    stated = {"claim": "x", "section": "1", "entry": "dp_gcn", "against": "dp_mlp"}
    made = outcome(stated, found, {"toy": ""})
    assert (made.outcome, made.found) == (
        "mixed", "Ahead 2, behind 2 of 4; −10.0 to +2.0 points; 2 graphs, n 3.",
    )  # fmt: skip
    made = outcome({"claim": "x", "section": "1", "guarantee": ["dp_gcn-paper"]}, found, {})
    assert (made.outcome, made.found) == ("no", "Of 4 cells 4 no finite ε known.")
    assert outcome({**stated, "entry": "nothere"}, found, {}).outcome == "no records"
    assert outcome(stated, None, {}).evidence == "results/papers.md"


def test_findings_are_ten_with_what_would_overturn_them() -> None:
    # guarantees, choices and reproduction stand beside the questions
    assert len(questions()) + 3 == 10
    assert all(question.overturn and question.panels for question in questions())


def test_the_pages_keep_to_their_length(repository: Path) -> None:
    limits = {"README.md": 700, "docs/results.md": 2500, "docs/choose.md": 600}
    for name, limit in limits.items():
        assert len((repository / name).read_text(encoding="utf-8").split()) <= limit, name

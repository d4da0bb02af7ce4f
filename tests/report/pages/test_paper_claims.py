"""The papers' claims: the file is read strictly, and outcomes follow from records."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest
from helpers import numbers

from dpgnn.core.grouping import grouped
from dpgnn.records.attacks import AttackResult
from dpgnn.report.pages import paper_claims
from dpgnn.report.pages.finding_differences import (
    Question,
    difference_headline,
    finding_pairs,
    questions,
)
from dpgnn.report.pages.paper_claims import claim_lines, claim_pairs, outcome, read_claims
from dpgnn.report.pages.study_results import StudyResults


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
    # range, half an interval (by the resolution of the score), ahead, behind, of, graphs, n
    assert numbers(made.found) == [-10.0, 2.0, 1.2, 2, 2, 4, 2, 3]
    made = outcome({"claim": "x", "section": "1", "guarantee": ["dp_gcn-paper"]}, found, {})
    assert (made.outcome, numbers(made.found)) == ("no", [4, 2, 4])  # of cells, on graphs
    assert outcome({**stated, "entry": "nothere"}, found, {}).outcome == "no records"
    assert outcome(stated, None, {}).evidence == "results/papers.md"


def test_of_several_forms_the_best_counts_where_a_paper_reports_its_best(
    documented: tuple[StudyResults, Path],
) -> None:
    found = documented[0]
    stated = {
        "claim": "x",
        "section": "1",
        "entry": ["dp_gcn", "dp_gcn-paper"],
        "against": "dp_mlp",
    }
    all_forms, best = outcome(stated, found, {}), outcome({**stated, "best": True}, found, {})
    assert len(all_forms.pairs) == 2 * len(best.pairs) == 8
    for pair in best.pairs:
        forms = [
            other.test.mean
            for other in all_forms.pairs
            if (other.entry.place, other.epsilon) == (pair.entry.place, pair.epsilon)
        ]
        assert pair.test.mean == max(forms)
    assert "; sound" in all_forms.found
    assert "; sound" not in best.found  # the published form is ahead everywhere


def test_drawn_graphs_and_what_else_differs_are_named(
    documented: tuple[StudyResults, Path],
) -> None:
    found = documented[0]
    chains = {"alpha": "chains-s", "beta": "beta"}
    cells = [replace(cell, dataset=chains[cell.dataset]) for cell in found.cells]
    stated = {
        "claim": "x",
        "section": "1",
        "entry": "dp_gcn",
        "against": "dp_mlp",
        "note": "A note",
    }
    made = outcome(stated, replace(found, cells=cells), {})
    assert made.found.endswith("; 2 graphs, 1 drawn, n 3; sound; A note.")
    assert outcome(stated, found, {}).found.endswith("; 2 graphs, n 3; sound; A note.")


def test_an_outcome_that_is_not_known_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text("drw:\n  - {claim: x, section: '1', entry: a, against: b, wanted: most}\n")
    monkeypatch.setattr(paper_claims, "FILE", file)
    with pytest.raises(ValueError, match="wanted must be one of ahead, mostly, not-behind, got"):
        read_claims()


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


def test_every_difference_behind_a_claim_names_cells_of_the_records(
    documented: tuple[StudyResults, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "claims.yaml"
    file.write_text(
        "drw:\n  - {claim: x, section: '1', entry: dp_gcn, against: dp_mlp}\n"
        "  - {claim: y, section: '2', guarantee: [dp_gcn-paper]}\n"
    )
    monkeypatch.setattr(paper_claims, "FILE", file)
    found = replace(documented[0], info=replace(documented[0].info, paper="drw"))
    rows = claim_pairs([found]).rows
    assert len(rows) == 4  # two graphs at two budgets
    planned = {run.rsplit("/", 1)[0] for run in found.info.planned}
    for row in rows:
        assert (row.study, row.statement, row.n) == ("toy", "x (1)", 3)
        place = f"{row.dataset}.{row.setting}"
        assert f"{place}/{row.entry}/eps={row.epsilon}" in planned
        assert f"{place}/{row.reference}/eps={row.reference_epsilon}" in planned
    lines = claim_lines([found], {"toy": ""})
    (line,) = [line for line in lines if line.startswith("| x |")]
    assert "[→](reference/paper_claims.csv)" in line
    assert "2 graphs, n 3; sound." in line
    assert claim_pairs([]).rows == []


def test_every_claim_on_the_page_has_data_n_and_its_evidence(repository: Path) -> None:
    docs = repository / "docs"
    text = (
        (docs / "results.md").read_text(encoding="utf-8").partition("## What the papers claim")[2]
    )
    rows = [line.split(" | ") for line in text.splitlines() if re.match(r"\| [A-Z].* \*\*", line)]
    assert len(rows) == sum(map(len, read_claims().values()))
    for claim, _, said, found in rows:
        (*_, link) = re.findall(r"\]\(([^)#]+)[^)]*\)", found)
        assert (docs / link).exists(), (claim, link)
        if said not in ("**not tested**", "**no records**"):
            size = r"\d graphs?(, \d drawn)?, n \d|Of \d+ cells|\d graphs?\. "
            assert re.search(size, found), (claim, found)


@pytest.mark.parametrize("name", ["findings", "paper_claims"])
def test_effects_and_power_on_the_page_are_those_of_its_table(repository: Path, name: str) -> None:
    docs = repository / "docs"
    pages = [
        (docs / page).read_text(encoding="utf-8")
        for page in ("results.md", "results/comparisons.md")
    ]
    with (docs / "reference" / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        by_statement = grouped(csv.DictReader(stream), lambda row: row["statement"])
    assert len(by_statement) > 15
    for statement, rows in by_statement.items():
        means = [float(row["mean"]) for row in rows]
        clear = [
            mean for mean, row in zip(means, rows) if row["verdict"] == "larger than the noise"
        ]
        halves = [(float(row["high"]) - float(row["low"])) / 2 for row in rows if row["n"] != "1"]
        # of undecided pairs that are not bit-identical runs
        detected = [
            float(row["detectable"])
            for row in rows
            if row["verdict"] != "larger than the noise" and row["n"] != "1"
            if float(row["mean"]) != 0
        ]
        ends = dict.fromkeys(f"{100 * end:+.1f}" for end in (min(means), max(means)))
        words = " to ".join(ends).replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
        power = f", detects {100 * median(detected):.1f}" if detected else ""
        ahead = sum(mean > 0 for mean in clear)
        told = re.escape(f"{words} (±{100 * median(halves):.1f}{power})") + "[,;] "
        told += f"ahead {ahead}, behind {len(clear) - ahead} of {len(rows)}"
        page = pages[statement.endswith(", tuned alike")]
        assert re.search(told, page), statement


def test_what_the_reproduction_could_show_is_counted_from_the_papers_tables(
    repository: Path,
) -> None:
    docs = repository / "docs"
    rows = []
    for file in sorted((docs / "reference").glob("*/tables/paper-*.csv")):
        if not file.stem.endswith("-sound"):  # beside the paper's values, no reproduction of them
            with file.open(encoding="utf-8", newline="") as stream:
                rows += [row for row in csv.DictReader(stream) if "difference_low" in row]
    ours = [row for row in rows if row["difference"]]
    widths = [
        float(row["difference_high"]) - float(row["difference_low"])
        for row in ours
        if row["difference_low"]
    ]
    narrow = sum(width <= 0.04 for width in widths)
    assert sum(row["verdict"] == "same" for row in ours) <= narrow < len(ours)
    (claim,) = re.findall(
        r"\*\*(Of \d+ values in the papers' tables .*?)\*\*",
        (docs / "results.md").read_text(encoding="utf-8"),
    )
    found = numbers(claim)
    assert (found[0], found[5], found[-1]) == (len(rows), len(ours), narrow)


def test_the_differences_behind_a_finding_are_those_it_counts(
    documented: tuple[StudyResults, Path],
) -> None:
    cells = documented[0].cells
    asked = Question(
        name="q", title="Do edges help?", panels=(("GCN - MLP", "dp_gcn", "dp_mlp"),), more="",
        overturn="",
    )  # fmt: skip
    made = difference_headline(asked, cells)
    assert made is not None
    rows = finding_pairs([made]).rows
    assert {row.statement for row in rows} == {"Do edges help? GCN - MLP"}
    ahead = sum(row.verdict == "larger than the noise" and row.mean > 0 for row in rows)
    assert f"ahead {ahead}, behind {len(rows) - ahead} of {len(rows)}" in made.claim
    assert ("every difference", "reference/findings.csv") in made.evidence


def test_findings_are_ten_with_what_would_overturn_them() -> None:
    # guarantees, choices and reproduction stand beside the questions
    assert len(questions()) + 3 == 10
    assert all(question.overturn and question.panels for question in questions())


def test_the_pages_keep_to_their_length(repository: Path) -> None:
    limits = {"README.md": 700, "docs/results.md": 2500, "docs/choose.md": 600}
    for name, limit in limits.items():
        assert len((repository / name).read_text(encoding="utf-8").split()) <= limit, name

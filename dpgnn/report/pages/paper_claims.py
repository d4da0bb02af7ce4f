"""The papers' claims, and what the records here say of each: a table made from records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, get_args

import yaml

from dpgnn.core.checks import require
from dpgnn.core.grouping import grouped
from dpgnn.core.wording import count
from dpgnn.data.datasets import is_drawn
from dpgnn.data.raw.sources import data_folder
from dpgnn.records.attacks import AttackResult
from dpgnn.records.info import PAPERS
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.pairs import Pair, Tally, Wanted, pairs, tally
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.statistics.statistics import LEVEL, holm
from dpgnn.report.tables import pivots
from dpgnn.report.tables.pair_rows import PairRow, pair_row, pairs_table
from dpgnn.report.tables.rows import ClaimRow
from dpgnn.report.tables.table import Table, markdown_text, signed

FILE = data_folder() / "papers" / "claims.yaml"
KEYS = {
    "claim",
    "section",
    "entry",
    "against",
    "epsilons",
    "settings",
    "datasets",
    "mode",
    "wanted",
    "widens",
    "less",
    "best",
    "guarantee",
    "attack",
    "not_tested",
    "evidence",
    "note",
}
PAIRS = "reference/paper_claims.csv"  # below docs; `claim_pairs`
KINDS = ("entry", "guarantee", "attack", "not_tested")  # fmt: skip
WANTED = get_args(Wanted)


@dataclass(frozen=True, kw_only=True)
class ClaimOutcome:
    """A claim of a paper, and the outcome from our records.

    Attributes:
        claim, section: the claim in our words, and its section of the paper.
        outcome: yes, no, mixed, in part, undecided, no records, or not tested.
        found: numbers or the reason, in a few words.
        evidence: link below docs.
        pairs: the differences that were counted; () where none are.
    """

    claim: str
    section: str
    outcome: str
    found: str
    evidence: str
    pairs: tuple[Pair, ...] = ()


def claim_lines(
    found: Sequence[StudyResults],
    texts: Mapping[str, str],
    attacked: Sequence[AttackResult] = (),
) -> list[str]:
    """A table for each paper.

    Args:
        found: studies with records.
        texts: pages below docs/results by study; evidence links to them.
        attacked: committed attacks.
    """
    lines: list[str] = []
    for paper, claims in read_claims().items():
        results = study_of(paper, found)
        rows = [
            [
                markdown_text(item.claim), item.section, f"**{item.outcome}**",
                f"{item.found} [→]({item.evidence})",
            ]
            for item in (outcome(claim, results, texts, attacked) for claim in claims)
        ]  # fmt: skip
        lines += [f"### {PAPERS.get(paper, paper)}", ""]
        lines += [
            *pivots.markdown(["Claim", "Where", "Holds here?", "Found"], rows),
            "",
        ]
    return lines


def claim_pairs(found: Sequence[StudyResults]) -> Table[PairRow]:
    """Every difference behind a claim, with the cells of its records.

    Args:
        found: studies with records.
    """
    rows = []
    for paper, claims in read_claims().items():
        results = study_of(paper, found)
        for claim in claims if results else ():
            said = f"{claim['claim']} ({claim['section']})"
            counted = outcome(claim, results, {}).pairs
            rows += [pair_row(results.info.name if results else "", said, pair) for pair in counted]
    return pairs_table("paper_claims", rows)


def study_of(paper: str, found: Sequence[StudyResults]) -> StudyResults | None:
    """The study of a paper, if it has records."""
    return next((results for results in found if results.info.paper == paper), None)


def read_claims() -> dict[str, list[dict[str, Any]]]:
    """Paper -> its claims.

    Raises:
        ValueError: a claim has an unknown key or outcome, or not exactly one kind of test.
    """
    stated: dict[str, list[dict[str, Any]]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for paper, claims in stated.items():
        for claim in claims:
            where = f"{FILE.name}: {paper}: {claim.get('claim')!r}"
            unknown = sorted(set(claim) - KEYS)
            require(not unknown, where, f"have keys of {sorted(KEYS)}", unknown)
            kinds = [kind for kind in KINDS if kind in claim]
            require(len(kinds) == 1, where, f"have one of {', '.join(KINDS)}", kinds)
            wanted = claim.get("wanted", "ahead")
            require(wanted in WANTED, f"{where}: wanted", f"be one of {', '.join(WANTED)}", wanted)
    return stated


def outcome(
    claim: dict[str, Any],
    results: StudyResults | None,
    texts: Mapping[str, str],
    attacked: Sequence[AttackResult] = (),
) -> ClaimOutcome:
    """The outcome of one claim from the records of the paper's study, or from attacks."""
    name = results.info.name if results else ""
    evidence = claim.get("evidence") or f"results/{name}.md#comparisons"
    page, _, anchor = evidence.partition("#")
    study = page.removeprefix("results/").removesuffix(".md")
    if page.startswith("results/") and study not in texts:
        evidence = "results/papers.md"
    elif study in texts and anchor and f'id="{anchor}"' not in texts[study]:
        evidence = page
    counted: tuple[Pair, ...] = ()
    said, words = "no records", "not run"
    if "not_tested" in claim:
        said, words = "not tested", f"{claim['not_tested']}."
    elif "attack" in claim:
        said, words = _attacked(attacked, claim["attack"])
    elif results is not None and "guarantee" in claim:
        said, words = _guarantee(results, claim["guarantee"])
    elif results is not None:
        counted = _pairs_of(results, claim)
        evidence = claim.get("evidence", PAIRS) if counted else evidence
        said, words = _compared(counted, claim)
    return ClaimOutcome(
        claim=claim["claim"], section=claim["section"], outcome=said, found=words,
        evidence=evidence, pairs=counted,
    )  # fmt: skip


def _pairs_of(results: StudyResults, claim: Mapping[str, Any]) -> tuple[Pair, ...]:
    """The differences on real graphs that a claim is about."""
    cells = on_real_graphs_if_any(results.cells, lambda cell: cell.dataset)
    less = claim.get("less")
    found = pairs(
        cells,
        _listed(claim["entry"]),
        _listed(claim["against"]),
        mode=claim.get("mode", ""),
        epsilons=claim.get("epsilons", ()),
        settings=claim.get("settings", ()),
        datasets=claim.get("datasets", ()),
        widens=claim.get("widens", False),
        less=(_listed(less["entry"]), _listed(less["against"])) if less else None,
    )
    return tuple(_best(found) if claim.get("best") else found)


def _best(found: Sequence[Pair]) -> list[Pair]:
    """At each place and budget the pair with the largest mean difference."""
    by_place = grouped(found, lambda pair: (pair.entry.place, pair.epsilon, pair.reference.entry))
    return [max(group, key=lambda pair: pair.test.mean) for group in by_place.values()]


def _compared(found: Sequence[Pair], claim: Mapping[str, Any]) -> tuple[str, str]:
    counted = tally(found)
    if not counted.total:
        return "no records", "not run."
    low, high = counted.repeats
    drawn = sum(is_drawn(graph) for graph in counted.graphs)
    graphs = count(len(counted.graphs), "graph") + (f", {drawn} drawn" if drawn else "")
    sound = "; sound" if any(pair.entry.mode == "sound" for pair in found) else ""
    if not sound and any(pair.reference.mode == "sound" for pair in found):
        sound = "; against sound"
    note = f"; {claim['note']}" if "note" in claim else ""
    return counted.outcome(claim.get("wanted", "ahead")), (
        f"{effect_words(counted)}; ahead {counted.ahead}, behind {counted.behind} of {counted.total}; "
        f"{graphs}, n {low if low == high else f'{low}-{high}'}{sound}{note}."
    )


def effect_words(counted: Tally) -> str:
    """Smallest and largest difference in points, half an interval, and, where any is undecided, the power."""
    ends = dict.fromkeys((signed(100 * counted.low), signed(100 * counted.high)))
    words = " to ".join(ends)
    if counted.half is None:
        return words
    power = "" if counted.detects is None else f", detects {100 * counted.detects:.1f}"
    return f"{words} (±{100 * counted.half:.1f}{power})"


def _listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def _guarantee(results: StudyResults, entries: Sequence[str]) -> tuple[str, str]:
    rows = [
        row
        for row in results.claims.rows
        if "~" not in row.entry and any(fnmatchcase(row.entry, pattern) for pattern in entries)
    ]
    if not rows:
        return "no records", "not run."
    good, larger, none = guarantee_counts(rows)
    said = "yes" if good == len(rows) else "no" if not good else "in part"
    missing = "no finite ε known"
    parts = [(good, "proved as stated"), (larger, "a larger ε proved"), (none, missing)]
    told = ", ".join(f"{number} {words}" for number, words in parts if number)
    graphs = count(len({row.dataset for row in rows}), "graph")
    return said, f"Of {len(rows)} cells ({graphs}) {told}."


def _attacked(attacked: Sequence[AttackResult], stated: Mapping[str, Any]) -> tuple[str, str]:
    """Counts of attacks with an AUC below one half, above it, or not significantly different from it."""
    words, below, above, total, graphs = [], 0, 0, 0, set()
    for noise, name in (("frozen", "repeated"), ("fresh", "fresh")):
        here = [
            result
            for result in attacked
            if result.auc is not None and result.noise == noise and not result.repeat  # as on its page
            and result.attack == stated["attack"] and result.pair_set in stated["pair_sets"]
            and result.direction == stated["direction"]
            and result.entry in stated["entries"] and result.dataset in stated["datasets"]
        ]  # fmt: skip
        if not here:
            continue
        aucs = [result.auc or 0.0 for result in here]
        sizes = [(result.num_members or 0, result.num_others or 0) for result in here]
        decided = holm([_p_value(auc, *size) for auc, size in zip(aucs, sizes)])
        signs = [auc - 0.5 for auc, p in zip(aucs, decided) if p is not None and p < LEVEL]
        less, more = sum(sign < 0 for sign in signs), sum(sign > 0 for sign in signs)
        words.append(
            f"{name} noise: below {less}, above {more} of {len(here)} ({min(aucs):.2f} to {max(aucs):.2f})"
        )
        below, above, total = below + less, above + more, total + len(here)
        graphs |= {result.dataset for result in here}
    if not words:
        return "no records", "not run."
    said = "mixed" if below and above else "yes" if below == total else "in part" if below else "no"
    if not below and not above:
        said = "undecided"
    return said, f"{'; '.join(words)}; {count(len(graphs), 'graph')}.".capitalize()


def _p_value(auc: float, members: int, others: int) -> float:
    """Two-sided p value of the hypothesis AUC = 1/2, by the standard error of Hanley and McNeil (1982)."""
    first, second = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    square = auc * (1 - auc) + (members - 1) * (first - auc**2) + (others - 1) * (second - auc**2)
    error = math.sqrt(max(0.0, square) / max(1, members * others))
    if not error:
        return float(auc == 0.5)
    return math.erfc(abs(auc - 0.5) / error / math.sqrt(2))


def guarantee_counts(rows: Sequence[ClaimRow]) -> tuple[int, int, int]:
    """Cells whose stated epsilon is proved for what was run, with a larger finite one, and the others."""
    good = larger = 0
    for row in rows:
        if row.proved is None or row.claimed is None or row.proved == float("inf"):
            continue
        holds = row.proved <= row.claimed * (1 + 1e-9)
        good, larger = good + holds, larger + (not holds)
    return good, larger, len(rows) - good - larger

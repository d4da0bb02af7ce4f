"""Findings of docs/results.md that are paired differences of the head-to-head, fixed and tuned alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import yaml

from dpgnn.core.wording import count
from dpgnn.data.raw.sources import data_folder
from dpgnn.records.archive import MAIN_STUDY
from dpgnn.records.cells import Cell
from dpgnn.report.figures.difference_figure import draw_differences
from dpgnn.report.pages.headline import Headline, range_text
from dpgnn.report.pages.paper_claims import effect_words
from dpgnn.report.pages.study_results import StudyResults
from dpgnn.report.statistics.pairs import CLEAR, Pair, Tally, pairs, tally, with_overlap
from dpgnn.report.statistics.stand_ins import on_real_graphs_if_any
from dpgnn.report.tables import pivots
from dpgnn.report.tables.pair_rows import PairRow, pair_row, pairs_table
from dpgnn.report.tables.table import DASH, Table, markdown_text

PAIRS = "reference/findings.csv"  # below docs; `finding_pairs`
TUNED = "tuned alike"


@dataclass(frozen=True, kw_only=True)
class Question:
    """A finding that is a set of paired differences of the main study.

    Attributes:
        name, title: of the finding.
        panels: (words, entry, against) of each set.
        more, overturn: see `Headline`.
        evidence: (words, link).
    """

    name: str
    title: str
    panels: tuple[tuple[str, str, str], ...]
    more: str
    overturn: str
    evidence: tuple[tuple[str, str], ...] = ()


def questions() -> list[Question]:
    """The findings from paired differences, as data/findings.yaml states them."""
    stated = yaml.safe_load((data_folder() / "findings.yaml").read_text(encoding="utf-8"))
    return [
        Question(
            name=item["name"], title=item["title"], more=item["more"], overturn=item["overturn"],
            panels=tuple((words, entry, against) for words, entry, against in item["panels"]),
            evidence=tuple((words, link) for words, link in item["evidence"]),
        )
        for item in stated
    ]  # fmt: skip


def difference_headlines(found: Sequence[StudyResults]) -> list[Headline]:
    """The findings from paired differences that have records, in order."""
    fixed, tuned = main_cells(found), main_cells(found, tuned=True)
    made = (difference_headline(question, fixed, tuned) for question in questions())
    return [headline for headline in made if headline is not None]


def main_cells(found: Sequence[StudyResults], *, tuned: bool = False) -> Sequence[Cell]:
    """Cells of the main study on real graphs, or its tuned ones; none if it has no records."""
    main = next((results for results in found if results.info.name == MAIN_STUDY), None)
    if main is None:
        return []
    return on_real_graphs_if_any(main.tuned_cells if tuned else main.cells, lambda c: c.dataset)


def difference_headline(
    question: Question, cells: Sequence[Cell], tuned_cells: Sequence[Cell] = ()
) -> Headline | None:
    """The finding that answers a question; None without records.

    Args:
        question: as it is stated.
        cells, tuned_cells: of the main study.
    """
    sets, tuned = (
        {words: panel_pairs(given, entry, against) for words, entry, against in question.panels}
        for given in (cells, tuned_cells)
    )
    picture = draw_differences(question.name, question.title, sets)
    if picture is None:
        return None
    counted = {words: tally(found) for words, found in sets.items() if found}
    claim = "; ".join(f"{words}: {_counted(found)}" for words, found in counted.items())
    return Headline(
        title=question.title,
        claim=f"{claim}. {_size([pair for found in sets.values() for pair in found])}",
        more=f"{_tuned_words(tuned)} {question.more}".strip(),
        picture=picture,
        evidence=(
            *question.evidence,
            ("every difference", PAIRS),
        ),
        overturn=question.overturn,
        pairs=sets,
        tuned=tuned,
    )


def panel_pairs(cells: Sequence[Cell], entry: str, against: str) -> list[Pair]:
    """Tested differences of two entries, in one setting for each graph.

    Args:
        cells: of the main study.
        entry, against: names of entries.
    """
    found = pairs(_one_setting(cells, entry), [entry], [against])
    return [pair for pair in found if pair.test.p is not None]


def finding_pairs(made: Sequence[Headline]) -> Table[PairRow]:
    """Every difference behind a finding, with the cells of its records."""
    rows = [
        pair_row(MAIN_STUDY, f"{item.title} {words}{how}", pair)
        for item in made
        for sets, how in ((item.pairs, ""), (item.tuned, f", {TUNED}"))
        for words, found in sets.items()
        for pair in found
    ]
    return pairs_table("findings", rows)


def changed_by_tuning(made: Sequence[Headline]) -> list[str]:
    """The section of docs/results/comparisons.md: the findings' differences, fixed and tuned alike."""
    rows, moves = [], Counter[str]()
    for item in made:
        for words, after in item.tuned.items():
            if after:
                before = item.pairs[words]
                rows.append([markdown_text(words), *(_counted(tally(p)) for p in (before, after))])
                moves += _moves(before, after)
    if not rows:
        return []
    tuned = [pair for item in made for found in item.tuned.values() for pair in found]
    decided = moves["stay"] + moves["undecided"] + moves["turn"]
    return [
        '<a id="tuned"></a>', "", "## What tuning changed", "",
        "Differences of the findings with one fixed configuration for all graphs, and with both sides tuned "
        "alike: six points each, on Photo, Computers and CS two more with centred rows for MLP, DP-MLP, "
        "DP-GCN, DP-SAGE, DP-GATv2, FDP and PertGraph at node level. They are chosen on validation nodes of "
        "the first splits and counted in no ε. Splits and tests are the same. Published forms have no row: "
        "they are not tuned.", "",
        f"Of {decided} differences that are decided with fixed configurations {moves['stay']} are decided "
        f"alike when tuned, {moves['undecided']} are undecided and {moves['turn']} turn round; of "
        f"{moves['open'] + moves['settled']} undecided ones {moves['settled']} are decided. "
        f"{_size(tuned)}", "",
        *pivots.markdown(["Difference", "Fixed", "Tuned alike"], rows), "",
    ]  # fmt: skip


def beyond_these_splits(made: Sequence[Headline]) -> list[str]:
    """The section of docs/results/comparisons.md: which decided differences stay with overlap counted."""
    rows, stay, total = [], 0, 0
    for item in made:
        for words, found in item.pairs.items():
            plain, wide = tally(found), tally(with_overlap(found))
            counts = [f"{one.ahead}/{one.behind} of {one.total}" for one in (plain, wide)]
            rows.append([markdown_text(words), *counts])
            stay, total = stay + wide.ahead + wide.behind, total + plain.ahead + plain.behind
    if not rows:
        return []
    return [
        '<a id="overlap"></a>', "", "## Beyond these splits", "",
        "Verdicts are of the mean over random splits and seeds of one graph, which are independent given "
        "the graph. For other nodes of the same kind they are too sure, since random splits share nodes. "
        "With the variance of Nadeau and Bengio (2003), 1/n + test nodes / training nodes in place of 1/n, "
        f"{stay} of the {total} decided differences of the findings are still decided (fixed "
        "configurations; ahead/behind).", "",
        *pivots.markdown(["Difference", "Splits of this graph", "Overlap counted"], rows), "",
    ]  # fmt: skip


def tuned_note(made: Sequence[Headline]) -> str:
    """How to read "Tuned alike"; "" where no finding has it."""
    if not any(found for item in made for found in item.tuned.values()):
        return ""
    return "“Tuned alike”: ahead/behind, both with [tuned options](results/comparisons.md#tuned). "


def _moves(before: Sequence[Pair], after: Sequence[Pair]) -> Counter[str]:
    """How often a decided difference stays, turns round or gets undecided, and an open one is settled."""
    signs = {(*pair.entry.place, pair.epsilon): _sign(pair) for pair in before}
    moves = Counter[str]()
    for pair in after:
        was, now = signs.get((*pair.entry.place, pair.epsilon)), _sign(pair)
        if was is None:
            continue
        if was:
            moves["stay" if now == was else "turn" if now else "undecided"] += 1
        else:
            moves["settled" if now else "open"] += 1
    return moves


def _sign(pair: Pair) -> int:
    """1 and -1 for a decided difference, 0 for an undecided one."""
    return 0 if pair.verdict != CLEAR else 1 if pair.test.mean > 0 else -1


def _tuned_words(sets: Mapping[str, Sequence[Pair]]) -> str:
    """Ahead and behind of each set when tuned, in the order of the claim; "" if none is."""
    counted = [tally(found) if found else None for found in sets.values()]
    totals = {one.total for one in counted if one}
    if not totals:
        return ""
    parts = [f"{one.ahead}/{one.behind}" if one else DASH for one in counted]
    return f"Tuned alike: {', '.join(parts)} of {range_text(totals)}."


def _one_setting(cells: Sequence[Cell], entry: str) -> list[Cell]:
    """For each graph, the cells of the first setting that has the entry."""
    first: dict[str, str] = {}
    for cell in cells:
        if cell.entry == entry:
            first.setdefault(cell.dataset, cell.setting)
    return [cell for cell in cells if first.get(cell.dataset) == cell.setting]


def _counted(found: Tally) -> str:
    return f"{effect_words(found)}, ahead {found.ahead}, behind {found.behind} of {found.total}"


def _size(found: Sequence[Pair]) -> str:
    graphs = dict.fromkeys(pair.entry.dataset for pair in found)
    budgets = sorted({pair.epsilon for pair in found}, key=float)
    n = range_text(pair.test.n for pair in found)
    return f"n = {n} splits; {count(len(graphs), 'graph')}; ε = {', '.join(budgets)}."

"""The summary at the top of a report: findings in sentences made from the study's numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dpgnn.core.grouping import grouped
from dpgnn.core.wording import count, listed
from dpgnn.records.cells import UNCOVERED, UNCOVERED_WORDS, Cell
from dpgnn.records.frame import Run
from dpgnn.records.info import StudyInfo
from dpgnn.report.paper.rows import PaperRow
from dpgnn.report.statistics.differences import Difference, count_comparisons
from dpgnn.report.statistics.ranking import Ranking, Refusal
from dpgnn.report.statistics.stand_ins import on_real_graphs
from dpgnn.report.tables.claims_table import proved_elsewhere, proved_epsilon
from dpgnn.report.tables.table import Table, epsilon_text, signed

CLEAR = "larger than the noise"
STAND_INS = "Findings leave out synthetic graphs; tables and figures include them."
# questions that set an entry against the baseline, but for privacy or soundness alone
AGAINST = (
    "against the baseline without privacy",
    "without privacy against the private baseline",
    "same guarantee",
)
MOST = 6  # sentences of one topic; the tables have all


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Sentences about one question.

    Attributes:
        topic: the question in a few words.
        sentences: the answer; every number in them comes from a record.
    """

    topic: str
    sentences: tuple[str, ...]


def findings(
    info: StudyInfo,
    runs: Sequence[Run],
    cells: Sequence[Cell],
    *,
    rankings: Sequence[Ranking],
    refusals: Sequence[Refusal],
    differences: Sequence[Difference],
    papers: Sequence[Table[PaperRow]] = (),
    asked: Sequence[str] = (),
) -> list[Finding]:
    """The findings of a report, the most general first; topics without an answer are left out.

    Stand-in graphs have their homophily by construction, so if there are real graphs, only the first topic
    and the paper's numbers count stand-ins. `asked` is used as given.
    """
    made = _runs(info, runs, cells)
    real = on_real_graphs(cells, lambda cell: cell.dataset)
    if 0 < len(real) < len(cells):
        made.append(STAND_INS)
        rankings = on_real_graphs(rankings, lambda ranking: ranking.dataset)
        differences = on_real_graphs(differences, lambda pair: pair.entry.dataset)
        cells = real
    found = [
        ("What was run", made),
        ("The paper's numbers", _papers(papers)),
        ("What was asked", list(asked)),
        ("Who leads", _leaders(rankings) + _refused(refusals)),
        ("Without privacy", _without_privacy(differences)),
        ("Price of privacy", _prices(differences, ("price of privacy",))),
        ("Against the baseline", _prices(differences, AGAINST)),
        ("Price of soundness", _prices(differences, ("price of soundness",))),
        ("Claims", _claims(cells)),
        ("Noise", _noise(differences)),
    ]
    return [Finding(topic=topic, sentences=tuple(lines)) for topic, lines in found if lines]


def _runs(info: StudyInfo, runs: Sequence[Run], cells: Sequence[Cell]) -> list[str]:
    scored = sum(len(cell.runs) for cell in cells)
    datasets = dict.fromkeys(cell.dataset for cell in cells)
    entries = dict.fromkeys(cell.entry for cell in cells)
    text = (
        f"{scored} of {count(len(info.planned), 'planned run')} (tier {info.tier}) have a score, on "
        f"{count(len(datasets), 'data set')} with {count(len(entries), 'entry', 'entries')}."
    )
    released = sum(run.is_unscored_release for run in runs)
    if released:
        text = (
            f"{released} of {count(len(info.planned), 'planned run')} (tier {info.tier}) were made. They are "
            "releases, which have plans and claims and no scores: a score reads private labels."
        )
    failed = sum(run.record.status == "failed" for run in runs)
    away = sum(run.record.status == "not-available" for run in runs)
    parts = [(failed, "failed"), (away, "not available here")]
    parts.append((len(info.planned) - len(runs), "not run"))
    rest = [f"{number} {word}" for number, word in parts if number]
    return [text, f"The others: {listed(rest)}; the status table says why."] if rest else [text]


def _papers(papers: Sequence[Table[PaperRow]]) -> list[str]:
    found = []
    for table in (table for table in papers if table.reproduces):
        words = [row.verdict for row in table.rows]
        parts = [
            f"{words.count(word)} {word}"
            for word in ("same", "different", "undecided", "not available")
            if word in words
        ]
        found.append(f"{table.title}: of {count(len(words), 'value')} {listed(parts)}.")
    return found


def _leaders(rankings: Sequence[Ranking]) -> list[str]:
    """Who leads under each guarantee, at the largest epsilon at which two entries give it."""
    found = []
    for guarantee, group in grouped(rankings, lambda ranking: ranking.title).items():
        contested = [ranking for ranking in group if len(ranking.places) > 1]
        largest = max(contested or group, key=lambda ranking: float(ranking.epsilon)).epsilon
        group = [ranking for ranking in contested or group if ranking.epsilon == largest]
        opening = f"Under “{guarantee}” at ε = {epsilon_text(largest)}"
        found.append(f"{opening}, {_lead(group) if contested else _alone(group)}.")
    return [*found, UNCOVERED_WORDS] if any(UNCOVERED in text for text in found) else found


def _alone(group: Sequence[Ranking]) -> str:
    alone = grouped(group, lambda ranking: ranking.places[0].cell.marked_label)
    where = {label: [_place(ranking, group) for ranking in here] for label, here in alone.items()}
    parts = [f"{label} stands alone on {listed(on)}" for label, on in where.items()]
    return f"{listed(parts)}, so nothing is ranked"


def _lead(group: Sequence[Ranking]) -> str:
    """Who leads where; with one repeat a lead is neither clear nor inside the noise."""
    clear: dict[str, list[str]] = {}
    close, open_ = [], []
    for ranking in group:
        where = _place(ranking, group)
        verdicts = {place.verdict for place in ranking.places[1:]}
        if ranking.places[0].clear_lead:
            clear.setdefault(ranking.places[0].cell.marked_label, []).append(where)
        elif verdicts <= {CLEAR, "one repeat", None}:
            open_.append(where)
        else:
            close.append(where)
    parts = [f"{label} is ahead of all others on {listed(on)}" for label, on in clear.items()]
    if close:
        parts.append(f"no entry leads by more than the noise on {listed(close)}")
    if open_:
        parts.append(f"not decided (one repeat) on {listed(open_)}")
    return "; ".join(parts)


def _refused(refusals: Sequence[Refusal]) -> list[str]:
    if not refusals:
        return []
    return [
        f"{count(len(refusals), 'pair')} of guarantees may not be ranked against each other; the section "
        "on comparisons says why."
    ]


def _without_privacy(differences: Sequence[Difference]) -> list[str]:
    told = (
        item for item in differences if item.question == "no privacy on either side" and _told(item)
    )
    pairs = grouped(told, lambda item: item.entry.entry)
    return _shortened(
        [
            f"{group[0].entry.label} against {group[0].reference.label}: {_spread(group)}."
            for group in pairs.values()
        ]
    )


def _prices(differences: Sequence[Difference], questions: Sequence[str]) -> list[str]:
    """Results of these questions for each pair of entries, at the smallest and the largest epsilon."""
    told = (item for item in differences if item.question in questions and _told(item))
    pairs = grouped(told, lambda item: (item.entry.entry, item.reference.entry))
    found = []
    for group in pairs.values():
        budgets = sorted({_budget(item) for item in group}, key=float)
        for budget in dict.fromkeys([budgets[0], budgets[-1]]):
            here = [item for item in group if _budget(item) == budget]
            pair = here[0]
            entry, reference = pair.entry.label, pair.reference.label
            at = f" at ε = {epsilon_text(budget)}"
            # the budget goes with the private side
            words = f"{entry}{at} against {reference}" if pair.entry.is_private else (
                f"{entry} against {reference}{at}"
            )  # fmt: skip
            found.append(f"{words}: {_spread(here)}.")
    return _shortened(found)


def _told(item: Difference) -> bool:
    """Points of a sweep stand in the table only."""
    return item.test is not None and "~" not in item.entry.entry


def _shortened(lines: Sequence[str]) -> list[str]:
    if len(lines) <= MOST:
        return list(lines)
    left = len(lines) - MOST
    verb = "stands" if left == 1 else "stand"
    return [*lines[:MOST], f"{left} more {verb} in the table of differences."]


def _spread(group: Sequence[Difference]) -> str:
    """The difference on each data set if there are few, else their range; and how many are clear."""
    cells = [item.entry for item in group]
    means = [
        (item.test.mean if item.test else 0.0, _place(item.entry, cells), item) for item in group
    ]
    verdicts = {item.verdict for item in group}
    if len(group) <= 4 and len(verdicts) == 1:
        parts = [f"{signed(100 * mean)} points on {place}" for mean, place, _ in means]
        all_ = "" if len(group) == 1 else "both " if len(group) == 2 else "all "
        return f"{listed(parts)}, {all_}{verdicts.pop()}"
    if len(group) <= 4:
        return listed(
            [
                f"{signed(100 * mean)} points on {place} ({item.verdict})"
                for mean, place, item in means
            ]
        )
    low, high = min(means, key=lambda one: one[0]), max(means, key=lambda one: one[0])
    clear = sum(item.verdict == CLEAR for item in group)
    single = sum(item.verdict == "one repeat" for item in group)
    tested = f"{len(group) - single} tested cases ({single} with one repeat)"
    return (
        f"between {signed(100 * low[0])} points on {low[1]} and {signed(100 * high[0])} on "
        f"{high[1]}, larger than the noise in {clear} of "
        f"{tested if single else f'{len(group)} cases'}"
    )


def _place(item: Ranking | Cell, group: Sequence[Ranking] | Sequence[Cell]) -> str:
    """The data set, with the setting where the group has several of it."""
    settings = {other.setting for other in group if other.dataset == item.dataset}
    return item.dataset if len(settings) == 1 else f"{item.dataset} ({item.setting})"


def _budget(item: Difference) -> str:
    return item.entry.epsilon if item.entry.is_private else item.reference.epsilon


def _claims(cells: Sequence[Cell]) -> list[str]:
    private = [cell for cell in cells if cell.is_private and cell.claim is not None]
    published = [cell for cell in private if cell.claim and cell.claim.status != "proved"]
    if not private:
        return []
    number = len(private) - len(published)
    found = [f"{number} of {count(len(private), 'private cell')} state an ε that is proved."]
    if published:
        known = [proved_epsilon(cell) for cell in published]
        finite = sum(value is not None and math.isfinite(value) for value in known)
        elsewhere = sum(proved_elsewhere(cell.claims) is not None for cell in published)
        found.append(
            f"{len(published)} state the ε of a paper; for {finite} of them a finite ε can be proved "
            f"for what was run{f', for {elsewhere} more under another relation' if elsewhere else ''}."
        )
    return found


def _noise(differences: Sequence[Difference]) -> list[str]:
    total = count_comparisons(differences)
    if not total:
        return []
    words = [item.verdict for item in differences]
    clear, unclear = words.count("larger than the noise"), words.count("unclear")
    return [
        f"Of {count(total, 'paired comparison')}, after Holm's correction: {clear} larger than the noise, "
        f"{unclear} unclear and {total - clear - unclear} inside the noise."
    ]

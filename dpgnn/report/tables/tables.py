"""Tables of scores: summary, rankings, refusals, paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from dpgnn.records.cells import UNCOVERED_WORDS, Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.differences import Difference, count_comparisons
from dpgnn.report.statistics.ranking import Place, Ranking, Refusal
from dpgnn.report.tables.rows import DifferenceRow, RankingRow, RefusalRow, SummaryRow
from dpgnn.report.tables.table import Table, columns_of

ON_REPEATS = (
    "The interval is Student's t over repeats: it covers the randomness of splits (where they are drawn) "
    "and seeds on this graph, not other graphs."
)


def summary_table(cells: Sequence[Cell], info: StudyInfo) -> Table[SummaryRow]:
    """Mean, standard deviation, 95 % interval and number of repeats of every cell."""
    rows = [
        SummaryRow(
            dataset=cell.dataset, setting=cell.setting, entry=cell.entry, label=cell.label,
            mode=cell.mode, unit=cell.unit_text, epsilon=cell.epsilon, metric=cell.metric,
            planned=cell.planned, majority=cell.majority, **asdict(cell.interval),
        )
        for cell in cells
    ]  # fmt: skip
    metrics = sorted({cell.metric for cell in cells})
    return Table(
        name="summary",
        title=f"Results of study {info.name}",
        caption=(
            f"Score on the test nodes in percent ({' or '.join(metrics) or 'accuracy'}; micro_f1 for "
            "multi-label data sets): mean, sample standard deviation and 95 % interval over n repeats. "
            f"{ON_REPEATS} Majority class: the share of the largest class among the test nodes. Runs that "
            "failed are not in it; see the status table."
        ),
        columns=columns_of(SummaryRow),
        rows=rows,
        empty="No run of this study has a score yet.",
    )


def rankings_table(found: Sequence[Ranking]) -> Table[RankingRow]:
    """The ranking under each guarantee, and whether leads are larger than the noise."""
    contested = [ranking for ranking in found if len(ranking.places) > 1]
    rows = [_ranking_row(ranking, place) for ranking in contested for place in ranking.places]
    total = sum(ranking.num_comparisons for ranking in found)
    return Table(
        name="rankings",
        title="Rankings under one guarantee",
        caption=(
            "Entries whose claims allow one ranking, at equal ε. Behind: the lead of the first entry "
            "in percentage points, on shared splits, with a 95 % interval. Verdicts are corrected by Holm's "
            f"method over all pairs of a ranking ({total} comparisons in {len(contested)} rankings). Bold: "
            "ahead of every other entry of its ranking by more than the noise. "
            f"{_mark_words(rows)}"
            f"{_single_words(len(found) - len(contested))} left out."
        ),
        columns=columns_of(RankingRow),
        rows=rows,
        empty="Nowhere do two entries give the same guarantee at the same ε, so nothing is ranked.",
    )


def refusals_table(found: Sequence[Refusal]) -> Table[RefusalRow]:
    """Which kinds of claim are not ranked against each other, and why."""
    rows = [
        RefusalRow(
            first=item.first,
            second=item.second,
            entries=" / ".join(item.entries),
            reason=item.reason,
        )
        for item in found
    ]
    return Table(
        name="refusals",
        title="What is not ranked, and why",
        caption="Guarantees that do not follow from each other: a ranking of both has no meaning.",
        columns=columns_of(RefusalRow),
        rows=rows,
        empty="All private entries of this study may be ranked together.",
    )


def differences_table(found: Sequence[Difference], info: StudyInfo) -> Table[DifferenceRow]:
    """Paired differences with intervals and verdicts."""
    rows = [_difference_row(item) for item in found]
    questions = {item.question for item in found}
    named = info.labels.get(info.baseline, info.baseline)
    sides = [f"the baseline {named}"] if questions - {"price of soundness"} else []
    sides += ["a sound entry's published form"] if "price of soundness" in questions else []
    return Table(
        name="differences",
        title=" ".join(
            ["Paired differences", *(["against", " and ".join(sides)] if sides else [])]
        ),
        caption=(
            "Entry minus reference in percentage points on shared splits, with a 95 % interval. "
            f"{count_comparisons(found)} comparisons were made; p and the verdict are corrected by Holm's "
            f"method {_family_words(info)}. Larger than "
            "the noise: clear after the correction. Unclear: the interval leaves out zero, but among so many "
            "comparisons that is to be expected. Refused: the claims do not allow the comparison. Price of "
            "privacy: a private network minus the same network without privacy. Price of soundness: a sound "
            "entry minus the published entry of its method that differs in the fewest options. "
            f"{'Points to choose from in tuning are not compared. ' if info.tuned else ''}{ON_REPEATS}"
        ),
        columns=columns_of(DifferenceRow),
        rows=rows,
        empty="The study names no baseline and no method runs in both modes.",
    )


def _ranking_row(ranking: Ranking, place: Place) -> RankingRow:
    cell, test = place.cell, place.behind
    score = cell.interval
    return RankingRow(
        guarantee=ranking.title, dataset=cell.dataset, setting=cell.setting, epsilon=cell.epsilon,
        position=place.position, entry=cell.entry, label=cell.label, answers=cell.answers,
        mean=score.mean, low=score.low, high=score.high, n=score.n,
        behind=test.mean if test else None, behind_low=test.low if test else None,
        behind_high=test.high if test else None, n_pairs=test.n if test else None,
        verdict=_place_words(place.verdict, place),
        bold=("entry", "mean") if place.clear_lead else (),
    )  # fmt: skip


def _difference_row(item: Difference) -> DifferenceRow:
    cell, test = item.entry, item.test
    return DifferenceRow(
        dataset=cell.dataset, setting=cell.setting, entry=cell.entry, label=cell.label,
        epsilon=cell.epsilon, reference=item.reference.label, reference_epsilon=item.reference.epsilon,
        mean=test.mean if test else None, std=test.std if test else None,
        low=test.low if test else None, high=test.high if test else None, n=test.n if test else None,
        verdict=item.verdict or ("refused" if item.question == "refused" else item.note),
        question=item.question, p=item.corrected_p, family=item.family or None, note=item.note,
    )  # fmt: skip


def _family_words(info: StudyInfo) -> str:
    if not info.comparisons:
        return "within each data set and setting (m of them)"
    return (
        "over the m comparisons of one data set and setting that the study does not ask for; a pair it asks "
        "for has the verdict of its question"
    )


def _mark_words(rows: Sequence[RankingRow]) -> str:
    """What ° means, if it is used; ends with a space."""
    return f"{UNCOVERED_WORDS} " if any(row.answers == "none" for row in rows) else ""


def _single_words(number: int) -> str:
    return f"{number} ranking{' with a single entry is' if number == 1 else 's with a single entry are'}"


def mean_of(values: Sequence[float]) -> float | None:
    """The mean; None of no values."""
    return sum(values) / len(values) if values else None


def _place_words(word: str | None, place: Place) -> str:
    if place.position > 1:
        return word or "no shared split"
    return "leads, by more than the noise" if place.clear_lead else "largest mean, no clear lead"

"""The tables of scores: summary, rankings, what is not ranked, paired differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpgnn.records.cells import UNCOVERED, UNCOVERED_WORDS, Cell
from dpgnn.records.info import StudyInfo
from dpgnn.report.statistics.differences import Difference, count_comparisons
from dpgnn.report.statistics.ranking import Place, Ranking, Refusal
from dpgnn.report.tables.table import Column, Row, Table, format_value, interval_text

PLACE = (
    Column(
        key="dataset", header="Data set", show=lambda row: f"{row['dataset']} ({row['setting']})"
    ),
    Column(key="setting", header="Setting", form="csv"),
)
ENTRY = (
    Column(key="entry", header="Entry", show=lambda row: str(row["label"])),
    Column(key="label", header="Label", form="csv"),
)
EPSILON = Column(key="epsilon", header="ε", kind="epsilon")
INTERVAL = (
    Column(key="low", header="low", form="csv"),
    Column(key="high", header="high", form="csv"),
)
ON_REPEATS = (
    "The interval is Student's t over repeats: it speaks of the noise of splits (where they are drawn) and "
    "seeds on this graph, not of other graphs."
)


def summary_table(cells: Sequence[Cell], info: StudyInfo) -> Table:
    """Mean, standard deviation, 95 % interval and number of repeats of every cell."""
    rows = [_key(cell) | _score(cell) for cell in cells]
    metrics = sorted({cell.metric for cell in cells})
    return Table(
        name="summary",
        title=f"Results of study {info.name}",
        caption=(
            f"Score on the test nodes in percent ({' or '.join(metrics) or 'accuracy'}; micro_f1 for "
            "multi-label data sets): mean, sample standard deviation and 95 % interval over n repeats. "
            f"{ON_REPEATS} Runs that failed are not in it; see the status table."
        ),
        columns=(
            *PLACE, *ENTRY,
            Column(key="mode", header="Mode"),
            Column(key="unit", header="Protects"),
            EPSILON,
            Column(key="metric", header="Metric", form="csv"),
            Column(key="mean", header="Mean %", kind="percent"),
            Column(key="std", header="Std", kind="percent"),
            Column(
                key="interval", header="95 % interval", kind="percent", form="read", sort="low",
                show=interval_text,
            ),
            *INTERVAL,
            Column(key="n", header="n", kind="integer", show=_n_text),
            Column(key="planned", header="planned", form="csv"),
        ),
        rows=rows,
        empty="No run of this study has a score yet.",
    )  # fmt: skip


def rankings_table(found: Sequence[Ranking]) -> Table:
    """Who leads under which guarantee, and whether by more than the noise."""
    rows: list[dict[str, Any]] = []
    contested = [ranking for ranking in found if len(ranking.places) > 1]
    for ranking in contested:
        for place in ranking.places:
            test = place.behind
            row = _key(place.cell) | _score(place.cell)
            row |= {"guarantee": ranking.title, "position": place.position}
            row |= {"behind": test.mean if test else None, "n_pairs": test.n if test else None}
            row |= {"behind_low": test.low if test else None}
            row |= {"behind_high": test.high if test else None}
            row["answers"] = place.cell.answers
            row["verdict"] = _place_words(place.verdict, place)
            row["bold"] = ("entry", "mean") if place.clear_lead else ()
            rows.append(row)
    total = sum(ranking.num_comparisons for ranking in found)
    return Table(
        name="rankings",
        title="Rankings under one guarantee",
        caption=(
            "Entries whose claims allow one ranking, at equal ε. Behind: how many percentage points the "
            "leader is ahead, on shared splits, with a 95 % interval. Verdicts are corrected by Holm's "
            f"method over all pairs of a ranking ({total} comparisons in {len(contested)} rankings). Bold: "
            "ahead of every other entry of its ranking by more than the noise; nothing else is set in bold. "
            f"{_mark_words(rows)}"
            f"{_single_words(len(found) - len(contested))} left out."
        ),
        columns=(
            Column(key="guarantee", header="Guarantee"),
            *PLACE, EPSILON,
            Column(key="position", header="Place", kind="integer"),
            Column(key="entry", header="Entry", show=marked),
            Column(key="label", header="Label", form="csv"),
            Column(key="answers", header="Answers"),
            Column(key="mean", header="Mean %", kind="percent"),
            *INTERVAL,
            Column(key="behind", header="Behind (points)", kind="points"),
            Column(
                key="behind_interval", header="95 % interval", kind="points", form="read",
                sort="behind_low",
                show=lambda row: interval_text(row, low="behind_low", high="behind_high", points=True),
            ),
            Column(key="behind_low", header="behind_low", form="csv"),
            Column(key="behind_high", header="behind_high", form="csv"),
            Column(key="n_pairs", header="Pairs", kind="integer"),
            Column(key="verdict", header="Verdict"),
        ),
        rows=rows,
        empty="Nowhere do two entries give the same guarantee at the same ε, so nothing is ranked.",
    )  # fmt: skip


def refusals_table(found: Sequence[Refusal]) -> Table:
    """Which kinds of claim are not ranked against each other, and why."""
    rows = [
        {
            "first": item.first,
            "second": item.second,
            "entries": f"{item.entries[0]} / {item.entries[1]}",
            "reason": item.reason,
        }
        for item in found
    ]
    return Table(
        name="refusals",
        title="What is not ranked, and why",
        caption="Guarantees that do not follow from each other: no ranking across them would mean anything.",
        columns=(
            Column(key="first", header="Guarantee"),
            Column(key="second", header="and guarantee"),
            Column(key="entries", header="For example"),
            Column(key="reason", header="Why"),
        ),
        rows=rows,
        empty="All private entries of this study may be ranked together.",
    )


def differences_table(found: Sequence[Difference], info: StudyInfo) -> Table:
    """Paired differences with intervals and verdicts."""
    rows = []
    for item in found:
        row = _key(item.entry) | {
            "reference": item.reference.label,
            "reference_epsilon": item.reference.epsilon,
            "question": item.question,
            "note": item.note,
            "p": item.corrected_p,
            "verdict": item.verdict or ("refused" if item.question == "refused" else item.note),
            "family": item.family or None,
        }
        for name in ("mean", "std", "low", "high", "n"):
            row[name] = getattr(item.test, name) if item.test else None
        rows.append(row)
    questions = {item.question for item in found}
    named = info.labels.get(info.baseline, info.baseline)
    sides = [f"the baseline {named}"] if questions - {"price of soundness"} else []
    sides += ["a sound entry's published form"] if "price of soundness" in questions else []
    return Table(
        name="differences",
        title=" ".join(["Paired differences", *(["against", " and ".join(sides)] if sides else [])]),
        caption=(
            "Entry minus reference in percentage points on shared splits, with a 95 % interval. "
            f"{count_comparisons(found)} comparisons were made; p and the verdict are corrected by Holm's "
            f"method {_family_words(info)}. Larger than "
            "the noise: clear after the correction. Unclear: the interval leaves out zero, but among so many "
            "comparisons that is to be expected. Refused: the claims do not allow the comparison. Price of "
            "privacy: of a network against itself without. Price of soundness: of a sound entry against the "
            f"published entry of its method with the fewest other options. {ON_REPEATS}"
        ),
        columns=(
            *PLACE, *ENTRY, EPSILON,
            Column(key="reference", header="Reference", show=_reference_text),
            Column(key="reference_epsilon", header="ε of reference", form="csv"),
            Column(key="mean", header="Difference (points)", kind="points"),
            Column(key="std", header="std", form="csv"),
            Column(
                key="interval", header="95 % interval", kind="points", form="read", sort="low",
                show=lambda row: interval_text(row, points=True),
            ),
            *INTERVAL,
            Column(key="verdict", header="Verdict"),
            Column(key="question", header="Question"),
            Column(key="p", header="p (Holm, of m)", kind="p", show=p_text),
            Column(key="n", header="Pairs", kind="integer"),
            Column(key="family", header="m", form="csv"),
            Column(key="note", header="Note", optional=True),
        ),
        rows=rows,
        empty="The study names no baseline and no method runs in both modes.",
    )  # fmt: skip


def _key(cell: Cell) -> dict[str, Any]:
    return {
        "dataset": cell.dataset,
        "setting": cell.setting,
        "entry": cell.entry,
        "label": cell.label,
        "epsilon": cell.epsilon,
        "mode": cell.mode,
        "unit": cell.unit_text,
    }


def _score(cell: Cell) -> dict[str, Any]:
    return dict(cell.interval) | {"metric": cell.metric, "planned": cell.planned}


def _n_text(row: Row) -> str:
    n, planned = row["n"], row["planned"]
    return str(n) if n == planned else f"{n} of {planned}"


def p_text(row: Row) -> str:
    """A corrected p value with the number of comparisons it was corrected for."""
    p = format_value(row["p"], "p")
    return p if row["p"] is None else f"{p} (of {row['family']})"


def _family_words(info: StudyInfo) -> str:
    if not info.comparisons:
        return "within each data set and setting (m of them)"
    return (
        "over the m comparisons of one data set and setting that the study does not ask for; a pair it asks "
        "for has the verdict of its question"
    )


def _reference_text(row: Row) -> str:
    epsilon = str(row["reference_epsilon"])
    return str(row["reference"]) + ("" if epsilon == "inf" else f" (ε = {epsilon})")


def marked(row: Row) -> str:
    """The label of a row of a ranking, with ° where an answer reads what no claim covers."""
    return str(row["label"]) + (UNCOVERED if row["answers"] == "none" else "")


def _mark_words(rows: Sequence[Row]) -> str:
    """What ° means, where it stands; it ends with a space."""
    return f"{UNCOVERED_WORDS} " if any(row["answers"] == "none" for row in rows) else ""


def _single_words(number: int) -> str:
    return f"{number} ranking{' with a single entry is' if number == 1 else 's with a single entry are'}"


def mean_of(values: Sequence[float]) -> float | None:
    """The mean, or None of nothing."""
    return sum(values) / len(values) if values else None


def _place_words(word: str | None, place: Place) -> str:
    if place.position > 1:
        return word or "no shared split"
    return "leads, by more than the noise" if place.clear_lead else "largest mean, no clear lead"

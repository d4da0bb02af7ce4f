"""Mean ranks over graphs: results over several graphs, unlike verdicts on a single graph.

Every graph is one block: entries under one guarantee at one epsilon are ranked on it by their mean score.
Friedman's test, in the form of Iman and Davenport, asks whether all mean ranks could be equal; for two
entries it is the sign test, which is exact. Two entries are told apart if it rejects and their mean ranks
differ by more than Nemenyi's critical difference, which accounts for all pairs. Alone it is not enough: it
tells two entries apart that have one order on five graphs, a chance of 1 in 16.

Source: Demšar (2006), Statistical comparisons of classifiers over multiple data sets, JMLR 7, section 3.2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgnn.core.checks import require
from dpgnn.core.grouping import grouped
from dpgnn.records.cells import UNCOVERED_WORDS
from dpgnn.report.statistics.stand_ins import on_real_graphs
from dpgnn.report.statistics.statistics import LEVEL
from dpgnn.report.tables.rows import MeanRankRow, RankingRow, marked
from dpgnn.report.tables.table import Table, columns_of

LEAST_GRAPHS = 5  # with fewer, two entries can never be told apart


@dataclass(frozen=True, kw_only=True)
class MeanRanks:
    """Entries over graphs.

    Attributes:
        ranks: mean rank of each entry over graphs, 1 the best; float64, one an entry.
        critical: mean ranks must differ by more to be told apart, at the level of 5 % over all pairs.
        p: of "all entries have the same mean rank".
    """

    ranks: np.ndarray
    critical: float
    p: float

    def apart(self, i: int, j: int) -> bool:
        """Whether entries `i` and `j` are told apart."""
        return self.p < LEVEL and abs(float(self.ranks[i] - self.ranks[j])) > self.critical


def mean_ranks(scores: np.ndarray) -> MeanRanks:
    """Rank entries on every graph and test the mean ranks.

    Args:
        scores: a row for each graph, a column for each entry; larger is better; ties share their ranks.

    Raises:
        ValueError: fewer than two graphs or two entries, or a score that is not finite.
    """
    from scipy.stats import binomtest, f, rankdata

    require(
        scores.ndim == 2 and min(scores.shape) >= 2, "scores",
        "hold two graphs and two entries at least", scores.shape,
    )  # fmt: skip
    require(bool(np.isfinite(scores).all()), "scores", "be finite", scores)
    n, k = scores.shape
    ranks = rankdata(np.round(-scores, 12), axis=1)  # equal counts differ in the 16th digit
    between = float(np.square(ranks.sum(axis=0) - n * (k + 1) / 2).sum())
    within = float(np.square(ranks - (k + 1) / 2).sum())
    p = 1.0
    if k == 2:
        ahead, behind = (int((ranks[:, i] == 1).sum()) for i in range(2))
        p = float(binomtest(ahead, ahead + behind).pvalue) if ahead + behind else 1.0
    elif between > 0:
        chi_square = (k - 1) * between / within
        rest = n * (k - 1) - chi_square
        ratio = (n - 1) * chi_square / rest if rest > 1e-9 else math.inf
        # the F form gives 0 where all graphs agree; by chance they do so once in (k!) ** (n - 1)
        agree = math.exp(-(n - 1) * math.lgamma(k + 1))
        p = max(float(f.sf(ratio, k - 1, (k - 1) * (n - 1))), agree)
    critical = _quantile(k) * math.sqrt(k * (k + 1) / (6 * n))
    return MeanRanks(ranks=ranks.mean(axis=0), critical=critical, p=p)


@lru_cache
def _quantile(k: int) -> float:
    """Nemenyi's factor: the studentized range's quantile for k entries, over the root of two."""
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(1 - LEVEL, k, np.inf)) / math.sqrt(2)


def mean_rank_rows(ranked: Sequence[RankingRow]) -> list[MeanRankRow]:
    """Mean ranks of the entries that share a guarantee, at every setting and epsilon with enough graphs.

    Args:
        ranked: rows of the table of rankings. Stand-ins are left out, and so are entries that lack a score on
            one of the graphs.
    """
    real = on_real_graphs(ranked, lambda row: row.dataset)
    groups = grouped(real, lambda row: (row.guarantee, row.setting, row.epsilon))
    return [made for rows in groups.values() for made in _group(rows)]


def mean_ranks_table(rows: Sequence[MeanRankRow]) -> Table[MeanRankRow]:
    """Mean ranks over graphs, with the test of each group."""
    covered = all(row.answers != "none" for row in rows)
    return Table(
        name="mean-ranks",
        title="Over all graphs",
        caption=(
            "Entries ranked on each graph by their mean score, and the mean of these ranks over graphs, 1 is "
            f"the best; real graphs only, {LEAST_GRAPHS} at least, and entries with a score on all of them. "
            "Each graph counts once, whatever its repeats. p: Friedman's test of equal mean ranks, in the "
            "form of Iman and Davenport; for two entries the sign test. Told apart: p below 5 %, and mean "
            "ranks that differ by more than Nemenyi's critical difference (5 % over all pairs of the group). "
            "Bold: told apart from all others of its group."
            + ("" if covered else f" {UNCOVERED_WORDS}")
        ),
        columns=columns_of(MeanRankRow),
        rows=rows,
        empty=f"No guarantee has two entries on {LEAST_GRAPHS} real graphs.",
    )


def _group(rows: Sequence[RankingRow]) -> list[MeanRankRow]:
    """A row for each entry, the best first; none with too few graphs or entries."""
    graphs = list(dict.fromkeys(row.dataset for row in rows))
    by_entry: dict[str, dict[str, RankingRow]] = {}
    for row in rows:
        by_entry.setdefault(row.entry, {})[row.dataset] = row
    found = {entry: places for entry, places in by_entry.items() if len(places) == len(graphs)}
    if len(graphs) < LEAST_GRAPHS or len(found) < 2:
        return []
    scores = np.array([[found[entry][graph].mean for entry in found] for graph in graphs])
    tested = mean_ranks(scores)
    best_on = (scores == scores.max(axis=1, keepdims=True)).sum(axis=0)
    left = [next(iter(by_entry[entry].values())) for entry in by_entry if entry not in found]
    order = np.argsort(tested.ranks, kind="stable")
    clear = tested.apart(order[0], order[1])
    made = []
    for position, i in enumerate(order, 1):
        row = next(iter(list(found.values())[i].values()))
        apart = "told apart" if tested.apart(order[0], i) else "not told apart"
        made.append(
            MeanRankRow(
                guarantee=row.guarantee,
                setting=row.setting,
                epsilon=row.epsilon,
                entry=row.entry,
                label=row.label,
                answers=row.answers,
                num_graphs=len(graphs),
                position=position,
                rank=float(tested.ranks[i]),
                best_on=int(best_on[i]),
                critical=tested.critical,
                verdict="" if position == 1 else apart,
                p=tested.p,
                left_out=", ".join(marked(row) for row in left),
                bold=("entry", "rank") if position == 1 and clear else (),
            )
        )
    return made

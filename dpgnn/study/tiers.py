"""Tiers of a study: which data sets, entries, budgets and repeats are run, and how a budget is written."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from dpgnn.core.checks import at_least, one_of, require, unknown
from dpgnn.core.config import ConfigError

MAX_REPEATS = 10_000


@dataclass(frozen=True, kw_only=True)
class TierConfig:
    """What a tier changes: fewer or more data sets, entries, budgets and repeats.

    Attributes:
        repeats: overrides the study's number of repeats.
        epsilons: overrides the study's list.
        datasets: only these data sets; empty for all.
        entries: only these entries (after sweeps), by name or pattern (dp_gcn~*); empty for all.
        repeats_for: data set -> its own number of repeats.
        repeats_at_most: entries, by name or pattern (dp_gcn~*, or cora/dp_gcn~* for one data set) -> fewer
            repeats; the last that matches counts.
        entries_for: data set -> its own entries, in place of `entries`.
        epsilons_for: data set -> the only ones of an entry's budgets that are run there.
    """

    repeats: int | None = None
    epsilons: tuple[str, ...] | None = None
    datasets: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()
    repeats_for: Mapping[str, int] = field(default_factory=dict)
    repeats_at_most: Mapping[str, int] = field(default_factory=dict)
    entries_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    epsilons_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self, path: str, datasets: Collection[str]) -> None:
        """Check numbers, budgets and names of data sets.

        Raises:
            ValueError: one that is wrong.
        """
        if self.epsilons is not None:
            check_epsilons(f"{path}.epsilons", self.epsilons)
        if self.repeats is not None:
            check_repeats(f"{path}.repeats", self.repeats)
        for dataset in (*self.datasets, *self.repeats_for, *self.entries_for, *self.epsilons_for):
            one_of(f"data set of {path}", dataset, datasets)
        for dataset, epsilons in self.epsilons_for.items():
            check_epsilons(f"{path}.epsilons_for.{dataset}", epsilons)
        for dataset, repeats in self.repeats_for.items():
            check_repeats(f"{path}.repeats_for.{dataset}", repeats)
        for pattern, repeats in self.repeats_at_most.items():
            where, _, _ = pattern.rpartition("/")
            if where:
                one_of(f"data set of {path}.repeats_at_most", where, datasets)
            at_least(f"{path}.repeats_at_most.{pattern}", repeats, 1)

    def entries_of(
        self, path: str, datasets: Iterable[str], entries: Iterable[str]
    ) -> dict[str, set[str]]:
        """Data set -> names of the entries it is run with.

        Raises:
            ConfigError: a pattern matches no entry.
        """
        general = _chosen(f"{path}.entries", self.entries, entries)
        special = {
            dataset: _chosen(f"{path}.entries_for.{dataset}", patterns, entries)
            for dataset, patterns in self.entries_for.items()
        }
        return {dataset: special.get(dataset, general) for dataset in datasets}

    def repeats_of(self, dataset: str, stated: int) -> int:
        """Repeats of a data set, where the study states `stated`."""
        return self.repeats_for.get(dataset, self.repeats or stated)

    def most_repeats(
        self, path: str, datasets: Collection[str], entries: Iterable[str]
    ) -> dict[tuple[str, str], int]:
        """(data set, entry) -> the most repeats it has, for those that have a bound.

        Raises:
            ConfigError: a pattern matches no entry.
        """
        most: dict[tuple[str, str], int] = {}
        for pattern, number in self.repeats_at_most.items():
            where, _, names = pattern.rpartition("/")
            for name in _chosen(f"{path}.repeats_at_most", (names,), entries):
                most |= {(dataset, name): number for dataset in ([where] if where else datasets)}
        return most

    def epsilons_of(
        self,
        path: str,
        dataset: str,
        entry: str,
        own: tuple[str, ...] | None,
        stated: tuple[str, ...],
    ) -> tuple[str, ...]:
        """Budgets of an entry on a data set: its own, else the tier's, else the study's; in this order.

        Raises:
            ConfigError: `epsilons_for` leaves it none.
        """
        found = own or self.epsilons or stated
        only = self.epsilons_for.get(dataset, found)
        kept = tuple(text for text in found if text in only)
        if not kept:
            raise ConfigError(
                f"{path}.epsilons_for.{dataset} must hold a budget of entry {entry} "
                f"({', '.join(found)}), got {', '.join(only)}; add one, or leave the entry out with "
                f"{path}.entries_for.{dataset}"
            )
        return kept


def check_repeats(path: str, repeats: int) -> None:
    """Check a number of repeats; all runs are held in memory, so a typing error could exhaust it.

    Raises:
        ValueError: not a number from 1 to MAX_REPEATS.
    """
    at_least(path, repeats, 1)
    require(repeats <= MAX_REPEATS, path, f"be <= {MAX_REPEATS}", repeats)


def epsilon_value(text: str) -> float:
    """The number an epsilon text stands for ("inf" is infinity)."""
    return math.inf if text == "inf" else float(text)


def check_epsilons(path: str, epsilons: tuple[str, ...]) -> None:
    """Check that texts are budgets of private runs in their shortest form, each of them once.

    Raises:
        ValueError: there is none, or one is no positive number, is infinite, is written another way or
            stands twice.
    """
    remedy = "drop the key where it shall change nothing; entries without privacy need no budget"
    require(bool(epsilons), path, "hold a budget", (), remedy)
    for text in epsilons:
        try:
            value = epsilon_value(text)
        except ValueError:
            value = math.nan
        require(value > 0, path, "hold numbers > 0 as texts", text, 'such as "4"')
        remedy = "without privacy is an entry of mode nonprivate, which needs no epsilon"
        require(math.isfinite(value), path, "hold finite numbers", text, remedy)
        remedy = f"write {value:.10g}, so that one budget has one path"
        rule = "write each number in its shortest form"
        require(text == f"{value:.10g}", path, rule, text, remedy)
    check_once(path, epsilons)


def check_once(path: str, names: tuple[str, ...]) -> None:
    """Check that no name of a list stands twice: its runs would be counted twice.

    Raises:
        ValueError: one does.
    """
    for name in names:
        require(names.count(name) == 1, path, "hold each value once", name, "drop one")


def _chosen(path: str, patterns: tuple[str, ...], entries: Iterable[str]) -> set[str]:
    """Entries that match a pattern; all without patterns."""
    for pattern in patterns:
        if not any(fnmatchcase(entry, pattern) for entry in entries):
            raise ConfigError(f"{path}: {unknown('entry', pattern, entries)}")
    return {
        name
        for name in entries
        if not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)
    }

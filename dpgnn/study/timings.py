"""Run times: measured in this folder, else from the committed records, else scaled from other graphs.

For a graph without times, what the timed graph nearest in size takes beyond the fixed cost of a run is scaled
by the ratios of sizes (nodes times features, and edges) and of steps; this gives an order of magnitude.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path

from dpgnn.core.paths import Paths, parse_run
from dpgnn.core.storage import DamagedFileError
from dpgnn.methods.entry import Entry
from dpgnn.records.archive import REFERENCE, RUNS, read_archive
from dpgnn.study.study import RunKey, Study

WIDTH = 64  # numbers of a state that an edge carries
TRAINED = 0.6  # of the nodes, where a split is not read
MINIMUM = 0.1  # of a ratio of sizes, for what a run costs besides its graph; and of its time, which is scaled
FIXED = 2.0  # seconds of imports, compilation and a plan, the same on every graph
FLOOR = 1e6  # numbers; reading fewer takes no less time than a step's own work

Measured = Mapping[tuple[str, str], list[float]]  # (data set, entry) -> seconds of each run


class Timings:
    """Seconds of a study's runs.

    Args:
        study: whose runs.
        root: the folder with results/ and docs/reference.
    """

    def __init__(self, study: Study, root: Path) -> None:
        self._runs = root / Paths().study(study.name) / "runs"
        self._archive = root / REFERENCE / study.name / RUNS
        self._study = study
        self._guesses: dict[str, float | None] = {}
        self._scalings: dict[tuple[str, str, str], float | None] = {}

    def measured(self, key: RunKey) -> bool:
        """Whether a run of the same entry on the same data set was measured."""
        return (key.dataset, key.entry) in self._known

    def source(self, key: RunKey) -> str:
        """ "measured", "guessed" (other entries on the data set), "scaled" (another data set), or "" for
        nothing.
        """
        if self.measured(key):
            return "measured"
        if key.dataset in self._datasets:
            return "guessed"
        return "scaled" if self._datasets else ""

    def of(self, key: RunKey) -> float | None:
        """Median seconds of the entry's runs on the data set, of the data set's runs, or scaled from another.

        Each is taken from this folder if possible; None if nothing was measured.
        """
        known = self._known.get((key.dataset, key.entry))
        if known is not None:
            return known
        if key.dataset not in self._datasets:
            return self._scaled(key)
        if key.dataset not in self._guesses:
            self._guesses[key.dataset] = self._guess(key.dataset)
        return self._guesses[key.dataset]

    def _scaled(self, key: RunKey) -> float | None:
        """Seconds on the timed data set nearest in size, times the ratios of sizes and of steps."""
        place = (key.dataset, key.entry, key.epsilon)
        if place not in self._scalings:
            here = self._sizes(key.dataset)
            timed = sorted(
                self._datasets, key=lambda name: (abs(math.log(here / self._sizes(name))), name)
            )
            own = [name for name in timed if (name, key.entry) in self._known]
            found = None
            for name in (own or timed)[:1]:
                entry = key.entry if own else self._stand_in(key.entry, name)
                seconds = self._known[name, entry]
                size = max(here / self._sizes(name), MINIMUM)
                steps = self._steps(key.entry, key) / self._steps(entry, replace(key, dataset=name))
                scaled = max(seconds - FIXED, MINIMUM * seconds)
                found = seconds - scaled + scaled * size * steps
            self._scalings[place] = found
        return self._scalings[place]

    def _stand_in(self, entry: str, dataset: str) -> str:
        """For an entry that was never timed, the one with median seconds, of the same method if possible."""
        entries = self._study.entries
        timed = sorted(
            (value, other) for (name, other), value in self._known.items() if name == dataset
        )
        method = entries[entry].method
        alike = [item for item in timed if item[1] in entries and entries[item[1]].method == method]
        return (alike or timed)[len(alike or timed) // 2][1]

    def _steps(self, entry: str, key: RunKey) -> int:
        """Steps that an entry takes: as stated, or by its plan where the noise is stated and the budget
        decides.

        1 where it states none: its epochs are the same on every graph.
        """
        stated = self._study.entries.get(entry)
        if stated is None:
            return 1
        made = stated.for_dataset(key.dataset)
        loop = getattr(getattr(made.options, "mlp", made.options), "training", made.options)
        most = getattr(loop, "num_steps", None)
        if getattr(loop, "noise_multiplier", None) is None or made.mode == "nonprivate":
            return most or 1
        return _planned_steps(made, key) or most or 1

    def total(self, keys: Iterable[RunKey]) -> float:
        """Seconds of runs; 0 if nothing was measured."""
        return sum(self.of(key) or 0.0 for key in keys)

    @cached_property
    def _sources(self) -> tuple[Measured, Measured]:
        return _grouped(self._here()), _grouped(self._committed())

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], float]:
        here, committed = self._sources
        return {name: statistics.median(seconds) for name, seconds in {**committed, **here}.items()}

    @cached_property
    def _datasets(self) -> frozenset[str]:
        """Data sets with a measured run."""
        return frozenset(name for name, _ in self._known)

    @staticmethod
    @cache
    def _sizes(dataset: str) -> float:
        """Numbers that a pass over the graph reads: features of all nodes, and a state for each edge."""
        counts = counts_of(dataset)
        nodes, edges = counts.get("num_nodes", 1000), counts.get("num_edges", 10_000)
        return max(FLOOR, float(nodes * counts.get("num_features", 100) + WIDTH * edges))

    def _guess(self, dataset: str) -> float | None:
        for found in self._sources:
            values = [
                value
                for (name, _), seconds in found.items()
                if name == dataset
                for value in seconds
            ]
            if values:
                return statistics.median(values)
        return None

    def _here(self) -> Iterator[tuple[str, str]]:
        for path in self._runs.glob("*/*/*/*/resources.json"):
            try:
                yield str(path.parent.relative_to(self._runs)), path.read_text(encoding="utf-8")
            except OSError:
                continue

    def _committed(self) -> Iterator[tuple[str, str]]:
        try:
            texts = read_archive(self._archive) if self._archive.exists() else {}
        except DamagedFileError:
            return
        for run, (_, resources) in texts.items():
            yield run, resources


def _grouped(texts: Iterable[tuple[str, str]]) -> Measured:
    """Seconds by data set and entry, from runs' names and the texts of their resources."""
    found: dict[tuple[str, str], list[float]] = {}
    for run, text in texts:
        try:
            key, seconds = parse_run(run), float(json.loads(text)["seconds"])
        except (ValueError, KeyError, TypeError):
            continue
        found.setdefault((str(key["dataset"]), str(key["entry"])), []).append(seconds)
    return found


def counts_of(dataset: str) -> dict[str, int]:
    """Published counts of nodes, edges, features and classes; {} if none are stated."""
    from dpgnn.data.raw.sources import read_sources, source_of

    return source_of(dataset).counts() if dataset in read_sources() else {}


def _planned_steps(entry: Entry, key: RunKey) -> int | None:
    """Steps of the plan from the data set's public counts; None if they allow no plan."""
    from dpgnn import methods
    from dpgnn.accountants.plan import Budget
    from dpgnn.methods.base import Facts

    counts = counts_of(key.dataset)
    nodes = counts.get("num_nodes", 1000)
    facts = Facts(
        num_nodes=nodes, num_train=max(1, int(TRAINED * nodes)), task="multiclass",
        num_features=counts.get("num_features", 100), num_classes=counts.get("num_classes", 10),
        structure={"num_subgraphs": max(1, int(TRAINED * nodes / 2))},
    )  # fmt: skip
    try:
        budget = Budget(epsilon=float(key.epsilon), delta=1 / (10 * nodes))
        return methods.get(entry.method).plan(entry, facts, budget).num_steps
    except (ValueError, KeyError):
        return None

"""How long runs take: measured in this folder, else in the committed records, else guessed from others."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from dpgnn.core.paths import Paths, parse_run
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.archive import REFERENCE, RUNS, read_archive
from dpgnn.study.study import RunKey, Study

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
        self._guesses: dict[str, float | None] = {}

    def measured(self, key: RunKey) -> bool:
        """Whether a run of the same entry on the same data set was measured."""
        return (key.dataset, key.entry) in self._known

    def of(self, key: RunKey) -> float | None:
        """The median of the same entry's runs on the data set, or of the data set's, or of all runs.

        Each is looked for in this folder first; None where nothing was measured.
        """
        known = self._known.get((key.dataset, key.entry))
        if known is not None:
            return known
        if key.dataset not in self._guesses:
            self._guesses[key.dataset] = self._guess(key.dataset)
        return self._guesses[key.dataset]

    def total(self, keys: Iterable[RunKey]) -> float:
        """Seconds of runs; 0 where nothing was measured."""
        return sum(self.of(key) or 0.0 for key in keys)

    @cached_property
    def _sources(self) -> tuple[Measured, Measured]:
        return _grouped(self._here()), _grouped(self._committed())

    @cached_property
    def _known(self) -> Mapping[tuple[str, str], float]:
        here, committed = self._sources
        return {name: statistics.median(seconds) for name, seconds in {**committed, **here}.items()}

    def _guess(self, dataset: str) -> float | None:
        for wanted in (dataset, None):
            for found in self._sources:
                values = [
                    value
                    for (name, _), seconds in found.items()
                    if wanted in (name, None)
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

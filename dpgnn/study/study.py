"""A study, resolved: its entries after `extends` and `sweep`, and every run of one tier.

`config.yaml` is the quick study; the papers' studies are `workflow/studies/*.yaml`.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from dpgnn.accountants.population import PublicPopulation, check_delta, reads_population
from dpgnn.core import config as strict
from dpgnn.core.checks import one_of, require, unknown
from dpgnn.core.config import ConfigError
from dpgnn.core.paths import run_folder
from dpgnn.core.yaml_text import read_yaml
from dpgnn.study.choices import Choices, read_choices
from dpgnn.study.entries import StudyEntry, expand_entries
from dpgnn.study.stated import TIERS, StudyConfig, check_config, check_settings
from dpgnn.study.tiers import TierConfig, check_epsilons

NO_CHOICES: Choices = {}


@dataclass(frozen=True, order=True)
class RunKey:
    """What one run is: (data set, setting, entry, epsilon, repeat) of a study."""

    dataset: str
    setting: str
    entry: str
    epsilon: str
    repeat: int

    @property
    def folder(self) -> str:
        """DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT."""
        return run_folder(self.axes)

    @property
    def cell(self) -> str:
        """DATASET.SETTING/ENTRY/eps=EPSILON, what repeats have in common."""
        return self.folder.rpartition("/")[0]

    @property
    def stem(self) -> str:
        """DATASET.SETTING.ENTRY.eps=EPSILON, how names of audits and attacks begin."""
        return self.cell.replace("/", ".")

    @property
    def axes(self) -> dict[str, str | int]:
        """The key as axes of seeds."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study of one tier, ready to enumerate.

    Attributes:
        config: the study as stated.
        tier: S, M or L.
        entries: after extends and sweeps, by name, in the order stated.
        keys: every run, in a fixed order.
    """

    config: StudyConfig
    tier: str
    entries: Mapping[str, StudyEntry]
    keys: tuple[RunKey, ...]

    @property
    def name(self) -> str:
        """The study's name in paths."""
        return self.config.name

    def check_key(self, key: RunKey) -> None:
        """Check that a run can be one of this study, in whatever tier.

        Args:
            key: study, data set, setting, entry, epsilon and repeat.

        Raises:
            ValueError: unknown data set, setting or entry, or a budget that does not fit the entry.
        """
        one_of("data set", key.dataset, self.config.datasets)
        one_of(f"setting of {key.dataset}", key.setting, self.config.datasets[key.dataset].settings)
        one_of("entry", key.entry, self.entries)
        if self.entries[key.entry].mode != "nonprivate":
            check_epsilons("epsilon", (key.epsilon,))
        else:
            what, rule = f"epsilon of {key.entry}", "be inf without privacy"
            require(key.epsilon == "inf", what, rule, key.epsilon)

    @property
    def audited(self) -> tuple[RunKey, ...]:
        """Private runs whose claim is to be tested: the first `audit_repeats` of each cell."""
        config = self.config
        private = (key for key in self.keys if self.entries[key.entry].mode != "nonprivate")
        first = (key for key in private if key.repeat < config.audit_repeats)
        return tuple(key for key in first if _is_asked(key.cell, config.audits))

    @property
    def attacked(self) -> tuple[RunKey, ...]:
        """Runs that are to be attacked."""
        return tuple(key for key in self.keys if _is_asked(key.folder, self.config.attacks))

    def delta_for(self, entry: str, dataset: str) -> float | Literal["auto"]:
        """delta of an entry on a data set: the entry's there, the entry's, the data set's, the study's.

        Args:
            entry, dataset: names of the study.

        Returns:
            in (0, 1), or "auto": one over ten times the public number of nodes.
        """
        stated = self.entries[entry]
        own = (stated.delta_for.get(dataset), stated.delta)
        for delta in (*own, self.config.datasets[dataset].delta):
            if delta is not None:
                return delta
        return self.config.delta

    def population_for(self, entry: str, dataset: str) -> PublicPopulation | None:
        """The declared numbers of nodes that an entry's plan reads on a data set; None where it counts.

        Args:
            entry, dataset: names of the study.

        Source: docs/accounting.md, theorem 14.
        """
        stated = self.entries[entry]
        reads = reads_population(stated.mode, stated.privacy_unit, stated.relation)
        return self.config.datasets[dataset].public_population if reads else None

    def split_seed(self, setting: str) -> int:
        """The root seed where a split is drawn; 0 for a published one, so that all studies share its file.

        Args:
            setting: a name of the study.
        """
        return 0 if self.config.settings[setting].kind == "public" else self.config.root_seed

    def run_params(self, key: RunKey) -> dict[str, Any]:
        """Everything configured that decides the result of `key`, and nothing else.

        Args:
            key: of a run.

        Returns:
            as JSON; what is not in it cannot change the record.
        """
        entry = self.entries[key.entry].for_dataset(key.dataset)
        # only where it is used, so that it is no part of what other runs depend on
        several = {"num_processes": self.config.num_processes}
        population = self.population_for(key.entry, key.dataset)
        return {
            **(several if self.config.num_processes > 1 else {}),
            **({} if population is None else {"public_population": dataclasses.asdict(population)}),
            "entry": dataclasses.asdict(entry) | {"options": dataclasses.asdict(entry.options)},
            "delta": self.delta_for(key.entry, key.dataset),
            "setting": self.config.settings[key.setting].stated,
            "root_seed": self.config.root_seed,
            "randomness": self.config.randomness,
            "num_threads": self.config.num_threads,
        }


def load_study(path: str | Path, tier: str | None = None) -> Study:
    """Read and resolve a study file.

    Args:
        path: of the YAML file.
        tier: S, M or L; None takes the study's own.

    Returns:
        the study with every run of the tier, each with its resolved options.

    Raises:
        ConfigError: anything wrong in it; the message starts with the key's path.
    """
    mapping = read_yaml(Path(path), "study file")
    if mapping is None:
        raise ConfigError(f"study file {path} must hold name, datasets and entries, got nothing")
    return resolve(mapping, tier, read_choices(Path(path)))


def resolve(mapping: Any, tier: str | None = None, choices: Choices = NO_CHOICES) -> Study:
    """Resolve a study mapping: read strictly, expand entries, enumerate and check every run.

    Args:
        mapping: as YAML gives it.
        tier: S, M or L; None takes the study's own.
        choices: the points of tuned entries that run on all repeats, see `study.choices`.

    Raises:
        ConfigError: unknown keys, wrong types, impossible values, unknown names.
    """
    config = strict.read(StudyConfig, mapping)
    check_settings(mapping)
    check_config(config)
    chosen = tier or config.tier
    if chosen not in TIERS:
        raise ConfigError(f"tier must be one of S, M, L, got {chosen!r}")
    entries = expand_entries(config.entries)
    keys = _keys(config, entries, chosen, choices)
    study = Study(config=config, tier=chosen, entries=entries, keys=keys)
    _check_references(config, entries)
    _check_validation(config, keys)
    _check_choices(entries, choices)
    if not study.keys:
        raise ConfigError(f"study {config.name}, tier {chosen}: no run is left; check its filters")
    _check_patterns(study)
    for entry, dataset in sorted({(key.entry, key.dataset) for key in study.keys}):
        entries[entry].for_dataset(dataset)
        _check_delta(study, entry, dataset)
    return study


def only(study: Study, runs: Collection[str]) -> Study:
    """The study with these of its runs alone.

    Args:
        study: all runs of a tier.
        runs: their folders' names, DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT.

    Raises:
        ConfigError: one is no run of the study.
    """
    chosen = frozenset(runs)
    keys = tuple(key for key in study.keys if key.folder in chosen)
    if unknown := sorted(chosen - {key.folder for key in keys}):
        raise ConfigError(f"study {study.name}, tier {study.tier}: plans no run {unknown[0]!r}")
    return dataclasses.replace(study, keys=keys)


def _check_delta(study: Study, entry: str, dataset: str) -> None:
    """Refuse a delta that is too large for a declared population; others are checked by each run's plan.

    Raises:
        ConfigError: names the data set and the entry.
    """
    delta, population = study.delta_for(entry, dataset), study.population_for(entry, dataset)
    if population is None or isinstance(delta, str) or study.config.paper:
        return
    try:
        check_delta(delta, population.nodes)
    except ValueError as error:
        raise ConfigError(f"entry {entry} on {dataset}: {error}") from None


def _check_references(config: StudyConfig, entries: Mapping[str, StudyEntry]) -> None:
    """Baseline, comparisons and tuned entries exist."""
    if config.baseline and config.baseline not in entries:
        raise ConfigError(f"baseline: {unknown('entry', config.baseline, entries)}")
    for asked in config.comparisons:
        if away := sorted(set(asked.datasets) - set(config.datasets)):
            raise ConfigError(f"comparisons: {unknown('data set', away[0], config.datasets)}")
        for entry in (*asked.entries, *asked.against, *asked.steps):
            if not any(fnmatchcase(name, entry) for name in entries):
                raise ConfigError(f"comparisons: {unknown('entry', entry, entries)}")
    for name in config.tuned:
        if name not in entries or not any(entry.startswith(f"{name}~") for entry in entries):
            raise ConfigError(
                f"tuned: {name!r} must be an entry with points {name}~*; give one that extends it a sweep"
            )


def _check_validation(config: StudyConfig, keys: Iterable[RunKey]) -> None:
    """Tuned entries have validation nodes to choose on.

    Raises:
        ConfigError: names the entry and the setting.
    """
    points = tuple(f"{name}~" for name in config.tuned)
    for setting, entry in sorted(
        {(k.setting, k.entry) for k in keys if k.entry.startswith(points)}
    ):
        if not config.settings[setting].has_validation:
            raise ConfigError(
                f"tuned: {entry.split('~')[0]!r} is chosen on validation nodes, and setting {setting} "
                "leaves none; state val_fraction or num_val there, or name the entry's settings"
            )


def _check_choices(entries: Mapping[str, StudyEntry], choices: Choices) -> None:
    """Every chosen point is an entry.

    Raises:
        ConfigError: names the first that is none.
    """
    for (dataset, setting, epsilon, name), point in choices.items():
        if f"{name}~{point}" not in entries:
            raise ConfigError(
                f"choice of {name} on {dataset}.{setting} at {epsilon}: no entry is {name}~{point}; "
                "`dpgnn records choose` chooses anew"
            )


def _is_asked(name: str, wanted: bool | tuple[str, ...]) -> bool:
    if isinstance(wanted, bool):
        return wanted
    return any(fnmatchcase(name, pattern) for pattern in wanted)


def _check_patterns(study: Study) -> None:
    """Every pattern of audits and attacks is one of runs that some tier has.

    Raises:
        ConfigError: a pattern that no run has; names it.
    """
    config = study.config
    if isinstance(config.audits, bool) and isinstance(config.attacks, bool):
        return
    keys = {
        *study.keys,
        *(k for tier in TIERS for k in _keys(config, study.entries, tier)),
    }
    private = {key for key in keys if study.entries[key.entry].mode != "nonprivate"}
    for what, wanted, names, form in (
        ("audits", config.audits, {k.cell for k in private}, "ENTRY/eps=EPSILON, a private entry"),
        ("attacks", config.attacks, {k.folder for k in keys}, "ENTRY/eps=EPSILON/REPEAT"),
    ):
        for pattern in () if isinstance(wanted, bool) else wanted:
            if not any(fnmatchcase(name, pattern) for name in names):
                raise ConfigError(
                    f"{what}: no run of this study is {pattern!r}; a pattern is DATASET.SETTING/{form}, "
                    f"where * stands for anything; this study has for example {min(names, default='none')}"
                )


def _keys(
    config: StudyConfig,
    entries: Mapping[str, StudyEntry],
    tier: str,
    choices: Choices = NO_CHOICES,
) -> tuple[RunKey, ...]:
    change, path = config.tiers.get(tier, TierConfig()), f"tiers.{tier}"
    chosen = change.entries_of(path, config.datasets, entries)
    most = change.most_repeats(path, config.datasets, entries)
    keys = []
    for dataset, stated in config.datasets.items():
        if change.datasets and dataset not in change.datasets:
            continue
        repeats = change.repeats_of(dataset, config.repeats)
        for name in stated.entries:
            if name not in entries:
                raise ConfigError(f"datasets.{dataset}.entries: {unknown('entry', name, entries)}")
        for setting, (name, entry) in itertools.product(stated.settings, entries.items()):
            wanted = (
                name in chosen[dataset]
                and (not stated.entries or name in stated.entries)
                and (not entry.datasets or dataset in entry.datasets)
                and (not entry.settings or setting in entry.settings)
            )
            if not wanted:
                continue
            epsilons: tuple[str, ...] = ("inf",)
            if entry.mode != "nonprivate":
                own = entry.epsilons_for.get(dataset, entry.epsilons)
                epsilons = change.epsilons_of(path, dataset, name, own, config.epsilons)
            tuned, _, point = name.partition("~")
            owner = tuned if config.tuned_on and point and tuned in config.tuned else name
            number = min(repeats, most.get((dataset, owner), repeats))
            for epsilon in epsilons:
                is_chosen = choices.get((dataset, setting, epsilon, tuned)) == point
                many = number if owner == name or is_chosen else min(number, config.tuned_on)
                keys += [RunKey(dataset, setting, name, epsilon, repeat) for repeat in range(many)]
    return tuple(keys)

"""A study as its YAML file states it: data sets, settings, entries, budgets, repeats, tiers, root seed.

The dataclasses here and in the method files are the only definition; `workflow/schemas/config.schema.yaml` is
generated from them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from dpgnn import methods
from dpgnn.accountants.population import PublicPopulation
from dpgnn.core import config as strict
from dpgnn.core.checks import at_least, one_of, require
from dpgnn.core.config import ConfigError
from dpgnn.core.randomness import Randomness
from dpgnn.data.splits import SplitConfig, check_read
from dpgnn.records.info import Comparison
from dpgnn.study.entries import EntryConfig
from dpgnn.study.tiers import TierConfig, check_epsilons, check_once, check_repeats

NAME = r"[A-Za-z0-9][A-Za-z0-9_\-+]*"
Tier = Literal["S", "M", "L"]
TIERS = ("S", "M", "L")


@dataclass(frozen=True, kw_only=True)
class DatasetConfig:
    """One data set of a study.

    Attributes:
        settings: names of settings (splits) it is run in.
        entries: only these entries; empty for all.
        delta: overrides the study's delta; "auto" or a number in (0, 1).
        public_population: numbers of nodes and training nodes that the owner declares, with any rounding;
            sound plans under add-remove read them in place of the graph's.
    """

    settings: tuple[str, ...]
    entries: tuple[str, ...] = ()
    delta: float | Literal["auto"] | None = None
    public_population: PublicPopulation | None = None


@dataclass(frozen=True, kw_only=True)
class StudyConfig:
    """A study as its YAML file states it.

    Attributes:
        name: the study's name in paths.
        title: one line for the report.
        root_seed: the only configured seed; every generator is a named child of it.
        repeats: how often each run is repeated (what papers call seeds).
        epsilons: privacy budgets as texts, e.g. ["1", "8"].
        delta: "auto" is 1/(10 nodes) for node units and 10^-(d + 1) for edges, whose number has d digits;
            or a number.
        datasets: data sets by name.
        settings: named splits.
        entries: what is run, by name.
        tiers: S (minutes), M (hours on two cores), L (the paper's whole grid).
        tier: the tier run when none is asked for.
        randomness: "study" (seeded, recorded; public data only) or "release" (secret draws).
        num_threads: threads of one run; results are byte-identical for one value of it.
        num_processes: processes that share the per-root gradients of one run of dp_gnn, dp_mlp or
            dp_mlp_smooth; other methods use one. Results are byte-identical for one value of it.
        runs_per_job: runs that one process makes, so that process starts do not dominate short runs.
        paper: name of the paper whose tables are compared with ours (dpgnn, drw, dpar, caribou); or empty.
        baseline: reference entry of paired differences; or empty.
        comparisons: questions that paired differences answer in the report; no run depends on them.
        tuned: entries whose sweep points NAME~* are a tuning budget: one is chosen on validation nodes and
            shown beside the fixed entry.
        tuned_on: number of repeats on which every point of a tuned entry runs. The point with the best mean
            validation score on them then runs on all repeats (`dpgnn records choose`). 0: each repeat chooses
            its own.
        accuracy: false if accuracies are only listed, without rankings or figures, as in a study of run times
            and claims.
        audits: true tests the claim of every private entry and budget, about a minute each; a list of
            patterns DATASET.SETTING/ENTRY/eps=EPSILON selects some.
        audit_repeats: audits of each claim, with seeds of their own and the facts of the repeat's split; a
            cell with fewer repeats has as many audits.
        attacks: true runs the published attacks on every run, seconds to minutes each; a list of patterns
            DATASET.SETTING/ENTRY/eps=EPSILON/REPEAT selects some.
    """

    name: str
    title: str = ""
    root_seed: int = 0
    repeats: int = 3
    epsilons: tuple[str, ...] = ("1", "8")
    delta: float | Literal["auto"] = "auto"
    datasets: Mapping[str, DatasetConfig]
    settings: Mapping[str, SplitConfig]
    entries: Mapping[str, EntryConfig]
    tiers: Mapping[str, TierConfig] = field(default_factory=dict)
    tier: Tier = "S"
    randomness: Randomness = "study"
    num_threads: int = 1
    num_processes: int = 1
    runs_per_job: int = 1
    paper: Literal["", "dpgnn", "drw", "dpar", "caribou", "progap"] = ""
    baseline: str = ""
    comparisons: tuple[Comparison, ...] = ()
    tuned: tuple[str, ...] = ()
    tuned_on: int = 0
    accuracy: bool = True
    audits: bool | tuple[str, ...] = False
    audit_repeats: int = 1
    attacks: bool | tuple[str, ...] = False


def study_schema() -> dict[str, Any]:
    """The JSON schema of a study file, with the options of every method."""
    result = strict.schema(StudyConfig)
    entry = result["properties"]["entries"]["additionalProperties"]
    entry["properties"]["method"] = {"enum": sorted(methods.TABLE), "description": "the method"}
    entry["allOf"] = [
        {
            "if": {"properties": {"method": {"const": name}}, "required": ["method"]},
            "then": {"properties": {"options": strict.schema(methods.get(name).config)}},
        }
        for name in sorted(methods.TABLE)
    ]
    # an entry with `extends` may state only some options
    for branch in entry["allOf"]:
        branch["then"]["properties"]["options"].pop("required", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **result}


def check_config(config: StudyConfig) -> None:
    """Check names, numbers and budgets, and that every reference to a name resolves.

    Raises:
        ConfigError: the first problem, with the key's path.
    """
    try:
        _check_names(config)
        _check_numbers(config)
        _check_datasets(config)
        _check_entries(config)
        for name, tier in config.tiers.items():
            one_of("tier", name, TIERS)
            tier.check(f"tiers.{name}", config.datasets)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(str(error)) from None


def check_settings(mapping: Mapping[str, Any]) -> None:
    """Check that each setting of a study file states keys that its kind reads.

    Raises:
        ConfigError: names the setting and the key.
    """
    for name, setting in mapping["settings"].items():
        if isinstance(setting, Mapping):
            try:
                check_read(setting, f"settings.{name}")
            except ValueError as error:
                raise ConfigError(str(error)) from None


def _check_names(config: StudyConfig) -> None:
    for what, names in (
        ("name", [config.name]),
        ("datasets", list(config.datasets)),
        ("settings", list(config.settings)),
    ):
        for name in names:
            require(bool(re.fullmatch(NAME, name)), what, f"match {NAME}", name)


def _check_numbers(config: StudyConfig) -> None:
    check_repeats("repeats", config.repeats)
    at_least("root_seed", config.root_seed, 0)
    at_least("tuned_on", config.tuned_on, 0)
    for name in ("num_threads", "num_processes", "runs_per_job", "audit_repeats"):
        at_least(name, getattr(config, name), 1)
    _check_delta("delta", config.delta)
    check_epsilons("epsilons", config.epsilons)
    if config.randomness == "release":
        remedy = "attack a study with `randomness: study`: an attack's score reads private records"
        require(not config.attacks, "attacks", "be false in a release", config.attacks, remedy)


def _check_datasets(config: StudyConfig) -> None:
    for name, dataset in config.datasets.items():
        require(bool(dataset.settings), f"datasets.{name}.settings", "name a setting", ())
        for setting in dataset.settings:
            one_of(f"setting of datasets.{name}", setting, config.settings)
        check_once(f"datasets.{name}.settings", dataset.settings)
        _check_delta(f"datasets.{name}.delta", dataset.delta)


def _check_entries(config: StudyConfig) -> None:
    for name, entry in config.entries.items():
        _check_delta(f"entries.{name}.delta", entry.delta)
        for dataset, delta in entry.delta_for.items():
            _check_delta(f"entries.{name}.delta_for.{dataset}", delta)
        if entry.epsilons is not None:
            check_epsilons(f"entries.{name}.epsilons", entry.epsilons)
        for dataset, epsilons in entry.epsilons_for.items():
            check_epsilons(f"entries.{name}.epsilons_for.{dataset}", epsilons)
        for dataset in (
            *entry.datasets, *entry.options_for, *entry.epsilons_for, *entry.delta_for
        ):  # fmt: skip
            one_of(f"data set of entries.{name}", dataset, config.datasets)
        for setting in entry.settings:
            one_of(f"setting of entries.{name}", setting, config.settings)


def _check_delta(path: str, delta: float | str | None) -> None:
    if isinstance(delta, float):
        require(0 < delta < 1, path, "be in (0, 1) or auto", delta)

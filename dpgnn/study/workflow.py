"""Answers for the Snakefile: lists of targets, and what each job's result depends on.

Nothing here imports Snakemake. A rule gets only the section it needs, as canonical JSON, so that changing a
value reruns the jobs that use it and no others.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path

from dpgnn import methods
from dpgnn.core.code_hash import PACKAGE, code_sha256
from dpgnn.core.config import ConfigError
from dpgnn.core.paths import Paths, in_project
from dpgnn.core.storage import canonical_json, sha256_file, sha256_json
from dpgnn.methods.base import SamplerSpec
from dpgnn.run.record import RUN_FILES
from dpgnn.study.chunks import Chunk, rule_name, run_groups
from dpgnn.study.study import RunKey, Study, load_study, only
from dpgnn.study.wanted import code_of, with_own_code

REPORT_MODULES = ("dpgnn.cli.report",)
# other inputs of the report: its templates, and the papers' numbers
REPORT_FOLDERS = (PACKAGE / "report" / "templates", PACKAGE.parent / "data" / "papers")
# the names in dpgnn.attacks.request.ATTACKS, whose import needs torch
ATTACKS = ("linkteller", "gmia", "leak")


def audit_files(study: Study, paths: Paths) -> list[Path]:
    """Paths of the audits that a study asks for."""
    folder = paths.study(study.name) / "audits"
    names = []
    for key in study.audited:
        again = f".repeat={key.repeat}" if key.repeat else ""
        names.append(f"{key.stem}{again}.json")
    return [folder / name for name in sorted(names)]


def attack_files(study: Study, paths: Paths) -> list[Path]:
    """Paths of the attacks that a study asks for."""
    folder = paths.study(study.name) / "attacks"
    return [folder / f"{k.stem}.{k.repeat}.{name}.json" for k in study.attacked for name in ATTACKS]


def check_datasets(study: Study) -> None:
    """Check that each data set of the study's tier exists, before the first job is planned.

    Raises:
        ConfigError: one does not; names the key's path and what exists.
    """
    from dpgnn.data.datasets import check_known

    for name in dict.fromkeys(key.dataset for key in study.keys):
        try:
            check_known(name)
        except ValueError as error:
            raise ConfigError(f"datasets.{name}: {error}") from None


class Workflow:
    """A study seen by the Snakefile.

    Args:
        study_file: path of the study's YAML file, relative to the working folder or absolute.
        tier: S, M or L; None for the study's own.
        device: cpu or cuda.
        asked: a file with names of runs, one on each line; the workflow makes only these. "" for all.
    """

    def __init__(
        self, *, study_file: str, tier: str | None = None, device: str = "cpu", asked: str = ""
    ) -> None:
        self.study_file = str(in_project(study_file))
        self.device = device
        self.asked = asked
        self.study: Study = load_study(study_file, tier)
        if asked:
            self.study = only(self.study, Path(asked).read_text(encoding="utf-8").split())
        check_datasets(self.study)
        self.paths = Paths(results=Path("results"))

    @cached_property
    def datasets(self) -> list[str]:
        """Data sets of the tier."""
        return sorted({key.dataset for key in self.study.keys})

    @cached_property
    def settings(self) -> list[str]:
        """Settings of the tier."""
        return sorted({key.setting for key in self.study.keys})

    @cached_property
    def epsilons(self) -> list[str]:
        """Budgets of the tier."""
        return sorted({key.epsilon for key in self.study.keys})

    @cached_property
    def graphs(self) -> list[str]:
        """graph.json of each data set."""
        return [str(self.paths.graph(name) / "graph.json") for name in self.datasets]

    @cached_property
    def splits(self) -> list[str]:
        """Every split."""
        axes = sorted({(key.dataset, key.setting, key.repeat) for key in self.study.keys})
        return [str(self.paths.split(*axis)) for axis in axes]

    @cached_property
    def prepared(self) -> list[str]:
        """Every prepared sample."""
        found = {
            path
            for key in self.study.keys
            for path in self.prepared_of(key.dataset, key.setting, key.entry, key.repeat)
        }
        return sorted(found)

    @cached_property
    def records(self) -> list[str]:
        """The record of every run."""
        return [
            str(self.paths.run(self.study.name, key.folder) / "record.json")
            for key in self.study.keys
        ]

    @cached_property
    def run_files(self) -> list[str]:
        """All files of every run."""
        folders = [self.paths.run(self.study.name, key.folder) for key in self.study.keys]
        return [f"{folder}/{name}" for folder in folders for name in RUN_FILES]

    @cached_property
    def audits(self) -> list[str]:
        """The audits that the study asks for; [] for none."""
        return [str(path) for path in audit_files(self.study, self.paths)]

    @cached_property
    def attacks(self) -> list[str]:
        """The attacks that the study asks for; [] for none."""
        return [str(path) for path in attack_files(self.study, self.paths)]

    @cached_property
    def chunks(self) -> list[Chunk]:
        """Runs by process; [] when every run has a process of its own."""
        if self.study.config.runs_per_job == 1:
            return []
        groups = run_groups(self.study, apart=bool(self.asked))
        return [self._chunk(stem, keys) for stem, keys in groups.items()]

    @property
    def runs_of_rules(self) -> dict[str, int]:
        """Rule -> runs that one job of it makes, of rules that make several."""
        return {chunk.rule: len(chunk.outputs) // len(RUN_FILES) for chunk in self.chunks}

    @property
    def device_flag(self) -> str:
        """The device as a flag of a run's command; "" for the CPU."""
        return "" if self.device == "cpu" else f" --device {self.device}"

    @property
    def cores_of_run(self) -> int:
        """Cores that one run uses."""
        return self.study.config.num_threads * self.study.config.num_processes

    @cached_property
    def labels(self) -> list[str]:
        """Labels of the prepared samples."""
        return sorted(self._samplers)

    def graph_files(self, dataset: str) -> list[str]:
        """The files of a graph."""
        folder = self.paths.graph(dataset)
        return [str(folder / name) for name in ("nodes.parquet", "edges.parquet", "graph.json")]

    def prepared_of(self, dataset: str, setting: str, entry: str, repeat: int | str) -> list[str]:
        """The files of the prepared sample that a run reads; [] without one."""
        spec = self._spec(entry, dataset)
        if spec is None:
            return []
        path = self.paths.prepared(dataset, setting, int(repeat), spec.label)
        return [str(path), str(path.with_suffix(".json"))]

    def graph_seed(self, dataset: str) -> int:
        """The root seed where a graph is drawn, else 0: raw files do not depend on it."""
        from dpgnn.data.datasets import is_stand_in

        return self.study.config.root_seed if is_stand_in(dataset) else 0

    def graph_code(self, dataset: str) -> str:
        """Hash of the loader's code, of the data set's entry in the table, and of a user's own files."""
        from dpgnn.data.datasets import entry_of, home_of, own_fingerprint

        entry = entry_of(dataset)
        code = code_sha256(home_of(entry), "dpgnn.data.files.graph_files")
        stated = sha256_json([entry.caveats, entry.edge_caveats])
        return f"{code} {stated} {own_fingerprint(dataset)}".rstrip()

    @cached_property
    def split_code(self) -> str:
        """Hash of the code that splits."""
        return code_sha256("dpgnn.data.splits", "dpgnn.cli.split")

    def setting_json(self, setting: str) -> str:
        """A setting's recipe."""
        return canonical_json(self.study.config.settings[setting].stated)

    def sampler_json(self, label: str) -> str:
        """A sampler's parameters."""
        return canonical_json(self._samplers[label][0].params)

    def sampler_name(self, label: str) -> str:
        """A sampler's name."""
        return self._samplers[label][0].name

    def sampler_method(self, label: str) -> str:
        """A method that uses the sampler; the first by name, so that it does not change by order."""
        return self._samplers[label][1]

    def sampler_code(self, label: str) -> str:
        """Hash of the code that prepares samples, and of the rule which edges a split keeps."""
        method = methods.get(self._samplers[label][1])
        assert method.prepare is not None
        return code_sha256(method.prepare.__module__, "dpgnn.data.splits")

    def run_json(self, dataset: str, setting: str, entry: str) -> str:
        """Everything configured that decides a run, as canonical JSON."""
        return self._run_json[dataset, setting, entry]

    def method_code(self, entry: str, dataset: str | None = None) -> str:
        """Hash of the code that decides an entry's records."""
        return code_of(self.study, entry, dataset)

    def audit_code(self, entry: str) -> str:
        """Hash of the code that decides an entry's audits."""
        code = code_sha256(methods.TABLE[self.study.entries[entry].method], "dpgnn.cli.audit")
        return with_own_code(self.study, entry, code)

    def attack_code(self, entry: str) -> str:
        """Hash of the code that decides an entry's attacks."""
        code = code_sha256(methods.TABLE[self.study.entries[entry].method], "dpgnn.cli.attack")
        return with_own_code(self.study, entry, code)

    @cached_property
    def presentation_json(self) -> str:
        """The part of the study that only the report reads."""
        config = self.study.config
        shown = {
            name: getattr(config, name)
            for name in (
                "title",
                "accuracy",
                "baseline",
                "comparisons",
                "tuned",
                "tuned_on",
                "paper",
                "settings",
                "datasets",
                "epsilons",
                "repeats",
            )
        }
        titles = {name: entry.title for name, entry in self.study.entries.items()}
        return canonical_json({**shown, "tier": self.study.tier, "titles": titles})

    @cached_property
    def report_code(self) -> str:
        """Hash of the report's code, templates and papers' maps."""
        parts = [code_sha256(*REPORT_MODULES)]
        for path in sorted(path for folder in REPORT_FOLDERS for path in folder.rglob("*")):
            if path.is_file():
                parts.append(sha256_file(path))
        return sha256_json(parts)

    @staticmethod
    def one_of(names: Iterable[str]) -> str:
        """A regular expression that matches exactly these names."""
        return "|".join(re.escape(name) for name in sorted(set(names))) or "(?!)"

    @cached_property
    def _run_json(self) -> Mapping[tuple[str, str, str], str]:
        """By data set, setting and entry."""
        keys = {(key.dataset, key.setting, key.entry): key for key in reversed(self.study.keys)}
        return {place: canonical_json(self.study.run_params(key)) for place, key in keys.items()}

    def _chunk(self, stem: str, keys: list[RunKey]) -> Chunk:
        name = self.study.name
        datasets = list(dict.fromkeys(key.dataset for key in keys))
        settings: dict[str, dict[str, str]] = {}
        code: dict[str, dict[str, str]] = {}
        for dataset, setting, entry in dict.fromkeys((k.dataset, k.setting, k.entry) for k in keys):
            place = f"{dataset}.{setting}"
            settings.setdefault(place, {})[entry] = self.run_json(dataset, setting, entry)
            code.setdefault(place, {})[entry] = self.method_code(entry, dataset)
        splits = {str(self.paths.split(k.dataset, k.setting, k.repeat)) for k in keys}
        prepared = {
            path for k in keys for path in self.prepared_of(k.dataset, k.setting, k.entry, k.repeat)
        }
        return Chunk(
            rule=rule_name(stem),
            datasets=datasets,
            run_json=canonical_json(settings),
            code=canonical_json(code),
            graphs=[path for dataset in datasets for path in self.graph_files(dataset)],
            splits=sorted(splits),
            prepared=sorted(prepared),
            outputs=[
                str(self.paths.run(name, k.folder) / file) for k in keys for file in RUN_FILES
            ],
            run_flags=" ".join(f"--run {shlex.quote(k.folder)}" for k in keys),
            log=f"logs/train/{stem}.log",
            benchmark=f"logs/benchmark/train/{stem}.tsv",
        )

    def _spec(self, entry: str, dataset: str) -> SamplerSpec | None:
        resolved = self.study.entries[entry].for_dataset(dataset)
        return methods.get(resolved.method).sampler(resolved)

    @cached_property
    def _samplers(self) -> Mapping[str, tuple[SamplerSpec, str]]:
        found: dict[str, tuple[SamplerSpec, str]] = {}
        for dataset, name in sorted({(key.dataset, key.entry) for key in self.study.keys}):
            spec, method = self._spec(name, dataset), self.study.entries[name].method
            if spec is not None and (spec.label not in found or method < found[spec.label][1]):
                found[spec.label] = (spec, method)
        return found

"""Results of `dpgnn attack` as typed values, one for each attack and variant on a run."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from dpgnn.core.checks import require
from dpgnn.core.storage import DamagedFileError
from dpgnn.records.archive import read_texts

KEY = ("dataset", "setting", "entry", "epsilon")  # the names of a run without its repeat
BASE = ("key", "title", "method", "mode", "claim", "config_sha256")  # of all results of a file
REMEDY = "attack the run again"
# attacks made for one leak; their files before 2026-11-30 do not say that the claim covers them
LEAKS = ("noise-free-layer", "hub")


@dataclass(frozen=True, kw_only=True)
class AttackedClaim:
    """The first claim of the attacked run; epsilon is None if the paper's is unbounded."""

    epsilon: float | None = None
    delta: float = 0.0
    privacy_unit: str | None = None


@dataclass(frozen=True, kw_only=True)
class Line:
    """The test of a line exp(epsilon) FPR + delta: its level and its lower bound on epsilon."""

    level: float
    epsilon_lower_bound: float = 0.0
    epsilon: float | None = None
    delta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """The audit in one run (Steinke et al. 2023): coins, guesses, and the epsilon that they show."""

    epsilon_lower_bound: float
    num_canaries: int
    num_guesses: int
    delta: float
    confidence: float
    num_correct: int | None = None
    analysis: Literal["(epsilon, delta)", "f-DP"] = "(epsilon, delta)"


@dataclass(frozen=True, kw_only=True)
class Rate:
    """True positive rate at a false positive rate of at most `asked`, with an interval."""

    asked: float
    tpr: float | None = None
    tpr_low: float | None = None
    tpr_high: float | None = None


@dataclass(frozen=True, kw_only=True)
class AttackResult:
    """One attack, variant and run; None if the attack has no such value.

    Attributes:
        dataset, setting, entry, epsilon, repeat: of the attacked run; epsilon as in its path.
        title, method, mode: of its entry.
        claim: its first claim; None without privacy.
        attack, variant, pair_set, direction, noise, what, hub_degree: the attack and its settings.
        status, reason: ok, not-available or not-applicable, and why.
        auc, average_precision, label_auc, script_auroc: of scores; of the class alone; as the authors' script
            prints.
        curve: (false, true) positive rates; `rates` some of them with intervals.
        line, one_run, detects: the tests of the claim, and the largest epsilon that they could show.
        claimed_epsilon, one_run_allowed_epsilon, delta: the tested claim; the second is for two changes.
        covered: whether the claim covers what was attacked.
        exceeds_claim: whether the claim is contradicted at the test's level.
        untested: why no test was made.
        scorer: "trained", or "constant" if the classifier gave all the same score.
        config_sha256: of the run's configuration; None in files before 2026-12.
        further: numbers of this attack only.
    """

    dataset: str
    setting: str
    entry: str
    epsilon: str
    repeat: int | None = None
    title: str | None = None
    method: str | None = None
    mode: str | None = None
    claim: AttackedClaim | None = None
    attack: str
    variant: str | None = None
    pair_set: str | None = None
    direction: str | None = None
    noise: str | None = None
    what: str | None = None
    hub_degree: int | None = None
    status: str
    reason: str = ""
    auc: float | None = None
    average_precision: float | None = None
    label_auc: float | None = None
    script_auroc: float | None = None
    train_accuracy: float | None = None
    outside_accuracy: float | None = None
    num_members: int | None = None
    num_others: int | None = None
    curve: Sequence[Sequence[float]] = ()
    rates: Sequence[Rate] = ()
    line: Line | None = None
    one_run: OneRun | None = None
    detects: float | None = None
    claimed_epsilon: float | None = None
    one_run_allowed_epsilon: float | None = None
    delta: float = 0.0
    covered: bool = False
    exceeds_claim: bool = False
    untested: str | None = None
    scorer: str | None = None
    config_sha256: str | None = None
    further: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        float(self.epsilon)  # of a path: a number

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Data set, setting, entry and epsilon."""
        return self.dataset, self.setting, self.entry, self.epsilon

    @property
    def label(self) -> str:
        """The entry's title, or its name if it has none."""
        return self.title or self.entry

    @property
    def num_trials(self) -> int:
        """Number of coins of an audit in one run, or of runs in both worlds."""
        if self.one_run is not None:
            return self.one_run.num_canaries
        return (self.num_members or 0) + (self.num_others or 0)


def read_attacks(folder: str | Path, pattern: str = "*.json") -> list[AttackResult]:
    """Results of a study's attacks.

    Read from files and `attacks.parquet`, ordered by data set, setting, entry, budget and repeat.

    Args:
        folder: of the files; no results if it does not exist.
        pattern: of the names of the files.

    Raises:
        ValueError, DamagedFileError: a file is not of the form `dpgnn attack` writes; names it.
    """
    found = []
    for name, text in read_texts(folder, "attacks").items():
        if not fnmatchcase(name, pattern):
            continue
        path = Path(folder) / name
        content = parsed(text, path, REMEDY)
        is_mapping = isinstance(content, Mapping) and isinstance(content.get("key"), Mapping)
        missing = ["key"] if not is_mapping else [n for n in KEY if n not in content["key"]]
        require(not missing, f"{path}: attack", "name its run by " + ", ".join(KEY), missing)
        try:
            found += list(_flat(content))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFileError(f"{path} is no attack's result ({error!r}); {REMEDY}") from None
    return sorted(found, key=lambda r: (*r.place[:3], float(r.epsilon), r.repeat or 0))


def parsed(text: str, path: Path, remedy: str) -> Any:
    """The JSON of an attack or an audit.

    Raises:
        DamagedFileError: it is none; names its file and the remedy.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        raise DamagedFileError(f"{path} is not JSON ({error}); {remedy}") from None


def _flat(content: Mapping[str, Any]) -> Iterator[AttackResult]:
    base = {name: content.get(name) for name in BASE}
    for result in content["results"]:
        rest = {name: value for name, value in result.items() if name != "variants"}
        if "variants" not in result:
            yield result_from(base | rest)
        for name, variant in result.get("variants", {}).items():
            yield result_from(base | rest | dict(variant) | {"variant": name})


def result_from(found: Mapping[str, Any]) -> AttackResult:
    """A result from an attack's return value, with its run's key and claim."""
    key, claim = found["key"], found.get("claim")
    stated = {name: value for name, value in found.items() if name in _NAMES and value is not None}
    stated |= {name: str(key[name]) for name in KEY}
    always = found.get("attack") in LEAKS
    covered = found.get("claim_covers_answers", found.get("claim_covers_membership", always))
    stated |= {
        "repeat": key.get("repeat"),
        "claim": _read(AttackedClaim, claim) if claim else None,
        "rates": tuple(_read(Rate, rate) for rate in found.get("rates", ())),
        "line": _read(Line, found["line"]) if "line" in found else None,
        "one_run": _read(OneRun, found["one_run"]) if "one_run" in found else None,
        "covered": bool(covered),
        "further": {n: v for n, v in found.items() if n not in {*_NAMES, "key"}},
    }
    return AttackResult(**stated)


_NAMES = {part.name for part in fields(AttackResult)}


def _read(kind: Any, found: Mapping[str, Any]) -> Any:
    """The fields of `kind`; None counts as not stated."""
    names = {part.name for part in fields(kind)}
    return kind(**{n: v for n, v in found.items() if n in names and v is not None})

"""The record of a run: specification, claims and results; deterministic.

`record.json` holds no time, path or host, so that the same run gives the same bytes on one platform;
`resources.json` beside it holds seconds, memory, device and threads. Plans, claims and versions have one form
in it: `plan_of`, `event_of`, `claim_of`, `versions`.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dpgnn.accountants.claims import Answers
from dpgnn.accountants.events import Event
from dpgnn.core import config as strict
from dpgnn.core.checks import one_of, require
from dpgnn.core.config import stated
from dpgnn.core.storage import DamagedFileError, read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dpgnn.accountants.plan import Plan


SCHEMA_VERSION = 1
Status = Literal["ok", "failed", "not-available"]


@dataclass(frozen=True, kw_only=True)
class Record:
    """One run's record.

    Attributes:
        schema_version: of this file's form.
        key: study, dataset, setting, entry, epsilon (text), repeat.
        status: ok, failed (with the reason) or not-available (data or code is missing).
        reason: why it is not ok; "" when ok.
        entry: method, title, mode, privacy_unit, relation and the resolved options.
        source: where the method was published.
        config_sha256: hash of everything configured that decides the run.
        code_sha256: hash of the method's code, of all it imports, and of the pinned versions.
        inputs: sha256 of graph, split and prepared sample (None without one).
        facts: public facts the plan was made from.
        plan: mechanisms, number of steps and details.
        claims: the guarantees; the run was calibrated for the first.
        budget: target_epsilon (number or "inf"), delta, spent_epsilon (None without privacy).
        randomness: kind and root_seed.
        num_threads: threads of the run.
        metrics: by part ("val", "test"): see `evaluation.metrics`; {} in a release.
        prediction: answers (who may see them under the claims) and note; `answers_of` reads older ones too.
        details: further values of the fit.
        versions: python, platform and the packages that decide numbers.
    """

    schema_version: int = SCHEMA_VERSION
    key: Mapping[str, Any]
    status: Status = "ok"
    reason: str = ""
    entry: Mapping[str, Any]
    source: str = ""
    config_sha256: str
    code_sha256: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    claims: tuple[Mapping[str, Any], ...] = ()
    budget: Mapping[str, Any] = field(default_factory=dict)
    randomness: Mapping[str, Any] = field(default_factory=dict)
    num_threads: int = 1
    metrics: Mapping[str, Any] = field(default_factory=dict)
    prediction: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        require(
            self.schema_version == SCHEMA_VERSION,
            "record: schema_version",
            f"be {SCHEMA_VERSION}",
            self.schema_version,
            "rerun the study with this version",
        )


def read_record(path: str | Path) -> Record:
    """Read one record.

    Args:
        path: of record.json.

    Raises:
        DamagedFileError: missing, not JSON, or not a record of this version; names the file.
    """
    return record_from(read_json(path), path)


def record_from(value: Any, where: str | Path) -> Record:
    """A record from its JSON value.

    Args:
        value: of JSON.
        where: its place, for the message.

    Raises:
        DamagedFileError: it is not a record of this version; names `where`.
    """
    try:
        return strict.read(Record, value)
    except strict.ConfigError as error:
        raise DamagedFileError(f"{where}: {error}; delete it and rerun") from None


def answers_of(record: Record) -> Answers:
    """Who may see the answers of a run under its claims.

    Older records have two values instead of three: covered or not. At node level, covered answers read the
    asked node's own record, and so do the answers of noisy aggregates and votes, which these records call not
    covered.

    Guarantee: docs/accounting.md, "Answers, and who may see them": everyone, own-record (for the asked node
    alone) or none.

    Args:
        record: of any version that can be read.
    """
    told = record.prediction
    if record.entry.get("mode") == "nonprivate":
        return "none"
    if "answers" in told:
        stated: Answers = told["answers"]
        return stated
    if told.get("covered"):
        return "everyone" if record.entry.get("privacy_unit") == "edge" else "own-record"
    note = str(told.get("note", ""))
    return "own-record" if any(words in note for words in _OF_OWN_RECORDS) else "none"


_OF_OWN_RECORDS = ("its own noisy rows", "own-record:")


PACKAGES = ("numpy", "scipy", "torch", "torch_geometric", "scikit-learn", "numba", "dp-accounting")


def plan_of(plan: Plan) -> dict[str, Any]:
    """A plan as in the record.

    Args:
        plan: of the run.
    """
    mechanisms = []
    for mechanism in plan.mechanisms:
        fields = stated(mechanism)
        fields["event"] = event_of(mechanism.event)
        mechanisms.append(fields)
    return {"mechanisms": mechanisms, "num_steps": plan.num_steps, "details": dict(plan.details)}


def event_of(event: Any) -> dict[str, Any]:
    """An event as JSON: its type and its fields.

    Args:
        event: of a mechanism.
    """
    fields: dict[str, Any] = {"type": type(event).__name__}
    for one in dataclasses.fields(event):
        value = getattr(event, one.name)
        if isinstance(value, tuple):
            value = [_event_item(item) for item in value]
        elif dataclasses.is_dataclass(value):
            value = event_of(value)
        fields[one.name] = value
    return fields


def event_from(values: Mapping[str, Any]) -> Event[Any]:
    """The event that `event_of` wrote.

    Args:
        values: as `event_of` gives them.

    Raises:
        ValueError, TypeError: its type is unknown, or a field is missing or out of range.
    """
    kinds = {kind.__name__: kind for kind in _kinds(Event)}
    fields = {name: value for name, value in values.items() if name != "type"}
    one_of("event type", str(values.get("type")), kinds)
    if "parts" in fields:
        fields["parts"] = tuple((event_from(part), count) for part, count in fields["parts"])
    if "runs" in fields:
        fields["runs"] = tuple(event_from(run) for run in fields["runs"])
    return kinds[values["type"]](**fields)


def _kinds(kind: type[Event[Any]]) -> set[type[Event[Any]]]:
    below = kind.__subclasses__()
    return {*below, *(found for one in below for found in _kinds(one))}


def claim_of(claim: Any) -> dict[str, Any]:
    """A claim as in the record, with its words.

    Args:
        claim: of the run.
    """
    from dpgnn.accountants.claims import in_words

    return claim.to_dict() | {"words": in_words(claim)}


def versions() -> dict[str, str]:
    """Versions that decide numbers: python, platform and packages."""
    from dpgnn.core.version import VERSION

    found = {
        "dpgnn": VERSION,
        "python": platform.python_version(),
        "platform": f"{platform.system()}-{platform.machine()}",
    }
    return found | {package: _installed(package) for package in PACKAGES}


@cache
def _installed(package: str) -> str:
    """A package's version, looked up once per process; "none" if it is not installed."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _event_item(item: Any) -> Any:
    if dataclasses.is_dataclass(item):
        return event_of(item)
    if isinstance(item, tuple):
        return [_event_item(part) for part in item]
    return item

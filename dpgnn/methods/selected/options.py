"""Options of an accounted choice, and the entries among which is chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dpgnn import methods
from dpgnn.accountants.selection import NumberOfRuns
from dpgnn.core import config as strict
from dpgnn.core.checks import positive, require
from dpgnn.methods.base import Entry, Method

if TYPE_CHECKING:
    from dpgnn.methods.scores import Score

MOST_CANDIDATES = 8
# runs that are trained in the mean
MOST_RUNS = 32.0


@dataclass(frozen=True, kw_only=True)
class SelectedConfig:
    """Options of an accounted choice; every value is public, and none may be taken from the data.

    Attributes:
        base: the method that is trained; one that states how far its number of right answers moves.
        base_options: the base method's options, nested or dotted.
        candidates: for each what it changes of `base_options`, nested or dotted; two to eight.
        eta: of the law of the number of runs, > -1: 0 is the logarithmic law, 1 the geometric one.
        gamma: of that law, in (0, 1); at eta 0 a gamma of 0.1 means 3.9 runs in the mean.
        score_noise: standard deviation of the noise on the number of right answers on validation nodes, in
            answers; none is added where that number is public given the release.
    """

    base: str = "dp_mlp"
    base_options: Mapping[str, Any] = field(default_factory=dict)
    candidates: tuple[Mapping[str, Any], ...] = (
        {"training.optimizer.lr": 0.003},
        {"training.optimizer.lr": 0.01},
        {"training.optimizer.lr": 0.03},
    )
    eta: float = 0.0
    gamma: float = 0.1
    score_noise: float = 5.0

    def __post_init__(self) -> None:
        positive("score_noise", self.score_noise)
        mean = self.law.mean
        require(
            mean <= MOST_RUNS, "gamma", f"give at most {MOST_RUNS:g} runs in the mean", self.gamma,
            f"it gives {mean:.3g} at eta {self.eta:g}; raise it",
        )  # fmt: skip
        number = len(self.candidates)
        require(
            2 <= number <= MOST_CANDIDATES, "candidates", f"be 2 to {MOST_CANDIDATES}", number,
            "more candidates are drawn less often each",
        )  # fmt: skip

    @property
    def law(self) -> NumberOfRuns:
        """Of the number of runs."""
        return NumberOfRuns(eta=self.eta, gamma=self.gamma)


def base_of(entry: Entry) -> Method:
    """The method that is trained.

    Raises:
        ValueError: unknown.
    """
    return methods.get(entry.options.base)


def candidates(entry: Entry) -> tuple[Entry, ...]:
    """The entries among which is chosen, each of the base method.

    Args:
        entry: of `selected`.

    Raises:
        ConfigError: an option that the base method does not have, or a value that it refuses; names it.
    """
    config: SelectedConfig = entry.options
    base = base_of(entry)
    found = []
    for place, changed in enumerate(config.candidates):
        stated: dict[str, Any] = {}
        for path, value in (*_leaves(config.base_options), *_leaves(changed)):
            _put(stated, path, value)
        options: Any = strict.read(base.config, stated, f"{entry.name}.candidates[{place}]")
        found.append(replace(entry, method=base.name, options=options))
    return tuple(found)


def score_of(entry: Entry) -> Score:
    """How the right answers of all candidates are counted.

    Args:
        entry: of `selected`.

    Raises:
        ValueError: the base method does not state it, or not alike for all candidates.
    """
    base = base_of(entry)
    if base.score is None:
        known = [name for name in methods.TABLE if methods.get(name).score is not None]
        rule = "state how far one record moves its number of right answers on validation nodes"
        require(False, f"base {base.name}", rule, "no statement", f"take {', '.join(known)}")
    assert base.score is not None
    first, *others = [base.score(candidate) for candidate in candidates(entry)]
    alike = all(other == first for other in others)
    require(alike, "candidates", "have answers that read the same kind of record", others)
    return first


def check(entry: Entry, path: str) -> None:
    """Check every candidate as an entry of its own, and that they read one sample.

    Raises:
        ValueError: the base method is unknown or states no score, a candidate is refused, or two candidates
            read samples of their own.
    """
    base = base_of(entry)
    score_of(entry)
    for place, candidate in enumerate(candidates(entry)):
        base.check_entry(candidate, f"{path}.candidates[{place}]")
    specs = [base.sampler(candidate) for candidate in candidates(entry)]
    labels = sorted({"none" if spec is None else spec.label for spec in specs})
    remedy = "vary no option that decides the sample"
    require(len(labels) == 1, f"{path}.candidates", "read one prepared sample", labels, remedy)


def _leaves(stated: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of nested or dotted options."""
    for name, value in stated.items():
        whole = strict.join(path, str(name))
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, whole)
        else:
            yield whole, value


def _put(stated: dict[str, Any], path: str, value: Any) -> None:
    *outer, last = path.split(".")
    for name in outer:
        inner = stated.get(name)
        stated[name] = inner = inner if isinstance(inner, dict) else {}
        stated = inner
    stated[last] = value

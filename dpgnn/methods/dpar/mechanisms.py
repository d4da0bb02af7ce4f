"""DPAR's public sizes, events and mechanisms, for its plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dpgnn.accountants.events import (
    Event,
    FixedSizeRoots,
    GaussianRelease,
    GumbelTopK,
    LaplaceRelease,
    PoissonRoots,
    compose,
    compose_all,
)
from dpgnn.accountants.plan import Mechanism
from dpgnn.methods.dpar.options import DPARConfig

SIZES_PUBLIC = ("number of nodes", "number of training nodes", "membership of the split")
RELATION: Any = "replace-one"


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """Public sizes of a run.

    Attributes:
        num_members: N, nodes of the subsample.
        num_vectors: M.
        num_selected: K, at most N.
        num_roots: roots that training draws from.
        batch_size: B, at most that.
        num_steps: T.
        rate: N / n_train, the fraction of training nodes that is used.
    """

    num_members: int
    num_vectors: int
    num_selected: int
    num_roots: int
    batch_size: int
    num_steps: int
    rate: float


def public_facts(config: DPARConfig) -> tuple[str, ...]:
    """Public facts of a claim; with the correct amplification rule the subsample is secret."""
    if config.amplification == "correct":
        return (*SIZES_PUBLIC, "all options; which nodes are used is secret")
    return (*SIZES_PUBLIC, "which nodes are used and which have a vector", "all options")


def sizes_of(config: DPARConfig, num_train: int) -> Sizes:
    """Sizes from resolved options and the public number of training nodes."""
    members = config.num_members(num_train)
    roots = config.num_roots(members)
    return Sizes(
        num_members=members,
        num_vectors=config.vectors_of(members),
        num_selected=min(config.top_k, members),
        num_roots=roots,
        batch_size=min(config.batch_size, roots),
        num_steps=config.steps(roots),
        rate=members / num_train,
    )


def mechanisms_of(
    config: DPARConfig,
    sizes: Sizes,
    rows: Sequence[tuple[str, Event[Any]]],
    training: Event[Any],
    *,
    claimed_changed: int,
) -> tuple[Mechanism, ...]:
    found = [_row_mechanism(name, event, sizes) for name, event in rows]
    assert isinstance(training, FixedSizeRoots | PoissonRoots)
    noise, norm = training.noise_stddev, config.clipping_norm
    train = Mechanism(
        name="train", event=compose(training, sizes.num_steps), noise_stddev=noise,
        sensitivity=2 * norm * claimed_changed, num_steps=sizes.num_steps, clipping_norm=norm,
        divisor=float(sizes.batch_size),
        details={"noise_multiplier": noise / norm, "reference_sensitivity": norm,
                 "batch_size": sizes.batch_size, "num_roots": sizes.num_roots},
    )  # fmt: skip
    return (*found, train)


def _row_mechanism(name: str, event: Event[Any], sizes: Sizes) -> Mechanism:
    """A mechanism that runs once on each of the M vectors."""
    if isinstance(event, GaussianRelease):
        noise, sensitivity, scale = event.noise_stddev, event.sensitivity, event.noise_stddev
    elif isinstance(event, GumbelTopK):
        # a Gumbel variable of scale b has deviation pi b / sqrt(6)
        noise, sensitivity = math.pi / math.sqrt(6) * event.scale, event.score_sensitivity
        scale = event.scale
    else:
        assert isinstance(event, LaplaceRelease)
        noise, sensitivity, scale = math.sqrt(2) * event.scale, event.sensitivity, event.scale
    return Mechanism(
        name=name, event=compose(event, sizes.num_vectors), noise_stddev=noise,
        sensitivity=sensitivity, num_steps=sizes.num_vectors,
        details={"scale": scale, "num_vectors": sizes.num_vectors,
                 "num_selected": sizes.num_selected},
    )  # fmt: skip


def gumbel(config: DPARConfig, sizes: Sizes, scale: float) -> Event[Any]:
    return GumbelTopK(
        relation=RELATION, scale=scale, score_sensitivity=config.max_entry,
        num_selected=sizes.num_selected,
    )  # fmt: skip


def laplace(config: DPARConfig, sizes: Sizes, scale: float) -> Event[Any]:
    """K clipped entries, each moved by at most C2."""
    sensitivity = sizes.num_selected * config.max_entry
    return LaplaceRelease(relation=RELATION, scale=scale, sensitivity=sensitivity)


def gaussian(norm: float, stddev: float) -> Event[Any]:
    """Two nonnegative vectors of norm at most C1 are at most sqrt(2) C1 apart."""
    return GaussianRelease(relation=RELATION, noise_stddev=stddev, sensitivity=math.sqrt(2) * norm)


def repeated(sizes: Sizes, rows: Sequence[tuple[str, Event[Any]]]) -> Event[Any]:
    return compose_all(*(compose(event, sizes.num_vectors) for _, event in rows))


def whole(sizes: Sizes, rows: Sequence[tuple[str, Event[Any]]], training: Event[Any]) -> Event[Any]:
    steps = compose(training, sizes.num_steps)
    return compose_all(repeated(sizes, rows), steps) if rows else steps
